"""``msshift leakage``: find, remove and study training queries that leak a test set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.command import allow_only, refuse
from msshift_bench.cli.output import check_outputs, note
from msshift_bench.errors import DataError, UsageError
from msshift_bench.plumbing import check_folder, progress_bars
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.evaluation import Section
    from msshift_bench.stats import Figures

_TIERS = "same-text, same-normalised, same-words, near-duplicate or same-passage."


def find(
    context: typer.Context,
    *,
    train: Annotated[
        Path | None,
        typer.Option(
            help="The training queries: lines of query_id, tab, text.", rich_help_panel="Queries"
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            help="The test queries, in the same format; or lines of query_id, text and field, if a "
            "topic has several texts; or TREC topics in SGML or XML.",
            rich_help_panel="Queries",
        ),
    ] = None,
    data: Annotated[options.Data, "Queries"] = DATASET_NAME,
    encoder: Annotated[
        str,
        typer.Option(
            help="The encoder: an id of the Hugging Face Hub, a folder, or `terms` (no neural "
            "network).",
            rich_help_panel="Near-duplicates",
        ),
    ] = "terms",
    pooling: Annotated[
        str,
        typer.Option(
            help="How the encoder pools tokens: own (for a model that sentence-transformers "
            "saved), cls or mean.",
            rich_help_panel="Near-duplicates",
        ),
    ] = "own",
    encoder_set: Annotated[options.EncoderSet, "Near-duplicates"] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="The minimal cosine of near-duplicates. Default: 0.91, and 0.9 for `terms`.",
            rich_help_panel="Near-duplicates",
        ),
    ] = None,
    words: Annotated[options.Words, "Near-duplicates"] = "whitespace",
    nearest: Annotated[
        int,
        typer.Option(
            help="Maximal number of near-duplicates per text, the nearest first.",
            rich_help_panel="Near-duplicates",
        ),
    ] = 100,
    train_qrels: Annotated[
        Path | None,
        typer.Option(
            help="The training queries' qrels; the tier same-passage needs them.",
            rich_help_panel="Queries",
        ),
    ] = None,
    test_qrels: Annotated[
        Path | None, typer.Option(help="The test queries' qrels.", rich_help_panel="Queries")
    ] = None,
    separate_ids: Annotated[
        bool,
        typer.Option(
            "--separate-ids",
            help="Treat equal ids in the two files as different queries.",
            rich_help_panel="Queries",
        ),
    ] = False,
    out: Annotated[
        Path,
        typer.Option(
            help="The folder to write: candidates.parquet and found.json.", rich_help_panel="Output"
        ),
    ] = Path("found"),
    fail_on: Annotated[
        str | None,
        typer.Option(
            metavar="TIER",
            help=f"Exit with 1 if a query is found at this tier or a stricter one: {_TIERS}",
            autocompletion=options.completing("leakage:TIERS"),
            rich_help_panel="Output",
        ),
    ] = None,
    printing: options.Printing,
) -> None:
    """Find the training queries that may leak a test set, by tiers of evidence.

    The tiers are: equal texts; texts that differ only in case, punctuation, spaces and accents;
    equal words in another order; near-duplicates by the cosine of an encoder; queries with a common
    relevant passage. `docs/leakage.md` explains them.

    Without --train and --test, the command checks the splits of the built data set. It counts the
    test queries of each experiment that its training queries leak. It writes the counts into the
    data set's card and manifest, and does not change its queries.

    Example: `msshift leakage find --train train.tsv --test test.tsv`

    Example: `msshift leakage find --train train.tsv --test test.tsv --fail-on near-duplicate`

    Example: `msshift leakage find --data ./msshift`
    """
    from msshift_bench.leakage import check_found_folder, find_leakage, tiers_up_to

    with_settings = options.with_settings(encoder, encoder_set, pooling)
    search: dict[str, Any] = {"encoder": with_settings, "pooling": pooling, "threshold": threshold}
    if train is None and test is None:
        allowed = (*search, "encoder_set", "data", "format", "output", "verbose")
        allow_only(context, allowed, "the splits of a data set")
        check_outputs(printing.output, data=data)
        _find_in_splits(data, printing, search)
        return
    if train is None or test is None:
        raise UsageError("give both --train and --test, or neither to check the splits of --data")
    refuse(context, ("data",), "--train and --test")
    if (train_qrels is None) != (test_qrels is None):
        raise UsageError("the tier same-passage needs both --train-qrels and --test-qrels")
    qrels = None if train_qrels is None or test_qrels is None else (train_qrels, test_qrels)
    failing = () if fail_on is None else tiers_up_to(fail_on)
    if "same-passage" in failing and qrels is None:
        raise UsageError("--fail-on same-passage needs --train-qrels and --test-qrels")
    check_found_folder(out)
    check_outputs(printing.output, inputs=[train, test, train_qrels, test_qrels])
    with progress_bars():
        leakage = find_leakage(
            *(train, test),
            **search,
            nearest=nearest,
            qrels=qrels,
            separate_ids=separate_ids,
            words=words,
        )
    leakage.write(out)
    note(f"wrote {out}")
    printing.show(leakage.result())
    leaked = leakage.count(*failing)
    if failing and leaked.pairs:
        raise DataError(
            f"{leaked.queries:,} training queries leak {leaked.topics:,} test topics "
            f"({', '.join(failing)}); remove them with 'msshift leakage clean'"
        )


def _find_in_splits(data: str, printing: options.Printing, search: dict[str, Any]) -> None:
    """Count the test queries that a data set's training queries leak; record and print them."""
    from msshift_bench.checked import as_json
    from msshift_bench.data import find_dataset_folder, open_dataset
    from msshift_bench.dataset_builders.audit import add_split_leakage
    from msshift_bench.evaluation import Result
    from msshift_bench.stats import Figure, Figures

    check_folder(find_dataset_folder(data))
    with progress_bars():
        manifest = add_split_leakage(data, **search)
    counted = {
        shift: facts["near_duplicates"]
        for shift, facts in manifest.shifts.items()
        if "near_duplicates" in facts
    }
    rows = [
        Figure("topics", shift=shift, group=group, slice=tier, value=count)
        for shift, facts in counted.items()
        for group, counts in facts["test_queries"].items()
        for tier, count in counts.items()
    ]
    figures, about = Figures(rows), open_dataset(data).info
    facts = {"splits": counted}
    settings = as_json(search, "")
    printing.show(Result("split-leakage", figures, settings, about, (), _split_layout, facts=facts))


def _split_layout(figures: Figures) -> list[Section]:
    """Return one table with a row per experiment, and a column per tier."""
    from msshift_bench.evaluation import Section
    from msshift_bench.output import COUNT, Head, pivot

    columns = [
        Head(("any of these" if tier == "any" else tier,), {"slice": tier}, COUNT)
        for tier in figures.names("slice")
    ]
    rows = [
        Head((f"{shift}-{group}",), {"shift": shift, "group": group})
        for (shift, group), _ in figures.each("shift", "group")
    ]
    title = "Test queries that the training queries of their experiment leak"
    return [Section([pivot(figures, title, ("experiment",), rows, columns)])]


def clean(
    found: Annotated[Path, typer.Option(help="The folder that `msshift leakage find` wrote.")],
    train: Annotated[Path, typer.Option(help="The training queries that were searched.")],
    *,
    qrels: Annotated[Path | None, typer.Option(help="Also clean these training qrels.")] = None,
    triples: Annotated[
        Path | None,
        typer.Option(help="Also clean these training triples: three columns, of ids or texts."),
    ] = None,
    tier: Annotated[
        str,
        typer.Option(
            help=f"Remove queries that were found at this tier or a stricter one: {_TIERS}",
            autocompletion=options.completing("leakage:TIERS"),
        ),
    ] = "near-duplicate",
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("clean"),
    printing: options.Printing,
) -> None:
    """Write a training set without the queries that leak.

    The folder has `queries.tsv`; `qrels.tsv` and `triples.tsv`, if given; the removed queries with
    their tiers (`removed.tsv`); and `manifest.json` with every file's digest. Lines of queries that
    are not among the training queries are also removed, because they were not checked.

    Example: `msshift leakage clean --found found --train train.tsv`
    """
    from msshift_bench.leakage import clean_training

    check_outputs(printing.output, inputs=[found, train, qrels, triples])
    with progress_bars():
        cleaned = clean_training(found, train, out, qrels=qrels, triples=triples, tier=tier)
    note(f"wrote {out}")
    printing.show(cleaned)


def experiment(
    collection: Annotated[
        str,
        typer.Option(
            help="The passages, and the training queries with their judgements: a folder, an id of "
            "ir_datasets, or `mini`."
        ),
    ],
    *,
    printing: options.Printing,
    system: Annotated[
        list[str] | None,
        typer.Option(
            help="A neural baseline; repeatable. Default: knrm and pacrr.",
            rich_help_panel="Training",
        ),
    ] = None,
    sizes: Annotated[
        str,
        typer.Option(
            help="Sizes of training sets, in instances (pairs of a query and a passage).",
            rich_help_panel="Training",
        ),
    ] = "1000,2000,4000",
    leaked: Annotated[
        int, typer.Option(min=2, help="Number of leaked instances.", rich_help_panel="Training")
    ] = 200,
    seeds: Annotated[
        str, typer.Option(help="Seeds of the trainings.", rich_help_panel="Training")
    ] = "1,2,3",
    recipe: Annotated[
        str,
        typer.Option(
            help="The recipe's name, or the TOML file for one system.", rich_help_panel="Training"
        ),
    ] = "mini",
    epochs: Annotated[
        int,
        typer.Option(
            min=1, help="Number of passes over a training set.", rich_help_panel="Training"
        ),
    ] = 1,
    test: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the test topics: queries.tsv and qrels.tsv. Without it, some of "
            "the collection's queries are the topics.",
            rich_help_panel="Topics",
        ),
    ] = None,
    topics: Annotated[
        int, typer.Option(min=2, help="Number of topics without --test.", rich_help_panel="Topics")
    ] = 50,
    found: Annotated[
        Path | None,
        typer.Option(
            help="The folder that `msshift leakage find` wrote for these topics and training "
            "queries. Missing leaked queries are generated.",
            rich_help_panel="Topics",
        ),
    ] = None,
    tier: Annotated[
        str,
        typer.Option(
            help="Use leaked queries that were found at this tier or a stricter one.",
            rich_help_panel="Topics",
        ),
    ] = "near-duplicate",
    depth: Annotated[
        int,
        typer.Option(
            min=1, help="Number of BM25's first passages to rerank.", rich_help_panel="Search"
        ),
    ] = 100,
    out: Annotated[
        Path, typer.Option(help="The folder to write.", rich_help_panel="Search")
    ] = Path("leakage-experiment"),
) -> None:
    """Train models with and without leakage, and measure the effect.

    Training sets of each size are of three kinds: without leakage; with training queries that leak;
    with the test topics. The tables show effectiveness: by size, and with the size chosen by
    five-fold cross-validation. They also show ranks and scores of the leaked passages (Froebe et
    al., SPIRE 2022, Tables 3 to 8). The folder has the training sets, all scores, and
    `result.json`. The same command continues an interrupted experiment.

    Example: `msshift leakage experiment --collection mini:300 --sizes 20 --leaked 8 --seeds 1`
    """
    from msshift_bench.baselines import Experiment, run_leakage_experiment

    check_outputs(printing.output, inputs=[test, found, *options.files_of_collection(collection)])
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
    with progress_bars():
        result = run_leakage_experiment(collection, planned, out)
    note(f"wrote {out}")
    printing.show(result)
