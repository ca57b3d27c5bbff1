"""``msshift verify``: check a built data set against its manifest, and its topics in three ways."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json
from msshift_bench.errors import IntegrityError, UnknownNameError
from msshift_bench.plumbing import progress_bars
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.data import Collection, Dataset

__all__ = ["register"]

WAYS = ("replay", "embed", "retrain")
"""The ways to check published topics."""


def verify(
    context: typer.Context,
    folder: options.BuiltFolder = DATASET_NAME,
    topics: Annotated[
        str | None,
        typer.Option(
            help="Check the published topics instead: replay builds the data set again from the "
            "published clusters, embed looks whether the queries still fall into them, retrain "
            "makes the clusters again.",
            autocompletion=options.completing(lambda: WAYS),
        ),
    ] = None,
    collection: options.Source = None,
    qrels: options.CollectionQrels = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="The encoder's folder or Hub id. Default: where the build found it."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder that replay writes.")] = Path(
        "replayed/msshift"
    ),
    as_json: options.AsJson = False,
) -> None:
    """Recompute every digest and count of a built data set and name what differs.

    The command exits with 1 if a file was changed, is missing, or does not belong.

    `--topics replay` embeds nothing: the rows are the same on every machine, or the command exits
    with 1. `--topics embed` lets at most 0.01% of the queries fall elsewhere, and those only
    between two centroids (margin below 0.001), as rounding on another processor or library
    explains. `--topics retrain` must give identical clusters if the embeddings are the same bytes;
    if they differ, the topics may differ, too.

    Example: `msshift verify ./msshift`

    Example: `msshift verify ./msshift --topics replay`
    """
    from msshift_bench.data import open_dataset, open_source

    dataset = open_dataset(folder)
    if topics is None:
        options.refuse_others(context, {"folder", "as_json"}, "a check of files")
        _verify_files(dataset, as_json)
        return
    if topics not in WAYS:
        raise UnknownNameError("check of topics", topics, WAYS)
    taken = {"folder", "topics", "collection", "qrels"}
    taken |= {"out"} if topics == "replay" else {"encoder", "as_json"}
    options.refuse_others(context, taken, f"--topics {topics}")
    source = open_source(dataset, collection, qrels)
    if topics == "replay":
        _replay(dataset, source, out)
    elif topics == "embed":
        _embed(dataset, source, encoder, as_json)
    else:
        _retrain(dataset, source, encoder, as_json)


def _verify_files(dataset: Dataset, as_json: bool) -> None:
    from msshift_bench.data import verify_dataset

    manifest, findings = verify_dataset(dataset)
    if as_json:
        print_json(
            {"content_digest": manifest.content_digest, "findings": [asdict(f) for f in findings]}
        )
    if findings:
        raise IntegrityError(f"{dataset.folder} is not what was built:", findings)
    splits = [entry for splits in manifest.configs.values() for entry in splits.values()]
    files = sum(len(entry.files) for entry in splits) + len(manifest.files)
    note(f"{dataset.folder}: {len(splits)} splits in {files} files are what was built")


def _replay(dataset: Dataset, collection: Collection, out: Path) -> None:
    from msshift_bench.dataset_builders.topics import replay_topics

    with progress_bars():
        manifest, differing = replay_topics(dataset, collection, out)
    if differing:
        raise IntegrityError(
            f"{out} differs from {dataset.folder} in {', '.join(differing)}; the collection's "
            "texts or qrels are not those it was built from"
        )
    print(f"{out}: the same rows as {dataset.folder} (content {manifest.content_digest[:12]})")


def _embed(dataset: Dataset, collection: Collection, encoder: str | None, as_json: bool) -> None:
    from msshift_bench.dataset_builders.topics import verify_topics

    with progress_bars():
        verified = verify_topics(dataset, collection, encoder=encoder)
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
        raise IntegrityError(f"the topics of {dataset.folder} are not what this encoder gives")


def _retrain(dataset: Dataset, collection: Collection, encoder: str | None, as_json: bool) -> None:
    from msshift_bench.dataset_builders.topics import retrain_topics

    with progress_bars():
        retrained = retrain_topics(dataset, collection, encoder=encoder)
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
        note("other embeddings may give other clusters; '--topics replay' gives the same")


def _same(same: bool) -> str:
    return "the same" if same else "other"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("verify")(verify)
