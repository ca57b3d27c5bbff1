"""Evaluating a model in memory: from an object to its result, in one call."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from msshift_bench.baselines.adapters import accepted, find_searcher, model_needs, user_code
from msshift_bench.baselines.opening import FactorySystem, ModelSystem, unused_prompts, unwrap
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.systems.plan import Plan, check_machine, make_runs, rank_in_memory
from msshift_bench.baselines.systems.searcher import Searcher
from msshift_bench.baselines.systems.system import Run, System
from msshift_bench.checked import as_json
from msshift_bench.data import Collection, Dataset, open_dataset, open_source
from msshift_bench.encoders import OF_LOADING, ModelSettings
from msshift_bench.errors import UsageError, quoted
from msshift_bench.evaluation import (
    Note,
    OpenedRun,
    OpenedRuns,
    OpenedRunSet,
    Result,
    Settings,
    SettingsSource,
    apply_checks,
    evaluate_run_sets,
    open_run_sets,
    test_set_of_shift,
)
from msshift_bench.plumbing import progress_bars, shown_log
from msshift_bench.runs import FOR_ALL, Model, RunSource
from msshift_bench.shifts import DATASET_NAME, ShiftNames, get_shift, in_order, several, shift_names


class Options(TypedDict, total=False):
    """How a model is searched, and whether that is shown.

    Beside these there are the fields of the table ``[search]`` for its kind, as for `open_model`.

    Attributes:
        depth: passages per ranking; by default 1000.
        batch_size: texts encoded together, or queries per call of ``search``; by default 64.
        device: where to move a model of sentence-transformers first, e.g. ``"cuda"``; by default,
            it stays where it is.
        candidates: of a MultiVectorEncoder: ``all``, or ``bm25:1000`` to rerank BM25's first.
        similarity: of one vector per text: ``dot`` or ``cosine``.
        query_prompt: of a model of sentence-transformers, as all that follow, and as in
            `ModelSettings`: the text before each query, or the name of a prompt of the model.
        document_prompt: the text before each passage, or the name of a prompt.
        truncate_dim: keep this number of dimensions.
        dtype: ``float32``, ``float16`` or ``bfloat16``, in a copy of the model.
        normalize: whether vectors are scaled to length 1.
        query_length: most tokens of a query.
        passage_length: most tokens of a passage.
        index: of vectors: an index of faiss; search is exact without it.
        index_parameters: what the index is set to.
        storage: of vectors: ``float16`` for half the bytes.
        progress: whether to show on stderr how far it is; by default it is shown.
    """

    depth: int
    batch_size: int
    device: str | None
    candidates: str | None
    similarity: Literal["dot", "cosine"] | None
    query_prompt: str | None
    document_prompt: str | None
    truncate_dim: int | None
    dtype: Literal["float32", "float16", "bfloat16"] | None
    normalize: bool
    query_length: int | None
    passage_length: int | None
    index: str | None
    index_parameters: str | None
    storage: Literal["float16"] | None
    progress: bool


def evaluate(
    model: object,
    shift: ShiftNames = (),
    *,
    data: Dataset | str | Path = DATASET_NAME,
    collection: Collection | str | Path | None = None,
    name: str | None = None,
    seeds: int | Sequence[int] = (),
    runs: str | Path | None = None,
    parameters: Mapping[str, object] | None = None,
    measures: SettingsSource = "RR@10",
    **options: Unpack[Options],
) -> Result:
    """Search with a model, or with one per held-out group, and evaluate its rankings.

    One model gives the same rankings to all groups, so it has a score on each group and no Rel
    Loss. A factory gives a model for every held-out group, trained without it, and so Avg In, Out
    and Rel Loss.

    Args:
        model: a model, or a factory. A model is a SentenceTransformer, SparseEncoder,
            MultiVectorEncoder or CrossEncoder (which reranks BM25's first `depth` passages); or an
            object with ``search(queries, k)``, which takes a list of texts and gives for each a
            mapping of doc_id to score, or a list of such pairs; or one with ``encode_query(texts)``
            and ``encode_document(texts)``, which give an array of shape (texts, dimensions), to be
            compared by dot product; or of another kind in `ADAPTERS`, such as a pipeline of
            PyTerrier. A factory is a function or class that takes a held-out group,
            e.g. ``"short"``, and returns a model; it gets ``seed`` and ``shift`` by name, too, if
            it takes them.
        shift: one shift or several; all of the data set, if empty.
        data: the built data set; see `open_dataset`.
        collection: the collection that the data set was built from, or what `open_collection`
            takes; not needed if the collection is generated.
        name: the system's name; by default that of the model's class or of the factory.
        seeds: for a factory that takes ``seed``: one replicate per seed. Those that `runs` holds
            already count, too.
        runs: a folder to keep run files in, as `make_runs` writes them: what is complete there
            is not made again, what was interrupted goes on. Without it, rankings are scored in
            memory, and no run file is written.
        parameters: what decides the model, as JSON values, for the sidecars; what `runs` holds of
            other parameters is refused.
        measures: names as ir_measures spells them, in a sequence or in one text; or `Settings`,
            which hold measures, policies and statistics.
        **options: how the model is searched, and ``progress=False`` to show nothing; see `Options`.

    Returns:
        The result of `evaluate_run_sets` for these rankings.

    Raises:
        UsageError: if `model` is neither a model nor a factory, gives what it must not, or a run in
            `runs` was made differently.
        UnknownNameError: for a shift, measure or option that does not exist.
        NotFoundError: if there is no such data set or collection.
        MissingExtraError: if the search needs a library that is not installed.
        DataError: if the model gives doc_ids that the collection lacks, or what is no number.
        RunError: if two models of a factory give the same rankings.

    Examples:
        >>> class FirstPassage:
        ...     def search(self, queries, k):
        ...         return [{"0": 1.0} for text in queries]
        >>> result = evaluate(FirstPassage(), "length", data="msshift", progress=False)
        >>> [row.group for row in result.figures.where(figure="score")]
        ['short', 'long', 'mean']
    """
    chosen, given_seeds, seeds = Settings.of(measures), seeds, several(seeds)
    dataset = open_dataset(data)
    source = open_source(dataset, collection)
    shifts = shift_names(shift, known=dataset.shifts) or list(dataset.manifest.shifts)
    search: dict[str, Any] = {"depth": 1000, "batch_size": 64, **options}
    shown = search.pop("progress", True)
    given = as_json(parameters or {}, "parameters")
    model = unwrap(model)
    known = find_searcher(model)
    if not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise UsageError(
            f"seeds are {given_seeds!r}; give whole numbers, 0 or more, e.g. (1, 2, 3)"
        )
    label = str(getattr(model, "__name__", type(model).__name__ if known else ""))
    name = name or (label if label.isidentifier() else "model")
    system_of = partial(_system_of, name=name, search=search, given=given)
    if known is None:
        system: System = FactorySystem(
            make=_checked_factory(model, name, seeds, shifts),
            system_of=system_of,
            label=name,
            search={k: v for k, v in search.items() if v is not None and k != "device"},
            given=given,
        )
    elif seeds:
        raise UsageError("seeds are for a factory that makes a model for each; this is a model")
    else:
        system = system_of(model, *known, keeps=True)
    place = tempfile.TemporaryDirectory(prefix="msshift-") if runs is None else nullcontext(runs)
    bars = progress_bars() if shown else nullcontext()
    log = shown_log("baselines.systems") if shown else nullcontext()
    with place as folder, bars, log:
        out = Path(folder).expanduser()
        before = {path: path.stat().st_mtime_ns for path in (out / name).rglob("*.run.gz")}
        plan = Plan(
            system=system,
            shifts=shifts,
            collection=source,
            out=out,
            data=dataset,
            seeds=sorted(set(seeds)),
            exclude=chosen.exclude,
            output_options="runs= or name=",
        )
        files = [] if runs is None else make_runs(plan)
        opened = (
            open_run_sets(out / name, dataset, shifts, chosen.run_format)
            if files
            else _open_in_memory(plan, name, dataset)
        )
        result = evaluate_run_sets(opened, settings=chosen)
        if not files:  # the facts of runs in memory are complete only now
            apply_checks("opened", opened, chosen)
        kept = [file for file in files if before.get(file) == file.stat().st_mtime_ns]
    warnings = list(_warnings(name, result, known is not None))
    if isinstance(system, ModelSystem) and system.kind in neural_systems():
        idle = ", ".join(unused_prompts(system.model))
        warnings += [f"{name}: its prompts {idle} stand before no text"] if idle else []
    if kept and not given and "weights_sha256" not in system.parameters():
        warnings.append(
            f"{name}: {len(kept)} of {len(files)} runs were in {runs} before and were not made "
            "again, and nothing tells whether this model made them: name what decides it in "
            "parameters"
        )
    return replace(result, notes=[*result.notes, *(Note(line, "doubt") for line in warnings)])


def _open_in_memory(plan: Plan, name: str, dataset: Dataset) -> OpenedRuns:
    """Open the runs of a plan, each to be ranked when it is scored; no file is written."""
    runs: dict[str, dict[Model, OpenedRun]] = {}
    for run in plan.runs():
        check_machine(run)
        place, facts = str(run.path.relative_to(plan.out)), dict(run.identity)
        source = RunSource(place, partial(rank_in_memory, run, place, facts))
        model = run.held_out or FOR_ALL, getattr(run.system, "seed", None)
        runs.setdefault(run.shift.name, {})[model] = OpenedRun(source, facts=facts)
    seeds = tuple(plan.seeds or [None]) if plan.system.per_group else ()
    run_sets = [
        OpenedRunSet(name, test_set_of_shift(shift, dataset), runs[shift.name], shift, seeds=seeds)
        for shift in map(get_shift, in_order(runs))
    ]
    return OpenedRuns(run_sets, dataset.info, dataset)


def _system_of(
    model: Any,
    kind: str,
    searcher: type[Searcher],
    *,
    name: str,
    search: Mapping[str, object],
    given: dict[str, object],
    keeps: bool = False,
) -> ModelSystem:
    """Return the system of a model, with the settings that are given.

    Raises:
        UsageError: if the model or its search does not have one of the options.
    """
    of_library = neural_systems().get(kind)
    values = {key: value for key, value in search.items() if value is not None}
    of_settings = ModelSettings.model_fields.keys() - searcher.model_fields.keys()
    of_model = {key: values.pop(key) for key in list(values) if key in of_settings}
    chosen = searcher.with_defaults(values, f"the search with {kind}")
    settings = {}
    for key in (key for key in OF_LOADING if key in of_model) if of_library else of_model:
        what = (
            "models in folders or on the Hub" if of_library else "models of sentence-transformers"
        )
        raise UsageError(f"{key} is for {what}; apply it to this model yourself")
    if of_library:
        asked = ModelSettings.of(of_model, of_library, name)
        model, settings = asked.set_up(model, copies=True), asked.parameters()
    return ModelSystem(
        kind=kind,
        model=model,
        search=chosen,
        settings=settings,
        label=name,
        origin=type(model).__name__,
        given=given,
        keeps=keeps,
    )


def _checked_factory(
    factory: object, name: str, seeds: Sequence[int], shifts: Sequence[str]
) -> Callable[[Run, int | None], object]:
    """Return a function that calls a factory with what it takes.

    Raises:
        UsageError: if it is none, cannot be called with a held-out group, or takes no seed or shift
            where it must.
    """
    if isinstance(factory, str | Path):
        raise UsageError(
            f"{str(factory)!r} is a model's name, and evaluate takes the model: load it, e.g. by "
            "SentenceTransformer; or 'msshift run' loads it"
        )
    if hasattr(factory, "state_dict"):
        raise UsageError(
            f"this {type(factory).__name__} is a model of torch, and gives texts neither vectors "
            "nor scores: save it with its tokenizer, and load that folder as a SentenceTransformer "
            "or another model that ranks"
        )
    if not callable(factory):
        raise UsageError(
            f"{quoted(factory)} is neither a model nor a factory that takes a held-out group; "
            + model_needs(factory)
        )
    try:
        signature = inspect.signature(factory)
    except ValueError as error:
        raise UsageError(
            f"{name} is a factory that does not name what it takes; give a function, e.g. "
            "lambda held_out: models[held_out]"
        ) from error
    takes = accepted(factory, seed=None, shift=None)
    if seeds and "seed" not in takes:
        raise UsageError(f"{name}{signature} takes no seed, so there are no replicates of it")
    if len(shifts) > 1 and "shift" not in takes:
        raise UsageError(
            f"{name}{signature} takes no shift, so it cannot make models for several: "
            f"{', '.join(shifts)}; evaluate one shift at a time, or let it take shift"
        )

    def named(shift: str, seed: int | None) -> dict[str, object]:
        return accepted(factory, shift=shift, **({} if seed is None else {"seed": seed}))

    try:
        signature.bind("a group", **named(shifts[0], next(iter(seeds), None)))
    except TypeError as error:
        raise UsageError(
            f"{name}{signature} cannot be called as a factory, with a held-out group"
            f"{' and a seed' if seeds else ''}: {error}. If it takes seed, give seeds; if it "
            "searches, call its first parameter queries; if it is the class of a model, give an "
            "instance"
        ) from error

    def call(run: Run, seed: int | None) -> object:
        with user_code(factory, name):
            return factory(run.held_out, **named(run.shift.name, seed))

    return call


def _warnings(name: str, result: Result, is_one: bool) -> Iterator[str]:
    """Yield what readers of the figures must know of the model."""
    if is_one:
        yield f"{name}: one model ranked for all groups: a score on each, and no Rel Loss"
    runs = (run for part in result.scores for run in part.runs.values())
    for candidates in dict.fromkeys(run.sidecar.candidates for run in runs):
        if candidates.startswith("reranks"):
            yield f"{name}: {candidates} passages, so that its recall is BM25's and cannot shift"
