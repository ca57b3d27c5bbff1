"""The leaderboards, as ``boards.toml`` describes them, and systems, as their authors do.

An author's ``system.toml`` says what a system is, what it trained on, and how to repeat it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from msshift_bench.checked import (
    Checked,
    Count,
    Line,
    Link,
    Listed,
    Name,
    ShiftName,
    Slug,
    Text,
    read_toml,
    valid_name,
)
from msshift_bench.errors import NotFoundError, SubmissionError
from msshift_bench.shifts import get_shift

__all__ = [
    "BOARDS",
    "Board",
    "DESCRIPTION_NAME",
    "Description",
    "digest_of_test_sets",
    "description_template",
    "read_description",
    "write_description",
]


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """One leaderboard.

    Attributes:
        id: the name of its folder of entries, e.g. ``"ms-marco"``.
        title: the title of its page.
        description: the data of its results.
        kind: ``"ms-marco"`` for the benchmark itself, ``"toy"`` for anything smaller.
        warning: the warning on top of every page of the board; "" for none.
        shifts: shift -> digests of the test sets that it accepts (`digest_of_test_sets`), in
            the order in which the page shows them.
        groups: shift -> group -> one line on it.
    """

    id: str
    title: str
    description: str
    kind: Literal["ms-marco", "toy"]
    warning: str
    shifts: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, Mapping[str, str]]


def _read() -> dict[str, Board]:
    tables = tomllib.loads((files(__package__) / "boards.toml").read_text("utf-8"))
    return {
        name: Board(
            name,
            table["title"],
            table["description"].strip(),
            table["kind"],
            table["warning"].strip(),
            MappingProxyType(
                {get_shift(shift).name: tuple(ok) for shift, ok in table["shifts"].items()}
            ),
            MappingProxyType(
                {
                    shift: table.get("groups", {}).get(shift, get_shift(shift).groups)
                    for shift in table["shifts"]
                }
            ),
        )
        for name, table in tables.items()
    }


BOARDS: Mapping[str, Board] = MappingProxyType(_read())
"""Every board by its id, the benchmark itself first."""


def digest_of_test_sets(members: Mapping[str, Iterable[str]]) -> str:
    """Return the digest of a shift's test sets: 64 hexadecimal digits.

    It is the SHA-256 of the lines ``group<tab>query_id``, sorted.

    Args:
        members: group -> ids of its test queries.
    """
    lines = sorted(f"{group}\t{query_id}\n" for group, ids in members.items() for query_id in ids)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


DESCRIPTION_NAME = "system.toml"
"""The name of the file in an entry."""

FAMILIES = (
    "dense",
    "learned-sparse",
    "late-interaction",
    "cross-encoder",
    "lexical",
    "hybrid",
    "other",
)
"""The kinds of systems."""


_Unstated = BeforeValidator(lambda value: None if value == "" else value)


def _commands(value: object) -> object:
    """Read one command a line."""
    if isinstance(value, str):
        return [line.strip() for line in value.splitlines() if line.strip()]
    return value


def _day(value: object) -> object:
    return datetime.date.today().isoformat() if value == "" else value


class SubmittedSystem(Checked):
    """What a system is; ``leaderboard/system.toml`` explains every field."""

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
    links: dict[Literal["paper", "code", "model"], Annotated[Link | None, _Unstated]]


class Training(Checked):
    """How it was trained."""

    data: Text
    hard_negatives: Text
    distillation: Text
    hardware: Text
    queries: dict[ShiftName, Name]


class Reproduction(Checked):
    """How others make the results again."""

    commands: Annotated[tuple[Name, ...], Field(max_length=30), Listed, BeforeValidator(_commands)]
    tolerance: Annotated[float | None, Field(ge=0, le=1, strict=False), _Unstated]


class Description(Checked):
    """A system on a board, as its author describes it.

    Attributes:
        board: the board of the results.
        version: from 1; an entry that stands never changes.
        authors: who made the system.
        note: why this version replaces the last.
        submitted: the day, e.g. ``"2026-11-21"``.
        source: the paper that printed the figures; "" if they are scores of runs.
        system: the system.
        training: how it was trained.
        reproduction: how others make the results again.
    """

    board: Annotated[str, valid_name("board", BOARDS)]
    version: Annotated[int, Field(ge=1, le=9999)]
    authors: Annotated[tuple[Name, ...], Field(min_length=1, max_length=100), Listed]
    note: Text
    submitted: Annotated[
        str,
        Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$"),
        BeforeValidator(_day),
    ]
    source: Line = ""
    system: SubmittedSystem
    training: Training
    reproduction: Reproduction

    @property
    def name(self) -> str:
        """Its name on all boards, e.g. ``mini/bm25``."""
        return f"{self.board}/{self.system.name}"

    @property
    def place(self) -> str:
        """Its folder among entries, e.g. ``mini/bm25/v1``."""
        return f"{self.name}/v{self.version}"


def description_template() -> str:
    """Return an empty ``system.toml`` with an explanation of every field."""
    return (files(__package__) / DESCRIPTION_NAME).read_text("utf-8")


def read_description(path: Path) -> Description:
    """Read a ``system.toml``.

    Raises:
        NotFoundError: if there is no such file.
        SubmissionError: if it is no TOML, or fields are missing, unknown or wrong; with all of
            them, each with its line if it has one.
    """
    if not path.exists():
        raise NotFoundError(
            f"no file {path}; 'msshift submit --template > {path}' writes one to fill in"
        )
    return read_toml(path, Description, SubmissionError, f"{path} does not describe a system:")


def write_description(path: Path, description: Description) -> None:
    """Write a ``system.toml`` that `read_description` reads back; equal values give equal bytes."""
    path.write_text("\n".join(_toml(description.model_dump())).lstrip("\n") + "\n", "utf-8")


def _toml(values: Mapping[str, Any], table: str = "") -> Iterator[str]:
    """Yield the lines of a table, the tables within it last."""
    if table:
        yield f"\n[{table}]"
    for name, value in values.items():
        if not isinstance(value, Mapping):
            # A text, a number and a list of these are written alike in JSON and in TOML.
            yield f"{name} = {json.dumps('' if value is None else value, ensure_ascii=False)}"
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _toml(value, f"{table}.{name}".lstrip("."))
