"""A plan, which run files a system shall make, of which shifts, and where; and making them.

All are checked before the first is made: trained, encoded, ranked and written. What stands whole is
skipped.
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
    holds_manifest,
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
    hold_unfinished,
    in_line,
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
    can_name_runs,
    get_shift,
    several,
    shift_names,
)

_logger = logging.getLogger(__name__)

_WORK = ".work"
"""The folder of unfinished work, e.g. ``.work/<system>/<shift>/<held-out>``."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What shall be made: a system's run files for shifts.

    A system with a model per held-out group gives a run file for each, any other one per shift.
    Each ranks passages for the test queries of all groups of the shift.

    Attributes:
        system: the system; see `find_system`.
        shifts: the shifts, e.g. ``["length", "wh-words"]``; all of the data set, if empty.
        collection: the collection that the data set was built from, or what `open_collection`
            takes.
        out: the folder of run sets; ``<out>/<name>/<shift>/...`` is written.
        data: the built data set; see `open_dataset`.
        held_out: only the models that hold these groups out; all, if empty. ``nothing`` trains one
            model with all groups, on as many queries, as the system ``<name>-all``.
        seeds: train replicates with these seeds, each into a folder of its own; of models that were
            trained elsewhere, only these; all, if empty.
        name: the name of the runs' folder and the beginning of their tag, so that two recipes of
            one system stand side by side; by default the system's.
        keep_model: whether each trained model is kept, as a folder of sentence-transformers beside
            its run: ``short.model`` beside ``short.run.gz``.
        gpus: how many GPUs the training of one model takes; above 1, in as many processes, which
            torchrun's launcher starts: in a script, call `make_runs` under ``if __name__ ==
            "__main__"``. Where there is no GPU at all, processors take their place.
        extra_test: name -> the folder of an extra test set (``queries.tsv``, ``qrels.tsv``), or a
            file of variants of the shifts' test queries, for which every model searches, too; a
            folder or an ir_datasets id with passages is searched itself, and nothing of it is
            excluded; see `read_extra_tests`. Their runs go to ``<out>/<name>/extra/<test set>``,
            laid out as the others. A run that is complete without them is searched for them again,
            if its model was kept, or the system is not trained.
        exclude: passages that must not count for a query, which no ranking holds and no training
            takes as negatives: ``own-id``, the passage with the query's own id, or a file of lines
            ``query_id doc_id``. By default those that the data set was built without.
        output_options: what the caller changes to have runs written elsewhere, for messages.

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
        """Turn one group or seed into a list of one."""
        object.__setattr__(self, "held_out", several(self.held_out))
        object.__setattr__(self, "seeds", several(self.seeds) or self.system.replicates())

    def runs(self) -> list[Run]:
        """Return the run files, by seed, shift and held-out group; nothing is written.

        What there is of each is checked, and that it may be trained on; what this machine lacks is
        checked by `System.check`.

        Raises:
            UnknownNameError: for a shift or group that does not exist.
            UsageError: if the collection is not the data set's, ``own-id`` is excluded and most
                passages with the id of a query are not this query, the data set was built without
                other passages than `exclude`, a run at `out` was made
                differently, the name cannot be a folder's, a group is to be held out of a system
                that is not trained, or the model of one is to be kept.
            NotFoundError: if there is no such data set or collection, or the data set lacks the
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
            asked = [source.queries() for source in sources.values()]
            asked += [
                test.rows
                for of_shift in tests.values()
                for test in of_shift
                if test.collection is None
            ]
            queries = {row.query_id: row.text for rows in asked for row in rows}
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
        if holds_manifest(self._folder):
            raise UsageError(
                f"{self._folder} is a built data set, not a folder of run sets; choose another "
                f"{self.output_options.partition(' ')[0]}"
            )
        listing = Listing(dataset.shifts)
        for run in runs:
            for each in (run, *run.also):
                check_layout(each.path, listing)
            run.planned_state = run.state()
            if run.planned_state != "complete" and run.rows is not no_rows:
                train = run.train
                counts = sources[run.shift.name].check_disjoint(train, run.held_out)
                drawn = {} if run.held_out else _described(train)
                for each in (run, *run.also):
                    each.facts["training"] = {"queries": len(train), **counts, **drawn}
        return runs

    @property
    def _folder(self) -> Path:
        return Path(self.out).expanduser()

    def _check_system(self, shifts: Sequence[Shift]) -> None:
        """Check the name of the runs, and that what is asked of the system goes with it."""
        system, name = self.system, self._name
        rules = (
            (
                self.seeds and "seed" not in type(system).model_fields,
                f"{system.name} takes no seed, so there are no replicates of it",
            ),
            (
                not can_name_runs(name),
                f"{name!r} cannot be a system's name: it names its folder and begins the tag of "
                "its runs, so it holds no space or '/', does not begin with '.', and is no shift's "
                "name",
            ),
            (
                self.held_out and not system.per_group,
                f"{name} is not trained, so no group can be held out of it",
            ),
            (
                NOTHING in self.held_out and not self._with_all_groups,
                f"a model that holds out {NOTHING} is a system of its own, {name}-all; train it "
                "without other groups to hold out",
            ),
            (
                self._with_all_groups and not system.trains,
                f"{name} gets models that are trained already, so none is trained with all groups",
            ),
            (
                self._with_all_groups and any(shift.by_size for shift in shifts),
                f"the groups of {first_few(s.name for s in shifts if s.by_size)} are training "
                f"sets, so no model holds out {NOTHING}; choose other shifts (--shift)",
            ),
            (
                self.gpus < 1 or (self.gpus > 1 and not system.keeps_models),
                f"{name} cannot be trained on {self.gpus} GPUs",
            ),
            (
                self.keep_model and not (system.per_group and system.trains),
                f"{name} is not trained, so there is no model to keep",
            ),
            (
                self.keep_model and not system.keeps_models,
                f"{name} has no model to keep: its sidecars hold its choice",
            ),
        )
        for is_broken, problem in rules:
            if is_broken:
                raise UsageError(problem)

    def _check_models(self, extra_tests: Sequence[TestSet]) -> None:
        """Check that models, once trained, can search the collections of test sets."""
        system = self.system
        if not (system.per_group and system.trains) or system.keeps_models:
            return
        for test in extra_tests:
            if test.collection is not None:
                raise UsageError(
                    f"{self._name} keeps no model, so it cannot search the passages of {test.name} "
                    f"({test.folder}); leave this test set out, or choose a system that keeps its "
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
        is_apart = held_out is not None or seed is not None
        place = path.parent.relative_to(self._folder) if is_apart else Path(name, shift.name)
        place /= held_out or "all"
        triples = system.choose_triples(data, group)
        teacher = system.choose_teacher(data, group)
        identity = {
            "system": name,
            "shift": shift.name,
            "held_out": held_out,
            **({"training_queries": "everything"} if group == NOTHING else {}),
            **data.identity,
            "parameters": system.parameters(),
            "encoder": system.starts_from(),
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
            work=self._folder / _WORK / place,
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
            of_test = replace(
                run,
                name=f"{run.name} on {test.name}",
                path=run_path(extra.parent, extra.name, shift, held_out, seed),
                collection=searched,
                queries=test.rows,
                # A variant excludes what its query excludes.
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
            run.also = (*run.also, of_test)
        return run


def _described(train: Sequence[Row]) -> dict[str, object]:
    """Return how many training queries each group gives, and the digest of their sorted ids."""
    groups = Counter(row.group for row in train)
    ids = ContentDigest.of((row.query_id,) for row in train).hexdigest()
    return {"groups": dict(sorted(groups.items())), "queries_sha256": ids}


def _tests_of(source: ShiftData, extra_tests: Sequence[TestSet]) -> list[TestSet]:
    """Return the extra test sets for the models of a shift.

    Raises:
        DataError: if an id names one query in the shift's test sets and another one in these.
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
                f"the ids of other test queries of {source.shift.name}: {row.query_id!r} is "
                f"{row.text!r} there and {texts[row.query_id]!r} here; give them other ids, in "
                "queries.tsv and qrels.tsv"
            )
    return tests


def make_runs(plan: Plan, engine: Engine | None = None) -> list[Path]:
    """Make the runs of a plan, and skip those that are complete.

    All are checked before the first is made. After a kill, the same call continues and ends in the
    same bytes. On a cluster, each run of a system that keeps models is a task, which trains its
    model and searches with it; what any other system ranks is cut into blocks there.

    Args:
        plan: what shall be made.
        engine: what carries tasks out; by default the one in use, which is this process unless
            `using_engine` says otherwise.

    Returns:
        The run files, by seed, shift and held-out group.

    Raises:
        UsageError, NotFoundError, DataError: see `Plan.runs`; or if another process is at work on
            one of the runs, or a machine of the cluster does not find the folder of runs.
        MissingError: if the system's libraries are not installed, or there is no GPU although the
            recipe's precision needs one.

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
                # Nothing holds on to a run that is over, so that what it has read is freed.
                run = runs.popleft()
                if run.planned_state == "complete":
                    continue
                if on_cluster:
                    write_json(run.plan, run.identity)
                yield run, f"{name} ({number} of {len(known)})" if len(known) > 1 else name

        if missing and on_cluster:
            plan.system.check_installed()
            results = engine_in_use().map(
                _make_there, lines(), cpus=torch.get_num_threads(), gpus=plan.gpus
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
    """Check that this machine can make a run, if it is to be made.

    Raises:
        UsageError: if another process makes it.
        MissingError: if this machine lacks something that it needs.
    """
    if run.planned_state == "running":
        raise UsageError(f"another process is writing {run.work}; wait for it, or stop it")
    if run.planned_state != "complete":
        run.system.check_installed()
        run.system.check(replace(run, rows=cache(run.rows)))


def _make_there(run_and_line: tuple[Run, str]) -> float | None:
    """Do what `_make_run` does, on a machine of a cluster."""
    run, _ = run_and_line
    if not run.plan.exists():
        raise UsageError(
            f"this machine of the cluster does not find {run.work.absolute()}: the folder of runs "
            "must be one that all machines share, under the same path"
        )
    check_machine(run)
    return _make_run(run_and_line)


def _make_run(run_and_line: tuple[Run, str]) -> float | None:
    """Make a run file and its sidecar, if they are still missing.

    Args:
        run_and_line: the run, and what progress calls it.

    Returns:
        The seconds that it took; `None` if another process has made them.
    """
    run, line = run_and_line
    start = time.monotonic()
    with in_line(line), hold_unfinished(run.work, empty_parents=4):
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
            # The last file of all, since a run that has one passes for complete.
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
    """Rank for a run, of which no file is written, while its lines are read: `RunSource.open`.

    Args:
        run: the run.
        name: its name in messages.
        facts: gets the facts of the sidecar when all rankings were read.
    """
    run = replace(run, rows=cache(run.rows))
    with in_line(run.name), hold_unfinished(run.work, empty_parents=4):
        with run.stage("total"), closing(checked_rankings(run, run.system.rank(run))) as rankings:
            yield [RankedRun(name, rankings, run.tag)], []
        facts |= _sidecar_facts(run)
    _logger.info("%s: ranked in %s", run.name, duration(run.seconds["total"]))


def _write_sidecar(run: Run) -> None:
    facts = _sidecar_facts(run) | {"run_sha256": sha256_of(run.path)}
    write_json(run.sidecar, with_checksum(facts))


def _sidecar_facts(run: Run) -> dict[str, Any]:
    """Return the facts of a sidecar, except for the run file's digest; JSON values."""
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
    """Return the text of a fact that JSON cannot hold: the ranking is made, and is kept."""
    _logger.warning("%s, a %s, is recorded as its text", name, type(value).__name__)
    return str(value)
