"""``msshift leakage``: training queries that are the test queries, or nearly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import leakage_experiment, options
from msshift_bench.cli.console import note, print_json, print_notes, print_table
from msshift_bench.cli.layout import in_panels
from msshift_bench.errors import DataError, UsageError
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]


def _tiers() -> list[str]:
    from msshift_bench.leakage import TIERS

    return list(TIERS)


_Encoder = Annotated[
    str,
    typer.Option(
        help="The encoder: an id of the Hugging Face Hub, a folder, or `terms` (no neural network)."
    ),
]
_Pooling = Annotated[
    str,
    typer.Option(
        help="How the encoder pools tokens: own, for a model that sentence-transformers saved, cls "
        "or mean."
    ),
]
_Threshold = Annotated[
    float | None,
    typer.Option(
        help="The cosine from which on queries are near-duplicates. Default: 0.91, and 0.9 for "
        "`terms`."
    ),
]


def find(
    train: Annotated[
        Path, typer.Option(help="The training queries: lines of query_id, tab, text.")
    ],
    test: Annotated[
        Path,
        typer.Option(
            help="The test queries, likewise; or lines of query_id, text and field, where a topic "
            "has several texts; or TREC topics (title and description)."
        ),
    ],
    encoder: _Encoder = "terms",
    pooling: _Pooling = "own",
    threshold: _Threshold = None,
    nearest: Annotated[
        int, typer.Option(help="Near-duplicates of each text at most, the nearest.")
    ] = 100,
    train_qrels: Annotated[
        Path | None,
        typer.Option(help="The training queries' qrels, which `same-passage` needs."),
    ] = None,
    test_qrels: Annotated[Path | None, typer.Option(help="The test queries' qrels.")] = None,
    separate_ids: Annotated[
        bool,
        typer.Option(
            "--separate-ids",
            help="The two files number their queries each in its own way: an id in both means "
            "nothing.",
        ),
    ] = False,
    out: Annotated[
        Path, typer.Option(help="The folder to write: candidates.parquet and found.json.")
    ] = Path("found"),
    fail_on: Annotated[
        str | None,
        typer.Option(
            metavar="TIER",
            help="Exit with 1 if anything is found at this tier or a stricter one: same-text, "
            "same-normalised, same-words, near-duplicate or same-passage.",
            autocompletion=options.completing(_tiers),
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Find the training queries that may leak a test set, by tiers of evidence.

    The tiers are: the same text; the same after case, punctuation, spaces and accents; the same
    words in another order; near-duplicates by the cosine of an encoder; a relevant passage in
    common. `docs/leakage.md` explains them.

    Example: `msshift leakage find --train train.tsv --test test.tsv`

    Example: `msshift leakage find --train train.tsv --test test.tsv --fail-on near-duplicate`
    """
    from msshift_bench.leakage import check_own_folder, find_leakage, tiers_up_to
    from msshift_bench.plumbing import progress_bars

    failing = () if fail_on is None else tiers_up_to(fail_on)
    if "same-passage" in failing and train_qrels is None:
        raise UsageError("--fail-on same-passage needs --train-qrels and --test-qrels")
    check_own_folder(out)
    with progress_bars() as progress:
        found = find_leakage(
            train,
            test,
            encoder=encoder,
            pooling=pooling,
            threshold=threshold,
            nearest=nearest,
            train_qrels=train_qrels,
            test_qrels=test_qrels,
            separate_ids=separate_ids,
            progress=progress,
        )
    found.write(out)
    note(f"wrote {out}")
    if as_json:
        print_json(found.to_json())
    else:
        for table in found.tables():
            print_table(table)
        print_notes(found.notes())
    leaked = found.count(*failing) if failing else None
    if leaked is not None and leaked.pairs:
        raise DataError(
            f"{leaked.queries:,} training queries leak {leaked.topics:,} test topics "
            f"({', '.join(failing)}); 'msshift leakage clean' takes them out"
        )


def clean(
    found: Annotated[Path, typer.Option(help="The folder that `msshift leakage find` wrote.")],
    train: Annotated[Path, typer.Option(help="The training queries that it was written for.")],
    qrels: Annotated[
        Path | None, typer.Option(help="The training qrels, to be cleaned with them.")
    ] = None,
    triples: Annotated[
        Path | None,
        typer.Option(help="The training triples likewise: three columns, of ids or of texts."),
    ] = None,
    tier: Annotated[
        str,
        typer.Option(
            help="Take out what was found at this tier or a stricter one: same-text, "
            "same-normalised, same-words, near-duplicate or same-passage.",
            autocompletion=options.completing(_tiers),
        ),
    ] = "near-duplicate",
    out: Annotated[Path, typer.Option(help="The folder to write; whole, or nothing.")] = Path(
        "clean"
    ),
    as_json: options.AsJson = False,
) -> None:
    """Write a training set without the queries that leak.

    The folder holds `queries.tsv`, `qrels.tsv` and `triples.tsv`, as far as they were given, the
    queries that were left out with their tiers (`removed.tsv`), and `manifest.json` with every
    file's digest. Lines of queries that are not among the training queries are left out, too:
    nobody has looked whether they leak.

    Example: `msshift leakage clean --found found --train train.tsv`
    """
    from msshift_bench.leakage import clean_training
    from msshift_bench.plumbing import progress_bars

    with progress_bars() as progress:
        cleaned = clean_training(
            found, train, out, qrels=qrels, triples=triples, tier=tier, progress=progress
        )
    note(f"wrote {out}")
    if as_json:
        print_json(cleaned.to_json())
        return
    for table in cleaned.tables():
        print_table(table)


def splits(
    folder: options.BuiltFolder = DATASET_NAME,
    encoder: _Encoder = "terms",
    pooling: _Pooling = "own",
    threshold: _Threshold = None,
    as_json: options.AsJson = False,
) -> None:
    """Say how zero-shot a built data set is: look for every experiment's test queries in training.

    The numbers go into the data set's card and manifest; its queries stay as they are.

    Example: `msshift leakage splits ./msshift`
    """
    from msshift_bench.data import locate
    from msshift_bench.dataset_builders.split_leakage import add_split_leakage
    from msshift_bench.output import Table
    from msshift_bench.plumbing import check_folder, progress_bars

    check_folder(locate(folder))
    with progress_bars() as progress:
        manifest = add_split_leakage(
            folder, encoder=encoder, pooling=pooling, threshold=threshold, progress=progress
        )
    counted = {
        shift: facts["near_duplicates"]
        for shift, facts in manifest.shifts.items()
        if "near_duplicates" in facts
    }
    if as_json:
        print_json(counted)
        return
    rows = [
        (f"{shift}-{group}", *found.values())
        for shift, facts in counted.items()
        for group, found in facts["test_queries"].items()
    ]
    title = "Test queries that the training queries of their experiment leak"
    header = ("experiment", *_tiers()[:-1], "any of these")
    print_table(Table.plain(title, header, rows))


def register(app: typer.Typer) -> None:
    """Add the command group to the command line."""
    group = typer.Typer(
        help="Find training queries that are the test queries, or nearly.", no_args_is_help=True
    )
    panels = {
        "Queries": ("train", "test", "train_qrels", "test_qrels", "separate_ids"),
        "Near-duplicates": ("encoder", "pooling", "threshold", "nearest"),
        "Output": ("out", "fail_on", "as_json"),
    }
    group.command("find", cls=in_panels(panels))(find)
    group.command("clean")(clean)
    group.command("splits")(splits)
    leakage_experiment.add_experiment(group)
    app.add_typer(group, name="leakage")
