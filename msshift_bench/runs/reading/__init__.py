"""How run files are read: what `msshift_bench.runs.reader` is made of.

`run_files` opens, `query_blocks` cuts text into whole queries, `text_runs`, `parquet` and `memory`
turn a run's parts into rankings, in `columns` or by `lines`; `judge` keeps what measures need.
"""
