"""``msshift variants``: the same queries as people type them, made and looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_notes, print_table
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UsageError
from msshift_bench.shifts import DATASET_NAME, TEST_ONLY, get_test_only_shift

if TYPE_CHECKING:
    from msshift_bench.data import Variant

__all__ = ["register", "show_edits"]


def variants(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            help=f"How queries are changed: {', '.join(TEST_ONLY)}.",
            autocompletion=options.completing(lambda: TEST_ONLY),
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write: query_id, text, method.")] = Path(
        "variants.tsv"
    ),
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            help="The queries as they are: a file of query_id, tab, text. Default: the test "
            "queries of the data set."
        ),
    ] = None,
    copies: Annotated[int, typer.Option(min=1, help="Variants of each query.")] = 1,
    seed: Annotated[int, typer.Option(help="The seed of the random choice.")] = 0,
    check: Annotated[
        Path | None,
        typer.Option(help="Check this file of variants, and count what was changed in it."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="With --check: test whether this file of variants has edits of other kinds or "
            "places, by chi-squared tests."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make variants of test queries, e.g. with one typing error each, or check a file of them.

    The same queries, seed and copies give the same file on every machine. `msshift import` brings
    in published variants.

    Example: `msshift variants typos --shift length --out typos.tsv`

    Example: `msshift variants --check my-variants.tsv`
    """
    from msshift_bench.data import locate, write_variants
    from msshift_bench.dataset_builders.typos import make_variants

    if check is not None:
        taken = {"data", "shift", "queries", "check", "against", "as_json"}
        options.refuse_others(context, taken, "--check")
        _check(check, against, _texts(data, shift, queries), as_json)
        return
    if name is None or against is not None:
        lacking = "NAME" if name is None else "--check"
        raise UsageError(
            f"{lacking} is missing: give how queries are changed ({', '.join(TEST_ONLY)}), or the "
            "file to look at (--check FILE)"
        )
    get_test_only_shift(name)
    check_outputs(out, inputs=[queries or locate(data)])
    texts = _texts(data, shift, queries)
    made = make_variants(name, texts.items(), copies=copies, seed=seed)
    write_variants(out, made)
    show_edits(texts, made, as_json=as_json)
    note(f"wrote {out}")


def _check(path: Path, against: Path | None, texts: Mapping[str, str], as_json: bool) -> None:
    from msshift_bench.data import read_variants

    read = [read_variants(file, texts) for file in (path, against) if file is not None]
    show_edits(texts, read[0], as_json=as_json, against=read[1] if against is not None else None)


def _texts(data: str, shifts: Sequence[str] | None, queries: Path | None) -> dict[str, str]:
    """Return query_id -> text: of a file, or of the test queries of a data set."""
    from msshift_bench.data import open_dataset, read_queries
    from msshift_bench.shifts import get_shift

    if queries is not None:
        if shifts:
            raise UsageError("--shift is for the queries of a data set, and --queries names a file")
        return dict(read_queries(queries))
    dataset = open_dataset(data)
    if not dataset.manifest.texts:
        raise UsageError(
            f"{dataset.folder} holds ids only; add the texts with 'msshift import', or give the "
            "queries (--queries)"
        )
    names = shifts or list(dataset.manifest.shifts)
    test_sets = [dataset.test_sets(get_shift(name)).values() for name in names]
    return {row.query_id: row.text for groups in test_sets for rows in groups for row in rows}


def show_edits(
    texts: Mapping[str, str],
    variants: Sequence[Variant],
    *,
    as_json: bool,
    against: Sequence[Variant] | None = None,
) -> None:
    """Print what was changed in variants, and whether those of another file follow one rule.

    Args:
        texts: query_id -> the query as it is.
        variants: the variants.
        as_json: whether JSON is printed.
        against: the other file's variants, if there is one.
    """
    from msshift_bench.dataset_builders.typos import (
        EDIT_KINDS,
        UNCHANGED,
        compare_edits,
        count_edits,
    )
    from msshift_bench.output import Table, plain, show_p
    from msshift_bench.stats import SIGNIFICANT, Claim, Figure, Inference, infer

    counts = count_edits(texts, variants)
    tests = [] if against is None else compare_edits(texts, variants, against)
    claims = [Claim(Figure(t.statistic), family=("edits", "statistics"), p=t.p) for t in tests]
    inferred = infer(claims, Inference())
    corrected = {row.figure: row.p for row in inferred if row.p is not None}
    if as_json:
        print_json(
            {
                "queries": len(texts),
                "edits": {
                    m: {kind: found[kind] for kind in EDIT_KINDS} for m, found in counts.items()
                },
                "tests": [
                    {**plain(test), "corrected_p": corrected[test.statistic]} for test in tests
                ],
            }
        )
        return
    kinds = [kind for kind in EDIT_KINDS if kind != UNCHANGED]
    rows: Iterable[Sequence[object]] = [
        (m, f"{found.total():,}", f"{found.total() - found[UNCHANGED]:,}", *map(found.get, kinds))
        for m, found in counts.items()
    ]
    shown = [["-" if value is None else value for value in row] for row in rows]
    print_table(Table.plain("Edits", ("method", "variants", "changed", *kinds), shown))
    if against is None:
        return
    lines = [
        (t.statistic, f"{t.chi_squared:.1f}", t.df, show_p(t.p), show_p(corrected[t.statistic]))
        for t in tests
    ]
    header = ("statistic", "chi-squared", "df", "p", "corrected p")
    print_table(Table.plain("Do the two files follow one rule?", header, lines))
    differing = [name for name, p in corrected.items() if p <= SIGNIFICANT]
    print_notes(
        [
            "kind: of edit; place: in its word; word: which of those that may be edited; letter: "
            "the one that was typed",
            f"they differ beyond chance in: {', '.join(differing)}"
            if differing
            else "they differ in no statistic beyond chance (Holm's corrected p above "
            f"{SIGNIFICANT})",
        ]
    )


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {"Checks": ("check", "against"), "Output": ("out", "as_json")}
    app.command("variants", cls=in_panels(panels))(variants)
