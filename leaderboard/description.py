"""The boards of ``boards.toml``, and the descriptions of systems.

An author's ``system.toml`` describes a system, its training and how to repeat its results.
``training.csv`` holds counts that need the data set: for each model the number of its training
queries, their digest, and the number of test queries of each group among them.
"""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from msshift_bench.checked import (
    Checked,
    Count,
    Digest,
    Line,
    Link,
    Listed,
    Name,
    Slug,
    Text,
    read_toml,
    valid_name,
)
from msshift_bench.data import Dataset
from msshift_bench.errors import FindingLog, NotFoundError, SubmissionError
from msshift_bench.evaluation import (
    EVERYTHING,
    NONE,
    OWN_SPLIT,
    SEEN,
    UNKNOWN,
    UNSEEN,
    GroupState,
    Scores,
    group_states,
)
from msshift_bench.leakage import TIERS, find_leakage
from msshift_bench.plumbing import numbered_lines
from msshift_bench.shifts import (
    LISTED_SHIFTS,
    SHIFTS,
    LabelledShift,
    Shift,
    get_shift,
    grouped,
    known_shifts,
)


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """One leaderboard.

    Attributes:
        id: the name of its folder of entries, e.g. ``"ms-marco"``.
        title: the title of its page.
        description: the data of its results.
        kind: ``"ms-marco"`` for the benchmark itself, ``"toy"`` for a smaller board.
        warning: the warning on top of every page of the board; "" for none.
        reference: the name of the system over which other systems' leads are computed.
        shifts: shift -> digests of the accepted test sets (`digest_of_test_sets`), in the order of
            the page.
        groups: shift -> group -> its one-line description.
    """

    id: str
    title: str
    description: str
    kind: Literal["ms-marco", "toy"]
    warning: str
    reference: str
    shifts: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, Mapping[str, str]]


def read_boards(text: str) -> Mapping[str, Board]:
    """Return id -> board for a text in the form of ``boards.toml``."""
    boards = {}
    for name, table in tomllib.loads(text).items():
        groups, shifts = table.get("groups", {}), {}
        for shift, accepted in table["shifts"].items():
            is_labelled = shift not in SHIFTS and shift in groups
            board_shift = get_shift(LabelledShift(shift, groups[shift]) if is_labelled else shift)
            shifts[board_shift.name] = tuple(accepted)
        boards[name] = Board(
            name,
            table["title"],
            table["description"].strip(),
            table["kind"],
            table["warning"].strip(),
            table["reference"],
            MappingProxyType(shifts),
            MappingProxyType({shift: groups.get(shift, SHIFTS[shift].groups) for shift in shifts}),
        )
    return MappingProxyType(boards)


BOARDS = read_boards((files(__package__) / "boards.toml").read_text("utf-8"))
"""Id -> board; the benchmark itself is first."""

BOARD_SHIFTS = known_shifts(shift for board in BOARDS.values() for shift in board.shifts)
"""Name -> shift: the built-in shifts, and the shifts of labels on the boards."""

ShiftName = Annotated[str, valid_name("shift", BOARD_SHIFTS, (*LISTED_SHIFTS, *BOARD_SHIFTS))]
"""The name of a shift."""


DESCRIPTION_NAME = "system.toml"
"""The file name of a description."""

FAMILIES = (
    "dense",
    "learned-sparse",
    "late-interaction",
    "cross-encoder",
    "lexical",
    "hybrid",
    "other",
)
"""The families of systems."""


_Unstated = BeforeValidator(lambda value: None if value == "" else value)


def _commands(value: object) -> object:
    """Return the stripped, non-empty lines of a text; other values unchanged."""
    if isinstance(value, str):
        return [line.strip() for line in value.splitlines() if line.strip()]
    return value


def _day(value: object) -> object:
    return datetime.date.today().isoformat() if value == "" else value


class SubmittedSystem(Checked):
    """The table ``[system]`` of a description; ``leaderboard/system.toml`` explains every field."""

    name: Slug
    title: Name
    family: Annotated[str, valid_name("family", FAMILIES)]
    description: Text
    backbone: Line
    backbone_revision: Line
    candidates: Line
    licence: Line
    year: Annotated[int | None, Field(ge=1950, le=2100), _Unstated]
    parameters: Annotated[Count | None, _Unstated]
    settings: Text = ""
    links: dict[Literal["paper", "code", "model"], Annotated[Link | None, _Unstated]]


class Training(Checked):
    """The table ``[training]`` of a description.

    `queries` is shift -> the declaration of its training queries: a path of lists, or one of
    `WORDS`.
    """

    data: Text
    hard_negatives: Text
    distillation: Text
    hardware: Text
    queries: dict[ShiftName, Name]


class Reproduction(Checked):
    """The table ``[reproduction]`` of a description."""

    commands: Annotated[tuple[Name, ...], Field(max_length=30), Listed, BeforeValidator(_commands)]
    tolerance: Annotated[float | None, Field(ge=0, le=1, strict=False), _Unstated]


class Description(Checked):
    """The author's description of a system on a board.

    Attributes:
        board: the id of the board.
        version: the version, from 1; an accepted version never changes.
        authors: the names of the authors.
        note: the reason for this version; "" for the first.
        submitted: the day, e.g. ``"2026-11-21"``; today if the file has ``""``.
        source: the paper that printed the figures; "" if the figures were computed.
        rankings: the published rankings that the figures were computed from; "" for none.
        system: the system.
        training: its training.
        reproduction: the commands that repeat the results, and the tolerance.
    """

    board: Annotated[str, valid_name("board", BOARDS)]
    version: Annotated[int, Field(ge=1, le=9999)]
    authors: Annotated[tuple[Name, ...], Field(min_length=1, max_length=100), Listed]
    note: Text
    submitted: Annotated[
        str, Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$"), BeforeValidator(_day)
    ]
    source: Line = ""
    rankings: Line = ""
    system: SubmittedSystem
    training: Training
    reproduction: Reproduction

    @property
    def reported(self) -> str:
        """The source of reported figures; "" if figures are computed from per-query scores."""
        return self.source or self.rankings

    @property
    def name(self) -> str:
        """The board and the system's name, e.g. ``mini/bm25``."""
        return f"{self.board}/{self.system.name}"

    @property
    def place(self) -> str:
        """The path of its folder below the folder of entries, e.g. ``mini/bm25/v1``."""
        return f"{self.name}/v{self.version}"


def description_template() -> str:
    """Return an empty ``system.toml`` with an explanation of every field."""
    return (files(__package__) / DESCRIPTION_NAME).read_text("utf-8")


def read_description(path: Path) -> Description:
    """Read a ``system.toml``.

    Raises:
        NotFoundError: if there is no such file.
        SubmissionError: if it is not TOML, or fields are missing, unknown or wrong. The error lists
            all such fields, with their lines if known.
    """
    if not path.exists():
        raise NotFoundError(
            f"no file {path}; 'msshift submit --template > {path}' writes a template to fill in"
        )
    return read_toml(path, Description, SubmissionError, f"{path} is no valid description:")


def write_description(path: Path, description: Description) -> None:
    """Write a ``system.toml`` for `read_description`; equal descriptions give equal bytes."""
    path.write_text("\n".join(_toml(description.model_dump())).lstrip("\n") + "\n", "utf-8")


def _toml(values: Mapping[str, Any], table: str = "") -> Iterator[str]:
    """Yield the lines of a table, the tables within it last."""
    if table:
        yield f"\n[{table}]"
    for name, value in values.items():
        if not isinstance(value, Mapping):
            # Texts, numbers and their lists have the same form in JSON and TOML.
            yield f"{name} = {json.dumps('' if value is None else value, ensure_ascii=False)}"
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _toml(value, f"{table}.{name}".lstrip("."))


TRAINING_NAME = "training.csv"
"""The file name of the counts of training queries."""

CLASSES: Mapping[str, str] = {
    "held-out": "its training queries are declared, and none is a test query of the shift",
    "held-out-reported": "its paper states its training queries and holds each group out of them; "
    "there are no lists to check",
    "trained-on-test": "test queries of the shift are among its training queries",
    "trained-on-everything": "it, or the encoder that it started from, was trained on queries of "
    "every group, without a list of them: it may have seen the test queries",
    "undeclared": "its training queries are not declared",
    "none": "it was not trained",
}
"""The classes of training queries: class -> its meaning."""

UNDECLARED = "undeclared"
"""The declaration that training queries are not declared."""
LISTS = "train/{shift}/{held_out}.txt.gz"
"""The declaration of lists in the entry's folder."""
UNLISTED = (EVERYTHING, UNDECLARED)
"""The declarations without countable queries."""
WORDS = (OWN_SPLIT, NONE, *UNLISTED)
"""The declarations that are not paths of lists."""
ALL_GROUPS = "all"
"""The model name of a system that was not trained per group."""
_MOST_IDS = 5_000_000
"""The most ids in a list: about five times the queries of MS MARCO."""


class TrainedOn(Checked):
    """Counts of a model's training queries, and of one group's test queries among them.

    Attributes:
        shift: the shift's name.
        model: the held-out group, or ``all`` for a system that was not trained per group.
        queries: the number of training queries.
        sha256: the SHA-256 of their ids, sorted, one per line.
        group: the group of the test queries.
        test_queries: the number of the group's test queries among the training queries.
        leaked: the number of the group's test queries with an equal or near-duplicate text among
            the training queries; `None` if not zero-shot to the model, or texts are unknown.
        state: ``seen`` if queries of the group are among the training queries, ``unseen`` if not,
            or ``unknown``.
    """

    shift: ShiftName
    model: Name
    queries: Count
    sha256: Digest
    group: Name
    test_queries: Count
    leaked: Count | None
    state: GroupState = UNKNOWN

    @property
    def key(self) -> tuple[str, str, str]:
        """The shift, model and group."""
        return self.shift, self.model, self.group


def leaked_share(rows: Iterable[TrainedOn], scores: Scores) -> float | None:
    """Return the share of zero-shot test queries that leaked into training, over all models.

    A test query counts once per model to which it is zero-shot.

    Returns:
        The share, 0 to 1; `None` if a count is missing, or nothing is zero-shot.
    """
    zero_shot = [
        len(scores.groups[group])
        for model in scores.models
        for group in _unseen(get_shift(scores.shift_name), model)
    ]
    all_counts = [row.leaked for row in rows if row.shift == scores.shift_name]
    counts = [leaked for leaked in all_counts if leaked is not None]
    return sum(counts) / sum(zero_shot) if counts and len(counts) == len(zero_shot) else None


def count_training(
    description: Description, folder: Path, scores: Scores, dataset: Dataset | None
) -> Iterator[TrainedOn]:
    """Count test queries among the declared training queries of each model.

    Args:
        description: the description, with the declaration for the shift.
        folder: the folder to which paths of lists are relative.
        scores: the system's scores on the shift.
        dataset: the data set of the runs. Without it, the data set's own split and leaked queries
            cannot be counted.

    Yields:
        A row per model and group; no rows for a declaration in `UNLISTED`.

    Raises:
        NotFoundError: if a list is missing, or the own split is declared and `dataset` is `None`.
        SubmissionError: if a file is not a list of query ids.
        UnknownNameError: if the data set's own split is declared, but the data set has none.
    """
    shift, declared = get_shift(scores.shift_name), description.training.queries[scores.shift_name]
    tests = {group: frozenset(scores.ids_of(group)) for group in scores.groups}
    labels = None
    if dataset is not None and declared not in WORDS:
        rows = dataset.rows(shift.name, "queries")
        labels = grouped((row.query_id, row.group) for row in rows)
    for model in scores.models if declared not in UNLISTED else ():
        ids = _declared_ids(declared, folder, shift, model, dataset)
        states = _group_states(declared, ids, shift, model, labels)
        leaked = _leaked(ids, {group: tests[group] for group in _unseen(shift, model)}, dataset)
        for group, queries in tests.items():
            yield TrainedOn(
                shift=shift.name,
                model=model,
                queries=len(ids),
                sha256=hashlib.sha256(_lines(ids)).hexdigest(),
                group=group,
                test_queries=len(queries.intersection(ids)),
                leaked=leaked.get(group),
                state=states.get(group, UNKNOWN),
            )


def _declared_ids(
    declared: str, folder: Path, shift: Shift, model: str, dataset: Dataset | None
) -> Sequence[str]:
    if declared == NONE:
        return ()
    if declared == OWN_SPLIT and dataset is not None:
        return [row.query_id for row in dataset.rows(f"{shift.name}-{model}", "train")]
    return read_ids(list_path(folder, declared, shift.name, model))


def _group_states(
    declared: str,
    ids: Iterable[str],
    shift: Shift,
    model: str,
    labels: Mapping[str, Sequence[str]] | None,
) -> dict[str, GroupState]:
    """Return group -> ``seen``, ``unseen`` or ``unknown``: whether a model trained on its queries.

    A group without queries in a list is ``unseen`` only if all queries of the list have `labels`:
    query_id -> its groups; `None` without a data set, or if no list is declared. With `None`, the
    declaration alone decides.
    """
    states = group_states(shift, model, declared)
    if labels is None or not states:
        return states
    listed = [labels.get(query_id) for query_id in ids]
    seen = {group for groups in listed for group in groups or ()}
    other_state = UNKNOWN if None in listed else UNSEEN
    return {group: SEEN if group in seen else other_state for group in states}


def list_path(folder: Path, pattern: str, shift: str, model: str) -> Path:
    """Return a list's path: `pattern` in `folder`, with ``{shift}`` and ``{held_out}`` replaced."""
    return folder / pattern.replace("{shift}", shift).replace("{held_out}", model)


def _unseen(shift: Shift, model: str) -> list[str]:
    """Return the groups whose test queries are zero-shot to a model; all for `ALL_GROUPS`."""
    return [group for group in shift.tested if model in (ALL_GROUPS, shift.out_model(group))]


def _leaked(
    ids: Sequence[str], tests: Mapping[str, frozenset[str]], dataset: Dataset | None
) -> dict[str, int]:
    """Return group -> the number of its leaked test queries; `{}` if a text is unknown."""
    if not ids or not tests:
        return dict.fromkeys(tests, 0)
    parts = (
        []
        if dataset is None or not dataset.manifest.texts
        else [dataset.rows(shift, "queries") for shift in dataset.manifest.shifts]
    )
    texts = {row.query_id: row.text for part in parts for row in part}
    zero_shot = {query_id for queries in tests.values() for query_id in queries}
    if not texts.keys() >= zero_shot.union(ids):
        return {}
    pairs = find_leakage(
        *({i: texts[i] for i in part} for part in (ids, sorted(zero_shot))),
        words=dataset.words if dataset else "whitespace",
    ).pairs
    # The last tier compares relevant passages, not texts.
    leaked = {pair.test_id for pair in pairs if pair.tier != TIERS[-1]}
    return {group: len(queries & leaked) for group, queries in tests.items()}


def read_ids(path: Path) -> tuple[str, ...]:
    """Read a list of query ids, one per line, plain or compressed.

    Returns:
        The ids, sorted; `()` for an empty file.

    Raises:
        NotFoundError: if there is no such file.
        SubmissionError: if the file is too long, damaged or binary, or if a line is empty, repeated
            or not one id.
    """
    log, ids = FindingLog(), set()
    for number, query_id in numbered_lines(path, log, problem_of=_problem_of_line):
        if query_id in ids:
            log.add("repeated-id", f"{query_id!r} is repeated", str(path), number, "remove it")
        ids.add(query_id)
    log.stop_if_any(SubmissionError, f"{path} is not a list of query ids:")
    return tuple(sorted(ids))


def _problem_of_line(number: int, line: bytes) -> str:
    """Return why a line cannot be read; "" if it can."""
    if number > _MOST_IDS:
        return f"more than {_MOST_IDS:,} ids"
    is_id = len(line) <= 200 and len(line.split()) <= 1
    return "" if is_id else f"{line[:50]!r} is not one query id"


def write_ids(path: Path, ids: Iterable[str]) -> None:
    """Write ids, sorted, one per line, compressed; equal ids give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(_lines(ids), mtime=0))


def _lines(ids: Iterable[str]) -> bytes:
    return "".join(f"{query_id}\n" for query_id in sorted(ids)).encode()
