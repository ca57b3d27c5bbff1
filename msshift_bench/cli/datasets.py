"""The panel "Data", second part: verify, extend, export, install and push built data sets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.command import allow_only
from msshift_bench.cli.output import check_outputs, note, print_json, show, show_facts
from msshift_bench.errors import IntegrityError, MissingError, UsageError, check_name
from msshift_bench.plumbing import check_folder, progress_bars
from msshift_bench.shifts import DATASET_NAME, TEST_ONLY, TRIPLES, get_test_only_shift, has_triples

if TYPE_CHECKING:
    from msshift_bench.data import Dataset

_CHECKS = ("replay", "embed", "retrain")
"""Checks of the published topics."""


def verify(
    context: typer.Context,
    folder: options.BuiltFolder = DATASET_NAME,
    topics: Annotated[
        str | None,
        typer.Option(
            help="Check the published topics instead. replay: build the data set again from the "
            "published clusters. embed: check that the queries are still in these clusters. "
            "retrain: compute the clusters again.",
            autocompletion=options.completing(_CHECKS),
        ),
    ] = None,
    *,
    source: options.Source,
    encoder: Annotated[
        str | None,
        typer.Option(help="The encoder's folder or Hub id. Default: the encoder of the build."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder that replay writes.")] = Path(
        "replayed/msshift"
    ),
    table_format: options.TextOrJson = "text",
) -> None:
    """Compute every digest and count of a built data set again, and print the differences.

    The exit code is 1 if a file has changed, is missing, or is not part of the data set.

    `--topics replay` computes no embeddings: the rows are equal on every machine, or the exit code
    is 1. `--topics embed` accepts another cluster for at most 0.01% of the queries, and only with a
    margin below 0.001 between two centroids. Rounding on other processors or libraries explains
    such differences. `--topics retrain` requires identical clusters if the embeddings are equal
    byte for byte; with other embeddings, the topics may differ.

    Example: `msshift verify ./msshift`

    Example: `msshift verify ./msshift --topics replay`
    """
    from msshift_bench.data import open_dataset

    dataset = open_dataset(folder, installed=False)
    info = dataset.info
    shifts = ", ".join(dataset.manifest.shifts)
    note(f"checking {dataset.folder.absolute()}: {shifts} of {info.collection}, {info.edition}")
    if topics is None:
        allow_only(context, {"folder", "table_format"}, "a check of files")
        _verify_files(dataset, table_format)
        return
    from msshift_bench.dataset_builders.topics import replay_topics, retrain_topics, verify_topics

    check_name("check of topics", topics, _CHECKS)
    allowed = {"folder", "topics", "collection", "qrels"}
    allowed |= {"out"} if topics == "replay" else {"encoder", "table_format"}
    allow_only(context, allowed, f"--topics {topics}")
    collection = source.open(dataset)
    if topics == "replay":
        with progress_bars():
            manifest, differing = replay_topics(dataset, collection, out)
        if differing:
            raise IntegrityError(
                f"{out} differs from {dataset.folder} in {', '.join(differing)}; use the "
                "collection with the texts and qrels of the build"
            )
        print(f"{out}: the same rows as {dataset.folder} (content {manifest.content_digest[:12]})")
        return
    check = verify_topics if topics == "embed" else retrain_topics
    with progress_bars():
        checked = check(dataset, collection, encoder=encoder)
    if table_format == "json":
        print_json(checked.facts)
    else:
        print("\n".join(checked.notes))
    if not checked.facts["passed"]:
        raise IntegrityError(
            f"the topics of {dataset.folder} differ from the topics of this encoder; use the "
            "collection and the encoder of the build"
            if topics == "embed"
            else "equal embeddings gave other clusters, which must not happen; please report it"
        )
    if topics == "retrain" and not checked.facts["same_bytes"]:
        note("other embeddings may give other clusters; '--topics replay' needs no embeddings")


def _verify_files(dataset: Dataset, chosen: str) -> None:
    from msshift_bench.data import verify_dataset

    manifest, findings = verify_dataset(dataset)
    facts = {"content_digest": manifest.content_digest, "findings": list(map(asdict, findings))}
    show_facts(facts, chosen)
    if findings:
        raise IntegrityError(f"{dataset.folder} differs from its manifest:", findings)
    splits = [entry for splits in manifest.configs.values() for entry in splits.values()]
    files = sum(len(entry.files) for entry in splits) + len(manifest.files)
    note(f"{dataset.folder}: {len(splits)} splits in {files} files are unchanged")


def triples(
    folder: options.BuiltFolder = DATASET_NAME,
    *,
    source: options.Source,
    shift: options.Shifts = None,
    negatives: Annotated[int, typer.Option(min=1, help="Negatives per training query.")] = 100,
    depth: Annotated[
        int, typer.Option(min=1, help="Draw negatives from the first N passages of BM25.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="The seed of the random choice.")] = 0,
    every_pair: Annotated[
        bool,
        typer.Option(
            "--every-pair",
            help="Write a triple for every relevant passage of a query, and reuse its negatives if "
            "there are too few. Default: omit relevant passages without a negative.",
        ),
    ] = False,
    cluster: options.Cluster,
    table_format: options.TextOrJson = "text",
) -> None:
    """Add training triples to a data set: a config `<config>-triples` per held-out group.

    The negatives of a training query are passages that BM25 ranks high and that are not judged
    relevant. The same command continues interrupted work.

    Example: `msshift triples ./msshift --collection my-collection`
    """
    from msshift_bench.data import open_dataset
    from msshift_bench.dataset_builders.triples import add_triples
    from msshift_bench.output import Table

    dataset = open_dataset(folder)
    collection = source.open(dataset)
    check_folder(dataset.folder)
    with cluster.used(), progress_bars():
        manifest = add_triples(
            dataset,
            collection,
            shifts=shift or (),
            count=negatives,
            depth=depth,
            seed=seed,
            every_pair=every_pair,
        )
    entries = {c: splits["train"] for c, splits in manifest.configs.items() if has_triples(c)}
    facts = {config: asdict(entry) for config, entry in entries.items()}
    table = Table.plain(
        "Training triples",
        ("config", "triples", "files", "digest"),
        [(c, entry.rows, len(entry.files), entry.digest[:12]) for c, entry in entries.items()],
    )
    show_facts(facts, table_format, [table])
    for shift_facts in manifest.shifts.values():
        for config, pairs in shift_facts.get("triples", {}).get("pairs", {}).items():
            if pairs["left_out"]:
                note(
                    f"{config}{TRIPLES} omits {pairs['left_out']:,} of {pairs['all']:,} pairs of a "
                    "query and a relevant passage, because a query has more relevant passages than "
                    "negatives; to keep all, add --every-pair"
                )
    note(f"wrote {dataset.folder}")


def export(
    config: Annotated[str, typer.Argument(help="The config, e.g. `length-short-triples`.")],
    out: Annotated[
        Path, typer.Argument(help="The file to write; compressed if its name ends in .gz.")
    ],
    data: options.Data = DATASET_NAME,
    text: Annotated[
        bool, typer.Option("--text", help="Write texts from the collection instead of ids.")
    ] = False,
    collection: options.SourceName = None,
) -> None:
    """Write triples as TSV with the columns query, relevant passage and negative.

    Without --text, the file has ids, like MS MARCO's `qidpidtriples`. With --text, it has texts,
    like `triples.train.small`.

    Example: `msshift export length-short-triples triples.tsv.gz`
    """
    from msshift_bench.data import export_triples, find_source, open_collection, open_dataset

    if collection is not None and not text:
        raise UsageError("--collection is only for texts; add --text, or remove --collection")
    dataset = open_dataset(data)
    source = find_source(dataset, collection) if text else None
    files = options.files_of_collection(source) if source else []
    check_outputs(out, inputs=[dataset.folder, *files])
    with progress_bars():
        count = export_triples(
            dataset, config, out, texts=open_collection(source) if source else None
        )
    note(f"wrote {out}: {count} triples")


def variants(
    name: Annotated[
        str,
        typer.Argument(
            help=f"How queries are changed: {', '.join(TEST_ONLY)}.",
            autocompletion=options.completing(TEST_ONLY),
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(help="The file to write: query_id, text, method.", rich_help_panel="Output"),
    ] = Path("variants.tsv"),
    *,
    where: options.Questions,
    queries: Annotated[
        Path | None,
        typer.Option(
            help="The original queries: a file of query_id, tab, text. Default: the test queries "
            "of the data set."
        ),
    ] = None,
    copies: Annotated[int, typer.Option(min=1, help="Variants of each query.")] = 1,
    seed: Annotated[int, typer.Option(help="The seed of the random choice.")] = 0,
    table_format: Annotated[options.TextOrJson, "Output"] = "text",
) -> None:
    """Make variants of test queries, e.g. with one typing error each.

    The same queries, seed and copies give the same file on every machine. `msshift import` imports
    published variants.

    Example: `msshift variants typos --shift length --out typos.tsv`
    """
    from msshift_bench.data import write_variants
    from msshift_bench.dataset_builders.typos import describe_edits, make_variants

    get_test_only_shift(name)
    check_outputs(out, data=None if queries is not None else where.data, inputs=[queries])
    texts = _texts(where, queries)
    made = make_variants(name, texts.items(), copies=copies, seed=seed)
    write_variants(out, made)
    show(describe_edits(texts, made), table_format)
    note(f"wrote {out}")


def _texts(where: options.Questions, queries: Path | None) -> dict[str, str]:
    """Return the queries of a file, or the test queries of a data set: query_id -> text.

    Raises:
        UsageError: if the data set has ids only, or a file and shifts are given.
    """
    from msshift_bench.data import open_dataset, read_queries

    if queries is not None:
        if where.shift:
            raise UsageError("--shift cannot be used with --queries; remove one of them")
        return dict(read_queries(queries))
    dataset = open_dataset(where.data)
    if not dataset.manifest.texts:
        raise UsageError(
            f"{dataset.folder} has ids only; add the texts with 'msshift import', or give the "
            "queries (--queries)"
        )
    test_sets = [
        dataset.test_sets(name).values() for name in (where.shift or list(dataset.manifest.shifts))
    ]
    return {row.query_id: row.text for groups in test_sets for rows in groups for row in rows}


def install(
    source: Annotated[
        str,
        typer.Argument(
            help="A built data set, or ORG/NAME on the Hub. Default: from MSSHIFT_HOME, else from "
            "`msshift.toml`, else ./msshift.",
            show_default=False,
        ),
    ] = DATASET_NAME,
    revision: Annotated[
        str | None,
        typer.Option(help="A data version, branch or commit on the Hub. Default: the newest."),
    ] = None,
    triples: Annotated[
        bool, typer.Option("--triples", help="Also prepare the configs of training triples.")
    ] = False,
    table_format: options.TextOrJson = "text",
) -> None:
    """Install a data set, so that its name loads it from any folder, without a network.

    The command verifies the data set and copies it into the user's cache. It also prepares the data
    set in the cache of the `datasets` library, where it replaces any other build.

    Example: `msshift install ./msshift`
    """
    from msshift_bench.data import install_dataset

    with progress_bars():
        installed = install_dataset(source, revision=revision, triples=triples)
    folders = {"folder": str(installed.folder), "cache": str(installed.cache)}
    show_facts({**asdict(installed), **folders}, table_format)
    what = "already installed" if installed.unchanged else "installed"
    note(
        f"{what}: version {installed.data_version} (content {installed.content_digest[:12]}) "
        f"in {installed.folder}\n"
        f'datasets.load_dataset("{DATASET_NAME}", "{installed.configs[0]}") now works in any '
        f"folder without a folder {DATASET_NAME}; {len(installed.configs)} configs are in "
        f"{installed.cache}"
    )


def push(
    repo: Annotated[str, typer.Option(help="The data set repository, ORG/NAME.")],
    folder: options.BuiltFolder = DATASET_NAME,
    private: Annotated[
        bool,
        typer.Option("--private", help="Create the repository as private; stop if it is public."),
    ] = False,
    move_tag: Annotated[
        bool,
        typer.Option(
            "--move-tag", help="Move the data version's tag to this build if another build has it."
        ),
    ] = False,
    table_format: options.TextOrJson = "text",
) -> None:
    """Upload a built data set to the Hugging Face Hub: one commit, tagged with the data version.

    The command deletes files of the repository that are not part of the build. Pushing the same
    build twice changes nothing. It uses the token of `hf auth login`, or HF_TOKEN.

    Example: `msshift push ./msshift --repo my-org/msshift`
    """
    from msshift_bench.data import push_dataset

    pushed = push_dataset(folder, repo, private=private, move_tag=move_tag)
    show_facts(asdict(pushed), table_format)
    what = f"pushed {len(pushed.files)} files to {repo}"
    if pushed.unchanged:
        what = f"{repo} has this build already"
    note(f"{what} (commit {pushed.commit[:12]}, tag {pushed.tag}): {pushed.url}")


def irds(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="A command of ir_datasets and its arguments: `export`, `lookup`, `list`, "
            "`doc_fifos` or `generate_metadata`.",
        ),
    ] = None,
    data: options.Data = DATASET_NAME,
    collection: Annotated[
        str | None,
        typer.Option(
            help="The collection of the passages: a folder, an ir_datasets id or `mini`. Default: "
            "from MSSHIFT_COLLECTION, else from `msshift.toml`."
        ),
    ] = None,
) -> None:
    """Run an ir_datasets command, with the data set registered as msshift/SHIFT/GROUP/SPLIT.

    Give the options of `msshift irds` first; ir_datasets parses all arguments from COMMAND on.

    Example: `msshift irds export msshift/length/short/test queries`
    """
    from msshift_bench.data import IR_DATASETS_FAILURES, reason_of
    from msshift_bench.irds import register

    register(data, collection)
    import ir_datasets

    try:
        ir_datasets.main(arguments or [])
    except KeyError as error:
        # Some ir_datasets commands print this; others raise the registry's error.
        if error.args[0] not in (arguments or []):
            raise
        note(f"Dataset {error.args[0]} not found.")
        raise typer.Exit(1) from None
    except BrokenPipeError:
        raise
    except IR_DATASETS_FAILURES as error:
        # An OSError already has the path that could not be written.
        reason = reason_of(error) if isinstance(error, RuntimeError) else str(error)
        raise MissingError(f"ir_datasets could not get a file: {reason}") from None
