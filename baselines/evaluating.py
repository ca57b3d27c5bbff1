"""`evaluate`: search with a model in memory and score its rankings, in one call."""

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
from msshift_bench.shifts import DATASET_NAME, ShiftNames, as_list, get_shift, in_order, shift_names


class Options(TypedDict, total=False):
    """Options of `evaluate`: how to search with the model, and whether to show progress.

    Only models of sentence-transformers take `device`, `query_prompt`, `document_prompt`,
    `truncate_dim`, `dtype`, `normalize`, `query_length` and `passage_length`; `ModelSettings`
    describes them. Further options are the fields of the table ``[search]`` for the model's kind.
    An option that is `None` has its default.

    Attributes:
        depth: passages per ranking, at least 1; by default 1000.
        batch_size: texts encoded together, or queries per call of ``search``; by default 64.
        device: the device to move the model to, e.g. ``"cuda"``; by default the model is not moved.
        candidates: for a MultiVectorEncoder: ``all``, or ``bm25:1000`` to rerank BM25's first 1000.
        similarity: for models with one vector per text: ``dot`` or ``cosine``.
        query_prompt: the text before each query, or the name of a prompt of the model.
        document_prompt: the text before each passage, or the name of a prompt of the model.
        truncate_dim: the number of dimensions to keep.
        dtype: ``float32``, ``float16`` or ``bfloat16`` for the weights of a copy of the model.
        normalize: whether vectors are scaled to length 1.
        query_length: most tokens of a query.
        passage_length: most tokens of a passage.
        index: for models with one vector per text: an index of faiss; without it search is exact.
        index_parameters: the parameters of the faiss index.
        storage: for models with one vector per text: ``float16`` halves the bytes on disk.
        progress: whether to show progress on stderr; by default `True`.
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
    """Search with a model, or with one model per held-out group, and return the scores.

    A single model has a score on each group, but no Rel Loss. A factory makes a model for each
    held-out group, trained without this group; the result has Avg In, Out and Rel Loss.

    Args:
        model: a model or a factory. A model is one of these:

            - a SentenceTransformer, SparseEncoder, MultiVectorEncoder or CrossEncoder; a
              CrossEncoder reranks BM25's first `depth` passages;
            - an object with ``search(queries, k)``. It takes a list of texts and returns a ranking
              for each: a mapping of doc_id to score, or a list of pairs of both;
            - an object with ``encode_query(texts)`` and ``encode_document(texts)``. Both return an
              array of shape (texts, dimensions); vectors are compared by dot product;
            - an object of another kind in `ADAPTERS`, such as a pipeline of PyTerrier.

            A factory is a function or class that takes a held-out group, e.g. ``"short"``, and
            returns a model. It also gets ``seed`` and ``shift`` by name if it accepts them; for
            several shifts it must accept ``shift``.
        shift: one shift or several; if empty, all shifts of the data set.
        data: the built data set; see `open_dataset`.
        collection: the collection that the data set was built from, or an argument of
            `open_collection`; not needed if the collection is generated.
        name: the system's name; by default the name of the model's class or of the factory, for a
            lambda ``model``.
        seeds: for a factory that accepts ``seed``: makes one replicate per seed, 0 or more.
            Replicates in `runs` with other seeds are included in the result.
        runs: a folder for run files, as `make_runs` writes them. Complete runs in it are not made
            again, and interrupted runs continue. Without it, rankings are scored in memory, and no
            run file is written.
        parameters: the parameters that determine the model, as JSON values; sidecars record them.
            A run in `runs` with other parameters is an error.
        measures: names of measures, spelled as in ir_measures, in a sequence or in one text; or
            `Settings`, which contain measures, policies and statistics.
        **options: how to search with the model, and ``progress=False`` to hide progress; see
            `Options`.

    Returns:
        The result of `evaluate_run_sets` for these rankings, with warnings about the model in its
        notes.

    Raises:
        UsageError: if `model` is neither a model nor a factory, raises an exception, or returns
            wrong types or shapes. Also if an argument does not apply to it, the collection is not
            the data set's, or a run in `runs` was made differently.
        UnknownNameError: if a shift, measure or option does not exist.
        NotFoundError: if the data set or the collection does not exist.
        MissingExtraError: if the search needs a library that is not installed.
        DataError: if the model returns a doc_id twice or one that is not in the collection, a score
            that is not finite, or only empty rankings.
        RunError: if two models of a factory return the same rankings.

    Examples:
        >>> class FirstPassage:
        ...     def search(self, queries, k):
        ...         return [{"0": 1.0} for text in queries]
        >>> result = evaluate(FirstPassage(), "length", data="msshift", progress=False)
        >>> [row.group for row in result.figures.where(figure="score")]
        ['short', 'long', 'mean']
    """
    chosen, given_seeds, seeds = Settings.of(measures), seeds, as_list(seeds)
    dataset = open_dataset(data)
    source = open_source(dataset, collection)
    shifts = shift_names(shift, known=dataset.shifts) or list(dataset.manifest.shifts)
    search: dict[str, Any] = {"depth": 1000, "batch_size": 64, **options}
    shown = search.pop("progress", True)
    given = as_json(parameters or {}, "parameters")
    model = unwrap(model)
    known = find_searcher(model)
    if not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise UsageError(f"seeds must be integers, 0 or more, e.g. (1, 2, 3), got {given_seeds!r}")
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
        raise UsageError(
            "seeds need a factory, which makes a model for each seed, got a model; give a factory, "
            "or remove seeds"
        )
    else:
        system = system_of(model, *known, keeps=True)
    root = tempfile.TemporaryDirectory(prefix="msshift-") if runs is None else nullcontext(runs)
    bars = progress_bars() if shown else nullcontext()
    log = shown_log("baselines.systems") if shown else nullcontext()
    with root as folder, bars, log:
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
        unused = ", ".join(unused_prompts(system.model))
        warnings += (
            [
                f"{name}: its prompts {unused} are not used; choose one with query_prompt= or "
                "document_prompt="
            ]
            if unused
            else []
        )
    if kept and not given and "weights_sha256" not in system.parameters():
        warnings.append(
            f"{name}: {len(kept)} of {len(files)} runs already were in {runs} and were not made "
            "again, but this model may not have made them; name the values that determine the "
            "model in parameters="
        )
    return replace(result, notes=[*result.notes, *(Note(line, "doubt") for line in warnings)])


def _open_in_memory(plan: Plan, name: str, dataset: Dataset) -> OpenedRuns:
    """Return the runs of a plan; each is ranked when it is scored; no run file is written."""
    runs: dict[str, dict[Model, OpenedRun]] = {}
    for run in plan.runs():
        check_machine(run)
        path, facts = str(run.path.relative_to(plan.out)), dict(run.identity)
        source = RunSource(path, partial(rank_in_memory, run, path, facts))
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
    """Return the system of a model in memory, with the options of `evaluate` in `search` applied.

    Raises:
        UsageError: if an option does not apply to the model or its searcher.
    """
    system = neural_systems().get(kind)
    values = {key: value for key, value in search.items() if value is not None}
    setting_names = ModelSettings.model_fields.keys() - searcher.model_fields.keys()
    model_options = {key: values.pop(key) for key in list(values) if key in setting_names}
    chosen = searcher.with_defaults(values, f"the search with {kind}")
    settings = {}
    for key in (key for key in OF_LOADING if key in model_options) if system else model_options:
        models = "models in folders or on the Hub" if system else "models of sentence-transformers"
        raise UsageError(f"{key} is an option for {models} only; apply it to this model yourself")
    if system:
        requested = ModelSettings.of(model_options, system, name)
        model, settings = requested.set_up(model, copies=True), requested.parameters()
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
    """Return a function that calls `factory` with only the arguments that it accepts.

    It takes a run, and a seed or `None`.

    Raises:
        UsageError: if `factory` is no factory or cannot be called with a held-out group. Also if it
            accepts no ``seed`` and there are seeds, or no ``shift`` and there are several shifts.
    """
    if isinstance(factory, str | Path):
        raise UsageError(
            f"model must be an object, got the name {str(factory)!r}: load the model, e.g. with "
            "SentenceTransformer, or use 'msshift run', which takes names"
        )
    if hasattr(factory, "state_dict"):
        raise UsageError(
            f"this {type(factory).__name__} is a torch module that takes no texts. Save it with "
            "its tokenizer, and load the folder as a SentenceTransformer or another model that "
            "ranks"
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
            f"the parameters of the factory {name} cannot be read; give a function, e.g. "
            "lambda held_out: models[held_out]"
        ) from error
    accepts = accepted(factory, seed=None, shift=None)
    if seeds and "seed" not in accepts:
        raise UsageError(
            f"{name}{signature} has no parameter seed, so it has no replicates; add it, or remove "
            "seeds"
        )
    if len(shifts) > 1 and "shift" not in accepts:
        raise UsageError(
            f"{name}{signature} has no parameter shift, so it cannot make models for several "
            f"shifts: {', '.join(shifts)}; evaluate one shift at a time, or add the parameter"
        )

    def keywords(shift: str, seed: int | None) -> dict[str, object]:
        return accepted(factory, shift=shift, **({} if seed is None else {"seed": seed}))

    try:
        signature.bind("a group", **keywords(shifts[0], next(iter(seeds), None)))
    except TypeError as error:
        raise UsageError(
            f"{name}{signature} cannot be called as a factory with a held-out group"
            f"{' and a seed' if seeds else ''}: {error}. If it has a parameter seed, give seeds; "
            "if it searches, name its first parameter queries; if it is a model's class, give an "
            "instance"
        ) from error

    def call(run: Run, seed: int | None) -> object:
        with user_code(factory, name):
            return factory(run.held_out, **keywords(run.shift.name, seed))

    return call


def _warnings(name: str, result: Result, is_one: bool) -> Iterator[str]:
    """Yield a warning for one model for all groups, and one if BM25's passages are reranked."""
    if is_one:
        yield f"{name}: one model for all groups; it has a score on each group, but no Rel Loss"
    runs = (run for part in result.scores for run in part.runs.values())
    for candidates in dict.fromkeys(run.sidecar.candidates for run in runs):
        if candidates.startswith("reranks"):
            yield f"{name}: {candidates} passages, so its recall is BM25's and cannot shift"
