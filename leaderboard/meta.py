"""``meta.toml``: a submitter's description of a system."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from msshift_bench.errors import Finding, NotFoundError, SubmissionError
from msshift_bench.leaderboard.boards import BOARDS
from msshift_bench.leaderboard.layout import (
    AUTHORS,
    LINKS,
    NOTE,
    REPRODUCTION,
    SYSTEM,
    TRAINING,
    by_shift,
)
from msshift_bench.leaderboard.submission import Reproduction, SystemInfo
from msshift_bench.schema import (
    Place,
    Schema,
    choice,
    date,
    object_of,
    text,
    toml_lines,
    url,
)

__all__ = ["Meta", "meta_template", "read_meta"]

_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Meta:
    """A submitter's description of a system.

    Attributes:
        folder: the folder of the file; paths are relative to it.
        name: the file as the user named it.
        board: the board for the results.
        authors: the names of the authors.
        note: a note on this version.
        submitted: the day.
        system: the system.
        training: data, hard_negatives, distillation, seeds and hardware.
        reproduction: how others make the results again; `None` if it is not stated.
        queries: shift -> `OWN_SPLIT`, `NONE`, `UNDECLARED` (of `trained_on`) or a pattern of paths.
    """

    folder: Path
    name: str
    board: str
    authors: tuple[str, ...]
    note: str
    submitted: str
    system: SystemInfo
    training: Mapping[str, Any]
    reproduction: Reproduction | None
    queries: Mapping[str, str]


def meta_template() -> str:
    """Return an empty ``meta.toml`` with an explanation of every field."""
    return (files(__package__) / "meta.toml").read_text("utf-8")


def _or_empty(schema: Schema) -> Schema:
    def check(value: Any, place: Place) -> None:
        if value != "":
            schema(value, place)

    return check


def _commands(value: Any, place: Place) -> None:
    before = len(place.findings)
    text(10_000, lines=True)(value, place)
    if len(place.findings) == before and _commands_of(value):
        REPRODUCTION["commands"](_commands_of(value), place)


def _commands_of(told: str) -> list[str]:
    return [line.strip() for line in told.splitlines() if line.strip()]


_MAY_BE_UNSTATED = ("year", "parameters")


def _pattern(value: Any, place: Place) -> None:
    if value == "":
        fix = "one of: msshift, none, undeclared, a path of lists of ids; or delete the line"
        place.wrong("empty-text", "must not be empty", fix)
    else:
        text(500, empty=False)(value, place)


_META = object_of(
    {
        "board": choice("board", BOARDS),
        "authors": AUTHORS,
        "note": NOTE,
        "submitted": _or_empty(date),
        "system": object_of(
            {
                **SYSTEM,
                **{name: _or_empty(SYSTEM[name]) for name in _MAY_BE_UNSTATED},
                "links": object_of(dict.fromkeys(LINKS, _or_empty(url))),
            }
        ),
        "reproduction": object_of(
            {"commands": _commands, "tolerance": _or_empty(REPRODUCTION["tolerance"])}
        ),
        "training": object_of(
            {
                **{name: schema for name, schema in TRAINING.items() if name != "per_group"},
                "queries": by_shift(_pattern),
            }
        ),
    }
)


def read_meta(path: str | Path) -> Meta:
    """Read a ``meta.toml``.

    Raises:
        NotFoundError: if there is no such file.
        SubmissionError: if it is no TOML, or fields are missing, unknown or wrong; with all of
            them, each with its line if it has one.
    """
    path = Path(path)
    if not path.is_file():
        what = f"{path} is not a file" if path.exists() else f"no file {path}"
        writes = "meta.toml" if path.exists() else path
        raise NotFoundError(f"{what}; 'msshift submit --template > {writes}' writes one to fill in")
    if path.stat().st_size > _MAX_BYTES:
        raise SubmissionError(f"{path} is too large to describe a system")
    summary = f"{path} does not describe a system:"
    try:
        content = path.read_bytes().decode()
        value = tomllib.loads(content)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        finding = Finding("not-toml", str(error), str(path), int(line[1]) if line else 0)
        raise SubmissionError(summary, [finding]) from None
    place = Place(str(path), lines=toml_lines(content))
    _META(value, place)
    if place.findings:
        raise SubmissionError(summary, place.findings)
    system = value["system"]
    for name in _MAY_BE_UNSTATED:
        system[name] = None if system[name] == "" else system[name]
    links = {name: link for name, link in system.pop("links").items() if link}
    return Meta(
        folder=path.parent,
        name=str(path),
        board=value["board"],
        authors=tuple(value["authors"]),
        note=value["note"],
        submitted=value["submitted"] or datetime.date.today().isoformat(),
        system=SystemInfo(**system, links=links),
        reproduction=_reproduction(value["reproduction"]),
        training={name: item for name, item in value["training"].items() if name != "queries"},
        queries=value["training"]["queries"],
    )


def _reproduction(told: Mapping[str, Any]) -> Reproduction | None:
    commands, tolerance = tuple(_commands_of(told["commands"])), told["tolerance"]
    return Reproduction(commands, None if tolerance == "" else tolerance) if commands else None
