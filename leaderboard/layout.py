"""The layout of ``submission.json``: its words, and the schema of every field.

The report's schema is derived from the evaluator's own record of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, get_type_hints

from msshift_bench.evaluation import LossRecord, ReportRecord, RunRecord, SystemRecord
from msshift_bench.leaderboard.boards import BOARDS
from msshift_bench.schema import (
    Place,
    Schema,
    boolean,
    choice,
    date,
    digest,
    integer,
    list_of,
    mapping_of,
    number,
    object_of,
    optional,
    schema_of,
    slug,
    text,
    url,
)
from msshift_bench.shifts import LISTED_SHIFTS, SHIFTS, SIZED
from msshift_bench.stats import GroupLoss

__all__ = [
    "AUTHORS",
    "BADGES",
    "CLASSES",
    "FAMILIES",
    "LINKS",
    "NOTE",
    "REPRODUCTION",
    "RERANKS",
    "RUN_PATH",
    "LAYOUT_VERSION",
    "SUBMISSION",
    "SUBMISSION_NAME",
    "SYSTEM",
    "TRAINING",
    "TRAIN_PATH",
    "by_shift",
    "check_agreement",
    "check_version",
]

LAYOUT_VERSION = 1
"""The version of the layout of ``submission.json``."""

SUBMISSION_NAME = "submission.json"
"""The file that describes a submission."""

FAMILIES = (
    "dense",
    "learned-sparse",
    "late-interaction",
    "cross-encoder",
    "lexical",
    "hybrid",
    "other",
)
"""The kinds of systems."""

BADGES: Mapping[str, str] = {
    "rescored": "its run files were scored again here",
    "reproduced": "its recipe was run again here, and the runs scored",
    "reported": "taken from a paper; nothing was computed here",
}
"""The source of an entry's figures: badge -> its meaning."""

CLASSES: Mapping[str, str] = {
    "held-out": "it declares its training queries, and none is a test query of the shift",
    "held-out-reported": "its paper states its training queries and holds each group out of them; "
    "there are no lists to check",
    "trained-on-test": "test queries of the shift are among its training queries",
    "undeclared": "it does not say which queries it was trained on",
    "none": "it was not trained",
}
"""The classes of training queries: class -> its meaning."""

RERANKS = "reranks"
"""The first word of `SystemInfo.candidates` of a reranker, whose recall cannot shift."""

LINKS = ("paper", "code", "model")
"""The links that a system may have."""


def check_version(value: Any, place: Place) -> None:
    """Check the version of the layout; the message tells a newer version."""
    if isinstance(value, int) and not isinstance(value, bool) and value > LAYOUT_VERSION:
        place.wrong(
            "future-schema",
            f"schema {value} is newer than {LAYOUT_VERSION}, the newest that this version reads",
            "update msshift-bench",
        )
    elif value != LAYOUT_VERSION or isinstance(value, bool):
        place.wrong("unknown-schema", f"expected {LAYOUT_VERSION}")


def _matching(pattern: re.Pattern[str], what: str) -> Schema:
    def check(value: Any, place: Place) -> None:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            place.wrong("wrong-path", f"{ascii(value)[:100]} is not {what}")

    return check


_SEGMENT = "[A-Za-z0-9][A-Za-z0-9-]{0,63}"
RUN_PATH = re.compile(
    rf"{_SEGMENT}(/{_SEGMENT})?(/seed-[0-9]{{1,9}})?/{_SEGMENT}\.run(\.gz|\.bz2|\.xz|\.zst)?"
)
"""A path below ``runs``: ``<system>/<shift>.run`` or ``<system>/<shift>/<held-out group>.run``."""

TRAIN_PATH = re.compile(rf"train/{_SEGMENT}/(all|{_SEGMENT})\.txt\.gz")
"""The path of a list of training queries."""

_NAME = text(200, empty=False)
_LINE = text(300)
_PARAGRAPH = text(4000, lines=True)
_SHIFT = choice("shift", SHIFTS, LISTED_SHIFTS)
_MOST_SHIFTS = 20
_GROUPS = {
    group
    for shift in (*SHIFTS.values(), *SIZED.values())
    for group in (*shift.groups, *shift.tested)
}
_GROUP = choice("group", _GROUPS)
_SCORE = number(0, 1)

SYSTEM: Mapping[str, Schema] = {
    "name": slug,
    "title": _NAME,
    "family": choice("family", FAMILIES),
    "description": _PARAGRAPH,
    "backbone": _LINE,
    "backbone_revision": _LINE,
    "candidates": _LINE,
    "licence": text(100),
    "year": optional(integer(1950, 2100)),
    "parameters": optional(integer()),
    "links": mapping_of(choice("link", LINKS), url, len(LINKS)),
}
"""The schemas of the fields of `SystemInfo`."""

AUTHORS = list_of(_NAME, 100, 1)
"""The schema of the names of the authors."""

NOTE = _PARAGRAPH
"""The schema of the note on a version."""

TRAINING: Mapping[str, Schema] = {
    "data": _PARAGRAPH,
    "per_group": boolean,
    "hard_negatives": _PARAGRAPH,
    "distillation": _PARAGRAPH,
    "seeds": list_of(integer(0, 2**31 - 1), 100),
    "hardware": _PARAGRAPH,
}
"""The schemas of the fields of `Training` that a submitter fills in."""


REPRODUCTION: Mapping[str, Schema] = {
    "commands": list_of(text(500, empty=False), 30, 1),
    "tolerance": optional(_SCORE),
}
"""The schemas of the fields of `Reproduction`."""


def _by_group(schema: Schema) -> Schema:
    return mapping_of(_GROUP, schema, len(_GROUPS))


def by_shift(schema: Schema) -> Schema:
    """Return the schema of an object that has something for each of some shifts."""
    return mapping_of(_SHIFT, schema, _MOST_SHIFTS)


_IDS = object_of(
    {
        "count": integer(),
        "sha256": digest,
        "file": optional(_matching(TRAIN_PATH, "train/<shift>/<held-out group>.txt.gz")),
        "test_queries": _by_group(integer()),
        "leaked": optional(_by_group(integer())),
    },
    may_lack=["leaked"],
)
_STRICTER: dict[type, dict[str, Schema]] = {
    LossRecord: {"groups": _by_group(schema_of(GroupLoss, {}))},
    RunRecord: {"held_out": optional(_GROUP), "seed": optional(integer())},
    SystemRecord: {
        "system": slug,
        "shift": _SHIFT,
        "missing_files": list_of(_LINE, 0),
        "test_queries": _by_group(integer(1)),
    },
}
_REPORT = object_of(
    {
        **{name: schema_of(hint, _STRICTER) for name, hint in get_type_hints(ReportRecord).items()},
        "schema": choice("schema of reports", (2,)),
        "msshift_bench": text(50),
        "systems": list_of(schema_of(SystemRecord, _STRICTER), _MOST_SHIFTS, 1),
        "slices": mapping_of(_LINE, _LINE, 0),
        "remarks": list_of(_LINE, 0),
    },
    may_lack=("remarks",),
)
_LOSS = object_of({"avg_in": _SCORE, "out": _SCORE, "rel_loss": number(-100, 1)})
_REPORTED = object_of(
    {
        "source": text(500, empty=False),
        "measure": _NAME,
        "shifts": by_shift(_by_group(_LOSS)),
        "untrained": by_shift(_by_group(_SCORE)),
        "matrix": by_shift(_by_group(_by_group(_SCORE))),
        "other": list_of(
            object_of(
                {
                    "title": _NAME,
                    "note": _PARAGRAPH,
                    "columns": list_of(_NAME, 20, 1),
                    "rows": list_of(
                        object_of({"name": _NAME, "values": list_of(optional(number()), 20, 1)}),
                        100,
                        1,
                    ),
                }
            ),
            20,
        ),
    }
)
SUBMISSION = object_of(
    {
        "schema": check_version,
        "board": choice("board", BOARDS),
        "version": integer(1, 10_000),
        "note": NOTE,
        "submitted": date,
        "badge": choice("badge", BADGES),
        "system": object_of(SYSTEM),
        "authors": AUTHORS,
        "training": object_of(
            {
                **TRAINING,
                "class": choice("class", CLASSES),
                "queries": by_shift(
                    mapping_of(choice("group", {"*", *_GROUPS}), _IDS, len(_GROUPS) + 1)
                ),
            }
        ),
        "reproduction": optional(object_of(REPRODUCTION)),
        "report": optional(_REPORT),
        "reported": optional(_REPORTED),
        "files": list_of(
            object_of(
                {
                    "path": _matching(RUN_PATH, "a path of a run set"),
                    "bytes": integer(1),
                    "sha256": digest,
                }
            ),
            1000,
        ),
    }
)
"""The schema of ``submission.json``."""


def check_agreement(value: dict[str, Any], place: Place) -> None:
    """Check that the fields agree: groups with their shift, the badge with the results."""
    paper = value["badge"] == "reported"
    if (value["reported"] is not None) != paper or (value["report"] is None) != paper:
        place.at("badge").wrong(
            "badge-without-results",
            "a paper's results are 'reported' and stand in 'reported'; all others have a 'report'",
        )
    if paper and value["files"]:
        place.at("files").wrong("unexpected-files", "a paper's results have no run files")
    if paper and value["reproduction"] is not None:
        place.at("reproduction").wrong(
            "unexpected-commands", "no commands here make a paper's results", "write null"
        )
    paths = [file["path"] for file in value["files"]]
    for path in sorted({path for path in paths if paths.count(path) > 1}):
        place.at("files").wrong("repeated-file", f"{path!r} is listed twice")
    for shift, groups in value["training"]["queries"].items():
        _of_shift(shift, groups.keys() - {"*"}, place.at("training").at("queries").at(shift))
    for name in ("shifts", "untrained", "matrix"):
        for shift, groups in (value["reported"] or {}).get(name, {}).items():
            within = place.at("reported").at(name).at(shift)
            columns = [group for row in groups.values() if name == "matrix" for group in row]
            _of_shift(shift, {*groups, *columns}, within)
    for number_, table in enumerate((value["reported"] or {}).get("other", ())):
        for position, row in enumerate(table["rows"]):
            if len(row["values"]) != len(table["columns"]):
                place.at("reported").at("other").at(number_).at("rows").at(position).wrong(
                    "wrong-row", f"expected {len(table['columns'])} values, one per column"
                )


def _of_shift(shift: str, groups: AbstractSet[str], place: Place) -> None:
    for group in sorted(groups - {*SHIFTS[shift].groups, *SHIFTS[shift].tested}):
        place.at(group).wrong(
            "unknown-group",
            f"{shift} has no group {group!r}",
            f"its groups are {', '.join(SHIFTS[shift].groups)}",
        )
