"""``msshift annotate`` and ``msshift agree``: sheets, and what annotators say of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note
from msshift_bench.cli.formats import ResultFormat, print_result
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UsageError

if TYPE_CHECKING:
    from msshift_bench.annotation import Annotations


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
        with progress_bars():
            count = _PER_TEST if per_test is None else per_test
            spec = EncoderSpec(encoder or "terms")
            pairs = similar_pairs(train, test, spec, per_test=count)
    else:
        raise UsageError("give --train and --test, or --candidates")
    write_sheet(pairs, questions, out)
    names = " and ".join(question.name for question in questions)
    tests = len({pair.test_id for pair in pairs})
    note(
        f"wrote {out}: {len(pairs):,} pairs of {tests:,} test queries; fill in {names}, a copy per "
        "annotator, then 'msshift agree COPY COPY ...'"
    )


def agree(
    context: typer.Context,
    sheets: Annotated[
        list[Path],
        typer.Argument(
            help="The sheets that annotators filled in: CSV, JSON that Label Studio exports, or "
            "`.jsonl` of the SPIRE 2022 annotations."
        ),
    ],
    subset: Annotated[
        list[str] | None,
        typer.Option(
            help="`NAME=FILE`: count the test queries whose ids the file lists, one per line, "
            "apart. Repeat it for several."
        ),
    ] = None,
    precision: Annotated[
        float, typer.Option(help="The precision that the threshold must have.")
    ] = 0.9,
    both: Annotated[
        str,
        typer.Option(
            help="Of an annotator who says that a pair is different and names a type, which "
            "counts: `different` or `type`."
        ),
    ] = "different",
    disputed: Annotated[
        Path | None,
        typer.Option(
            help="Also write the pairs on which annotators differ to this sheet, with what each "
            "says. Its verdicts settle them; give it with the other sheets."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw precision and recall by threshold to this file: .svg, .png or .pdf."
        ),
    ] = None,
    table_format: ResultFormat = "text",
) -> None:
    """Count what annotators say of pairs of queries, and how far they agree (Cohen's kappa).

    Of how alike queries are, the median of a pair counts, and of a test query the highest point of
    its candidates. Of leakage, what most annotators say counts; how many pairs leak, of which
    types, precision and recall by threshold, and the lowest threshold with a precision of 0.9 are
    printed. Intervals count other test queries.

    Example: `msshift agree sheet-a.csv sheet-b.csv sheet-c.csv`

    Example: `msshift agree review-ann.csv review-bob.csv --plot thresholds.svg`
    """
    from msshift_bench.annotation import (
        LEAKAGE,
        check_sheet,
        read_annotations,
        similarity_labels,
    )
    from msshift_bench.leakage import review_leakage

    # All refusals come before the first file is written.
    check_outputs(disputed, plot, inputs=sheets)
    if disputed is not None:
        check_sheet(disputed)
    subsets = _subsets(subset or ())
    annotations = read_annotations(sheets, both=both)
    if annotations.questions == LEAKAGE:
        review = review_leakage(annotations, subsets=subsets, precision=precision)
        if plot is not None:
            _draw(annotations, precision, plot)
        if disputed is not None:
            _write_disputed(annotations, disputed)
        options.Printing(format=table_format).show(review)
        return
    taken = ("sheets", "disputed", "table_format")
    options.refuse_others(context, taken, "sheets that ask for entity and intent")
    if disputed is not None:
        _write_disputed(annotations, disputed)
    print_result(similarity_labels(annotations), table_format)


def _draw(annotations: Annotations, precision: float, plot: Path) -> None:
    from msshift_bench.leakage import ThresholdCurve, draw_thresholds
    from msshift_bench.output import check_plot
    from msshift_bench.plumbing import write_atomically

    picture_format = check_plot(plot)
    picture = draw_thresholds(ThresholdCurve.of(annotations), precision, picture_format)
    with write_atomically(plot) as file:
        file.write(picture)
    note(f"wrote {plot}")


def _write_disputed(annotations: Annotations, disputed: Path) -> None:
    from msshift_bench.annotation import AGREED, write_sheet

    pairs = annotations.pairs_to_settle()
    if not pairs:
        note(f"annotators differ on no pair, so {disputed} is not written")
        return
    write_sheet(pairs, annotations.questions, disputed, annotator=AGREED)
    note(f"wrote {disputed}, with pairs to judge together: {len(pairs)}; give it with the others")


def _subsets(options: Sequence[str]) -> dict[str, Path]:
    subsets: dict[str, Path] = {}
    for text in options:
        name, _, path = text.partition("=")
        if not name or not path or name in subsets or name == "all":
            raise UsageError(
                f"--subset {text!r}: write NAME=FILE, every name once, and not 'all', which "
                "is every judged test query"
            )
        subsets[name] = Path(path)
    return subsets


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("annotate")(annotate)
    app.command("agree")(agree)
