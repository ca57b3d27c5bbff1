"""``msshift variants``: the same queries as people type them, made, imported, and looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_notes, print_table
from msshift_bench.cli.targets import check_outputs
from msshift_bench.errors import UsageError
from msshift_bench.shifts import DATASET_NAME
from msshift_bench.test_only_shifts import TEST_ONLY, get_test_only_shift

if TYPE_CHECKING:
    from msshift_bench.data import Variant

__all__ = ["register"]

_Queries = Annotated[
    Path | None,
    typer.Option(
        help="The queries as they are: a file of query_id, tab, text. Default: the test queries of "
        "the data set."
    ),
]
_Out = Annotated[Path, typer.Option(help="The file to write: query_id, text, method.")]


def make(
    name: Annotated[
        str,
        typer.Argument(
            help=f"How queries are changed: {', '.join(TEST_ONLY)}.",
            autocompletion=options.completing(lambda: TEST_ONLY),
        ),
    ],
    out: _Out,
    data: options.Data = DATASET_NAME,
    shift: options.Shifts = None,
    queries: _Queries = None,
    copies: Annotated[int, typer.Option(min=1, help="Variants of each query.")] = 1,
    seed: Annotated[int, typer.Option(help="The seed of the random choice.")] = 0,
    as_json: options.AsJson = False,
) -> None:
    """Make variants of test queries, e.g. with one typing error each.

    The same queries, seed and copies give the same file on every machine.

    Example: `msshift variants make typos --shift length --out typos.tsv`
    """
    from msshift_bench.data import locate, write_variants
    from msshift_bench.dataset_builders.typos import make_variants

    get_test_only_shift(name)
    check_outputs(out, inputs=[queries or locate(data)])
    texts = _texts(data, shift, queries)
    made = make_variants(name, texts.items(), copies=copies, seed=seed)
    write_variants(out, made)
    _tell(texts, made, as_json)
    note(f"wrote {out}")


def import_(
    checkout: Annotated[
        Path, typer.Argument(help="A checkout of ielab/CharacterBERT-DR, or a folder of its files.")
    ],
    out: _Out,
    queries: Annotated[
        str, typer.Option(help="The set of queries: dev.small, dl2019 or dl2020.")
    ] = "dev.small",
    as_json: options.AsJson = False,
) -> None:
    """Import the published variants of MS MARCO's development and TREC DL queries: ten typos each.

    Example: `msshift variants import CharacterBERT-DR --out published.tsv`
    """
    from msshift_bench.data import write_variants
    from msshift_bench.dataset_builders.typos import import_variants

    check_outputs(out, inputs=[checkout])
    texts, read = import_variants(checkout, queries)
    write_variants(out, read)
    _tell(texts, read, as_json)
    note(f"wrote {out}")


def check(
    variants: Annotated[Path, typer.Argument(help="A file of variants.")],
    data: options.Data = DATASET_NAME,
    queries: _Queries = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Test whether this file of variants has edits of other kinds or places."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a file of variants, and count what was changed in it.

    With --against, chi-squared tests say whether the edits of two files follow one rule.

    Example: `msshift variants check my-variants.tsv`
    """
    from msshift_bench.data import read_variants

    texts = _texts(data, None, queries)
    files = [variants] if against is None else [variants, against]
    read = [read_variants(path, texts) for path in files]
    _tell(texts, read[0], as_json, against=read[1] if against is not None else None)


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
            f"{dataset.folder} holds ids only; add the texts with 'msshift hydrate', or give the "
            "queries (--queries)"
        )
    names = shifts or list(dataset.manifest.shifts)
    test_sets = [dataset.test_sets(get_shift(name)).values() for name in names]
    return {row.query_id: row.text for groups in test_sets for rows in groups for row in rows}


def _tell(
    texts: Mapping[str, str],
    variants: Sequence[Variant],
    as_json: bool,
    against: Sequence[Variant] | None = None,
) -> None:
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
    """Add the command group to the command line."""
    group = typer.Typer(
        help="The same queries as people type them: make, import and check variants.",
        no_args_is_help=True,
    )
    group.command("make")(make)
    group.command("import")(import_)
    group.command("check")(check)
    app.add_typer(group, name="variants")
