"""What is imported once, before commands are forked from the process that did."""

from __future__ import annotations

__all__ = ["PRELOADED"]

PRELOADED = (
    "Stemmer",
    "dill",
    "fsspec",
    "httpx2",
    "jinja2",
    "markdown_it",
    "multiprocess",
    "multiprocessing.synchronize",
    "pandas",
    "pyarrow.acero",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pydantic.dataclasses",
    "pydantic.main",
    "pydantic.type_adapter",
    "rich._emoji_codes",
    "rich.markdown",
    "rich.progress",
    "rich.table",
    "rich.traceback",
    "scipy.stats",
    "typer._adapters",
    "typer._click._textwrap",
    "typer._click.decorators",
    "typer.rich_utils",
    "xxhash",
    "yaml",
    "msshift_bench.cli",
    "msshift_bench.baselines.systems.lexical",
    "msshift_bench.dataset_builders.build",
    "msshift_bench.dataset_builders.release",
    "msshift_bench.dataset_builders.topics",
    "msshift_bench.dataset_builders.groups",
    "msshift_bench.leaderboard.site",
    "msshift_bench.output.tables",
    "msshift_bench.evaluation",
    "tests.killed.laboratory",
    "tests.killed.warm_commands",
)
"""What the commands import, and what the Hub's libraries do: these themselves read the environment
meanwhile, so that every process imports them anew."""
