"""``msshift import``: bring in files of others, in the form that this package reads."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.build import print_build
from msshift_bench.cli.console import note, print_json
from msshift_bench.cli.formats import ResultFormat, print_result
from msshift_bench.cli.layout import in_panels
from msshift_bench.cli.targets import check_outputs
from msshift_bench.cli.variants import show_edits
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import check_folder, progress_bars, settle
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.data import Collection

__all__ = ["register"]


def import_(
    context: typer.Context,
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Checkouts of the MS-Shift release of 2022, of ReSTTest's files, or of both; or a "
            "data set that holds ids only; or a checkout of CharacterBERT-DR."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder to write, or the file of variants. Default: msshift, or msshift-nano "
            "with --nano; variants.tsv."
        ),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            help="The collection that the files are about: for texts that they lack, and the "
            "training file of 2022. Default: the one that MSSHIFT_COLLECTION or `msshift.toml` "
            "names."
        ),
    ] = None,
    qrels: options.CollectionQrels = None,
    shift: options.Shifts = None,
    queries: Annotated[
        str, typer.Option(help="Of CharacterBERT-DR, the queries: dev.small, dl2019 or dl2020.")
    ] = "dev.small",
    nano: options.Nano = False,
    ids_only: options.IdsOnly = False,
    overwrite: options.Overwrite = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Only count what is odd in a checkout of the release: queries without text or in "
            "two groups, labels that break the stated rules, overlaps of test and training sets.",
        ),
    ] = False,
    table_format: ResultFormat = "text",
) -> None:
    """Bring in files of others: a release as a data set, texts for ids, variants of queries.

    A release is taken as it is. A data set that was built with --ids-only gets its texts from the
    collection, in its place, and then equals a build with texts byte for byte; if a text differs,
    the command exits with 1 and changes nothing. CharacterBERT-DR holds the published variants of
    MS MARCO's queries, ten typing errors each.

    Example: `msshift import ms-marco-shift`

    Example: `msshift import ./msshift --collection my-collection`

    Example: `msshift import CharacterBERT-DR --out published.tsv`
    """
    from msshift_bench.data import holds_manifest
    from msshift_bench.dataset_builders.build import import_official
    from msshift_bench.dataset_builders.typos import holds_variants

    always = {"sources", "table_format", "out"}
    (source, *others) = sources
    settle(source)  # A killed process may have moved a data set aside.
    if others and check:
        raise UsageError("--check counts in one checkout; give it alone")
    if check:
        from msshift_bench.dataset_builders.audit import audit_release

        options.refuse_others(context, {"sources", "table_format", "check"}, "--check")
        print_result(audit_release(source), table_format)
    elif not others and holds_variants(source):
        options.refuse_others(context, {*always, "queries"}, "variants of queries")
        _import_variants(source, queries, out or Path("variants.tsv"), table_format)
    elif not others and holds_manifest(source):
        taken = {"sources", "table_format", "collection", "qrels"}
        options.refuse_others(context, taken, "a data set that is to get its texts")
        _add_texts(source, collection, qrels, table_format)
    else:
        taken = {*always, "collection", "qrels", "shift", "nano", "ids_only", "overwrite"}
        options.refuse_others(context, taken, "a release")
        folder = out or Path(f"{DATASET_NAME}-nano" if nano else DATASET_NAME)
        check_folder(folder)
        manifest = import_official(
            sources,
            folder,
            collection=_collection(collection, qrels),
            shifts=shift or (),
            nano=nano,
            texts=not ids_only,
            overwrite=overwrite,
        )
        if why := manifest.parameters["validation"].get("why"):
            note(f"no validation queries: {why}")
        if table_format == "json":
            print_json(asdict(manifest))
        else:
            print_build(manifest.shifts)
        note(f"wrote {folder} (content {manifest.content_digest[:12]})")


def _collection(name: str | None, qrels: str | None) -> Collection | None:
    from msshift_bench.data import COLLECTION_VARIABLE, open_collection

    name = name or os.environ.get(COLLECTION_VARIABLE)
    if qrels and not name:
        raise UsageError("--qrels is a file of a collection; name that, too: --collection")
    return open_collection(name, qrels=qrels) if name else None


def _add_texts(folder: Path, collection: str | None, qrels: str | None, table_format: str) -> None:
    from msshift_bench.data import open_dataset, open_source
    from msshift_bench.dataset_builders.write import hydrate_dataset

    dataset = open_dataset(folder)
    path, manifest = dataset.folder, dataset.manifest
    if manifest.texts:
        note(f"{path} holds its texts already; nothing was changed")
    else:
        check_folder(path)
        with progress_bars():
            source = open_source(dataset, collection, qrels)
            manifest = hydrate_dataset(dataset, source)
        note(f"{path} holds its texts (content {manifest.content_digest[:12]})")
    if table_format == "json":
        print_json(asdict(manifest))


def _import_variants(checkout: Path, queries: str, out: Path, table_format: str) -> None:
    from msshift_bench.data import write_variants
    from msshift_bench.dataset_builders.typos import import_variants

    check_outputs(out, inputs=[checkout])
    texts, variants = import_variants(checkout, queries)
    write_variants(out, variants)
    show_edits(texts, variants, as_json=table_format == "json")
    note(f"wrote {out}")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {
        "Releases": ("shift", "nano", "ids_only", "overwrite", "check"),
        "Variants": ("queries",),
    }
    app.command("import", cls=in_panels(panels))(import_)
