"""``msshift topics``: check published topics in three ways."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json
from msshift_bench.errors import IntegrityError
from msshift_bench.plumbing import progress_bars
from msshift_bench.shifts import DATASET_NAME

__all__ = ["register"]

_Encoder = Annotated[
    str | None,
    typer.Option(help="The encoder's folder or Hub id. Default: where the build found it."),
]


def replay(
    published: options.BuiltFolder = DATASET_NAME,
    collection: options.Source = None,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("replayed/msshift"),
    qrels: options.CollectionQrels = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace an earlier build even if that loses shifts, triples, files that are no "
            "part of it, or the data set of another collection.",
        ),
    ] = False,
) -> None:
    """Build a data set again from its published clusters; the rows are the same on every machine.

    The command embeds nothing, so no encoder and no rounding can change a row. It exits with 1 if
    a row differs.

    Example: `msshift topics replay ./msshift`
    """
    from msshift_bench.data import open_dataset, open_source
    from msshift_bench.dataset_builders.topics import replay_topics

    dataset = open_dataset(published)
    source = open_source(dataset, collection, qrels)
    with progress_bars() as progress:
        manifest, differing = replay_topics(
            dataset, source, out, overwrite=overwrite, progress=progress
        )
    if differing:
        raise IntegrityError(
            f"{out} differs from {published} in {', '.join(differing)}; the collection's texts or "
            "qrels are not those it was built from"
        )
    print(f"{out}: the same rows as {published} (content {manifest.content_digest[:12]})")


def verify(
    published: options.BuiltFolder = DATASET_NAME,
    collection: options.Source = None,
    encoder: _Encoder = None,
    qrels: options.CollectionQrels = None,
    as_json: options.AsJson = False,
) -> None:
    """Embed the queries again and check that they fall into their published clusters.

    At least 99.99% must, and the others must lie between two centroids (margin below 0.001), as
    rounding on another processor or library explains. Otherwise the command exits with 1.

    Example: `msshift topics verify ./msshift`
    """
    from msshift_bench.data import open_dataset, open_source
    from msshift_bench.dataset_builders.topics import verify_topics

    dataset = open_dataset(published)
    source = open_source(dataset, collection, qrels)
    with progress_bars() as progress:
        verified = verify_topics(dataset, source, encoder=encoder, progress=progress)
    if as_json:
        print_json({**asdict(verified), "agreement": verified.agreement, "passed": verified.passed})
    else:
        print(f"encoder: {_same(verified.same_encoder)}; embeddings: {_same(verified.same_bytes)}")
        elsewhere = len(verified.disagreements)
        widest = f", margin up to {max(verified.disagreements.values()):.1e}" if elsewhere else ""
        print(
            f"{verified.queries - elsewhere} of {verified.queries} queries fall into their "
            f"published clusters ({verified.agreement:.4%}); {elsewhere} do not{widest}"
        )
    if not verified.passed:
        raise IntegrityError(f"the topics of {published} are not what this encoder gives")


def retrain(
    published: options.BuiltFolder = DATASET_NAME,
    collection: options.Source = None,
    encoder: _Encoder = None,
    qrels: options.CollectionQrels = None,
    as_json: options.AsJson = False,
) -> None:
    """Make the topics again from the texts, and measure how far they differ.

    If the embeddings are the same bytes, the topics must be identical; the command exits with 1 if
    they are not. If the embeddings differ, the topics may differ, too.

    Example: `msshift topics retrain ./msshift`
    """
    from msshift_bench.data import open_dataset, open_source
    from msshift_bench.dataset_builders.topics import retrain_topics

    dataset = open_dataset(published)
    source = open_source(dataset, collection, qrels)
    with progress_bars() as progress:
        retrained = retrain_topics(dataset, source, encoder=encoder, progress=progress)
    if as_json:
        print_json({**asdict(retrained), "passed": retrained.passed})
    else:
        print(
            f"encoder: {_same(retrained.same_encoder)}; embeddings: {_same(retrained.same_bytes)}"
        )
        clusters = (
            "the same" if retrained.identical else f"{retrained.regrouped:.2%} change their topic"
        )
        print(f"clusters: {clusters}")
    if not retrained.passed:
        raise IntegrityError("the same embeddings gave other clusters, which must not happen")
    if not retrained.same_bytes:
        note("other embeddings may give other clusters; 'msshift topics replay' gives the same")


def _same(same: bool) -> str:
    return "the same" if same else "other"


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    topics = typer.Typer(
        help="Check published topics: replay, verify or retrain them.", no_args_is_help=True
    )
    topics.command("replay")(replay)
    topics.command("verify")(verify)
    topics.command("retrain")(retrain)
    app.add_typer(topics, name="topics")
