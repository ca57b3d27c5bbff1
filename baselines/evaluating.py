"""Evaluating a model in memory: from a user's object to the report, in one call."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from msshift_bench.baselines.in_memory import (
    FactorySystem,
    ModelSystem,
    find_searcher,
    model_needs,
    search_by,
    unused_prompts,
    unwrap,
)
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.systems.plan import Plan, make
from msshift_bench.baselines.systems.sidecars import read_json
from msshift_bench.baselines.systems.system import Run, System
from msshift_bench.checked import as_json
from msshift_bench.data import Collection, Dataset, open_dataset, open_source
from msshift_bench.errors import UsageError
from msshift_bench.evaluation import Note, Result, Settings, SettingsSource, evaluate_run_sets
from msshift_bench.plumbing import in_line, progress_bars, shown_log
from msshift_bench.runs import sidecar_path
from msshift_bench.shifts import DATASET_NAME, ShiftNames, several, shift_names


class Options(TypedDict, total=False):
    """How a model is searched, and whether that is shown.

    Beside these there are the fields of the table ``[search]`` for its kind, as for `open_model`.

    Attributes:
        depth: passages per ranking; by default 1000.
        batch_size: texts encoded together, or queries per call of ``search``; by default 64.
        device: where to move a model of sentence-transformers first, e.g. ``"cuda"``; by default,
            it stays where it is.
        candidates: of a MultiVectorEncoder: ``all``, or ``bm25:1000`` to rerank BM25's first.
        index: of vectors: an index of faiss; search is exact without it.
        index_parameters: what the index is set to.
        storage: of vectors: ``float16`` for half the bytes.
        progress: whether to show on stderr how far it is; by default it is shown.
    """

    depth: int
    batch_size: int
    device: str | None
    candidates: str | None
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
            compared by dot product. A factory is a function or class that takes a held-out group,
            e.g. ``"short"``, and returns a model; it gets ``seed`` and ``shift`` by name, too, if
            it takes them.
        shift: one shift or several; all of the data set, if empty.
        data: the built data set; see `open_dataset`.
        collection: the collection that the data set was built from, or what `open_collection`
            takes; not needed if the collection is generated.
        name: the system's name; by default that of the model's class or of the factory.
        seeds: for a factory that takes ``seed``: one replicate per seed. Those that `runs` holds
            already count, too.
        runs: a folder to keep run files in, as `make` writes them: what is complete there
            is not made again, what was interrupted goes on. Without it, they are not kept.
        parameters: what decides the model, as JSON values, for the sidecars; what `runs` holds of
            other parameters is refused.
        measures: names as ir_measures spells them, in a sequence or in one text; or `Settings`,
            which hold measures, policies and statistics.
        **options: how the model is searched, and ``progress=False`` to show nothing; see `Options`.

    Returns:
        What `evaluate_run_sets` returns for the run files.

    Raises:
        UsageError: if `model` is neither a model nor a factory, gives what it must not, or a run in
            `runs` was made differently.
        UnknownNameError: for a shift, measure or option that does not exist.
        NotFoundError: if there is no such data set or collection.
        MissingExtraError: if the search needs a library that is not installed.
        DataError: if the model gives doc_ids that the collection lacks, or what is no number.

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
    shifts = shift_names(shift) or list(dataset.manifest.shifts)
    search: dict[str, Any] = {"depth": 1000, "batch_size": 64, **options}
    shown, device = search.pop("progress", True), search.pop("device", None)
    given = as_json(parameters or {}, "parameters")
    model = unwrap(model)
    known = find_searcher(model)
    if not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise UsageError(
            f"seeds are {given_seeds!r}; give whole numbers, 0 or more, e.g. (1, 2, 3)"
        )
    name = name or _name_of(model)
    system_of = partial(_system_of, name=name, search=search, given=given, device=device)
    system: System
    if known is not None:
        if seeds:
            raise UsageError("seeds are for a factory that makes a model for each; this is a model")
        system = system_of(model, keeps=True)
    else:
        call = _checked_factory(model, name, seeds, shifts)
        fields = {key: value for key, value in search.items() if value is not None}
        system = FactorySystem(
            make=call, system_of=system_of, label=name, search=fields, given=given
        )
    place = tempfile.TemporaryDirectory(prefix="msshift-") if runs is None else nullcontext(runs)
    with place as folder, _shown(shown):
        out = Path(folder).expanduser()
        before = {path: path.stat().st_mtime_ns for path in (out / name).rglob("*.run.gz")}
        plan = Plan(
            system=system,
            shifts=shifts,
            collection=source,
            out=out,
            data=dataset,
            seeds=seeds,
            elsewhere="runs= or name=",
        )
        files = make(plan)
        sidecars = [read_json(sidecar_path(file)) for file in files]
        _check_different(name, sidecars)
        with in_line("evaluating"):
            result = evaluate_run_sets([out / name], dataset, shifts, chosen)
        if runs is None:
            result = _without_folder(result, f"{out}/")
        doubts = list(_doubts(name, sidecars, known is not None))
        of_library = known is not None and known[0] in neural_systems()
        if of_library and (idle := unused_prompts(model)):
            doubts.append(f"{name}: its prompts {', '.join(idle)} stand before no text")
        kept = [file for file in files if before.get(file) == file.stat().st_mtime_ns]
        if kept and not given and "weights_sha256" not in system.parameters():
            doubts.append(
                f"{name}: {len(kept)} of {len(files)} runs were in {runs} before and were not made "
                "again, and nothing tells whether this model made them: name what decides it in "
                "parameters"
            )
    return replace(result, notes=[*result.notes, *(Note(line, "doubt") for line in doubts)])


def _name_of(model: object) -> str:
    name = getattr(model, "__name__", type(model).__name__ if find_searcher(model) else "")
    return name if name.isidentifier() else "model"


def _system_of(
    model: Any,
    *,
    name: str,
    search: Mapping[str, object],
    given: dict[str, object],
    device: str | None,
    keeps: bool = False,
) -> ModelSystem:
    """Return the system of a model, once it is on its device."""
    known = find_searcher(model)
    assert known is not None
    kind, searcher = known
    chosen = search_by(searcher, kind, search)
    if device is not None:
        if kind not in neural_systems():
            raise UsageError(
                "device is for models of sentence-transformers; move this model yourself"
            )
        try:
            model.to(device)
        except (AssertionError, RuntimeError) as error:
            why = str(error).partition("\n")[0]
            raise UsageError(
                f"device is {device!r}, which torch cannot use here: {why}; give another one, e.g. "
                '"cpu", or leave it out'
            ) from error
    return ModelSystem(
        kind=kind,
        model=model,
        search=chosen,
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
            f"or another model that ranks; {model_needs(factory)}"
        )
    if not callable(factory):
        raise UsageError(
            f"{factory!r} is neither a model nor a factory that takes a held-out group; "
            + model_needs(factory)
        )
    try:
        signature = inspect.signature(factory)
    except ValueError as error:
        raise UsageError(
            f"{name} is a factory that does not name what it takes; give a function, e.g. "
            "lambda held_out: models[held_out]"
        ) from error
    takes = {
        key
        for key in ("seed", "shift")
        for parameter in signature.parameters.values()
        if parameter.name == key or parameter.kind is parameter.VAR_KEYWORD
    }
    if seeds and "seed" not in takes:
        raise UsageError(f"{name}{signature} takes no seed, so there are no replicates of it")
    if len(shifts) > 1 and "shift" not in takes:
        raise UsageError(
            f"{name}{signature} takes no shift, so it cannot make models for several: "
            f"{', '.join(shifts)}; evaluate one shift at a time, or let it take shift"
        )

    def named(shift: str, seed: int | None) -> dict[str, object]:
        values: dict[str, object] = {"shift": shift} if "shift" in takes else {}
        return values if seed is None else {**values, "seed": seed}

    try:
        signature.bind("a group", **named(shifts[0], next(iter(seeds), None)))
    except TypeError as error:
        raise UsageError(
            f"{name}{signature} cannot be called as a factory, with a held-out group"
            f"{' and a seed' if seeds else ''}: {error}. If it takes seed, give seeds; if it "
            "searches, give an object with the method search(queries, k); if it is the class of a "
            "model, give an instance"
        ) from error

    def call(run: Run, seed: int | None) -> object:
        return factory(run.held_out, **named(run.shift.name, seed))

    return call


@contextmanager
def _shown(progress: bool) -> Iterator[None]:
    """Show the progress of what is done inside on stderr, if it is to be shown."""
    if progress:
        with progress_bars(), shown_log("baselines.systems"):
            yield
    else:
        yield


def _check_different(name: str, sidecars: Sequence[Mapping[str, Any]]) -> None:
    """Check that no two models of a factory gave the same run.

    Raises:
        UsageError: naming the groups that they hold out.
    """
    made: dict[str, str] = {}
    for sidecar in sidecars:
        digest, group = sidecar["run_sha256"], sidecar["held_out"]
        if group is not None and made.setdefault(digest, group) != group:
            raise UsageError(
                f"the models that {name} made for {made[digest]!r} and {group!r} rank alike, to "
                "the byte; if they are one model, evaluate that in place of the factory"
            )


def _doubts(name: str, sidecars: Sequence[Mapping[str, Any]], is_one: bool) -> Iterator[str]:
    """Yield what readers of the figures must know of the model."""
    if is_one:
        yield f"{name}: one model ranked for all groups: a score on each, and no Rel Loss"
    for candidates in dict.fromkeys(sidecar.get("candidates", "") for sidecar in sidecars):
        if candidates.startswith("reranks"):
            yield f"{name}: {candidates} passages, so that its recall is BM25's and cannot shift"


def _without_folder(result: Result, folder: str) -> Result:
    """Return a result whose run files are named without the folder that they were in."""
    scores = []
    for part in result.scores:
        runs = {}
        for model, run in part.runs.items():
            name = run.report.name.replace(folder, "")
            runs[model] = replace(run, report=replace(run.report, name=name))
        scores.append(replace(part, runs=runs))
    notes = [note._replace(text=note.text.replace(folder, "")) for note in result.notes]
    return replace(result, scores=scores, notes=notes)
