"""Schemas of JSON and TOML values: checking a file against a schema finds all errors at once.

A schema is a function of a value and its `Place`; it records the errors there.
"""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from msshift_bench.errors import Finding

__all__ = [
    "Place",
    "Schema",
    "digest",
    "integer",
    "list_of",
    "mapping_of",
    "number",
    "object_of",
    "choice",
    "text",
]

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value in a file, and the log for findings on it.

    Attributes:
        file: the file as the user named it.
        path: the JSON path, e.g. ``system.links.paper``.
        findings: collects them.
        lines: path -> line number, where known.
    """

    file: str
    path: str = ""
    findings: list[Finding] = field(default_factory=list)
    lines: Mapping[str, int] = field(default_factory=dict)

    def at(self, key: str | int) -> Place:
        """Return the place of a member or an item."""
        part = f"[{key}]" if isinstance(key, int) else f".{key}" if self.path else key
        return Place(self.file, self.path + part, self.findings, self.lines)

    def wrong(self, code: str, message: str, fix: str = "") -> None:
        """Record an error here."""
        what = f"{self.path}: {message}" if self.path else message
        self.findings.append(Finding(code, what, self.file, self.lines.get(self.path, 0), fix))


Schema = Callable[[Any, Place], None]


def text(limit: int, *, lines: bool = False, empty: bool = True) -> Schema:
    """Return the schema of a text.

    Args:
        limit: the most characters.
        lines: whether it may have line breaks.
        empty: whether it may be empty, or blank.
    """

    def check(value: Any, place: Place) -> None:
        if not isinstance(value, str):
            place.wrong("wrong-type", f"expected a text, found {_kind(value)}")
            return
        if len(value) > limit:
            place.wrong("text-too-long", f"{len(value)} characters where at most {limit} may stand")
        if not empty and not value.strip():
            place.wrong("empty-text", "must not be empty")
        bad = next((c for c in value if _is_control(c) and not (lines and c == "\n")), None)
        if bad is not None:
            name = unicodedata.name(bad, f"U+{ord(bad):04X}")
            place.wrong("control-character", f"holds the control character {name}", "remove it")

    return check


def _is_control(character: str) -> bool:
    # Cf also holds joiners of letters, which scripts need; only those that reorder text are
    # refused.
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in (
        "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
    )


def digest(value: Any, place: Place) -> None:
    """Check a SHA-256: 64 hexadecimal digits in small letters."""
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        place.wrong("wrong-digest-form", f"{_shown(value)} is not a SHA-256 (64 hex digits)")


def integer(low: int = 0, high: int = 2**53) -> Schema:
    """Return the schema of a whole number from `low` to `high`."""

    def check(value: Any, place: Place) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            place.wrong("wrong-type", f"expected a whole number, found {_kind(value)}")
        elif not low <= value <= high:
            place.wrong("out-of-range", f"{_shown(value)} is not from {low} to {high}")

    return check


def number(low: float = -math.inf, high: float = math.inf) -> Schema:
    """Return the schema of a finite number from `low` to `high`."""

    def check(value: Any, place: Place) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            place.wrong("wrong-type", f"expected a number, found {_kind(value)}")
        elif not low <= value <= high or not math.isfinite(value):
            place.wrong("out-of-range", f"{_shown(value)} is not from {low} to {high}")

    return check


def choice(kind: str, valid: Collection[Any], listed: Collection[str] = ()) -> Schema:
    """Return the schema of one of several values; the message names the nearest.

    Args:
        kind: what the value names.
        valid: the values.
        listed: what the message lists, if `valid` holds more than can be listed.
    """

    def check(value: Any, place: Place) -> None:
        if isinstance(value, dict | list) or value not in valid:
            names = listed or valid
            place.wrong(
                f"unknown-{kind.replace(' ', '-')}",
                f"unknown {kind} {_shown(value)}{_nearest(value, names)}",
                f"one of: {', '.join(map(str, names))}",
            )

    return check


def list_of(schema: Schema, most: int, least: int = 0) -> Schema:
    """Return the schema of a list of `least` to `most` items."""

    def check(value: Any, place: Place) -> None:
        if not isinstance(value, list):
            place.wrong("wrong-type", f"expected a list, found {_kind(value)}")
        elif not least <= len(value) <= most:
            place.wrong("out-of-range", f"{len(value)} items where {least} to {most} may stand")
        else:
            for position, item in enumerate(value):
                schema(item, place.at(position))

    return check


def mapping_of(key: Schema, value: Schema, most: int) -> Schema:
    """Return the schema of an object with keys of one schema and values of another."""

    def check(members: Any, place: Place) -> None:
        if not isinstance(members, dict):
            place.wrong("wrong-type", f"expected an object, found {_kind(members)}")
        elif len(members) > most:
            place.wrong("out-of-range", f"{len(members)} members where at most {most} may stand")
        else:
            for name, item in members.items():
                key(name, place)
                value(item, place.at(name))

    return check


def object_of(
    members: Mapping[str, Schema], may_lack: Collection[str] = (), *, others: bool = False
) -> Schema:
    """Return the schema of an object with exactly these members.

    Args:
        members: name -> schema.
        may_lack: the names of optional members.
        others: whether it may have other members, of any schema.
    """

    def check(value: Any, place: Place) -> None:
        if not isinstance(value, dict):
            place.wrong("wrong-type", f"expected an object, found {_kind(value)}")
            return
        for name in value:
            if name not in members and not others:
                place.at(_printable(name)).wrong(
                    "unknown-field", f"there is no such field{_nearest(name, members)}"
                )
        for name, schema in members.items():
            if name in value:
                schema(value[name], place.at(name))
            elif name not in may_lack:
                place.at(name).wrong("missing-field", "is missing")

    return check


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "nothing" if value is None else names.get(type(value), "a number")


def _printable(value: str) -> str:
    return ascii(value)[1:61] if len(value) > 60 or not value.isprintable() else value


def _shown(value: Any) -> str:
    return ascii(value)[:80] if not isinstance(value, str) else repr(_printable(value))


def _nearest(value: Any, valid: Collection[Any]) -> str:
    near = difflib.get_close_matches(str(value)[:100], map(str, valid), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
