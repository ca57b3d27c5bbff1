"""Values that people write into files, as pydantic models: every error has its file, line and fix.

A model names its fields and their types; `read_toml` and `read_rows` read a file into it, or raise
an error with all that is wrong at once.
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
"""The largest file to read; a description takes a thousandth of it."""

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
"""Divides a message from its fix."""
_DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
"""The fields that are named and no others, of exactly their types."""


class Checked(BaseModel):
    """A value of a file: the model's fields and no others, of exactly their types, for good."""

    model_config = STRICT

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield what several fields break together: the field to change, and what is wrong."""
        yield from ()

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        broken = [
            InitErrorDetails(
                type=_refuse("broken-rule", "{problem}", problem=problem),
                loc=(name,),
                input=attrgetter(name)(self),
            )
            for name, problem in self.rules()
        ]
        if broken:
            # pydantic puts the errors of an error at their places within the outer value.
            raise ValidationError.from_exception_data(type(self).__name__, broken)
        return self


Model = TypeVar("Model", bound=Checked)
Record = TypeVar("Record")


def _refuse(code: str, message: str, **values: str) -> PydanticCustomError:
    return PydanticCustomError(code, message, values)


def _without_control(text: str) -> str:
    for letter in text:
        # Marks of direction can show a text other than it is: U+200E, U+202A and their kin.
        is_control = (
            unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")
            or unicodedata.bidirectional(letter) in _DIRECTIONS
            or letter in "\u200e\u200f\ufeff"
        )
        if is_control and letter != "\n":
            name = unicodedata.name(letter, f"U+{ord(letter):04X}")
            raise _refuse(
                "control-character", "holds the control character {name}\fremove it", name=name
            )
    return text


def _on_one_line(text: str) -> str:
    if "\n" in text:
        raise _refuse("control-character", "holds a line break\fwrite it on one line")
    return text


def _filled(text: str) -> str:
    if not text.strip():
        raise _refuse("empty-text", "must not be empty")
    return text


def _web_link(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
    except ValueError:
        is_web = False
    if not is_web or re.search(r"[\s<>\"'`\\^{}|]", text):
        raise _refuse("wrong-link", "{text} is no link\fwrite https://host/...", text=_shown(text))
    return text


def valid_name(kind: str, valid: Collection[str], listed: Collection[str] = ()) -> AfterValidator:
    """Return the check of a name; the message for another lists the valid ones and the nearest.

    Args:
        kind: what it names, e.g. ``"board"``.
        valid: the valid names.
        listed: what the message lists, if not `valid`.
    """

    def check(name: str) -> str:
        if name not in valid:
            near, names = _nearest(name, listed or valid), ", ".join(listed or valid)
            message = "unknown {kind} {name}{near}\fone of: {names}"
            raise _refuse(
                f"unknown-{kind}", message, kind=kind, name=_shown(name), near=near, names=names
            )
        return name

    return AfterValidator(check)


Text = Annotated[str, Field(max_length=4000), AfterValidator(_without_control)]
"""A text of several lines; it may be empty."""
Line = Annotated[Text, Field(max_length=300), AfterValidator(_on_one_line)]
"""A text on one line; it may be empty."""
Name = Annotated[Line, Field(max_length=200), AfterValidator(_filled)]
"""A text on one line that is not empty."""
Link = Annotated[Line, AfterValidator(_web_link)]
"""The address of a page, http or https."""
Slug = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9-]{0,63}$")]
"""A name of small letters, digits and hyphens."""
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""A SHA-256 in hexadecimal digits."""
Count = Annotated[int, Field(ge=0, le=2**53)]
"""A whole number from 0."""
GroupName = Annotated[str, Field(pattern=r"^\w{1,64}$")]
"""The name of a group of labels: letters, digits and underscores."""
ShiftName = Annotated[str, valid_name("shift", SHIFTS, LISTED_SHIFTS)]
"""The name of a shift."""
Listed = Field(strict=False)
"""Of a field that is a tuple: files hold lists."""


def read_toml(path: Path, model: type[Model], error: type[DataError], summary: str) -> Model:
    """Read a TOML file into a model.

    Args:
        path: the file.
        model: the model of its content.
        error: what to raise if something is wrong.
        summary: the first line of its message.

    Raises:
        NotFoundError: if there is no such file.
        DataError: an `error` with everything that is wrong, each with its line.
    """
    refuse = partial(error, summary)
    return parse_toml(_read(path, refuse), model, path, refuse)


def parse_toml(
    content: bytes,
    model: type[Model],
    source: Path | str,
    refuse: Callable[[list[Finding]], Exception],
) -> Model:
    """Return a TOML file's content as a model.

    Args:
        content: the content.
        model: the model.
        source: the file, as the user named it.
        refuse: makes the error to raise of everything that is wrong, each with its line.
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
    """Return the line of each table and key of a TOML file, for the usual ways to write them.

    Args:
        content: the file's content.

    Returns:
        Path, e.g. ``system.links.paper`` -> 1-based line.
    """
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(content.splitlines(), 1):
        if match := re.match(r"\s*\[([\w.-]+)\]", line):
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
    """Return a value as a model; `lines` has the line of each of its keys, where they are known."""
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
    """Return the value of a JSON file as a dataclass whose fields have types of this module.

    What is made in Python is not checked again. The dataclass, and those within it, have
    `STRICT` as ``__pydantic_config__``, as a `Checked` has it.

    Args:
        value: what `json.loads` returned.
        kind: the dataclass.
        source: the file, as the user named it.
        refuse: makes the error to raise of everything that is wrong, each with its place.
    """
    try:
        # As JSON again: only there does pydantic take an object for a dataclass, and be strict.
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
    """Return a value as JSON can hold it, so that what a file holds reads back.

    Infinity and NaN become the texts ``inf``, ``-inf`` and ``nan``, as JSON has no numbers for
    them; arrays and numbers of NumPy become lists and numbers, sets sorted lists, paths texts.

    Args:
        value: the value; those in mappings, lists, tuples and sets are converted, too.
        name: how messages call it, e.g. ``parameters``.
        other: given a value that JSON cannot hold, and its name, returns one that it can.

    Raises:
        UsageError: naming the key of a value that JSON cannot hold, without `other`.
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
            f"{name} is {quoted(value)} of type {type(value).__name__}, which JSON cannot hold; "
            "give numbers, texts, or lists and mappings of them"
        ) from error
    return as_json(plain, name, other)


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def read_rows(path: Path, model: type[Model], error: type[DataError], summary: str) -> list[Model]:
    """Read a CSV file whose columns are the fields of a model, an empty cell as a missing value.

    Columns of fields that have a default may be absent.

    Raises:
        NotFoundError: if there is no such file.
        DataError: an `error` with everything that is wrong, each with its line.
    """
    _read(path, partial(error, summary))
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
            Finding("wrong-type", f"{name}: {cell!r} is no number in plain digits", str(path), line)
            for name, cell in cells.items()
            if "_" in cell and not isinstance(getattr(row, name), str)
        ]
    log.stop_if_any(error, summary)
    if findings:
        raise error(summary, findings)
    return rows


def write_rows(path: Path, model: type[Model], rows: Iterable[Model]) -> None:
    """Write a CSV file that `read_rows` reads back, whole or not at all."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(model.model_fields)
    writer.writerows(row.model_dump().values() for row in rows)
    with write_atomically(path) as file:
        file.write(text.getvalue().encode())


def _read(path: Path, refuse: Callable[[list[Finding]], Exception]) -> bytes:
    """Return the bytes of a file that is none too large and no link."""
    if not path.exists():
        raise NotFoundError(f"no file {path}")
    if path.is_symlink() or not path.is_file():
        raise refuse([Finding("not-a-file", "is a link, or no plain file", str(path))])
    if path.stat().st_size > MAX_BYTES:
        raise refuse([Finding("too-large", f"more than {MAX_BYTES:,} bytes", str(path))])
    return path.read_bytes()


def _finding(
    model: type, error: Any, source: Path | str, lines: Mapping[str, int], line: int = 0
) -> Finding:
    """Return pydantic's error in the words of this package, at its place in the file."""
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
            near = _nearest(place[-1], fields)
            code, message = "unknown-field", f"there is no such field{near}"
            fix = "" if near or not fields else f"one of: {', '.join(fields)}"
        case "literal_error":
            names = re.findall("'(.*?)'", details["expected"])
            code, message = "unknown-name", f"unknown name {_shown(value)}{_nearest(value, names)}"
            fix = f"one of: {', '.join(names)}"
        case _ if value is None and code.endswith("_type"):
            code, message = "missing-field", "must not be empty"
        case _ if code.endswith(("_type", "_parsing", "_from_float")):
            expected, got = _TYPES[code.split("_")[0]], _KINDS.get(type(value), "a number")
            got = str(value) if isinstance(value, float) else got
            code, message = "wrong-type", f"expected {expected}, found {got}"
        case "string_pattern_mismatch":
            message = f"{_shown(value)} is not of the form {details['pattern']}"
            code = "wrong-form"
        case "too_short" | "too_long":
            least, most = details.get("min_length"), details.get("max_length")
            limit = f"at least {least}" if code == "too_short" else f"at most {most}"
            unit = "characters" if isinstance(value, str) else "items"
            code, message = "out-of-range", f"{len(value)} {unit} where {limit} may stand"
        case _ if "_" in code:
            code, message = "out-of-range", f"{message} (found {_shown(value)})"
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place]
    path = "".join(parts).lstrip(".")
    # An inline table or a list has one line, that of the key before it.
    known = re.sub(r"\[.*", "", path) if path not in lines else path
    while known not in lines and "." in known:
        known = known.rpartition(".")[0]
    line = line or lines.get(known, 0)
    return Finding(code, f"{path}: {message}" if path else message, str(source), line, fix)


def _fields_at(kind: Any, place: list[Any]) -> list[str]:
    """Return the names of the fields of the model that stands at a place within another."""
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


def _nearest(value: object, valid: Collection[str]) -> str:
    near = difflib.get_close_matches(str(value)[:100], valid, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def _shown(value: object) -> str:
    return ascii(value) if len(ascii(value)) <= 60 else f"{ascii(value)[:60]}..."
