"""``msshift build``: cut a collection into the benchmark's splits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import note, print_json, print_notes, print_table
from msshift_bench.cli.layout import in_panels
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import check_folder, progress_bars
from msshift_bench.shifts import DATASET_NAME, SHIFTS, SIZED, get_shift

if TYPE_CHECKING:
    from msshift_bench.dataset_builders.cut import TrainSize

__all__ = ["print_build", "register"]


def build(
    shifts: Annotated[
        list[str] | None,
        typer.Argument(
            help="The shifts to build. Default: the three of MS-Shift: topics, wh-words, length.",
            autocompletion=options.completing(lambda: [*SHIFTS, *SIZED]),
        ),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            help="What to build from: a folder with collection.tsv, queries.tsv and qrels.tsv, a "
            "folder in BEIR's layout, an ir_datasets id, or `mini`, which is generated. Default: "
            "the one that MSSHIFT_COLLECTION or `msshift.toml` names, else `mini`."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to write. Default: msshift, or msshift-nano with --nano."),
    ] = None,
    qrels: options.CollectionQrels = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help="Label a shift's queries by this rule, as SHIFT=RULE, e.g. `wh-words=substring`; "
            "`msshift list` shows the rules. Repeat it for several shifts."
        ),
    ] = None,
    encoder: options.TopicEncoder = None,
    pooling: Annotated[
        str | None,
        typer.Option(
            help="How the encoder pools tokens: cls (the first token's vector; the "
            "default), mean, or own, for a model that sentence-transformers saved."
        ),
    ] = None,
    topic_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Queries at which a topic stops growing, without those for validation. Default: "
            "31,200, or an eighth of all queries if that is less.",
        ),
    ] = None,
    train_size: Annotated[
        str | None,
        typer.Option(
            help="Training queries per group, or `all` that each group has, so that groups differ "
            "in size. Default: the paper's number, or what the smallest group has left; for "
            "`resttest` `all`."
        ),
    ] = None,
    test_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Test queries per group, at most a quarter of it. Default: the paper's number.",
        ),
    ] = None,
    test_queries: Annotated[
        Path | None,
        typer.Option(
            help="Use the queries of this file as the test queries of `length` and `resttest`, "
            "instead of a sample. It holds one id per line, or is a queries.tsv. No shift trains "
            "or validates on them."
        ),
    ] = None,
    test_set: Annotated[
        list[Path] | None,
        typer.Option(
            help="The test queries of `restrain`: a folder of queries.tsv and qrels.tsv. Repeat it "
            "for several that are one test set together."
        ),
    ] = None,
    size: Annotated[
        list[int] | None,
        typer.Option(
            help="Training queries of each set of `restrain`; repeat it for several sizes."
        ),
    ] = None,
    validation_size: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Validation queries in all, at most a twentieth of all queries. Default: the "
            "paper's number.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The seed of every random choice; another seed, other samples.")
    ] = 0,
    nano: options.Nano = False,
    ids_only: options.IdsOnly = False,
    licence: Annotated[
        str | None,
        typer.Option(
            help="The licence of your own collection: an id such as `cc-by-4.0`, or its terms in "
            "one line."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Write files with this many threads.")] = 1,
    ray: options.Ray = None,
    store: options.Store = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Build the data set: split files for every held-out group of every shift.

    In the parent of the folder, `datasets.load_dataset("msshift", "length-short")` loads the
    result. The same queries give the same bytes on every machine. The topics rest on embeddings,
    which may differ between machines: see `msshift verify --topics`.

    `restrain` takes test queries of its own, and makes training sets near them and far from them.

    Example: `msshift build length wh-words --collection my-collection --licence cc-by-4.0`

    Example: `msshift build restrain --test-set dl19 --size 100`
    """
    from dataclasses import asdict

    from msshift_bench.data import COLLECTION_VARIABLE, open_collection
    from msshift_bench.dataset_builders.build import build_dataset, default_shifts
    from msshift_bench.dataset_builders.cut import VALIDATION_SIZE
    from msshift_bench.engine import Engine, using_engine

    collection = collection or os.environ.get(COLLECTION_VARIABLE)
    out = out or Path(f"{DATASET_NAME}-nano" if nano else DATASET_NAME)
    check_folder(out)
    chosen = shifts or default_shifts()
    builder_options = _options(
        rule or [],
        chosen,
        encoding={"encoder": encoder, "pooling": pooling},
        topic_size=topic_size,
        restrain={"test_sets": test_set, "sizes": size},
    )
    with using_engine(Engine(ray, store)), progress_bars():
        manifest = build_dataset(
            open_collection(collection or "mini", qrels=qrels),
            chosen,
            out,
            options=builder_options,
            train_size=_train_size(train_size),
            test_size=test_size,
            test_queries=test_queries,
            validation_size=VALIDATION_SIZE if validation_size is None else validation_size,
            seed=seed,
            nano=nano,
            texts=not ids_only,
            licence=licence,
            overwrite=overwrite,
            workers=workers,
        )
    passages = manifest.collection.get("passages", {"relevant_absent": 0})
    if passages["relevant_absent"]:
        note(
            f"{passages['relevant_absent']:,} of {passages['relevant']:,} relevant passages "
            f"are not in {manifest.collection['name']}: no system can find them, which lowers "
            "every figure (--qrels names another file of judgements)"
        )
    if as_json:
        print_json(asdict(manifest))
    else:
        print_build(manifest.shifts)
    note(f"wrote {out} (content {manifest.content_digest[:12]})")


def print_build(shifts: Mapping[str, Any]) -> None:
    """Print a manifest's shifts: rows by group and split, top terms of topics, what tests show."""
    from msshift_bench.dataset_builders.describe import explain_detectable, show_detectable
    from msshift_bench.output import Table
    from msshift_bench.records import PLACES

    for name, facts in shifts.items():
        rows = [
            (group, *(counts[place] for place in PLACES), show_detectable(counts["test"]))
            for group, counts in facts["rows"].items()
        ]
        unbalanced = ", unbalanced" if facts["balanced"] is False else ""
        title = f"{name} (rule {facts['rule']}{unbalanced})"
        print_table(Table.plain(title, ("group", *PLACES, "detects"), rows))
        if "terms" in facts.get("found", {}):
            terms = [(group, ", ".join(words)) for group, words in facts["found"]["terms"].items()]
            print_table(Table.plain(f"{name}: top terms", ("group", "terms"), terms, names=2))
    print_notes(explain_detectable(shifts, "detects"))


def _train_size(text: str | None) -> TrainSize:
    if text is None:
        return None
    if text == "all":
        return "all"
    if not (text.isascii() and text.isdigit() and int(text)):
        raise UsageError(f"--train-size takes a number from 1 on, or all, not {text!r}")
    return int(text)


def _options(
    assignments: list[str],
    shifts: Sequence[str],
    *,
    encoding: Mapping[str, object],
    topic_size: int | None,
    restrain: Mapping[str, object],
) -> dict[str, dict[str, object]]:
    """Return each shift's builder options: shift -> name -> value."""
    options: dict[str, dict[str, object]] = {}
    for assignment in assignments:
        shift, equals, rule = assignment.partition("=")
        if not equals:
            raise UsageError(
                f"--rule takes SHIFT=RULE, e.g. wh-words=substring, not {assignment!r}"
            )
        options[shift] = {"rule": rule}
    given = {name: value for name, value in encoding.items() if value is not None}
    known = {**SHIFTS, **SIZED}
    takers = [name for name, shift in known.items() if shift.takes_encoder]
    building = {name if name in SIZED else get_shift(name).family for name in shifts}
    if given and not (takers := [name for name in takers if name in building]):
        raise UsageError(
            f"{' and '.join(f'--{name}' for name in given)} of no use: the groups of "
            f"{', '.join(shifts)} rest on no embeddings"
        )
    if given:
        for name in takers:
            options.setdefault(name, {}).update(given)
    if topic_size is not None:
        options.setdefault("topics", {})["topic_size"] = topic_size
    if resampling := {name: value for name, value in restrain.items() if value}:
        options.setdefault("restrain", {}).update(resampling)
    return options


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    panels = {
        "Groups": ("rule", "encoder", "pooling", "topic_size"),
        "Samples": (
            "train_size",
            "test_size",
            "test_queries",
            "test_set",
            "size",
            "validation_size",
            "seed",
            "nano",
        ),
        "Cluster": ("ray", "store"),
        "Output": ("out", "ids_only", "licence", "overwrite", "workers", "as_json"),
    }
    app.command("build", cls=in_panels(panels))(build)
