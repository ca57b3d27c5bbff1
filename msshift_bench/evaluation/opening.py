"""Opened input: the data set, the test sets and the runs of one evaluation.

Every evaluation starts here. A folder is listed once and a sidecar is read once. A run is a
`RunSource`, read when it is scored. Later modules use no paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from msshift_bench.data import DataInfo, Dataset, TestSet, open_dataset, read_extra_tests
from msshift_bench.errors import NotFoundError, RunError, UsageError
from msshift_bench.evaluation.trained import TrainedQueries, count_trained
from msshift_bench.records import Qrel
from msshift_bench.runs import (
    FOR_ALL,
    Judgements,
    Listing,
    Model,
    RunSet,
    RunSource,
    Sidecar,
    are_per_group,
    extra_runs_path,
    find_run_sets,
    predicted_run,
    read_qrels,
)
from msshift_bench.shifts import (
    DATASET_NAME,
    SHIFTS,
    Shift,
    ShiftNames,
    as_list,
    grouped,
    in_order,
    parse_config,
    shift_names,
)

_TRAINED_ON_ALL = "-all"
"""End of the name of a system that is another system trained on everything."""

TestSetSource = str | PathLike[str] | Mapping[str, Mapping[str, int]] | Iterable[Qrel] | TestSet
"""Test sets on which single runs can be scored."""


class OpenedRun(NamedTuple):
    """A run that is not read yet, with its sidecars.

    Attributes:
        source: the run.
        files: the sidecars of its files.
        facts: of a run in memory, a sidecar's JSON values; reading the run may add values.
    """

    source: RunSource
    files: Sequence[Sidecar] = ()
    facts: Mapping[str, object] = {}

    @classmethod
    def of(cls, run: object, run_format: str = "auto") -> OpenedRun:
        """Open a run as `read_run` takes it, and read the sidecars of its files.

        Raises:
            UnknownNameError: if the format is unknown.
            UsageError: if the run is of a type that cannot be read.
        """
        source = RunSource.of(run, run_format)
        parts = run if isinstance(run, list | tuple) else [source.path]
        files = [Path(path) for path in parts if isinstance(path, str | PathLike)]
        return cls(source, list(map(Sidecar.of, files)))

    @property
    def sidecars(self) -> Sequence[Sidecar]:
        """The sidecars of its files; of a run in memory, one with the facts known so far."""
        return self.files or [Sidecar.of_facts(Path(self.source.name), self.facts)]

    @property
    def sidecar(self) -> Sidecar:
        """Its sidecar; an empty sidecar for a run of several files."""
        first, *others = self.sidecars
        return Sidecar.of_facts(Path(self.source.name), {}) if others else first


class SystemNames:
    """Names that a system's runs and scores share.

    Attributes:
        system: the system's name, or the run's.
        shift: the shift that its models were trained for; `None` for single runs.
        test: the name of an extra test set; "" for the shift's own test sets, and single runs.
        runs: model -> its run, or its scores.
    """

    system: str
    shift: Shift | None
    test: str
    runs: Mapping[Model, Any]

    @property
    def trained_per_group(self) -> bool:
        """Whether each model was trained without one group; false for one model for all groups."""
        return are_per_group(self.runs)

    def is_all_of(self, other: SystemNames) -> bool:
        """Return whether it is `other` trained on everything, as ``splade-all`` for ``splade``."""
        return self.system == other.system + _TRAINED_ON_ALL and not self.trained_per_group

    @property
    def shift_name(self) -> str:
        """The name of the shift; "" for single runs."""
        return "" if self.shift is None else self.shift.name

    @property
    def place(self) -> str:
        """The system's name in warnings, with extra test set and shift if it has them."""
        place = f"/{self.shift_name}" if self.shift else ""
        return self.system + (f" on {self.test} ({self.shift_name})" if self.test else place)


@dataclass(frozen=True, eq=False, repr=False)
class OpenedRunSet(SystemNames):
    """One system's runs for one test set.

    Attributes:
        system: as in `SystemNames`, like `runs`, `shift` and `test`.
        test_set: the test set.
        seeds: see `RunSet`, like `missing`.
        folder: the system's folder, resolved.
        plain: of runs for variants of queries, the system's runs for the unchanged queries; else
            `None`.
    """

    system: str
    test_set: TestSet
    runs: Mapping[Model, OpenedRun]
    shift: Shift | None = None
    test: str = ""
    seeds: tuple[int | None, ...] = ()
    missing: tuple[tuple[int | None, str], ...] = ()
    folder: Path = Path()
    plain: OpenedRunSet | None = None

    @classmethod
    def of(
        cls, found: RunSet, test_set: TestSet | None = None, run_format: str = "auto"
    ) -> OpenedRunSet:
        """Return a run set with its sidecars; without a test set, it cannot be scored.

        Raises:
            UnknownNameError: if the run format is unknown.
        """
        runs = {
            model: OpenedRun.of(
                predicted_run(path, found.shift) if path.is_dir() else path, run_format
            )
            for model, path in found.runs.items()
        }
        shift, tests = found.shift, test_set or TestSet(found.shift.name, {}, {})
        test = "" if tests.name == shift.name else tests.name
        facts = test, found.seeds, found.missing, found.folder
        return cls(found.system, tests, runs, shift, *facts)


TrainedOn = Mapping[tuple[str, str, str, str], tuple[Path, TrainedQueries | None]]
"""(test set, shift, model, data set's digest) -> path of a run, and counts; `None` if unknown."""


@dataclass(frozen=True, eq=False, repr=False)
class OpenedRuns:
    """The input of one evaluation, the same for files, tables and models in memory.

    Attributes:
        run_sets: the runs to score, each with its test set.
        data: the data of the test sets; without a digest, as for qrels, runs' data are not checked.
        dataset: the data set of the test sets, or of the models' training; `None` if none was
            found.
        compared: (name, runs) of each comparison; its runs must be of the same passages.
        reference: name of the system to compare the others with; `None` compares every pair.
        warnings: warnings about runs that were left out.
    """

    run_sets: Sequence[OpenedRunSet]
    data: DataInfo = field(default_factory=DataInfo)
    dataset: Dataset | None = None
    compared: Sequence[tuple[str, Sequence[OpenedRun]]] = ()
    reference: str | None = None
    warnings: Sequence[str] = ()

    @property
    def parts(self) -> list[OpenedRunSet]:
        """The run sets, then the run sets on unchanged queries with which variants are compared."""
        plain = (part.plain for part in self.run_sets if part.plain is not None)
        return list({id(part): part for part in (*self.run_sets, *plain)}.values())

    def comparing(self) -> OpenedRuns:
        """Return the same input, with `compared` holding all runs on each test set."""
        runs = ((part.test_set.name, run) for part in self.run_sets for run in part.runs.values())
        return replace(self, compared=list(grouped(runs).items()))

    @cached_property
    def trained(self) -> TrainedOn:
        """Counts of test queries in training sets of models trained per group.

        `{}` for the data set's test sets.
        """
        at_hand = "" if self.dataset is None else self.dataset.info.content_digest
        known: dict[tuple[str, str, str, str], tuple[Path, TrainedQueries | None]] = {}
        models = (
            (part, group, sidecar)
            for part in self.run_sets
            if not part.test_set.data.content_digest
            for (group, _), run in part.runs.items()
            for sidecar in run.sidecars
        )
        shifts = all_shifts(self.dataset)
        for part, group, sidecar in models:
            shift = part.shift_name or sidecar.shift
            if shift not in shifts:
                continue
            shift = shifts[shift].name
            model = (sidecar.held_out or "") if part.shift is None else group
            if model in ("", FOR_ALL) and isinstance(sidecar.trained_on, Mapping):
                model = str(sidecar.trained_on.get("model", model))
            key = part.test_set.name, shift, model, sidecar.data or at_hand
            if model in ("", FOR_ALL) or known.get(key, (None, None))[1]:
                continue  # or the same model counted by another seed, or system
            counted = None
            if self.dataset is not None and key[-1] == at_hand:
                counted = count_trained(part.test_set, shift, model, self.dataset)
            if counted is None and set(sidecar.trained_on) == set(TrainedQueries._fields):
                counted = TrainedQueries(**{**sidecar.trained_on, "shift": shift})
            known[key] = sidecar.run, counted
        return known


# ---- test sets ----------------------------------------------------------------------------------


def open_test_set(source: TestSetSource, data: Dataset | str | Path = DATASET_NAME) -> TestSet:
    """Return a test set; a `TestSet` is returned unchanged.

    Args:
        source: a config of the data set, e.g. ``length-short``, for its test queries; a file of
            qrels, see `read_qrels`; a mapping query id -> doc id -> relevance; records or a table
            of query id, doc id and relevance; or a test set. A text without "." that is no file is
            a config.
        data: the built data set; only read for a config.

    Returns:
        Its queries with their judgements; for a config, also their data.

    Raises:
        UnknownNameError: if the config does not exist.
        UsageError: if the config is a complete shift, which has no test split, or the source is a
            folder or of another type.
        NotFoundError: if the data set or the file does not exist.
        CollectionError: if the qrels are malformed.
        IntegrityError: if the data set cannot be read.

    Examples:
        >>> qrels = open_test_set({"q1": {"d1": 1}, "q2": {"d7": 2}})
        >>> short = open_test_set("length-short", "msshift")
        >>> list(qrels.judged), len(short.judged)
        (['q1', 'q2'], 44)
    """
    if isinstance(source, TestSet):
        return source
    if isinstance(source, Shift):
        source = source.name
    if isinstance(source, str) and not Path(source).exists() and "." not in Path(source).name:
        return _test_set_of_config(source, data)
    if not isinstance(source, str | PathLike):
        name, judgements = "<qrels>", Judgements.from_qrels(source)
    elif Path(source).exists():
        name, judgements = str(source), Judgements.from_qrels(read_qrels(source))
    else:
        raise NotFoundError(
            f"there is no qrels file {source}; give an existing file, e.g. the output of "
            "'ir_datasets export ID qrels'"
        )
    return TestSet(name, judgements.judged, {name: judgements.query_ids})


def _test_set_of_config(config: str, data: Dataset | str | Path) -> TestSet:
    at_hand = find_dataset(data)
    shift, group = parse_config(config, all_shifts(at_hand))
    if group is None:
        raise UsageError(
            f"{config} is a complete shift; name one test set: {', '.join(shift.configs)}"
        )
    whole = test_set_of_shift(shift, open_dataset(data if at_hand is None else at_hand))
    ids = whole.groups[shift.test_set_of(group)]
    judged = {query_id: whole.judged[query_id] for query_id in ids}
    return replace(
        whole,
        name=config,
        judged=judged,
        groups={config: ids},
        rows=tuple(row for row in whole.rows if row.query_id in judged),
        ignored_ids=whole.ignored_ids.union(whole.judged).difference(ids),
    )


def find_dataset(data: Dataset | str | Path) -> Dataset | None:
    """Return the data set; `None` if `data` is the default and does not exist.

    Raises:
        NotFoundError: if a named data set does not exist.
        IntegrityError: if its manifest cannot be read.
    """
    try:
        return open_dataset(data)
    except NotFoundError:
        if str(data) != DATASET_NAME:
            raise
        return None


def all_shifts(dataset: Dataset | None) -> Mapping[str, Shift]:
    """Return name -> shift: the table `SHIFTS`, and the labelled shifts of a data set, if any."""
    return SHIFTS if dataset is None else dataset.shifts


def test_set_of_shift(shift: Shift, dataset: Dataset) -> TestSet:
    """Return the test queries of all groups of a shift.

    Queries with only excluded relevant passages are left out.

    Raises:
        UnknownNameError: if the data set lacks the shift.
        IntegrityError: if a file of the data set is missing or was changed.
    """
    tests = dataset.test_sets(shift)
    rows = tuple(row for part in tests.values() for row in part)
    judged = {row.query_id: row.relevant for row in rows}
    groups = {group: tuple(row.query_id for row in part) for group, part in tests.items()}
    return TestSet(
        shift.name, judged, groups, dataset.info, relevant_only=True, rows=rows
    ).excluding(dataset.exclusions)


# ---- runs ---------------------------------------------------------------------------------------


def open_runs(
    runs: Sequence[object],
    test_set: TestSet,
    data: Dataset | str | Path = DATASET_NAME,
    run_format: str = "auto",
) -> OpenedRuns:
    """Return single runs on one test set, each as a run set without shift, not read yet.

    Equal names get a number: ``my.run``, ``my.run (2)``.

    Args:
        runs: the runs, each as `read_run` takes it.
        test_set: the test set.
        data: the data set of a config, or of the training of models whose sidecars name a shift.
        run_format: the format of run files.

    Raises:
        MsShiftError: as `OpenedRun.of`, `find_dataset`.
    """
    opened = [OpenedRun.of(run, run_format) for run in runs]
    names = [run.source.name for run in opened]
    before = [names[:number].count(name) for number, name in enumerate(names)]
    run_sets = [
        OpenedRunSet(name + f" ({count + 1})" * bool(count), test_set, {(FOR_ALL, None): run})
        for name, count, run in zip(names, before, opened, strict=True)
    ]
    named = any(sidecar.shift for run in opened for sidecar in run.sidecars)
    dataset = find_dataset(data) if named or test_set.data.content_digest else None
    return OpenedRuns(run_sets, test_set.data, dataset)


def open_run_sets(
    runs: RunSetsSource,
    data: Dataset | str | Path = DATASET_NAME,
    shifts: ShiftNames = (),
    run_format: str = "auto",
    *,
    reference: str | Path | None = None,
    on_found: OnFound | None = None,
) -> OpenedRuns:
    """Find run sets in folders, and return them with their test sets, not read yet.

    Args:
        runs: one or several folders with the run sets of one or several systems; an `OpenedRuns` is
            returned unchanged.
        data: the built data set.
        shifts: the shifts to open; by default all in the folders.
        run_format: the format of run files.
        reference: the system to compare the others with: its name, or its folder, which may be
            outside `runs`.
        on_found: called with the list of run files, before anything else is read.

    Raises:
        MsShiftError: as `evaluate_run_sets`, `find_run_sets`.
    """
    if isinstance(runs, OpenedRuns):
        return runs
    folders = as_list(runs)
    for run in folders:
        if str(run) == "-" or Path(run).is_file():
            raise UsageError(
                f"{run} is a run file, not a folder of run sets; score it with 'msshift score "
                f"{run} --test length-short', or --qrels FILE, and --reference RUN compares it"
            )
    at_hand = find_dataset(data)
    known = all_shifts(at_hand)
    wanted, listing = shift_names(shifts, known=known), Listing(known)
    found = find_run_sets(folders, listing=listing)
    name = None if reference is None else str(reference)
    if name is not None and name not in {part.system for part in found} and Path(name).is_dir():
        found = find_run_sets([*folders, name], listing=listing)
        folder = Path(name).resolve()
        name = next((part.system for part in found if part.folder == folder), name)
    if on_found is not None:
        on_found([file for part in found for file in part.files])
    selected = [part for part in found if not wanted or part.shift.name in wanted]
    if not selected:
        present = ", ".join(dict.fromkeys(part.shift.name for part in found))
        raise UsageError(f"no run set of {', '.join(sorted(wanted))}; the folders hold {present}")
    dataset = open_dataset(data if at_hand is None else at_hand)
    for part in selected:
        if part.shift.name not in dataset.manifest.shifts:
            raise UsageError(
                f"{part.folder} has runs of {part.shift.name}, and the data set {dataset.folder} "
                f"has {', '.join(dataset.manifest.shifts)}; give the data set of the runs "
                "(--data), or choose shifts (--shift)"
            )
    shifts_at_hand = {part.shift.name: part.shift for part in selected}
    tests = {name: test_set_of_shift(shift, dataset) for name, shift in shifts_at_hand.items()}
    run_sets = [OpenedRunSet.of(part, tests[part.shift.name], run_format) for part in selected]
    return OpenedRuns(run_sets, dataset.info, dataset, reference=name)


OnFound = Callable[[Sequence[Path]], object]
"""Callback that takes the list of run files."""

RunSetsSource = str | Path | Sequence[str | Path] | OpenedRuns
"""Folders of run sets, or an `OpenedRuns`."""


def open_extra_tests(
    runs: str | Path | Iterable[str | Path] | OpenedRuns,
    extra_test: Mapping[str, str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: ShiftNames = (),
    run_format: str = "auto",
    *,
    on_found: OnFound | None = None,
) -> OpenedRuns:
    """Return the runs of systems for extra test sets, or for variants of queries, not read yet.

    Args:
        runs: folders of run sets; an `OpenedRuns` is returned unchanged.
        extra_test: name -> the test set; see `evaluate_extra_tests`.
        data: the data set with the queries of variants, and with the training queries of models.
        shifts: the shifts whose models are opened; by default all.
        run_format: the format of run files.
        on_found: called with the list of run files, before they are read.

    Raises:
        MsShiftError: as `evaluate_extra_tests`.
    """
    if isinstance(runs, OpenedRuns):
        return runs
    test_sets = read_extra_tests(extra_test)
    varied = [test_set.name for test_set in test_sets if test_set.variants]
    if varied and len(varied) < len(test_sets):
        plain = ", ".join(part.name for part in test_sets if part.name not in varied)
        raise UsageError(
            f"{', '.join(varied)} holds variants of queries and {plain} does not; they are "
            "evaluated differently, so give them in two calls"
        )
    dataset = find_dataset(data)
    known = all_shifts(dataset)
    wanted, listing = shift_names(shifts, known=known), Listing(known)
    found = find_run_sets(runs, listing=listing)
    if dataset is not None:
        # A data set excludes passages of its own collection only.
        test_sets = tuple(
            part if part.collection else part.excluding(dataset.exclusions) for part in test_sets
        )
    files = [file for part in found for file in part.files]
    folders = {part.folder: part.system for part in found}
    pairs: list[tuple[RunSet, TestSet]] = []
    warnings: list[str] = []
    for test_set in test_sets:
        extra = [
            replace(part, system=system, folder=folder)
            for folder, system in folders.items()
            if (place := extra_runs_path(folder, test_set.name)).is_dir()
            for part in find_run_sets(place, listing=listing)
        ]
        files += [file for part in extra for file in part.files]
        names = in_order(
            {part.shift.name for part in extra if not wanted or part.shift.name in wanted}
        )
        of_test = [part for name in names for part in extra if part.shift.name == name]
        if not of_test:
            raise NotFoundError(
                f"no system has runs for {test_set.name}; expected <system>/extra/{test_set.name}, "
                f"which 'msshift run ... --extra-test {test_set.name}={extra_test[test_set.name]}' "
                "makes"
            )
        if lacking := sorted({*folders.values()} - {part.system for part in of_test}):
            warnings.append(f"{test_set.name}: no runs of {', '.join(lacking)}")
        pairs += [(part, test_set) for part in of_test]
    if on_found is not None:
        on_found(files)
    run_sets = [OpenedRunSet.of(*pair, run_format) for pair in pairs]
    if any(test_set.needs_shift for test_set in test_sets):
        dataset = open_dataset(data)
        varied_sets = list(_with_plain(run_sets, found, dataset, run_format))
        return OpenedRuns(varied_sets, dataset.info, dataset, warnings=warnings)
    together = [
        (
            f"{whole.system} and {part.system} on {part.test}",
            [*whole.runs.values(), *part.runs.values()],
        )
        for part in run_sets
        if part.trained_per_group and (whole := trained_on_everything(part, run_sets)) is not None
    ]
    return OpenedRuns(run_sets, dataset=dataset, compared=together, warnings=warnings)


def _with_plain(
    run_sets: Sequence[OpenedRunSet], found: Iterable[RunSet], dataset: Dataset, run_format: str
) -> Iterator[OpenedRunSet]:
    """Yield the run sets, with `plain` where they are on variants of a shift's queries.

    Raise `RunError` if a system has no runs on the unchanged queries.
    """
    varied = [part for part in run_sets if part.test_set.needs_shift and part.shift]
    shifts = {part.shift_name: part.shift for part in varied if part.shift}
    queries = {name: test_set_of_shift(shift, dataset) for name, shift in shifts.items()}
    variants = {
        (part.test, part.shift_name): part.test_set.of_shift(
            part.shift_name, queries[part.shift_name].rows
        ).excluding(dataset.exclusions)
        for part in varied
    }
    plain = {
        (part.system, part.shift.name): OpenedRunSet.of(part, queries[part.shift.name], run_format)
        for part in found
        if part.shift.name in queries
    }
    for part in run_sets:
        shift = part.shift_name
        if part not in varied:
            yield part
        elif (part.system, shift) not in plain:
            raise RunError(
                f"{part.system} has runs on variants for {shift} and none on the queries as they "
                f"are, in {part.system}/{shift}, with which they are compared"
            )
        else:
            yield replace(
                part, test_set=variants[part.test, shift], plain=plain[part.system, shift]
            )


def trained_on_everything(
    part: OpenedRunSet, run_sets: Iterable[OpenedRunSet]
) -> OpenedRunSet | None:
    """Return the runs of the same system trained on everything: ``splade-all`` for ``splade``.

    They are on the same test set; `None` without such runs. A system in the same folder is
    preferred, then a run for the same shift. A model trained on everything is the same for all
    shifts.
    """
    folder = part.folder
    return min(
        (
            other
            for other in run_sets
            if other.test_set is part.test_set
            and other.folder.name == folder.name + _TRAINED_ON_ALL
            and not other.trained_per_group
        ),
        key=lambda other: (other.folder.parent != folder.parent, other.shift != part.shift),
        default=None,
    )
