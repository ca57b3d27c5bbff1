"""`Plan`: the run files that a system is to make; and `make_runs`, which makes them.

All runs are checked before the first run is made: trained, encoded, ranked and written. Complete
runs are skipped.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from msshift_bench.baselines.systems.searcher import checked_rankings
from msshift_bench.baselines.systems.shift_data import NOTHING, ShiftData
from msshift_bench.baselines.systems.system import MODEL, Run, System, no_rows
from msshift_bench.checked import as_json
from msshift_bench.data import (
    Collection,
    ContentDigest,
    Dataset,
    TestSet,
    has_manifest,
    open_collection,
    open_dataset,
    read_extra_tests,
    sha256_of,
)
from msshift_bench.engine import Engine, engine_in_use, using_engine
from msshift_bench.errors import DataError, UsageError, first_few
from msshift_bench.evaluation import count_trained
from msshift_bench.exclusions import Exclusions, ExclusionsSource
from msshift_bench.libraries import torch
from msshift_bench.plumbing import (
    duration,
    lock_unfinished,
    progress_line,
    replace_folder,
    with_checksum,
    write_json,
)
from msshift_bench.records import Row
from msshift_bench.runs import (
    Listing,
    OpenedParts,
    RankedRun,
    check_layout,
    extra_runs_path,
    run_path,
    write_run,
)
from msshift_bench.shifts import (
    DATASET_NAME,
    Shift,
    ShiftNames,
    as_list,
    can_name_runs,
    get_shift,
    shift_names,
)

_logger = logging.getLogger(__name__)

_WORK = ".work"
"""The folder of unfinished work, with folders ``<system>/<shift>/<held-out>``."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The run files that a system is to make for shifts.

    A system with a model per held-out group makes a run file for each group, other systems one per
    shift. Each run ranks passages for the test queries of all groups of the shift.

    Attributes:
        system: the system; see `open_system`.
        shifts: the shifts, e.g. ``["length", "wh-words"]``; if empty, all shifts of the data set.
        collection: the collection that the data set was built from, or an argument of
            `open_collection`.
        out: the folder of run sets; the runs are written to ``<out>/<name>/<shift>/``.
        data: the built data set; see `open_dataset`.
        held_out: the held-out groups to make runs for; if empty, all groups. ``nothing`` trains one
            model with all groups, on as many queries as the smallest experiment, under the name
            ``<name>-all``.
        seeds: the seeds of replicates, each with its own folder; without seeds there is one model
            per group. For models in folders with seeds: if empty, all seeds.
        name: the name of the runs' folder and the first part of the run tag; by default the
            system's name. Give two recipes of one system different names.
        keep_model: whether to keep each trained model, as a folder of sentence-transformers next to
            its run: ``short.model`` next to ``short.run.gz``.
        gpus: GPUs for the training of one model. Above 1, torchrun's launcher starts a process for
            each, or a CPU process if torch finds no GPU. In a script, call `make_runs` under
            ``if __name__ == "__main__"``.
        extra_test: name -> an extra test set, for which each model searches, too: a folder with
            ``queries.tsv`` and ``qrels.tsv``, or a file of variants of the shifts' test queries. A
            folder or an ir_datasets id with passages is searched instead of the collection, and
            `exclude` does not apply to it. Runs are written to ``<out>/<name>/extra/<test set>``.
            For a complete run, only the missing runs of extra test sets are made, if its model was
            kept or the system is not trained. See `read_extra_tests`.
        exclude: passages that are never ranked for a query and never its negatives: ``own-id`` for
            the passage with the query's id, or a file of lines ``query_id doc_id``. By default the
            passages that the data set was built without.
        output_options: the options that change where runs are written, for messages.

    Raises:
        NotFoundError: if models in folders need seeds, and no folder has one.

    Examples:
        >>> plan = Plan(system=open_system("bm25"), collection="mini:300", out="runs")
        >>> [run.state() for run in plan.runs()]
        ['new', 'new']
    """

    system: System
    shifts: ShiftNames = ()
    collection: Collection | str | Path
    out: str | Path
    data: Dataset | str | Path = DATASET_NAME
    held_out: Sequence[str] = ()
    seeds: Sequence[int] = ()
    name: str | None = None
    keep_model: bool = False
    gpus: int = 1
    extra_test: Mapping[str, str | Path] = field(default_factory=dict)
    exclude: ExclusionsSource = None
    output_options: str = "--out or --name"

    def __post_init__(self) -> None:
        """Turn a single group or seed into a list; without seeds, use the system's replicates."""
        object.__setattr__(self, "held_out", as_list(self.held_out))
        object.__setattr__(self, "seeds", as_list(self.seeds) or self.system.replicates())

    def runs(self) -> list[Run]:
        """Return the planned runs, by seed, shift and held-out group; nothing is written.

        Seeds, shifts and groups are in the plan's order, each once. Runs for extra test sets are in
        `Run.also`.

        Existing files of each run are checked, and that training and test queries are disjoint.
        The machine's libraries and GPUs are not checked; see `check_machine`.

        Raises:
            UnknownNameError: if a shift or group does not exist.
            UsageError: if a field does not apply to the system, the collection is not the data
                set's, a run at `out` was made differently, or the name is no folder name. Also if
                `exclude` differs from the data set's exclusions, or is ``own-id`` although most
                passages with a query's id are other texts.
            NotFoundError: if the data set or collection does not exist, or the data set lacks the
                triples that a system must train on.
            DataError: if the data, or an extra test set, fails a check.
        """
        dataset, collection = open_dataset(self.data), open_collection(self.collection)
        extra_tests = read_extra_tests(self.extra_test, collection)
        known_names = shift_names(self.shifts, known=dataset.shifts)
        shifts = [get_shift(name) for name in known_names or dataset.manifest.shifts]
        self._check_system(shifts)
        self._check_models(extra_tests)
        systems: list[tuple[int | None, System]] = [
            (seed, self.system.changed(seed=seed)) for seed in dict.fromkeys(self.seeds)
        ] or [(None, self.system)]
        groups = {
            shift.name: [NOTHING]
            if self._with_all_groups
            else [shift.check_group(group) for group in dict.fromkeys(self.held_out)]
            or list(shift.groups)
            for shift in shifts
        }
        sources = {shift.name: ShiftData.read(shift, dataset, collection) for shift in shifts}
        tests = {name: _tests_of(source, extra_tests) for name, source in sources.items()}
        exclusions = dataset.exclusions.joined(Exclusions.of(self.exclude), str(dataset.folder))
        if exclusions and not dataset.exclusions:
            query_rows = [source.queries() for source in sources.values()]
            query_rows += [
                test.rows
                for shift_tests in tests.values()
                for test in shift_tests
                if test.collection is None
            ]
            queries = {row.query_id: row.text for rows in query_rows for row in rows}
            exclusions.check(queries, collection.passages(), collection.name)
        models = [
            (name, group)
            for name in sources
            for group in (groups[name] if self.system.per_group else [None])
        ]
        known: dict[tuple[str, str | None, str], Any] = {
            (name, group, test.name): count_trained(
                test,
                name,
                group,
                dataset,
                sources[name].split(group, "train") if group == NOTHING else None,
            )
            for name, group in models
            if group is not None and self.system.trains
            for test in tests[name]
        }
        shared: dict[Any, Any] = {}
        runs = [
            self._run(system, seed, sources[name], group, tests[name], known, shared, exclusions)
            for seed, system in systems
            for name, group in models
        ]
        if has_manifest(self._folder):
            raise UsageError(
                f"{self._folder} must be a folder of run sets, but is a built data set; choose "
                f"another {self.output_options.partition(' ')[0]}"
            )
        listing = Listing(dataset.shifts)
        for run in runs:
            for each in (run, *run.also):
                check_layout(each.path, listing)
            run.planned_state = run.state()
            if run.planned_state != "complete" and run.rows is not no_rows:
                train = run.train
                counts = sources[run.shift.name].check_disjoint(train, run.held_out)
                drawn = {} if run.held_out else _training_facts(train)
                for each in (run, *run.also):
                    each.facts["training"] = {"queries": len(train), **counts, **drawn}
        return runs

    @property
    def _folder(self) -> Path:
        return Path(self.out).expanduser()

    def _check_system(self, shifts: Sequence[Shift]) -> None:
        """Check the name of the runs, and that the plan's fields apply; else a `UsageError`."""
        system, name = self.system, self._name
        rules = (
            (
                self.seeds and "seed" not in type(system).model_fields,
                f"{system.name} has no seed, so it has no replicates; remove the seeds",
            ),
            (
                not can_name_runs(name),
                "a system's name must have no space or '/', not begin with '.', and be no shift's "
                f"name, got {name!r}; choose another name",
            ),
            (
                self.held_out and not system.per_group,
                f"{name} is not trained, so it has no held-out groups; remove them (--held-out)",
            ),
            (
                NOTHING in self.held_out and not self._with_all_groups,
                f"held-out {NOTHING} makes another system, {name}-all, and cannot be combined with "
                "groups; make its runs with a separate command",
            ),
            (
                self._with_all_groups and not system.trains,
                f"{name} has models that were trained elsewhere, so no model can be trained with "
                f"all groups; remove the held-out group {NOTHING}",
            ),
            (
                self._with_all_groups and any(shift.by_size for shift in shifts),
                f"the groups of {first_few(s.name for s in shifts if s.by_size)} are training "
                f"sets, so no model holds out {NOTHING}; choose other shifts (--shift)",
            ),
            (
                self.gpus < 1 or (self.gpus > 1 and not system.keeps_models),
                f"{name} cannot be trained on {self.gpus} GPUs; use 1",
            ),
            (
                self.keep_model and not (system.per_group and system.trains),
                f"{name} is not trained, so it has no model to keep; remove --keep-model",
            ),
            (
                self.keep_model and not system.keeps_models,
                f"{name} has no model that can be kept; remove --keep-model",
            ),
        )
        for is_broken, problem in rules:
            if is_broken:
                raise UsageError(problem)

    def _check_models(self, extra_tests: Sequence[TestSet]) -> None:
        """Check that the models can search extra test sets' collections; else a `UsageError`."""
        system = self.system
        if not (system.per_group and system.trains) or system.keeps_models:
            return
        for test in extra_tests:
            if test.collection is not None:
                raise UsageError(
                    f"{self._name} keeps no model, so it cannot search the passages of {test.name} "
                    f"({test.folder}); remove this test set, or choose a system that keeps its "
                    "models"
                )

    @property
    def _name(self) -> str:
        name = self.system.run_set() if self.name is None else self.name
        return f"{name}-all" if self._with_all_groups else name

    @property
    def _with_all_groups(self) -> bool:
        return [*self.held_out] == [NOTHING]

    def _run(
        self,
        system: System,
        seed: int | None,
        data: ShiftData,
        group: str | None,
        tests: Sequence[TestSet],
        known: Mapping[tuple[str, str | None, str], Any],
        shared: dict[Any, Any],
        exclusions: Exclusions,
    ) -> Run:
        shift, name = data.shift, self._name
        held_out = None if group == NOTHING else group
        label = f"{name} " + (
            f"{shift.training_of(held_out)} of {shift.name}" if held_out else f"on {shift.name}"
        )
        tag = system.tag(name)
        path = run_path(self._folder, name, shift, held_out, seed)
        in_folder = held_out is not None or seed is not None
        work = path.parent.relative_to(self._folder) if in_folder else Path(name, shift.name)
        work /= held_out or "all"
        triples = system.choose_triples(data, group)
        teacher = system.choose_teacher(data, group)
        identity = {
            "system": name,
            "shift": shift.name,
            "held_out": held_out,
            **({"training_queries": "everything"} if group == NOTHING else {}),
            **data.identity,
            "parameters": system.parameters(),
            "encoder": system.initial_encoder_facts(),
            "released_triples": triples and {"config": triples.config, "sha256": triples.sha256},
            "teacher": teacher and dict(teacher.facts),
            "exclude": exclusions.facts,
            **system.model_facts(shift, group),
        }
        run = Run(
            name=label if seed is None else f"{label}, seed {seed}",
            system=system,
            shift=shift,
            held_out=held_out,
            collection=data.collection,
            queries=data.queries(),
            rows=partial(data.split, group) if group and system.trains else no_rows,
            triples=triples,
            teacher=teacher,
            exclusions=exclusions,
            work=self._folder / _WORK / work,
            shared=shared,
            path=path,
            tag=tag if tag.startswith(name) else f"{name}-{tag}",
            identity=as_json(identity, ""),
            keep_model=self.keep_model,
            gpus=self.gpus,
            output_options=self.output_options,
        )
        for test in tests:
            extra = extra_runs_path(self._folder / name, test.name)
            counted = known.get((shift.name, group, test.name))
            searched, excluded, facts = data.collection, exclusions, test.facts
            if test.collection is not None:
                searched, excluded = test.collection, Exclusions()
                facts = {**facts, "collection": searched.name}
            extra_run = replace(
                run,
                name=f"{run.name} on {test.name}",
                path=run_path(extra.parent, extra.name, shift, held_out, seed),
                collection=searched,
                queries=test.rows,
                # A variant excludes the passages that its query excludes.
                exclusions=Exclusions(pairs=test.excluding(excluded).excluded),
                test_set=test.name,
                identity={
                    **run.identity,
                    "text_variant": searched.text_variant,
                    "exclude": excluded.facts,
                    "test_set": facts,
                },
                facts={"trained_on": counted._asdict()} if counted is not None else {},
                seconds={},
                also=(),
                keep_model=False,
            )
            run.also = (*run.also, extra_run)
        return run


def _training_facts(train: Sequence[Row]) -> dict[str, object]:
    """Return the number of training queries per group, and the digest of their sorted ids."""
    groups = Counter(row.group for row in train)
    ids = ContentDigest.of((row.query_id,) for row in train).hexdigest()
    return {"groups": dict(sorted(groups.items())), "queries_sha256": ids}


def _tests_of(source: ShiftData, extra_tests: Sequence[TestSet]) -> list[TestSet]:
    """Return the extra test sets for the models of a shift.

    Raises:
        DataError: if a query of an extra test set has the id of another query of the shift's tests,
            or none of its variants is of the shift's queries.
    """
    queries = source.queries()
    tests = [extra.of_shift(source.shift.name, queries) for extra in extra_tests]
    texts = {row.query_id: row.text for row in queries}
    for extra in tests:
        if extra.collection is not None:
            continue
        others = [row for row in extra.rows if texts.get(row.query_id, row.text) != row.text]
        for row in others:
            raise DataError(
                f"{len(others)} of {len(extra.rows)} queries of {extra.name} ({extra.folder}) have "
                f"the ids of other test queries of {source.shift.name}, e.g. {row.query_id!r}: "
                f"{row.text!r} and {texts[row.query_id]!r}; give them other ids, in queries.tsv "
                "and qrels.tsv"
            )
    return tests


def make_runs(plan: Plan, engine: Engine | None = None) -> list[Path]:
    """Make the runs of a plan, skip complete runs, and return the paths of the runs' files.

    All runs are checked before the first run is made. If the process is killed, the same call
    continues and ends in the same bytes. On a cluster, each run of a system that keeps models is a
    task; for other systems each block of queries is a task.

    Args:
        plan: the plan.
        engine: the engine that runs the tasks; by default the engine in use, which is this process
            unless `using_engine` sets another.

    Returns:
        The run files in the order of `Plan.runs`, complete ones included, without the files of
        extra test sets.

    Raises:
        UsageError, NotFoundError, DataError: see `Plan.runs`. A UsageError also if another process
            is writing a run, or a machine of the cluster cannot read the folder of runs. A
            DataError also if a training or `checked_rankings` fails.
        MissingError: if the system's libraries are not installed, or the recipe's precision needs a
            GPU and there is none.

    Examples:
        >>> bm25 = open_system("bm25", changes={"depth": 10})
        >>> make_runs(Plan(system=bm25, shifts=["length"], collection="mini:300", out="made"))
        [PosixPath('made/bm25/length.run.gz')]
    """
    with using_engine(engine or engine_in_use()):
        runs = deque(plan.runs())
        known = [(run.name, run.path, run.planned_state == "complete") for run in runs]
        missing = sum(not is_complete for *_, is_complete in known)
        on_cluster = engine_in_use().address is not None and runs[0].needs_model

        def lines() -> Iterator[tuple[Run, str]]:
            for number, (name, *_) in enumerate(known, 1):
                # No reference to a finished run remains, so that its data is freed.
                run = runs.popleft()
                if run.planned_state == "complete":
                    continue
                if on_cluster:
                    write_json(run.plan, run.identity)
                yield run, f"{name} ({number} of {len(known)})" if len(known) > 1 else name

        if missing and on_cluster:
            plan.system.check_installed()
            results = engine_in_use().map(
                _make_run_on_cluster, lines(), cpus=torch.get_num_threads(), gpus=plan.gpus
            )
        else:
            for run in runs:
                check_machine(run)
            results = Engine().map(_make_run, lines())
        began, left = time.monotonic(), missing
        for name, _, is_complete in known:
            taken = None if is_complete else next(results)
            left -= not is_complete
            if taken is None:
                _logger.info("%s: complete already, skipped", name)
            else:
                rest = duration((time.monotonic() - began) / (missing - left) * left)
                to_come = f"; {left} left to make, about {rest}" if left else ""
                _logger.info("%s: made in %s%s", name, duration(taken), to_come)
        plan.system.forget()
        return [path for _, path, _ in known]


def check_machine(run: Run) -> None:
    """Check that this machine can make a run; a complete run needs no check.

    Raises:
        UsageError: if another process is making the run.
        MissingError: if this machine lacks a library or a GPU that the run needs.
        UsageError, DataError: see `System.check`.
    """
    if run.planned_state == "running":
        raise UsageError(f"another process is writing {run.work}; wait for it, or stop it")
    if run.planned_state != "complete":
        run.system.check_installed()
        run.system.check(replace(run, rows=cache(run.rows)))


def _make_run_on_cluster(run_and_line: tuple[Run, str]) -> float | None:
    """Check this machine, which must share the folder of runs, then call `_make_run`."""
    run, _ = run_and_line
    if not run.plan.exists():
        raise UsageError(
            f"this machine of the cluster cannot read {run.work.absolute()}; use a folder of runs "
            "that all machines share under the same path"
        )
    check_machine(run)
    return _make_run(run_and_line)


def _make_run(run_and_line: tuple[Run, str]) -> float | None:
    """Make a run file and its sidecar, if they are still missing.

    Args:
        run_and_line: the run, and its name in the progress.

    Returns:
        The seconds that this took; `None` if another process has made the run.
    """
    run, line = run_and_line
    start = time.monotonic()
    with progress_line(line), lock_unfinished(run.work, empty_parents=4):
        if run.state() == "complete":
            return None
        searched_before = run.sidecar.is_file() and run.path.is_file()  # As just checked.
        write_json(run.plan, run.identity)
        run = replace(run, rows=cache(run.rows))
        if not searched_before:
            _rank(run)
            if run.keep_model:
                _copy_folder(run.work / MODEL, run.kept_model)
        elif run.kept_model.is_dir():
            _copy_folder(run.kept_model, run.work / MODEL)
        for extra in (replace(lacking, rows=run.rows) for lacking in run.lacking()):
            _rank(extra)
            _write_sidecar(extra)
        if not searched_before:
            # The sidecar is written last, because a run with a sidecar counts as complete.
            _write_sidecar(run)
    return time.monotonic() - start


def _copy_folder(folder: Path, target: Path) -> None:
    with replace_folder(target) as partial:
        shutil.copytree(folder, partial, dirs_exist_ok=True)


def _rank(run: Run) -> None:
    run.path.parent.mkdir(parents=True, exist_ok=True)
    with run.stage("total"):
        write_run(run.path, checked_rankings(run, run.system.rank(run)), run.tag)


@contextmanager
def rank_in_memory(
    run: Run, name: str, facts: dict[str, object], _with_ranks: bool
) -> Iterator[OpenedParts]:
    """Open a run whose rankings are computed while they are read; no run file is written.

    With its first three arguments bound, it is a function `RunSource.open`.

    Args:
        run: the run.
        name: the run's name in messages.
        facts: the facts of the sidecar are added to it after all rankings were read.
    """
    run = replace(run, rows=cache(run.rows))
    with progress_line(run.name), lock_unfinished(run.work, empty_parents=4):
        with run.stage("total"), closing(checked_rankings(run, run.system.rank(run))) as rankings:
            yield [RankedRun(name, rankings, run.tag)], []
        facts |= _sidecar_facts(run)
    _logger.info("%s: ranked in %s", run.name, duration(run.seconds["total"]))


def _write_sidecar(run: Run) -> None:
    facts = _sidecar_facts(run) | {"run_sha256": sha256_of(run.path)}
    write_json(run.sidecar, with_checksum(facts))


def _sidecar_facts(run: Run) -> dict[str, Any]:
    """Return the facts of a run's sidecar without the run file's digest; JSON values."""
    facts = {
        "schema": 1,
        **run.identity,
        "baseline": run.system.name or None,
        "training_queries": run.identity.get("training_queries", run.system.training_queries)
        or None,
        "tag": run.tag,
        "collection": run.collection.name,
        "queries": len(run.queries),
        **dict(sorted(run.facts.items())),
        **run.circumstances(
            {**run.system.hardware(), **({"processes": run.gpus} if run.needs_model else {})}
        ),
    }
    return dict(as_json(facts, "", _as_text))


def _as_text(value: object, name: str) -> str:
    """Log a warning and return the text of a fact; an error here would lose the run."""
    _logger.warning("%s is no JSON value (%s); its text is recorded", name, type(value).__name__)
    return str(value)
