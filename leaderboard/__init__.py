"""The leaderboard: descriptions of systems, entries and their figures, the gate, and the pages.

`submit_system` writes an entry, `check_entry` and `check_entries` are the gate, `load_entries`
reads the newest entries, and `build_site` writes the pages. The room may use `leakage`,
`evaluation`, `data`, `runs`, `stats`, `output`, `checked`, `plumbing`, `shifts`, `libraries` and
`errors`.
"""

from msshift_bench.leaderboard.description import (
    BOARDS,
    CLASSES,
    Board,
    Description,
    TrainedOn,
    count_training,
    description_template,
    read_description,
    write_description,
)
from msshift_bench.leaderboard.entries import (
    BADGES,
    SETTINGS,
    Entry,
    entries_folder,
    load_entries,
    open_entry,
    stored_scores,
)
from msshift_bench.leaderboard.gate import (
    GateResult,
    check_entries,
    check_entry,
    repeat_entry,
    write_rescored,
)
from msshift_bench.leaderboard.site import build_site
from msshift_bench.leaderboard.submit import submit_system

__all__ = [
    "BADGES",
    "BOARDS",
    "Board",
    "CLASSES",
    "Description",
    "Entry",
    "SETTINGS",
    "TrainedOn",
    "GateResult",
    "build_site",
    "check_entries",
    "check_entry",
    "count_training",
    "description_template",
    "entries_folder",
    "load_entries",
    "open_entry",
    "read_description",
    "repeat_entry",
    "stored_scores",
    "submit_system",
    "write_description",
    "write_rescored",
]
