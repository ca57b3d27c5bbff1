"""The gate: the checks that an entry must pass before a board accepts it.

The gate trusts no file of an author. Figures are computed from per-query scores when they are read.
The gate checks the scores against the board's test sets and against other entries. If it is given
the data set and the run files, it also scores the runs again.
"""

from __future__ import annotations

import datetime
import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.checked import write_rows
from msshift_bench.data import Dataset, digest_of_test_sets, sha256_of
from msshift_bench.errors import Finding, MsShiftError, NotFoundError, UsageError, are_warnings
from msshift_bench.evaluation import (
    EVERYTHING,
    NONE,
    UNKNOWN,
    Scores,
    open_run_sets,
    parse_measure,
    scores_table,
)
from msshift_bench.leaderboard.description import (
    BOARD_SHIFTS,
    BOARDS,
    DESCRIPTION_NAME,
    LISTS,
    TRAINING_NAME,
    UNLISTED,
    WORDS,
    count_training,
    list_path,
    read_ids,
)
from msshift_bench.leaderboard.entries import (
    FIGURES_NAME,
    RESCORED_NAME,
    SCORES_NAME,
    Entry,
    Rescored,
    figures_of,
    open_entry,
    read_rescored,
    score_submission,
)
from msshift_bench.output import Summary, Table
from msshift_bench.plumbing import clean_up
from msshift_bench.shifts import get_shift

_PLACE = re.compile(
    rf"{RESCORED_NAME}|\.{RESCORED_NAME}\.partial|"
    rf"({'|'.join(BOARDS)})/[a-z0-9][a-z0-9-]{{0,63}}/v[1-9][0-9]{{0,3}}/"
    r"([a-z]+\.(toml|csv|parquet)|train/[A-Za-z0-9-]+/[A-Za-z0-9-]+\.txt\.gz)"
)
"""The files of a folder of entries; a killed process may leave one that ends in ``partial``."""

_TOLERANCE = 1e-9
"""The largest difference of equal scores: their last bits depend on the processor."""

_LEAST_EQUAL = 0.9
"""The lowest share of equal scores for which two systems' runs are reported as near-equal. It is at
most 0.67 between the project's systems."""

_SEVERITIES: Mapping[str, Literal["error", "warning"]] = dict.fromkeys(
    ("out-above-in", "saw-held-out-group", "not-held-out", "near-scores"), "warning"
)
"""Finding code -> severity, for findings that do not refuse an entry."""

_AGAIN = "write the entry again with 'msshift submit'"


class GateResult(NamedTuple):
    """The gate's verdict on one version of an entry.

    Attributes:
        folder: its folder.
        entry: its content; `None` if it cannot be read.
        findings: errors and warnings.
        rescored: whether its run files were scored again, with equal scores and rankings.
    """

    folder: Path
    entry: Entry | None
    findings: list[Finding]
    rescored: bool = False

    @property
    def accepted(self) -> bool:
        """Whether no finding is an error."""
        return are_warnings(self.findings)


def check_entry(
    folder: Path, dataset: Dataset | None = None, runs: Path | None = None
) -> GateResult:
    """Check one version of an entry.

    Args:
        folder: its folder.
        dataset: the data set of its runs; if given, training queries are counted again.
        runs: a folder with a folder of run sets for each system. If `dataset` has the test queries
            and this is the newest version, the system's run files there are scored again.

    Returns:
        The verdict. Mistakes of the author are findings, not exceptions.
    """
    folder = folder.resolve()
    findings = list(_misplaced(folder.parents[2], folder))
    entry, rescored = None, False
    try:
        if not findings:
            entry = open_entry(folder)
            # Each check requires the checks before it to pass.
            for check in (_check_place, _check_figures, _check_training):
                findings += check(entry, dataset) if are_warnings(findings) else ()
            if dataset and runs and are_warnings(findings) and _can_rescore(entry, dataset, runs):
                findings += _check_rescored(entry, dict(rescore(entry, dataset, runs)))
                rescored = are_warnings(findings)
    except MsShiftError as error:
        findings += getattr(error, "findings", ()) or [
            Finding("unreadable", str(error), str(folder))
        ]
    return GateResult(folder, entry, findings, rescored)


def _misplaced(root: Path, folder: Path) -> Iterator[Finding]:
    """Yield a finding for each unexpected file or link in a folder of entries."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            yield Finding("not-a-file", "is a link or a special file", str(path), 0, "remove it")
        elif path.is_file() and not _PLACE.fullmatch(path.relative_to(root).as_posix()):
            message = f"unexpected file; expected <board>/<system>/v<n>, boards {', '.join(BOARDS)}"
            yield Finding("unexpected-file", message, str(path), 0, "remove it")


def _broken(entry: Entry, *rules: tuple[bool, str, str, str]) -> list[Finding]:
    """Return a finding for each broken rule: (is_broken, code, message, fix)."""
    return [
        Finding(code, message, str(entry.folder), 0, fix, _SEVERITIES.get(code, "error"))
        for is_broken, code, message, fix in rules
        if is_broken
    ]


def _check_place(entry: Entry, _: Dataset | None) -> list[Finding]:
    """Return findings if an entry's folder or files do not match its description."""
    description, files = entry.description, {p.name for p in entry.folder.iterdir() if p.is_file()}
    place, version = description.place, description.version
    measured = {DESCRIPTION_NAME, SCORES_NAME, TRAINING_NAME}
    expected = {DESCRIPTION_NAME, FIGURES_NAME} if description.reported else measured
    return _broken(
        entry,
        (
            place != "/".join(entry.folder.parts[-3:]),
            "wrong-folder",
            f"the folder does not match the description, which is for {place}",
            f"move it to {place}",
        ),
        (
            version > 1 and not description.note.strip(),
            "note-needed",
            f"'note' is empty in version {version}",
            "write in 'note' why this version replaces the last",
        ),
        (
            files != expected,
            "wrong-files",
            f"holds {', '.join(sorted(files))}; expected {', '.join(sorted(expected))}",
            "write 'source' or 'rankings' in the description only for reported figures",
        ),
    )


def _check_figures(entry: Entry, _: Dataset | None) -> Iterator[Finding]:
    """Yield findings on wrong test sets, shifts and systems, and on implausible scores."""
    board, name = entry.board, entry.description.system.name
    for shift, scores in entry.scores.items():
        digest = _test_set_digest(scores)
        values = [values for run in scores.runs.values() for values in run.scores.values()]
        yield from _broken(
            entry,
            (not entry.head["runs"], "no-head", "the metadata of its scores name no run", _AGAIN),
            (
                digest not in board.shifts.get(shift, ()),
                "test-set-not-accepted",
                f"{board.id} does not accept scores on these queries of {shift} ({digest[:12]})",
                "score the runs on the board's data set",
            ),
            (
                scores.system != name,
                "wrong-name",
                f"the scores are for {scores.system!r}, but the description is for {name!r}",
                _AGAIN,
            ),
            (
                not all(part.min() >= 0 and part.max() <= 1 for part in values),
                "out-of-range",
                f"a score on {shift} is not from 0 to 1",
                _AGAIN,
            ),
            (
                any(run.scores["nDCG@10"].min() >= 1 for run in scores.runs.values()),
                "leaks-qrels",
                f"on {shift} a run ranks every relevant passage first: it holds the qrels",
                "submit the system's own rankings",
            ),
        )
    shifts = {figure.shift for figure in entry.figures if figure.shift in BOARD_SHIFTS}
    measures = {parse_measure(figure.measure).name for figure in entry.figures}
    losses = [
        [f.number for f in entry.figures if (f.shift, f.measure, f.figure) == (*names, "loss")]
        for names in itertools.product(shifts, measures)
    ]
    yield from _broken(
        entry,
        (
            not shifts <= board.shifts.keys(),
            "unknown-shift",
            f"figures on {', '.join(sorted(shifts))}; {board.id} has {', '.join(board.shifts)}",
            "remove the figures on other shifts",
        ),
        (
            any(part and max(part) < 0 for part in losses),
            "out-above-in",
            "on a shift, Out is above Avg In in every group",
            "check that each run is named by its held-out group",
        ),
    )


def _test_set_digest(scores: Scores) -> str:
    return digest_of_test_sets({group: scores.ids_of(group) for group in scores.groups})


_SAW_ALL = "let no claim rest on its losses, or declare the training queries of each model"


def _check_training(entry: Entry, dataset: Dataset | None) -> Iterator[Finding]:
    """Yield findings on training counts that differ from lists, scores or a given data set."""
    declared = entry.description.training.queries
    rows = {row.key: row for row in entry.training}
    due = [
        (shift, model, group)
        for shift, scores in entry.scores.items()
        for model in scores.models
        for group in scores.groups
        if declared.get(shift) not in UNLISTED
    ]
    model_declarations = {
        declared.get(s) for s, part in entry.scores.items() if part.trained_per_group
    }
    findings = _broken(
        entry,
        (
            list(rows) != due or set(entry.scores) != set(declared if entry.scores else ()),
            "wrong-rows",
            "training queries and scores have different shifts, models or groups",
            _AGAIN,
        ),
        (
            bool(entry.scores) and not {*declared.values()} <= {*WORDS, LISTS},
            "wrong-path",
            f"'training.queries' of an entry must be {LISTS!r} or one of {', '.join(WORDS)}, got "
            + ", ".join(map(repr, declared.values())),
            _AGAIN,
        ),
        *(
            (
                word in model_declarations,
                code,
                f"'training.queries' is {word!r}, but there is a model for every group",
                fix,
            )
            for code, word, fix in (
                ("not-untrained", NONE, "declare the training queries of each model"),
                ("not-held-out", EVERYTHING, _SAW_ALL),
            )
        ),
    )
    yield from findings
    for shift, scores in entry.scores.items() if are_warnings(findings) else ():
        matching = dataset if dataset is not None and _has_test_sets(dataset, scores) else None
        is_countable = matching is not None or declared[shift] in (NONE, LISTS)
        counted = count_training(entry.description, entry.folder, scores, matching)
        # Without the data set, the queries of its own split cannot be counted.
        again = {row.key: row for row in (counted if is_countable else ())}
        yield from _check_held_out(entry, scores, matching if declared[shift] == LISTS else None)
        for key, row in [item for item in rows.items() if item[0][0] == shift]:
            # Leaked queries can be counted only with texts, groups only with labels.
            unchecked: dict[str, object] = {} if matching else {"leaked": row.leaked}
            unchecked |= {"state": row.state} if not matching or row.state == UNKNOWN else {}
            recounted = again.get(key, row).model_copy(update=unchecked)
            size = len(scores.groups[key[2]])
            yield from _broken(
                entry,
                (row != recounted, "wrong-count", f"{row}; counted again: {recounted}", _AGAIN),
                (
                    max(row.test_queries, row.leaked or 0) > size,
                    "wrong-count",
                    f"{row}: more than the group's {size} test queries",
                    _AGAIN,
                ),
            )


def _check_held_out(entry: Entry, scores: Scores, dataset: Dataset | None) -> Iterator[Finding]:
    """Yield a warning for each model whose list holds queries of its held-out group.

    There is none without a data set.
    """
    shift = get_shift(scores.shift_name)
    # If the groups are training sets, a model has the name of its training set.
    queries = [] if dataset is None or shift.by_size else dataset.rows(shift.name, "queries")
    for model in scores.models if queries else ():
        held_out = {query.query_id for query in queries if query.group == model}
        seen = len(
            held_out.intersection(read_ids(list_path(entry.folder, LISTS, shift.name, model)))
        )
        message = f"{shift.name}/{model}: {seen} training queries belong to the held-out {model}"
        yield from _broken(
            entry, (seen > 0, "saw-held-out-group", message, "train without these queries")
        )


def _has_test_sets(dataset: Dataset, scores: Scores) -> bool:
    is_held = scores.shift_name in dataset.manifest.shifts
    rows = dataset.test_sets(get_shift(scores.shift_name)).items() if is_held else ()
    ids = {group: [row.query_id for row in part] for group, part in rows}
    return digest_of_test_sets(ids) == _test_set_digest(scores)


def _can_rescore(entry: Entry, dataset: Dataset, runs: Path) -> bool:
    """Return whether a version is the newest, has run files, and `dataset` has its test queries."""
    has_runs = bool(entry.scores) and (runs / entry.description.system.name).is_dir()
    is_newest = not entry.folder.with_name(f"v{entry.description.version + 1}").is_dir()
    return has_runs and is_newest and all(_has_test_sets(dataset, s) for s in entry.scores.values())


def rescore(entry: Entry, dataset: Dataset, runs: Path) -> Iterator[tuple[str, Scores]]:
    """Score the run files of an entry's system again, and yield (shift, scores).

    Args:
        entry: the entry.
        dataset: the data set of the runs.
        runs: the system's folder of run sets, or the folder that contains it.

    Raises:
        NotFoundError: if there is no run set.
        RunError: if a run file is missing or malformed.
        UsageError: if `runs` does not hold one system's runs, or the data set has other test
            queries than the entry. Also if the runs have other seeds or groups, or the entry has
            reported figures.
    """
    name = entry.description.system.name
    folder = runs / name if (runs / name).is_dir() else runs
    opened = open_run_sets(folder, dataset, list(entry.scores))
    if len({part.system for part in opened.run_sets if part.shift_name in entry.scores}) != 1:
        raise UsageError(
            f"{folder} must hold one system's runs on {', '.join(entry.scores)}; give --runs the "
            f"folder that holds {name}/<shift>/..., or one system's folder"
        )
    for part in opened.run_sets:
        if not _has_test_sets(dataset, entry.scores[part.shift_name]):
            raise UsageError(
                f"{dataset.folder} has other test queries of {part.shift_name} than "
                f"{entry.board.id}; give --data the board's data set"
            )
    for scores in score_submission(opened, name).scores:
        shift = scores.shift_name
        if [*scores.runs] != [*entry.scores[shift].runs]:
            raise UsageError(
                f"the runs on {shift} have other seeds or groups than the entry; run its commands "
                "without changes"
            )
        yield shift, scores


def _check_rescored(entry: Entry, rescored: dict[str, Scores]) -> Iterator[Finding]:
    """Yield findings if run files, scored again, have other scores or rankings than the entry."""
    for shift, scores in entry.scores.items():
        same, count = _same_rankings(entry, [rescored[shift]] if shift in rescored else [])
        stored, again = scores_table(scores), scores_table(rescored.get(shift, scores))
        values = stored["score"].to_numpy(), again["score"].to_numpy()
        is_same = stored.drop_columns("score").equals(again.drop_columns("score"))
        yield from _broken(
            entry,
            (
                shift not in rescored,
                "no-runs",
                f"there are no run files on {shift}",
                "give --runs the runs on all shifts of the entry",
            ),
            (
                not is_same or not np.allclose(*values, rtol=0, atol=_TOLERANCE) or same < count,
                "rescored-differs",
                f"the run files on {shift} have other scores or rankings than the entry",
                f"give the original run files, or {_AGAIN}",
            ),
        )


def _same_rankings(entry: Entry, rescored: Iterable[Scores]) -> tuple[int, int]:
    """Return the number of run files with a ranking of the entry, and the number of run files.

    The second number is 0 for an entry without digests of rankings.
    """
    stored = {*entry.head["rankings"].values()} - {""}
    digests = [run.report.ranking for scores in rescored for run in scores.runs.values()]
    return sum(digest in stored for digest in digests), len(digests) if stored else 0


def repeat_entry(entry: Entry, dataset: Dataset, runs: Path) -> Summary:
    """Compare Avg In and Out of an entry with the figures of repeated runs.

    Returns:
        The mean with the largest difference for each shift and measure, and the number of means
        within the description's ``tolerance``. The facts count all ``means``, and the means that
        are ``off``: outside the tolerance, if the description has one.

    Raises:
        MsShiftError: as `rescore`.
    """
    shifts = dict(rescore(entry, dataset, runs))
    pairs = [
        (figure, again, abs(figure.number - again.number))
        for shift, scores in shifts.items()
        for figure, again in zip(figures_of(entry.scores[shift]), figures_of(scores), strict=True)
        if figure.figure in ("avg_in", "out")
    ]
    furthest = {
        (pair[0].shift, pair[0].measure): pair for pair in sorted(pairs, key=operator.itemgetter(2))
    }
    rows = [
        (
            BOARD_SHIFTS[figure.shift].title,
            figure.measure,
            f"{figure.figure} of {figure.group}",
            f"{figure.number:.6f}",
            f"{again.number:.6f}",
        )
        for figure, again, _ in furthest.values()
    ]
    header = ("Shift", "Measure", "Largest difference", "Entry", "These runs")
    absent = ", ".join(sorted(entry.scores.keys() - shifts))
    notes = [f"{runs} holds no runs on {absent}"] if absent else []
    tolerance, off = entry.description.reproduction.tolerance, 0
    if tolerance is None:
        notes.append("the description has no tolerance")
    else:
        off = sum(gap > tolerance + _TOLERANCE for _, _, gap in pairs)
        how = f"within {tolerance:g}" if tolerance else "to the last digit"
        notes.append(f"{len(pairs) - off} of {len(pairs)} means repeat {how}")
    same, count = _same_rankings(entry, shifts.values())
    notes += [f"{same} of {count} rankings have the entry's digests"] if count else []
    table = Table.plain("Means of the entry and of these runs", header, rows, names=3)
    return Summary({"means": len(pairs), "off": off}, [table], notes)


def check_entries(
    root: Path,
    *,
    base: Path | None = None,
    dataset: Dataset | None = None,
    runs: Path | None = None,
) -> tuple[list[GateResult], list[Finding]]:
    """Check every version of every entry, and entries against each other.

    Args:
        root: the folder of ``<board>/<system>/v<n>/``.
        base: the folder of accepted entries, e.g. a checkout of the main branch. None of
            its files may be missing or changed in `root`.
        dataset: see `check_entry`.
        runs: the folder of several systems' run sets. The newest versions of these systems are
            scored again.

    Returns:
        The verdict on each version, and the findings on the folder and between entries.

    Raises:
        NotFoundError: if one of the folders does not exist.
        MsShiftError: with `base`, if a description is wrong in an earlier version of a valid entry.
    """
    for folder in filter(None, (root, base, runs)):
        clean_up(folder)
        if not folder.is_dir():
            raise NotFoundError(f"no folder {folder}; give an existing folder")
    folders = sorted(path for path in root.glob("*/*/v*") if path.name[1:].isdecimal())
    verdicts = [check_entry(folder, dataset, runs) for folder in folders]
    accepted = [verdict.entry for verdict in verdicts if verdict.entry and verdict.accepted]
    misplaced = [
        finding
        for finding in _misplaced(root, root)
        if not any(folder in Path(finding.source).parents for folder in folders)
    ]
    # A submission alone does not hold earlier versions.
    gaps = [
        Finding("version-gap", "an earlier version is missing", str(entry.folder), 0, "restore it")
        for entry in accepted
        if base is not None and len(entry.older) < entry.description.version - 1
    ]
    changes = [] if base is None else _changes(base, root)
    return verdicts, [*misplaced, *gaps, *changes, *_equal_systems(accepted)]


def _equal_systems(entries: Iterable[Entry]) -> Iterator[Finding]:
    """Yield a finding for each system with the rankings or scores of another on its board.

    It is a warning if at least 90% of a run's scores are equal, but not all scores.
    """
    owners: dict[tuple[str, str], str] = {}
    earlier: dict[tuple[str, str], list[tuple[str, Floats]]] = {}
    for entry in entries:
        board, name = entry.description.board, entry.description.name
        fix = "submit a new version of a system under the system's first name"
        for run, ranking in entry.head.get("rankings", {}).items():
            owner = owners.setdefault((board, ranking), name) if ranking else name
            message = f"{run} has the rankings of a run of {owner}"
            yield from _broken(entry, (owner != name, "same-ranking", message, fix))
        for shift, scores in entry.scores.items():
            values = np.stack(
                [np.concatenate([*run.scores.values()]) for run in scores.runs.values()]
            )
            others = earlier.setdefault((board, shift), [])
            for owner, other_values in others:
                is_other = owner != name and other_values.shape[1] == values.shape[1]
                pairs = itertools.product(other_values, values) if is_other else ()
                equal = max((float(np.mean(a == b)) for a, b in pairs), default=0.0)
                code = "same-scores" if np.array_equal(other_values, values) else "near-scores"
                message = f"on {shift}, {equal:.1%} of a run's scores equal a run's of {owner}"
                yield from _broken(entry, (equal >= _LEAST_EQUAL, code, message, fix))
            others.append((name, values))


def _changes(base: Path, root: Path) -> Iterator[Finding]:
    """Yield a finding for each missing, changed or added file of an accepted version.

    A changed ``rescored.csv`` is also a finding.
    """
    before, after = (
        {path.relative_to(top): sha256_of(path) for path in top.rglob("*") if path.is_file()}
        for top in (base, root)
    )
    versions = {name.parts[:3] for name in before}
    for name in sorted(name for name in {*before, *after} if before.get(name) != after.get(name)):
        where = str(root / name)
        if name.as_posix() == RESCORED_NAME:
            yield Finding(
                "badge-claimed",
                "was changed; only maintainers change this file",
                where,
                fix="restore it",
            )
        elif name.parts[:3] in versions:
            yield Finding(
                "changed",
                "was changed, added or removed in an accepted version",
                where,
                fix="restore the version; submit changes as a new version",
            )


def write_rescored(root: Path, verdicts: Iterable[GateResult]) -> list[str]:
    """Add the entries whose run files gave their scores to ``rescored.csv``, with today's date.

    Args:
        root: the folder of entries.
        verdicts: the verdicts on its entries.

    Returns:
        The paths of the added entries, e.g. ``mini/bm25/v1``, without entries already in the file.

    Raises:
        SubmissionError: if ``rescored.csv`` is malformed.
    """
    known, today = read_rescored(root), datetime.date.today().isoformat()
    rows = [
        Rescored(
            entry=verdict.entry.description.place,
            sha256=sha256_of(verdict.folder / SCORES_NAME),
            date=today,
        )
        for verdict in verdicts
        if verdict.rescored and verdict.entry is not None
    ]
    recorded = {(row.entry, row.sha256) for row in known}
    added = [row for row in rows if (row.entry, row.sha256) not in recorded]
    if added:
        merged = sorted([*known, *added], key=lambda row: (row.entry, row.date))
        write_rows(root / RESCORED_NAME, Rescored, merged)
    return [row.entry for row in added]
