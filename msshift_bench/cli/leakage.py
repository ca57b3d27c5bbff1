"""``msshift leakage``: training queries that are the test queries, or nearly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_table
from msshift_bench.cli.formats import ResultFormat, print_result, print_tables
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.targets import check_outputs, files_of_collection
from msshift_bench.errors import DataError, UsageError
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]

_UP_TO = "same-text, same-normalised, same-words, near-duplicate or same-passage."


def _tiers() -> list[str]:
    from msshift_bench.leakage import TIERS

    return list(TIERS)


def find(
    context: typer.Context,
    train: Annotated[
        Path | None, typer.Option(help="The training queries: lines of query_id, tab, text.")
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            help="The test queries, likewise; or lines of query_id, text and field, where a topic "
            "has several texts; or TREC topics (title and description)."
        ),
    ] = None,
    data: options.Data = DATASET_NAME,
    encoder: Annotated[
        str,
        typer.Option(
            help="The encoder: an id of the Hugging Face Hub, a folder, or `terms` (no neural "
            "network)."
        ),
    ] = "terms",
    pooling: Annotated[
        str,
        typer.Option(
            help="How the encoder pools tokens: own, for a model that sentence-transformers saved, "
            "cls or mean."
        ),
    ] = "own",
    threshold: Annotated[
        float | None,
        typer.Option(
            help="The cosine from which on queries are near-duplicates. Default: 0.91, and 0.9 for "
            "`terms`."
        ),
    ] = None,
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
            help=f"Exit with 1 if anything is found at this tier or a stricter one: {_UP_TO}",
            autocompletion=options.completing(_tiers),
        ),
    ] = None,
    table_format: ResultFormat = "text",
) -> None:
    """Find the training queries that may leak a test set, by tiers of evidence.

    The tiers are: the same text; the same after case, punctuation, spaces and accents; the same
    words in another order; near-duplicates by the cosine of an encoder; a relevant passage in
    common. `docs/leakage.md` explains them.

    Without --train and --test it says how zero-shot the built data set is: it counts the test
    queries of each experiment that its training queries leak, and writes the counts into the data
    set's card and manifest. Its queries stay as they are.

    Example: `msshift leakage find --train train.tsv --test test.tsv`

    Example: `msshift leakage find --train train.tsv --test test.tsv --fail-on near-duplicate`

    Example: `msshift leakage find --data ./msshift`
    """
    from msshift_bench.leakage import check_found_folder, find_leakage, tiers_up_to
    from msshift_bench.plumbing import progress_bars

    search: dict[str, Any] = {"encoder": encoder, "pooling": pooling, "threshold": threshold}
    if train is None and test is None:
        taken = (*search, "data", "table_format")
        options.refuse_others(context, taken, "the splits of a data set")
        _find_in_splits(data, table_format, search)
        return
    if train is None or test is None:
        raise UsageError("give both --train and --test, or none for the splits of --data")
    options.refuse_others(context, context.params.keys() - {"data"}, "--train and --test")
    if (train_qrels is None) != (test_qrels is None):
        raise UsageError("shared passages need the qrels of both: --train-qrels and --test-qrels")
    qrels = None if train_qrels is None or test_qrels is None else (train_qrels, test_qrels)
    failing = () if fail_on is None else tiers_up_to(fail_on)
    if "same-passage" in failing and qrels is None:
        raise UsageError("--fail-on same-passage needs --train-qrels and --test-qrels")
    check_found_folder(out)
    with progress_bars():
        found = find_leakage(
            train,
            test,
            **search,
            nearest=nearest,
            qrels=qrels,
            separate_ids=separate_ids,
        )
    found.write(out)
    note(f"wrote {out}")
    print_result(found, table_format)
    leaked = found.count(*failing) if failing else None
    if leaked is not None and leaked.pairs:
        raise DataError(
            f"{leaked.queries:,} training queries leak {leaked.topics:,} test topics "
            f"({', '.join(failing)}); 'msshift leakage clean' takes them out"
        )


def _find_in_splits(data: str, table_format: str, search: dict[str, Any]) -> None:
    from msshift_bench.data import locate
    from msshift_bench.dataset_builders.audit import add_split_leakage
    from msshift_bench.output import Table
    from msshift_bench.plumbing import check_folder, progress_bars

    check_folder(locate(data))
    with progress_bars():
        manifest = add_split_leakage(data, **search)
    counted = {
        shift: facts["near_duplicates"]
        for shift, facts in manifest.shifts.items()
        if "near_duplicates" in facts
    }
    if table_format == "json":
        print_json(counted)
        return
    rows = [
        (f"{shift}-{group}", *counts.values())
        for shift, facts in counted.items()
        for group, counts in facts["test_queries"].items()
    ]
    title = "Test queries that the training queries of their experiment leak"
    header = ("experiment", *_tiers()[:-1], "any of these")
    print_tables([Table.plain(title, header, rows)], (), table_format)


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
            help=f"Take out what was found at this tier or a stricter one: {_UP_TO}",
            autocompletion=options.completing(_tiers),
        ),
    ] = "near-duplicate",
    out: Annotated[Path, typer.Option(help="The folder to write; whole, or nothing.")] = Path(
        "clean"
    ),
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

    with progress_bars():
        cleaned = clean_training(found, train, out, qrels=qrels, triples=triples, tier=tier)
    note(f"wrote {out}")
    for table in cleaned.tables():
        print_table(table)


@options.with_values
def experiment(
    collection: Annotated[
        str,
        typer.Option(
            help="The passages, and the training queries with their judgements: a folder, an id of "
            "ir_datasets, or `mini`."
        ),
    ],
    printing: options.Printing,
    system: Annotated[
        list[str] | None,
        typer.Option(help="A neural baseline; repeat it for several. Default: knrm and pacrr."),
    ] = None,
    sizes: Annotated[
        str, typer.Option(help="Sizes of training sets, in instances: a query with one passage.")
    ] = "1000,2000,4000",
    leaked: Annotated[int, typer.Option(min=2, help="How many instances leak.")] = 200,
    seeds: Annotated[str, typer.Option(help="Seeds of the trainings.")] = "1,2,3",
    recipe: Annotated[
        str, typer.Option(help="The recipe's name, or the TOML file for one system.")
    ] = "mini",
    epochs: Annotated[
        int, typer.Option(min=1, help="How often a training meets each instance.")
    ] = 1,
    test: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the test topics: queries.tsv and qrels.tsv. Without it, some of "
            "the collection's queries are the topics."
        ),
    ] = None,
    topics: Annotated[
        int, typer.Option(min=2, help="How many topics are drawn, without --test.")
    ] = 50,
    found: Annotated[
        Path | None,
        typer.Option(
            help="What `msshift leakage find` wrote for these topics and training queries. "
            "Leaking queries that are lacking are planted."
        ),
    ] = None,
    tier: Annotated[
        str, typer.Option(help="Queries leak that were found at this tier or a stricter one.")
    ] = "near-duplicate",
    depth: Annotated[
        int, typer.Option(min=1, help="How many of BM25's first passages are re-ranked.")
    ] = 100,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("leakage-experiment"),
) -> None:
    """Train models with and without leakage, and measure what that changes.

    Training sets of each size come in three kinds: without leakage; with training queries that
    leak; with the test topics themselves. The tables show effectiveness with five-fold choice of
    the size, by size, and what became of the leaked passages (Froebe et al., SPIRE 2022, Tables 3
    to 8). The folder keeps the training sets, all scores, and `result.json`. It may be killed, and
    goes on.

    Example: `msshift leakage experiment --collection mini:300 --sizes 20 --leaked 8 --seeds 1`
    """
    from msshift_bench.baselines.leakage.experiment import run_leakage_experiment
    from msshift_bench.baselines.leakage.material import Experiment
    from msshift_bench.plumbing import progress_bars, shown_log

    printing.check()
    read = [path for path in (test, found) if path is not None]
    check_outputs(printing.output, inputs=[*read, *files_of_collection(collection)])
    planned = Experiment(
        systems=system or ["knrm", "pacrr"],
        sizes=options.whole_numbers("--sizes", sizes),
        leaked=leaked,
        seeds=options.whole_numbers("--seeds", seeds),
        recipe=recipe,
        epochs=epochs,
        test=test,
        found=found,
        tier=tier,
        topics=topics,
        depth=depth,
    )
    with shown_log(), progress_bars():
        result = run_leakage_experiment(collection, planned, out)
    note(f"wrote {out}")
    printing.show(result)


def register(app: typer.Typer) -> None:
    """Add the command group to the command line."""
    group = typer.Typer(
        help="Find training queries that are the test queries, or nearly.", no_args_is_help=True
    )
    of_find = {
        "Queries": ("train", "test", "data", "train_qrels", "test_qrels", "separate_ids"),
        "Near-duplicates": ("encoder", "pooling", "threshold", "nearest"),
        "Output": ("out", "fail_on", "table_format"),
    }
    of_experiment = {
        "Topics": ("test", "topics", "found", "tier"),
        "Training": ("system", "recipe", "sizes", "leaked", "seeds", "epochs"),
        "Search": ("depth", "out"),
    }
    group.command("find", cls=in_panels(of_find))(find)
    group.command("clean")(clean)
    group.command("experiment", cls=in_panels(of_experiment))(experiment)
    app.add_typer(group, name="leakage")
