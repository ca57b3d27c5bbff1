"""``msshift annotate``: a sheet of pairs of queries for people to judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli.console import note
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UsageError

__all__ = ["register"]

_PER_TEST, _LEAKS_PER_TEST = 10, 5


def annotate(
    train: Annotated[
        Path | None,
        typer.Option(
            help="The training queries (lines of query_id, tab, text): ask how like them the test "
            "queries are."
        ),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="The test queries, likewise.")] = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            help="Ask which of these pairs leak: what `msshift leakage find` wrote, its folder or "
            "`candidates.parquet`; a sheet; or a `.jsonl` file of the SPIRE 2022 annotations."
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="The encoder that recalls training queries beside BM25: an id of the Hugging Face "
            "Hub, a folder, or `terms` (the default)."
        ),
    ] = None,
    per_test: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="How many training queries BM25 and the encoder each recall for a test query "
            f"(default: {_PER_TEST}); with --candidates, how many of each test query, the most "
            f"alike (default: {_LEAKS_PER_TEST}, 0 for all).",
        ),
    ] = None,
    certain: Annotated[
        bool,
        typer.Option(
            "--certain",
            help="Keep the tiers same-text and same-normalised, too, which nobody needs to judge.",
        ),
    ] = False,
    out: Annotated[
        Path,
        typer.Option(
            help="The file to write: `.csv`, a table, or `.json`, tasks to import into Label "
            "Studio."
        ),
    ] = Path("sheet.csv"),
) -> None:
    """Write a sheet to annotate: test queries with the training queries nearest to them.

    Of two files of queries it asks how alike the two are: `entity` and `intent`, each 0, 1 or 2.
    Of candidates for leakage it asks whether the training query leaks the test query: `label` is
    identical, generalization, specialization, reformulation or different. `docs/leakage.md` and
    `docs/analysis.md` say when to say so. Give every annotator a copy, and read them with
    `msshift agree`.

    Example: `msshift annotate --train train.tsv --test test.tsv`

    Example: `msshift annotate --candidates found/ --out review.csv`
    """
    from msshift_bench.annotation import (
        LEAKAGE,
        SIMILARITY,
        check_sheet,
        similar_pairs,
        write_sheet,
    )
    from msshift_bench.encoders import EncoderSpec
    from msshift_bench.leakage import pairs_to_judge
    from msshift_bench.plumbing import progress_bars

    check_outputs(out, inputs=[path for path in (train, test, candidates) if path is not None])
    check_sheet(out)
    if candidates is not None and train is None and test is None:
        if encoder is not None:
            raise UsageError("--encoder is for --train and --test; leave it out")
        questions = LEAKAGE
        count = _LEAKS_PER_TEST if per_test is None else per_test
        pairs = pairs_to_judge(candidates, per_test=count or None, certain=certain)
    elif train is not None and test is not None and candidates is None:
        if certain:
            raise UsageError("--certain is for --candidates; leave it out")
        questions = SIMILARITY
        with progress_bars() as progress:
            count = _PER_TEST if per_test is None else per_test
            spec = EncoderSpec(encoder or "terms")
            pairs = similar_pairs(train, test, spec, per_test=count, progress=progress)
    else:
        raise UsageError("give --train and --test, or --candidates")
    write_sheet(pairs, questions, out)
    names = " and ".join(question.name for question in questions)
    tests = len({pair.test_id for pair in pairs})
    note(
        f"wrote {out}: {len(pairs):,} pairs of {tests:,} test queries; fill in {names}, a copy per "
        "annotator, then 'msshift agree COPY COPY ...'"
    )


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("annotate")(annotate)
