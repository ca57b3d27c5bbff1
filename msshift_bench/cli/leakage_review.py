"""``msshift leakage review``: people judge candidates for leakage, and a threshold is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_notes, print_table
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UsageError

__all__ = ["register"]


def sheet(
    candidates: Annotated[
        Path,
        typer.Argument(
            help="What `msshift leakage find` wrote, its folder or `candidates.parquet`; or a "
            "sheet; or a `.jsonl` file in the layout of the SPIRE 2022 annotations."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(help="The file to write: `.html`, a page to open in a browser, or `.csv`."),
    ] = Path("review.html"),
    per_test: Annotated[
        int,
        typer.Option(
            min=0, help="How many candidates of each test query: the most alike. 0 for all."
        ),
    ] = 5,
    certain: Annotated[
        bool,
        typer.Option(
            "--certain",
            help="Keep the tiers same-text and same-normalised, too, which nobody needs to judge.",
        ),
    ] = False,
) -> None:
    """Write a sheet of candidates to judge: a page for the browser, or a CSV file.

    The page needs nothing else and works from the disk. It shows both texts; the keys 1 to 5 say
    that the training query is identical to the test query, a generalization, a specialization, a
    reformulation, or something different. It keeps every label at once, goes on where you left
    it, and saves a CSV file: one per annotator, for `msshift leakage review labels`.

    Example: `msshift leakage review sheet found/ --out review.html`
    """
    from msshift_bench.leakage import pairs_to_review, write_review

    check_outputs(out, inputs=[candidates])
    pairs = pairs_to_review(candidates, per_test=per_test or None, certain=certain)
    write_review(pairs, out)
    tests = len({pair.test_id for pair in pairs})
    if out.suffix.lower() == ".html":
        then = "open it in a browser and press 1 to 5; every annotator saves a CSV file"
    else:
        then = "fill in the columns annotator and label, a copy per annotator"
    note(
        f"wrote {out}: {len(pairs):,} pairs of {tests:,} test queries; {then}, then 'msshift "
        "leakage review labels FILE FILE ...'"
    )


def labels(
    sheets: Annotated[
        list[Path],
        typer.Argument(
            help="The sheets that annotators filled in: CSV, or `.jsonl` in the layout of the "
            "SPIRE 2022 annotations."
        ),
    ],
    agreed: Annotated[
        list[Path] | None,
        typer.Option(
            help="A sheet of pairs that annotators judged together; it settles them. Repeat it for "
            "several."
        ),
    ] = None,
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
            help="Of a JSON line that says `Different Topic` and names a type, which counts: "
            "`different` or `type`."
        ),
    ] = "different",
    disputed: Annotated[
        Path | None,
        typer.Option(
            help="Also write the pairs on which annotators disagree to this sheet, `.html` or "
            "`.csv`, with what each says."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Also draw precision and recall by threshold to this file: .svg, .png or .pdf."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Merge what annotators say, and find the lowest threshold with a precision of 0.9.

    It prints how many pairs leak, of which types, how far annotators agree (Cohen's kappa), and
    precision and recall by threshold. Intervals count other test queries. Of a pair, an agreed
    sheet counts, else what most annotators say.

    Example: `msshift leakage review labels review-ann.csv review-bob.csv --plot thresholds.svg`
    """
    from msshift_bench.leakage import disputed_pairs, draw_thresholds, review_leakage, write_review
    from msshift_bench.plumbing import write_atomically

    check_outputs(disputed, plot, inputs=[*sheets, *(agreed or ())])
    picture_format = _picture_format(plot)
    found = review_leakage(
        sheets,
        agreed=agreed or (),
        subsets=_subsets(subset or ()),
        precision=precision,
        both=both,
    )
    if plot is not None:
        if found.curve is None or found.lowest is None:
            raise UsageError("--plot needs pairs with a cosine, and no judged pair has one")
        picture = draw_thresholds(found.curve, found.lowest, picture_format)
        with write_atomically(plot) as file:
            file.write(picture)
        note(f"wrote {plot}")
    if disputed is not None:
        if found.disputed:
            write_review(disputed_pairs(found.disputed), disputed)
            note(
                f"wrote {disputed}, with pairs to judge together: {len(found.disputed)}; give it "
                "back with --agreed"
            )
        else:
            note(f"annotators disagree on no pair, so {disputed} is not written")
    if as_json:
        print_json(found.to_json())
        return
    for table in found.tables():
        print_table(table)
    print_notes(found.notes())


def _picture_format(plot: Path | None) -> str:
    if plot is None:
        return ""
    from msshift_bench.output import check_plot

    return check_plot(plot)


def _subsets(given: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for text in given:
        name, separator, path = text.partition("=")
        if not separator or not name or not path or name in found or name == "all":
            raise UsageError(
                f"--subset {text!r}: write NAME=FILE, every name once, and not 'all', which "
                "is every judged test query"
            )
        found[name] = Path(path)
    return found


def register(app: typer.Typer) -> None:
    """Add the command group to `msshift leakage`."""
    group = typer.Typer(
        help="Let people judge candidates for leakage, and choose a threshold.",
        no_args_is_help=True,
    )
    group.command("sheet")(sheet)
    group.command("labels")(labels)
    app.add_typer(group, name="review")
