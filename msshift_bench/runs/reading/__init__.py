"""How run files are read: what `msshift_bench.runs.reader` is made of.

`files` opens, `compression` decompresses, `sources` finds out what a file is, `columns`, `lines`,
`parquet` and `memory` turn it into rankings, by `numbers`; `judge` keeps what measures need,
`findings` what is wrong.
"""
