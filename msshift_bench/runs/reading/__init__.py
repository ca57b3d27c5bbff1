"""The parts of `msshift_bench.runs.reader`.

`run_files` opens files, `query_blocks` cuts text into whole queries, `text_runs`, `parquet` and
`memory` turn a run's parts into rankings, in `columns` or by `lines`, and `judge` keeps what
measures need.
"""
