"""The panel "Data", first part: build data sets from collections, and import published files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from msshift_bench.cli import options
from msshift_bench.cli.command import allow_only
from msshift_bench.cli.output import check_outputs, note, show, show_facts
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import check_folder, clean_up, progress_bars
from msshift_bench.shifts import DATASET_NAME, SHIFTS, SIZED, get_shift

if TYPE_CHECKING:
    from msshift_bench.data import Manifest
    from msshift_bench.dataset_builders.slices import BuiltSlice


def build(
    shifts: Annotated[
        list[str] | None,
        typer.Argument(
            help="The shifts to build. Default: topics, wh-words, length.",
            autocompletion=options.completing([*SHIFTS, *SIZED]),
        ),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            help="A folder of collection.tsv, queries.tsv and qrels.tsv, or in BEIR's layout; an "
            "ir_datasets id; `mini`, which is generated; or, with --from, the slice "
            "`msmarco-pool`. Default: from MSSHIFT_COLLECTION, else `msshift.toml`, else `mini`."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="Cut the slice from this copy of MS MARCO passage, a folder or an ir_datasets id, "
            "into a folder next to the data set.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder to write. Default: msshift, or msshift-nano with --nano.",
            rich_help_panel="Output",
        ),
    ] = None,
    qrels: options.CollectionQrels = None,
    exclude: options.Exclude = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help="Form groups by SHIFT=RULE of `msshift list`, or by `wh-words=FILE` of question "
            "words (repeatable).",
            rich_help_panel="Groups",
        ),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=FILE: build a shift from a file of labels (lines of query_id, tab, group). "
            "Repeatable.",
            rich_help_panel="Groups",
        ),
    ] = None,
    *,
    words: Annotated[options.Words, "Groups"] = "whitespace",
    encoding: Annotated[options.Encoding, "Groups"],
    topic_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of queries at which a topic stops growing. Default: 31,200, or an eighth "
            "of all queries.",
            rich_help_panel="Groups",
        ),
    ] = None,
    train_size: Annotated[
        str | None,
        typer.Option(
            help="Training queries per group, or `all`. Default: the paper's, or as the smallest "
            "group allows.",
            rich_help_panel="SampleSizes",
        ),
    ] = None,
    test_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Test queries per group, at most a quarter of the group. Default: the paper's "
            "number.",
            rich_help_panel="SampleSizes",
        ),
    ] = None,
    test_queries: Annotated[
        Path | None,
        typer.Option(
            help="Test queries of `length` and `resttest`: a file of ids, one per line.",
            rich_help_panel="SampleSizes",
        ),
    ] = None,
    test_set: Annotated[
        list[Path] | None,
        typer.Option(
            help="The test queries of `restrain-SIZE`: a folder of queries.tsv and qrels.tsv "
            "(repeatable).",
            rich_help_panel="SampleSizes",
        ),
    ] = None,
    validation_size: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Validation queries, at most a twentieth of all queries. Default: the paper's "
            "number.",
            rich_help_panel="SampleSizes",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The seed of every random choice.", rich_help_panel="SampleSizes")
    ] = 0,
    nano: Annotated[options.Nano, "SampleSizes"] = False,
    ids_only: Annotated[options.IdsOnly, "Output"] = False,
    licence: Annotated[
        str | None,
        typer.Option(
            help="The licence of your collection: an id such as `cc-by-4.0`, or its terms in one "
            "line.",
            rich_help_panel="Output",
        ),
    ] = None,
    cluster: options.Cluster,
    overwrite: Annotated[options.Overwrite, "Output"] = False,
    table_format: Annotated[options.TextOrJson, "Output"] = "text",
) -> None:
    """Build the data set: split files for every held-out group of every shift.

    In the parent folder, `datasets.load_dataset("msshift", "length-short")` loads the result. The
    same queries give the same bytes on every machine, except for topics, which depend on
    embeddings. `restrain-14k` has training sets of 14,000 queries similar and dissimilar to its
    test queries. A line of question words is a word, a tab, and wha, how or who.

    Example: `msshift build length --collection my-collection --licence cc-by-4.0`

    Example: `msshift build --groups domain=labels.tsv --collection my-collection`

    Example: `msshift build restrain-100 --test-set dl19`
    """
    from msshift_bench.data import open_collection
    from msshift_bench.dataset_builders.build import build_dataset, default_shifts
    from msshift_bench.dataset_builders.cut import SampleSizes
    from msshift_bench.dataset_builders.provenance import MS_SHIFT
    from msshift_bench.dataset_builders.slices import FACTS, SLICES

    folder = out or Path(DATASET_NAME + "-nano" * nano)
    labelled = dict(options.pairs("--groups", groups or [], "NAME=FILE, e.g. domain=labels.tsv"))
    listed = shifts or (() if labelled else default_shifts())
    builder_options = _builder_options(rule or [], listed, encoding.chosen(), topic_size, test_set)
    for name, file in labelled.items():
        builder_options.setdefault(name, {})["labels"] = file
    chosen = list(dict.fromkeys((*listed, *labelled)))
    named = options.named_collection(collection) or "mini"
    with cluster.used(), progress_bars():
        # A user's folder with a slice's name is an ordinary collection.
        is_folder = Path(named).is_dir() and not (Path(named) / FACTS).is_file()
        if source is not None or (named in SLICES and not is_folder):
            cut = _cut(named, source, folder)
            named, licence = str(cut.folder), licence or MS_SHIFT
            test_queries = test_queries or cut.tests
        manifest = build_dataset(
            open_collection(named, qrels=qrels),
            chosen,
            folder,
            options=builder_options,
            samples=SampleSizes(
                train_size=_train_size(train_size),
                test_size=test_size,
                test_queries=test_queries,
                seed=seed,
                nano=nano,
                **options.chosen({"validation_size": validation_size}),
            ),
            texts=not ids_only,
            licence=licence,
            overwrite=overwrite,
            exclude=exclude,
            words=words,
        )
    if emptied := manifest.collection.get("queries_emptied"):
        note(f"{emptied:,} queries without a relevant passage after --exclude were omitted")
    passages = manifest.collection.get("passages", {"relevant_absent": 0})
    if passages["relevant_absent"]:
        note(
            f"{passages['relevant_absent']:,} of {passages['relevant']:,} relevant passages "
            f"are not in {manifest.collection['name']}: no system can retrieve them, which lowers "
            "every figure; to use other judgements, add --qrels FILE"
        )
    show_built(manifest, table_format)
    note(f"wrote {folder} (content {manifest.content_digest[:12]})")


def _cut(name: str, source: str | None, dataset: Path) -> BuiltSlice:
    """Return a slice, cut into the folder of its name next to the data set.

    Ids of changed texts are printed.

    Raises:
        UsageError: if `source` is `None`, and the folder has no slice.
    """
    from msshift_bench.dataset_builders.slices import FACTS, cut_slice

    cut = cut_slice(name, source, dataset.parent / name)
    if cut.changed:
        note(
            f"{len(cut.changed):,} texts of {name} differ from the published texts, so figures may "
            f"differ: {', '.join(cut.changed[:5])}{', ...' * (len(cut.changed) > 5)} (all ids: "
            f"{cut.folder / FACTS})"
        )
    return cut


def show_built(manifest: Manifest, chosen: str = "text") -> None:
    """Print a manifest's shifts: rows per group and split, top terms, and detectable losses."""
    from msshift_bench.dataset_builders.describe import explain_detectable, shift_tables

    notes = explain_detectable(manifest.shifts, "detects")
    show_facts(asdict(manifest), chosen, shift_tables(manifest.shifts), notes)


def _train_size(text: str | None) -> int | Literal["all"] | None:
    if text is None or text == "all":
        return "all" if text else None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise UsageError(f"--train-size must be a number of at least 1, or all; got {text!r}")
    return int(text)


def _builder_options(
    assignments: Sequence[str],
    shifts: Sequence[str],
    encoding: Mapping[str, object],
    topic_size: int | None,
    test_sets: Sequence[Path] | None,
) -> dict[str, dict[str, object]]:
    """Return the builder options: shift -> option name -> value.

    Raises:
        UsageError: for a wrong ``--rule``, or encoder options without a shift that needs them.
    """
    rules = options.pairs("--rule", assignments, "SHIFT=RULE, e.g. wh-words=substring")
    chosen: dict[str, dict[str, object]] = {name: {"rule": rule} for name, rule in rules}
    every_shift = {**SHIFTS, **SIZED}
    building = {get_shift(name).family for name in shifts}
    embedded = [
        name for name, shift in every_shift.items() if shift.takes_encoder and name in building
    ]
    if encoding and not embedded:
        raise UsageError(
            f"the groups of {', '.join(shifts) or 'labels'} use no embeddings; remove --encoder, "
            "--pooling and --encoder-set"
        )
    for name in embedded if encoding else ():
        chosen.setdefault(name, {}).update(encoding)
    if topic_size is not None:
        chosen.setdefault("topics", {})["topic_size"] = topic_size
    if test_sets:
        chosen.setdefault("restrain", {})["test_sets"] = test_sets
    return chosen


def import_(
    context: typer.Context,
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Checkouts of the MS-Shift release of 2022, of ReSTTest's files, or of both; or a "
            "data set with ids only; or a checkout of CharacterBERT-DR."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder or the file of variants to write. Default: msshift (msshift-nano with "
            "--nano), or variants.tsv."
        ),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            help="The collection of the files, for missing texts and the training file of 2022. "
            "Default: from MSSHIFT_COLLECTION, else from `msshift.toml`."
        ),
    ] = None,
    qrels: options.CollectionQrels = None,
    shift: Annotated[options.Shifts, "Releases"] = None,
    nano: Annotated[options.Nano, "Releases"] = False,
    ids_only: Annotated[options.IdsOnly, "Releases"] = False,
    overwrite: Annotated[options.Overwrite, "Releases"] = False,
    queries: Annotated[
        str,
        typer.Option(
            help="The queries of CharacterBERT-DR: dev.small, dl2019 or dl2020.",
            rich_help_panel="Variants",
        ),
    ] = "dev.small",
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Only count errors in a checkout of the release: queries without text or in two "
            "groups, labels that break the stated rules, overlaps of test and training sets.",
            rich_help_panel="Releases",
        ),
    ] = False,
    table_format: options.TableFormat = "text",
) -> None:
    """Import published files: a release as a data set, texts for ids, or variants of queries.

    The training and test sets of a release are imported unchanged. A data set that was built with
    --ids-only gets its texts from the collection. Then it equals a build with texts, byte for byte.
    If a text differs, the command exits with 1 and changes nothing. CharacterBERT-DR has published
    variants of MS MARCO's queries: ten for each query, with typing errors.

    Example: `msshift import ms-marco-shift`

    Example: `msshift import ./msshift --collection my-collection`

    Example: `msshift import CharacterBERT-DR --out published.tsv`
    """
    from msshift_bench.data import has_manifest, open_collection
    from msshift_bench.dataset_builders.build import import_official
    from msshift_bench.dataset_builders.typos import has_variants

    always = {"sources", "table_format", "out"}
    (source, *others) = sources
    clean_up(source)  # Restores a data set that a killed process was replacing.
    if others and check:
        raise UsageError(f"--check needs one checkout, got {len(sources)}; remove the others")
    if check:
        from msshift_bench.dataset_builders.audit import audit_release

        allow_only(context, {"sources", "table_format", "check"}, "--check")
        show(audit_release(source), table_format)
    elif not others and has_variants(source):
        allow_only(context, {*always, "queries"}, "variants of queries")
        _import_variants(source, queries, out or Path("variants.tsv"), table_format)
    elif not others and has_manifest(source):
        allowed = {"sources", "table_format", "collection", "qrels"}
        allow_only(context, allowed, "a data set with ids only")
        _add_texts(source, options.Source(collection=collection, qrels=qrels), table_format)
    else:
        allowed = {*always, "collection", "qrels", "shift", "nano", "ids_only", "overwrite"}
        allow_only(context, allowed, "a release")
        folder = out or Path(DATASET_NAME + "-nano" * nano)
        check_folder(folder)
        name = options.named_collection(collection)
        if qrels and not name:
            raise UsageError("--qrels needs a collection; add --collection")
        manifest = import_official(
            sources,
            folder,
            collection=open_collection(name, qrels=qrels) if name else None,
            shifts=shift or (),
            nano=nano,
            texts=not ids_only,
            overwrite=overwrite,
        )
        if why := manifest.parameters["validation"].get("why"):
            note(f"no validation queries: {why}")
        show_built(manifest, table_format)
        note(f"wrote {folder} (content {manifest.content_digest[:12]})")


def _add_texts(folder: Path, source: options.Source, chosen: str) -> None:
    """Add the texts to a data set, unless it has texts, and print its manifest."""
    from msshift_bench.data import open_dataset
    from msshift_bench.dataset_builders.write import hydrate_dataset

    dataset = open_dataset(folder)
    path, manifest = dataset.folder, dataset.manifest
    if manifest.texts:
        note(f"{path} has its texts already; nothing was changed")
    else:
        check_folder(path)
        with progress_bars():
            manifest = hydrate_dataset(dataset, source.open(dataset))
        note(f"{path} has its texts now (content {manifest.content_digest[:12]})")
    show_facts(asdict(manifest), chosen)


def _import_variants(checkout: Path, queries: str, out: Path, chosen: str) -> None:
    from msshift_bench.data import write_variants
    from msshift_bench.dataset_builders.typos import describe_edits, import_variants

    check_outputs(out, inputs=[checkout])
    texts, variants = import_variants(checkout, queries)
    write_variants(out, variants)
    show(describe_edits(texts, variants), chosen)
    note(f"wrote {out}")
