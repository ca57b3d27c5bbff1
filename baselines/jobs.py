"""The run files that a command makes: their names and places, and the checks before the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from msshift_bench.baselines.lessons import Teacher
from msshift_bench.baselines.provenance import OTHER_NAME, check_same, is_complete, read_json
from msshift_bench.baselines.shift_data import ReleasedTriples, ShiftData
from msshift_bench.baselines.system import TRAINING_FACTS, System
from msshift_bench.data import (
    Collection,
    Dataset,
    TestSet,
    holds_manifest,
    open_collection,
    open_dataset,
    read_extra_tests,
)
from msshift_bench.errors import DataError, UsageError
from msshift_bench.plumbing import is_held
from msshift_bench.records import Row
from msshift_bench.runs import extra_runs_path, model_path, run_path, sidecar_path
from msshift_bench.shifts import can_name_runs, get_shift

__all__ = ["NO_TEST_SETS", "Job", "State", "jobs_of"]

NO_TEST_SETS: Mapping[str, str | Path] = MappingProxyType({})
"""No extra test sets to search."""

WORK = ".work"
"""The folder of unfinished work, e.g. ``.work/<system>/<shift>/<held-out>``."""

LOGS = ".logs"
"""The folder of TensorBoard's files, e.g. ``.logs/<system>/<shift>/<held-out>``."""

_PLAN = "plan.json"

_WEIGHTS = "weights_sha256"
"""The key, in a sidecar's facts of a training and in those of a kept model."""

State = Literal["complete", "running", "begun", "new"]
"""What there is of a run: all of it, or a part; ``running`` if another process makes it now."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run file to make.

    Attributes:
        system: the system.
        source: the shift's part of the data set, and the collection.
        held_out: the group that the model must not have seen; `None` if it is not trained.
        seed: the seed of a replicate; `None` where there is only one.
        out: the folder of run sets.
        triples: the data set's triples to train on, as `System.choose_triples` chose.
        teacher: who scores them, as `System.choose_teacher` chose.
        keep_model: whether the model is to stay, in a folder beside the run.
        also_test: extra test sets to search, too.
    """

    system: System
    source: ShiftData
    held_out: str | None
    seed: int | None
    out: Path
    triples: ReleasedTriples | None
    teacher: Teacher | None
    keep_model: bool
    also_test: Sequence[TestSet]

    @property
    def name(self) -> str:
        """What messages call it, e.g. ``splade without short of length, seed 2``."""
        shift = self.source.shift.name
        cut = self.source.shift
        task = f"{cut.training_of(self.held_out)} of {shift}" if self.held_out else f"on {shift}"
        return f"{self.system.name} {task}" + ("" if self.seed is None else f", seed {self.seed}")

    @property
    def run(self) -> Path:
        """The run file."""
        return run_path(self.out, self.system.name, self.source.shift, self.held_out, self.seed)

    @property
    def sidecar(self) -> Path:
        """The JSON file beside the run."""
        return sidecar_path(self.run)

    def extra_run(self, extra: TestSet) -> Path:
        """Return the run file for an extra test set."""
        folder = extra_runs_path(self.out / self.system.name, extra.name)
        return run_path(folder.parent, folder.name, self.source.shift, self.held_out, self.seed)

    def extra_identity(self, extra: TestSet) -> dict[str, object]:
        """Return the facts that decide the run for an extra test set."""
        return {**self.identity(), "test_set": extra.facts}

    @property
    def work(self) -> Path:
        """The folder of its unfinished work."""
        return self.out / WORK / self._place

    @property
    def logs(self) -> Path:
        """The folder of TensorBoard's files."""
        return self.out / LOGS / self._place

    @property
    def plan(self) -> Path:
        """The file that says what the unfinished work is for."""
        return self.work / _PLAN

    @property
    def _place(self) -> Path:
        system, shift = self.system.name, self.source.shift.name
        folder = self.run.parent.relative_to(self.out) if self.held_out else Path(system, shift)
        return folder / (self.held_out or "all")

    @property
    def tag(self) -> str:
        """The run tag; it begins with the system's name."""
        tag, name = self.system.tag, self.system.name
        return tag if tag.startswith(name) else f"{name}-{tag}"

    def identity(self) -> dict[str, object]:
        """Return the facts that decide a run: two runs that agree in them are the same.

        They do not hold the collection's name, and need no reading of its passages.
        """
        manifest, triples, teacher = self.source.dataset.manifest, self.triples, self.teacher
        return {
            "system": self.system.name,
            "shift": self.source.shift.name,
            "held_out": self.held_out,
            "edition": manifest.edition,
            "data_version": manifest.data_version,
            "data_digest": manifest.content_digest,
            "text_variant": self.source.collection.text_variant,
            "parameters": dict(self.system.parameters),
            "encoder": self.system.encoder,
            "released_triples": triples and {"config": triples.config, "sha256": triples.sha256},
            "teacher": teacher and dict(teacher.facts),
        }

    def is_complete(self) -> bool:
        """Return whether the run is there, whole, and the requested one.

        Raises:
            UsageError: if what is there was made differently.
        """
        return is_complete(self.run, self.sidecar, self.identity())

    def state(self) -> State:
        """Check what is there of the run, and return what it is; nothing is written.

        Raises:
            UsageError: if it lies in a data set, was made differently, nothing says what made it,
                or it is complete without the model that is to be kept, or that is to search an
                extra test set; or if the runs of other groups beside it were made by another
                recipe.
        """
        if holds_manifest(self.out):
            raise UsageError(
                f"{self.out} is a built data set, not a folder of run sets; choose another --out"
            )
        begun, complete = self.plan.exists(), self.is_complete()
        lacking = self.lacking()
        awaited = [self.extra_run(extra) for extra in lacking]
        if complete:
            if self.keep_model and not self._has_model():
                raise UsageError(
                    f"{self.run} is complete, and its model was not kept; remove the run to train "
                    "again, or choose another --out or --name"
                )
            if not lacking:
                return "complete"
            if self.needs_model and not self._has_model():
                raise UsageError(
                    f"{self.run} is complete, was made without the test set {lacking[0].name}, and "
                    "its model was not kept (--keep-model); remove the run to make both, or choose "
                    "another --out or --name"
                )
        else:
            awaited.insert(0, self.run)
            self._check_recipe()
        for run in awaited:
            if run.exists() and not begun:
                raise UsageError(
                    f"{run} exists, and nothing says what made it; choose another --out or "
                    "--name, or remove it"
                )
        if begun:
            plan = read_json(self.plan)
            check_same(plan, self.identity(), self.plan, f"{OTHER_NAME} the folder {self.work}")
        if is_held(self.work):
            return "running"
        return "begun" if begun or complete else "new"

    def _check_recipe(self) -> None:
        """Check that the system's runs for other groups and seeds are those of the same recipe.

        Together they are one run set, whose loss would else be one of the recipe.

        Raises:
            UsageError: naming the differences.
        """
        if self.held_out is None:
            return
        folder = run_path(self.out, self.system.name, self.source.shift, self.held_out, None).parent
        own = self.sidecar.parent
        for sidecar in (*sorted(folder.glob("*.run.json")), *sorted(folder.glob("*/*.run.json"))):
            recorded = read_json(sidecar)
            if sidecar == self.sidecar or not isinstance(recorded.get("parameters"), Mapping):
                continue
            way_out = f"{OTHER_NAME} {sidecar} and its run: models of one system share a recipe"
            same_seed = sidecar.parent == own
            check_same(
                _recipe_of(recorded, seed=same_seed),
                _recipe_of(self.identity(), seed=same_seed),
                sidecar,
                way_out,
            )

    @property
    def needs_model(self) -> bool:
        """Whether searching again takes the model that was trained for the run."""
        return self.system.per_group and self.system.trains and self.system.keeps_models

    @property
    def kept_model(self) -> Path:
        """The folder of the model, where it was kept."""
        return model_path(self.run)

    def _has_model(self) -> bool:
        """Return whether the model that made the complete run was kept.

        Raises:
            UsageError: if another model stands in its place, as one of a run that was removed.
        """
        if not self.kept_model.is_dir():
            return False
        training, facts = read_json(self.sidecar).get("training"), self.kept_model / TRAINING_FACTS
        made = training.get(_WEIGHTS) if isinstance(training, dict) else None
        if made is not None and facts.is_file() and read_json(facts).get(_WEIGHTS) != made:
            raise UsageError(
                f"{self.kept_model} is not the model that made {self.run.name}, but one that was "
                "kept before; remove both to train again, or choose another --out or --name"
            )
        return True

    def lacking(self) -> list[TestSet]:
        """Return the extra test sets whose runs are to be made.

        Raises:
            UsageError: if one is there and was made differently.
        """
        return [
            extra
            for extra in self.also_test
            if not is_complete(
                run := self.extra_run(extra), sidecar_path(run), self.extra_identity(extra)
            )
        ]

    def training(self) -> tuple[tuple[Row, ...], dict[str, int]]:
        """Return the training queries, and facts about them for the sidecar.

        Both are empty if no group is held out, or the system was trained elsewhere.

        Raises:
            UsageError: if the data set holds no training queries.
            DataError: if one of them is a test query of the held-out group.
        """
        if self.held_out is None or not self.system.trains:
            return (), {}
        train = self.source.split(self.held_out, "train")
        return train, {"queries": len(train), **self.source.check_disjoint(train, self.held_out)}


def _recipe_of(facts: Mapping[str, Any], *, seed: bool) -> dict[str, object]:
    """Return what the models of all groups share, of what decides a run."""
    parameters = {k: v for k, v in facts["parameters"].items() if seed or k != "seed"}
    return {
        "parameters": parameters,
        # The recipe names a folder or a file, which can hold another encoder by now.
        "encoder": facts.get("encoder"),
        "trained on the data set's triples": facts.get("released_triples") is not None,
    }


def jobs_of(
    systems: Iterable[tuple[int | None, System]],
    shifts: Sequence[str],
    collection: Collection | str | Path,
    out: str | Path,
    data: Dataset | str | Path,
    *,
    held_out: Sequence[str],
    keep_model: bool,
    also_test: Mapping[str, str | Path],
) -> Iterator[Job]:
    """Open the data, and yield the run files of systems, by system, shift and held-out group.

    Args:
        systems: each system and, if it is a replicate, its seed.
        shifts: the shifts.
        collection: the collection that the data set was built from.
        out: the folder of run sets.
        data: the data set.
        held_out: only the models that hold these groups out; all, if empty.
        keep_model: whether the models are to stay, in folders beside the runs.
        also_test: name -> an extra test set to search with every model; see `read_extra_tests`.

    Raises:
        UnknownNameError: for a shift or group that does not exist.
        UsageError: if a group is to be held out of a system that is not trained, the model of one
            is to be kept, a system's name cannot be a folder's, or the collection is not the data
            set's.
        NotFoundError: if there is no such data set or collection, or the data set lacks the
            triples that a system must train on.
        DataError: if an extra test set and a shift have a query_id in common, with two texts, a
            file of variants holds none of a shift's, or the collection none of a test set's
            relevant passages.
    """
    dataset, collection = open_dataset(data), open_collection(collection)
    given = read_extra_tests(also_test, collection)
    folder = Path(out).expanduser()
    chosen = [get_shift(name) for name in dict.fromkeys(shifts)]
    sources: dict[str, ShiftData] = {}
    tests: dict[str, list[TestSet]] = {}
    for seed, system in systems:
        _check_name(system.name)
        if held_out and not system.per_group:
            raise UsageError(f"{system.name} is not trained, so no group can be held out of it")
        if keep_model and not (system.per_group and system.trains):
            raise UsageError(f"{system.name} is not trained, so there is no model to keep")
        if keep_model and not system.keeps_models:
            raise UsageError(f"{system.name} has no model to keep: its sidecars hold its choice")
        names = [
            [shift.check_group(group) for group in dict.fromkeys(held_out)] or list(shift.groups)
            for shift in chosen
        ]
        for shift, groups in zip(chosen, names, strict=True):
            if shift.name not in sources:
                source = sources[shift.name] = ShiftData.read(shift, dataset, collection)
                queries = source.queries()
                tests[shift.name] = [extra.of_shift(shift.name, queries) for extra in given]
                _check_same_queries(source, tests[shift.name])
            source, extras = sources[shift.name], tests[shift.name]
            for group in groups if system.per_group else [None]:
                triples = system.choose_triples(source, group)
                teacher = system.choose_teacher(source, group)
                yield Job(system, source, group, seed, folder, triples, teacher, keep_model, extras)


def _check_same_queries(source: ShiftData, also_test: Sequence[TestSet]) -> None:
    """Check that an id names one query in a shift's test sets and in the extra ones."""
    texts = {row.query_id: row.text for row in source.queries()}
    for extra in also_test:
        others = [row for row in extra.rows if texts.get(row.query_id, row.text) != row.text]
        for row in others:
            raise DataError(
                f"{len(others)} of {len(extra.rows)} queries of {extra.name} ({extra.folder}) have "
                f"the ids of other test queries of {source.shift.name}: {row.query_id!r} is "
                f"{row.text!r} there and {texts[row.query_id]!r} here; give them other ids, in "
                "queries.tsv and qrels.tsv"
            )


def _check_name(name: str) -> None:
    """Check that a system's name can be that of its folder in a run set, and begin a run tag."""
    if not can_name_runs(name):
        raise UsageError(
            f"{name!r} cannot be a system's name: it names its folder and begins the tag of its "
            "runs, so it holds no space or '/', does not begin with '.', and is no shift's name"
        )
