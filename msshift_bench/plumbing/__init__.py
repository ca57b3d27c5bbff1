"""Files, folders, streams and threads, which every other room uses.

Nothing here knows queries or passages. It may use `errors` and `records`.
"""

from msshift_bench.plumbing.batching import batches, in_parallel, map_in_threads, slices
from msshift_bench.plumbing.cache import cache_folder, cache_root
from msshift_bench.plumbing.checksums import (
    CHECKSUM,
    is_as_written,
    map_sealed_array,
    seal_array,
    unseal_array,
    with_checksum,
)
from msshift_bench.plumbing.compression import DamagedInputError
from msshift_bench.plumbing.drawn_progress import ProgressLog, progress_bars, shown_log
from msshift_bench.plumbing.files import (
    TooLargeError,
    check_locks,
    check_target,
    link_file,
    unpacked_batches,
    write_array,
    write_atomically,
    write_json,
    write_parquet,
)
from msshift_bench.plumbing.folders import (
    check_contents,
    check_folder,
    copy_files,
    hold_folder,
    hold_unfinished,
    is_held,
    is_unfinished,
    remove_folder,
    remove_unfinished,
    replace_folder,
    settle,
)
from msshift_bench.plumbing.freed_memory import keep_freed_memory
from msshift_bench.plumbing.numbers import MAX_RANK, MAX_RELEVANCE, decimal_numbers, rank_numbers
from msshift_bench.plumbing.processors import allowed_processors, thread_count
from msshift_bench.plumbing.progress import (
    Progress,
    counted,
    duration,
    in_line,
    is_first,
    line_and_stage,
    silent,
)
from msshift_bench.plumbing.quietening import quieten
from msshift_bench.plumbing.streams import MAX_LINE_BYTES, UTF8_BOM, FileState, open_stream
from msshift_bench.plumbing.textfiles import (
    csv_rows,
    jsonl_records,
    jsonl_rows,
    numbered_lines,
    qrels_rows,
    tsv_rows,
)

__all__ = [
    "TooLargeError",
    "ProgressLog",
    "progress_bars",
    "shown_log",
    "CHECKSUM",
    "DamagedInputError",
    "FileState",
    "MAX_LINE_BYTES",
    "MAX_RANK",
    "MAX_RELEVANCE",
    "Progress",
    "UTF8_BOM",
    "allowed_processors",
    "batches",
    "cache_folder",
    "cache_root",
    "check_contents",
    "check_folder",
    "check_locks",
    "check_target",
    "copy_files",
    "counted",
    "csv_rows",
    "decimal_numbers",
    "duration",
    "hold_folder",
    "hold_unfinished",
    "in_line",
    "in_parallel",
    "is_as_written",
    "is_held",
    "is_first",
    "is_unfinished",
    "jsonl_records",
    "jsonl_rows",
    "line_and_stage",
    "keep_freed_memory",
    "link_file",
    "map_in_threads",
    "map_sealed_array",
    "numbered_lines",
    "open_stream",
    "qrels_rows",
    "quieten",
    "rank_numbers",
    "remove_folder",
    "remove_unfinished",
    "replace_folder",
    "seal_array",
    "settle",
    "silent",
    "slices",
    "thread_count",
    "tsv_rows",
    "unseal_array",
    "with_checksum",
    "write_array",
    "write_atomically",
    "write_json",
    "unpacked_batches",
    "write_parquet",
]
