"""Pydantic models of files that people write; errors have the file, and line and fix if known.

A model declares fields and their types. `read_toml` reads a file into a model, and `read_rows` into
a model per row; or they raise one error with all findings.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import math
import re
import tomllib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import is_dataclass, replace
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Self, TypeVar, get_args, get_type_hints
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, to_jsonable_python

from msshift_bench.errors import DataError, Finding, FindingLog, NotFoundError, UsageError, quoted
from msshift_bench.plumbing import csv_rows, write_atomically
from msshift_bench.shifts import LISTED_SHIFTS, SHIFTS

__all__ = [
    "STRICT",
    "Checked",
    "Count",
    "Digest",
    "Line",
    "Link",
    "Listed",
    "GroupName",
    "Name",
    "ShiftName",
    "Slug",
    "Text",
    "as_json",
    "check_json",
    "check_value",
    "parse_toml",
    "valid_name",
    "read_rows",
    "read_toml",
    "toml_lines",
    "write_rows",
]

MAX_BYTES = 10_000_000
"""Largest size of a file, in bytes; a usual description has a thousandth of it."""

_TYPES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a table",
    "mapping": "a table",
    "model": "a table",
    "dataclass": "a table",
}
_KINDS = {dict: "a table", list: "a list", str: "a text", bool: "true or false"}
_FIX = "\f"
"""Separator between a message and its fix."""
_DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
"""Configuration of models: only declared fields, exact types, immutable, finite numbers."""


class Checked(BaseModel):
    """Base class of models of a file's values: only declared fields, exact types, immutable."""

    model_config = STRICT

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield each broken rule on several fields: the field to change, and the problem.

        Subclasses override it; by default there are no rules.
        """
        yield from ()

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        broken = [
            InitErrorDetails(
                type=_refuse("broken-rule", "{problem}", problem=problem),
                loc=(name,),
                input=attrgetter(name)(self),
            )
            for name, problem in self.rules()
        ]
        if broken:
            # pydantic adds the path of this table to the location of each error.
            raise ValidationError.from_exception_data(type(self).__name__, broken)
        return self


Model = TypeVar("Model", bound=Checked)
Record = TypeVar("Record")


def _refuse(code: str, message: str, **values: str) -> PydanticCustomError:
    return PydanticCustomError(code, message, values)


def _check_control_characters(text: str) -> str:
    for letter in text:
        # Marks of direction, such as U+200E and U+202A, can change how a text is displayed.
        is_control = (
            unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")
            or unicodedata.bidirectional(letter) in _DIRECTIONS
            or letter in "\u200e\u200f\ufeff"
        )
        if is_control and letter != "\n":
            name = unicodedata.name(letter, f"U+{ord(letter):04X}")
            raise _refuse(
                "control-character", "contains the control character {name}\fremove it", name=name
            )
    return text


def _check_one_line(text: str) -> str:
    if "\n" in text:
        raise _refuse("control-character", "contains a line break\fwrite it on one line")
    return text


def _check_not_empty(text: str) -> str:
    if not text.strip():
        raise _refuse("empty-text", "must not be empty")
    return text


def _check_web_link(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
    except ValueError:
        is_web = False
    if not is_web or re.search(r"[\s<>\"'`\\^{}|]", text):
        raise _refuse(
            "wrong-link", "{text} is not a link\fwrite https://host/...", text=_quote(text)
        )
    return text


def valid_name(kind: str, valid: Collection[str], listed: Collection[str] = ()) -> AfterValidator:
    """Return a pydantic validator that accepts only `valid` names.

    Its error message lists the valid names and suggests the nearest.

    Args:
        kind: the kind of thing that has the name, e.g. ``"board"``.
        valid: the valid names.
        listed: the names that the message lists; by default `valid`.
    """

    def check(name: str) -> str:
        if name not in valid:
            near, names = _hint(name, listed or valid), ", ".join(listed or valid)
            message = "unknown {kind} {name}{near}\fone of: {names}"
            raise _refuse(
                f"unknown-{kind}", message, kind=kind, name=_quote(name), near=near, names=names
            )
        return name

    return AfterValidator(check)


Text = Annotated[str, Field(max_length=4000), AfterValidator(_check_control_characters)]
"""A text of several lines, up to 4,000 characters, without control characters; it may be empty."""
Line = Annotated[Text, Field(max_length=300), AfterValidator(_check_one_line)]
"""A `Text` on one line, up to 300 characters; it may be empty."""
Name = Annotated[Line, Field(max_length=200), AfterValidator(_check_not_empty)]
"""A `Line` of up to 200 characters, not empty and not only white space."""
Link = Annotated[Line, AfterValidator(_check_web_link)]
"""The address of a page, http or https, without a user name."""
Slug = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]{0,63}$")]
"""A name of up to 64 small letters, digits and hyphens; a hyphen is not first."""
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""A SHA-256 digest in 64 hexadecimal digits."""
Count = Annotated[int, Field(ge=0, le=2**53)]
"""An integer from 0 to 2**53."""
GroupName = Annotated[str, Field(pattern=r"^\w{1,64}$")]
"""The name of a group of labels: up to 64 letters, digits and underscores."""
ShiftName = Annotated[str, valid_name("shift", SHIFTS, LISTED_SHIFTS)]
"""The name of a shift in `SHIFTS`, e.g. ``restrain-14k``; labelled shifts are refused."""
Listed = Field(strict=False)
"""Default of a tuple field that also accepts a list, since files contain lists."""


def read_toml(path: Path, model: type[Model], error: type[DataError], summary: str) -> Model:
    """Return the content of a TOML file as a model.

    Args:
        path: the file.
        model: the model of its content.
        error: the class of the error to raise for a wrong file.
        summary: the first line of the error's message.

    Raises:
        NotFoundError: if the file does not exist.
        DataError: an `error` with all findings, each with its line if known; also for a link, or
            more than `MAX_BYTES`.
    """
    refuse = partial(error, summary)
    return parse_toml(_read_bytes(path, refuse), model, path, refuse)


def parse_toml(
    content: bytes,
    model: type[Model],
    source: Path | str,
    refuse: Callable[[list[Finding]], Exception],
) -> Model:
    """Return a TOML file's content as a model.

    Args:
        content: the file's bytes.
        model: the model.
        source: the file, as the user named it.
        refuse: function that returns the error to raise for the findings.

    Raises:
        Exception: the result of `refuse` for all findings, each with its line if known.
    """
    try:
        text = content.decode()
        value = tomllib.loads(text)
    except UnicodeDecodeError as wrong:
        message = f"byte {wrong.start + 1} is not UTF-8"
        raise refuse([Finding("not-utf8", message, str(source))]) from None
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        line = re.search(r"at line (\d+)", str(wrong))
        finding = Finding("not-toml", str(wrong), str(source), int(line[1]) if line else 0)
        raise refuse([finding]) from None
    return check_value(value, model, source, refuse, toml_lines(text))


def toml_lines(content: str) -> dict[str, int]:
    """Return the line of each table and key of a TOML file, found by regular expressions.

    Quoted keys, dotted keys, and keys within inline tables are missing. Tables of an array
    (``[[name]]``) count as one table: a key has the line of its first occurrence.

    Args:
        content: the file's content.

    Returns:
        Dotted path, e.g. ``system.links.paper`` -> 1-based line.
    """
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(content.splitlines(), 1):
        if match := re.match(r"\s*\[\[?([\w.-]+)\]", line):
            table = f"{match[1]}."
            lines.setdefault(match[1], number)
        elif match := re.match(r"\s*([\w-]+)\s*=", line):
            lines.setdefault(table + match[1], number)
    return lines


def check_value(
    value: object,
    model: type[Model],
    source: Path | str,
    refuse: Callable[[list[Finding]], Exception],
    lines: Mapping[str, int] = MappingProxyType({}),
) -> Model:
    """Return a value as a model.

    Args:
        value: the value.
        model: the model.
        source: the file, as the user named it.
        refuse: function that returns the error to raise for the findings.
        lines: dotted path of a key -> its 1-based line; keys with an unknown line are missing.

    Raises:
        Exception: the result of `refuse` for all findings.
    """
    try:
        return model.model_validate(value)
    except ValidationError as wrong:
        raise refuse([_finding(model, item, source, lines) for item in wrong.errors()]) from None


def check_json(
    value: object,
    kind: type[Record],
    source: Path | str,
    refuse: Callable[[list[Finding]], Exception],
) -> Record:
    """Return the value of a JSON file as a dataclass, after checks of its fields.

    Objects that Python code makes from the dataclass are not checked. The dataclass, and its nested
    dataclasses, must have `STRICT` as ``__pydantic_config__``.

    Args:
        value: the result of `json.loads`.
        kind: the dataclass.
        source: the file, as the user named it.
        refuse: function that returns the error to raise for the findings.

    Raises:
        Exception: the result of `refuse` for all findings, each with the path of its field.
    """
    try:
        # In strict mode, pydantic makes a dataclass only from JSON text, not from a dict.
        adapter = _adapter(kind)  # type: ignore[arg-type]  # mypy does not know that classes hash
        checked: Record = adapter.validate_json(json.dumps(value))
    except ValidationError as wrong:
        findings = [_finding(kind, item, source, {}) for item in wrong.errors()]
        in_json = [
            replace(finding, message=finding.message.replace("a table", "an object"))
            for finding in findings
        ]
        raise refuse(in_json) from None
    return checked


def as_json(value: Any, name: str, other: Callable[[Any, str], Any] | None = None) -> Any:
    """Return a value converted to types of JSON, including nested values.

    Infinity and NaN become the strings ``inf``, ``-inf`` and ``nan``, because JSON has no such
    numbers. NumPy arrays and tuples become lists, NumPy numbers become numbers, sets become sorted
    lists, and paths become strings. A key that is no string becomes its JSON text.

    Args:
        value: the value.
        name: its name in messages, e.g. ``parameters``.
        other: function that converts a value without a JSON type, given the value and its name. Its
            result is returned unchanged.

    Raises:
        UsageError: if a value has no JSON type and `other` is `None`.
    """
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else json.dumps(as_json(key, name)): as_json(
                item, f"{name}.{key}".lstrip("."), other
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [as_json(item, f"{name}[{place}]", other) for place, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return sorted((as_json(item, name, other) for item in value), key=json.dumps)
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if value is None or isinstance(value, str | int | float):
        return value
    try:
        plain = value.tolist() if hasattr(value, "tolist") else to_jsonable_python(value)
    except (TypeError, ValueError) as error:
        if other is not None:
            return other(value, name)
        raise UsageError(
            f"{name} is {quoted(value)} of type {type(value).__name__}, which JSON cannot store; "
            "use numbers, strings, or lists and mappings of them"
        ) from error
    return as_json(plain, name, other)


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def read_rows(path: Path, model: type[Model], error: type[DataError], summary: str) -> list[Model]:
    """Return a model per row of a CSV file, whose columns are its fields; an empty cell is `None`.

    Columns of fields with a default may be absent. A header without rows gives `[]`.

    Args:
        path: the file.
        model: the model of a row.
        error: the class of the error to raise for a wrong file.
        summary: the first line of the error's message.

    Raises:
        NotFoundError: if the file does not exist.
        DataError: an `error` with all malformed lines, or else with all wrong values.
    """
    _read_bytes(path, partial(error, summary))
    log, rows, findings = FindingLog(), [], []
    needed = [name for name, field in model.model_fields.items() if field.is_required()]
    for line, cells in csv_rows(path, tuple(needed), log):
        filled = {name: cell or None for name, cell in cells.items()}
        try:
            row = model.model_validate(filled, strict=False)
            rows.append(row)
        except ValidationError as wrong:
            findings += [_finding(model, item, path, {}, line) for item in wrong.errors()]
            continue
        findings += [
            Finding(
                "wrong-type",
                f"{name}: {cell!r} contains '_'; write the number in plain digits",
                str(path),
                line,
            )
            for name, cell in cells.items()
            if "_" in cell and not isinstance(getattr(row, name), str)
        ]
    log.stop_if_any(error, summary)
    if findings:
        raise error(summary, findings)
    return rows


def write_rows(path: Path, model: type[Model], rows: Iterable[Model]) -> None:
    """Write rows atomically to a CSV file that `read_rows` can read."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(model.model_fields)
    writer.writerows(row.model_dump().values() for row in rows)
    with write_atomically(path) as file:
        file.write(text.getvalue().encode())


def _read_bytes(path: Path, refuse: Callable[[list[Finding]], Exception]) -> bytes:
    """Return a file's bytes; raise an error if it is missing, a link, or over `MAX_BYTES`."""
    if not path.exists():
        raise NotFoundError(f"no file {path}")
    if path.is_symlink() or not path.is_file():
        raise refuse([Finding("not-a-file", "is a link, or not a regular file", str(path))])
    if path.stat().st_size > MAX_BYTES:
        raise refuse([Finding("too-large", f"more than {MAX_BYTES:,} bytes", str(path))])
    return path.read_bytes()


def _finding(
    model: type, error: Any, source: Path | str, lines: Mapping[str, int], line: int = 0
) -> Finding:
    """Return a pydantic error as a finding, with the file, and the line or 0 if it is unknown."""
    place = [part for part in error["loc"] if part != "[key]"]
    code, value, details = error["type"], error["input"], error.get("ctx", {})
    message, _, fix = error["msg"].partition(_FIX)
    match code:
        case "json_invalid":
            code = "not-json"
        case "missing":
            code, message = "missing-field", "is missing"
        case "extra_forbidden" | "unexpected_keyword_argument":
            fields = _fields_at(model, place[:-1])
            near = _hint(place[-1], fields)
            code, message = "unknown-field", f"there is no such field{near}"
            fix = "" if near or not fields else f"one of: {', '.join(fields)}"
        case "literal_error":
            names = re.findall("'(.*?)'", details["expected"])
            code, message = "unknown-name", f"unknown name {_quote(value)}{_hint(value, names)}"
            fix = f"one of: {', '.join(names)}"
        case _ if value is None and code.endswith("_type"):
            code, message = "missing-field", "must not be empty"
        case _ if code.endswith(("_type", "_parsing", "_from_float")):
            expected, got = _TYPES[code.split("_")[0]], _KINDS.get(type(value), "a number")
            got = str(value) if isinstance(value, float) else got
            code, message = "wrong-type", f"expected {expected}, found {got}"
        case "string_pattern_mismatch":
            message = f"{_quote(value)} is not of the form {details['pattern']}"
            code = "wrong-form"
        case "too_short" | "too_long":
            least, most = details.get("min_length"), details.get("max_length")
            limit = f"at least {least}" if code == "too_short" else f"at most {most}"
            unit = "characters" if isinstance(value, str) else "items"
            code, message = "out-of-range", f"{len(value)} {unit}; {limit} are allowed"
        case _ if "_" in code:
            code, message = "out-of-range", f"{message} (found {_quote(value)})"
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place]
    path = "".join(parts).lstrip(".")
    # Keys of an inline table, and items of a list, have the line of the key before them.
    known = re.sub(r"\[.*", "", path) if path not in lines else path
    while known not in lines and "." in known:
        known = known.rpartition(".")[0]
    line = line or lines.get(known, 0)
    return Finding(code, f"{path}: {message}" if path else message, str(source), line, fix)


def _fields_at(kind: Any, place: list[Any]) -> list[str]:
    """Return the names of a nested model's fields, given its path in the outer model `kind`.

    A type without fields gives `[]`.
    """
    for part in place:
        inner = [option for option in get_args(kind) if option not in (type(None), Ellipsis)]
        fields = _types_of_fields(kind)
        kind = fields.get(part, inner[-1] if inner else None)
        if type(None) in get_args(kind):
            kind = get_args(kind)[0]
    return list(_types_of_fields(kind))


def _types_of_fields(kind: Any) -> dict[str, Any]:
    if hasattr(kind, "model_fields"):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    return get_type_hints(kind) if is_dataclass(kind) else {}


def _hint(value: object, valid: Collection[str]) -> str:
    near = difflib.get_close_matches(str(value)[:100], valid, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def _quote(value: object) -> str:
    return ascii(value) if len(ascii(value)) <= 60 else f"{ascii(value)[:60]}..."
