"""Schemas of JSON and TOML values: checking a file against a schema finds all errors at once.

A schema is a function of a value and its `Place`; it records the errors there. Schemas of manifests
and of the evaluator's report are derived from their dataclasses (`schema_of`), so that they cannot
drift apart.
"""

from __future__ import annotations

import datetime
import difflib
import functools
import math
import re
import types
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from msshift_bench.errors import Finding

__all__ = [
    "Place",
    "Schema",
    "anything",
    "boolean",
    "date",
    "digest",
    "integer",
    "list_of",
    "mapping_of",
    "number",
    "object_of",
    "choice",
    "optional",
    "schema_of",
    "slug",
    "text",
    "typed",
    "url",
]

_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_REPORT_TEXT = 2000
_REPORT_ITEMS = 10_000


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


def anything(value: Any, place: Place) -> None:
    """Accept any value."""


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


def slug(value: Any, place: Place) -> None:
    """Check a name that is also a folder: small letters, digits and hyphens."""
    if not isinstance(value, str) or not _SLUG.fullmatch(value):
        place.wrong(
            "wrong-slug",
            f"{_shown(value)} is not made of small letters, digits and hyphens (64 at most)",
        )


def digest(value: Any, place: Place) -> None:
    """Check a SHA-256: 64 hexadecimal digits in small letters."""
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        place.wrong("wrong-digest-form", f"{_shown(value)} is not a SHA-256 (64 hex digits)")


def date(value: Any, place: Place) -> None:
    """Check a day as ISO 8601 writes it, e.g. ``2026-11-21``."""
    try:
        good = isinstance(value, str) and datetime.date.fromisoformat(value).isoformat() == value
    except ValueError:
        good = False
    if not good:
        place.wrong("wrong-date", f"{_shown(value)} is not a day, written like 2026-11-21")


def url(value: Any, place: Place) -> None:
    """Check a link: http or https with a host, no user name, at most 500 characters."""
    before = len(place.findings)
    text(500)(value, place)
    if len(place.findings) > before:
        return
    try:
        parts = urlsplit(value)
        plain = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
    except ValueError:
        plain = False
    if not plain or re.search(r"[\s<>\"'`\\^{}|]", value):
        place.wrong(
            "wrong-link", f"{_shown(value)} is not a link", "write https://host/... or leave it out"
        )


def boolean(value: Any, place: Place) -> None:
    """Check true or false."""
    if not isinstance(value, bool):
        place.wrong("wrong-type", f"expected true or false, found {_kind(value)}")


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


def optional(schema: Schema) -> Schema:
    """Return the schema of null or `schema`."""

    def check(value: Any, place: Place) -> None:
        if value is not None:
            schema(value, place)

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


def schema_of(kind: Any, stricter: Mapping[type, Mapping[str, Schema]]) -> Schema:
    """Return the schema of the JSON that `jsonable.plain` makes of values of a type.

    Args:
        kind: a dataclass, a NamedTuple, or an annotation of their fields.
        stricter: dataclass -> field -> its schema, if its type is not strict enough.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        return optional(schema_of(_without_none(arguments), stricter))
    if origin is Literal:
        return choice("value", arguments)
    if origin is tuple:
        return list_of(schema_of(arguments[0], stricter), _REPORT_ITEMS)
    if origin is not None and issubclass(origin, Mapping):
        return mapping_of(text(200), schema_of(arguments[1], stricter), _REPORT_ITEMS)
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        members = {name: schema_of(hint, stricter) for name, hint in _hints(kind).items()}
        return object_of({**members, **stricter.get(kind, {})})
    simple: dict[Any, Schema] = {
        str: text(_REPORT_TEXT, lines=True),
        Any: anything,
        bool: boolean,
        int: integer(-(2**53)),
        float: optional(number()),  # NaN is written as null.
    }
    return simple[kind]


def typed(kind: Any, value: Any) -> Any:
    """Return the value of which `jsonable.plain` made a JSON value.

    Args:
        kind: its type, as `schema_of` takes it, or `Any` for a value that stays as it is.
        value: a JSON value of the schema of `kind`.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if value is None:
        return math.nan if kind is float else None
    if origin in (types.UnionType, Union):
        return typed(_without_none(arguments), value)
    if origin is tuple:
        return tuple(typed(arguments[0], item) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {name: typed(arguments[1], item) for name, item in value.items()}
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = _hints(kind)
        return kind(**{name: typed(hints[name], item) for name, item in value.items()})
    return value


def _without_none(kinds: tuple[Any, ...]) -> Any:
    (inner,) = [kind for kind in kinds if kind is not types.NoneType]
    return inner


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the names and annotations of a type's fields."""
    hints = get_type_hints(kind)
    names = [member.name for member in fields(kind)] if is_dataclass(kind) else kind._fields
    return {name: hints[name] for name in names}


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
