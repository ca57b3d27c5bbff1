"""Fields of recipes: how their values are declared, and how a table of a TOML file is checked.

All that is wrong with a table is found at once: unknown and missing keys, types, ranges, and the
rules on several fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

from msshift_bench.errors import UnknownNameError, UsageError

__all__ = [
    "RecipeError",
    "Rule",
    "at_least",
    "below_one",
    "check_fields",
    "checked",
    "is_multiple",
    "make_recipe",
    "one_of",
]


def at_least(lowest: float, default: Any = MISSING) -> Any:
    """Declare a finite number that is not below `lowest`."""
    return field(default=default, metadata={"at_least": lowest})


def one_of(*valid: str, default: Any = MISSING) -> Any:
    """Declare a name that is one of `valid`."""
    return field(default=default, metadata={"one_of": valid})


def checked(check: Callable[[object], None]) -> Any:
    """Declare a value whose type and range `check` checks."""
    return field(metadata={"check": check})


class RecipeError(UsageError):
    """A recipe, or a table of one, holds wrong values.

    Args:
        problems: the key of each, e.g. ``search.depth``, and what is wrong with its value.
    """

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(message for _, message in problems))


class Rule(NamedTuple):
    """A rule on several fields of a table, which lists it in ``rules``.

    Attributes:
        names: the fields; a message is about the first one.
        problem: takes their values and returns what is wrong with them, or `None`.
    """

    names: tuple[str, ...]
    problem: Callable[..., str | None]


def check_fields(table: Any) -> None:
    """Check a table's fields against their declarations, and its rules.

    Raises:
        RecipeError: naming each wrong field, its value and what it may be.
    """
    problems, values = [], {}
    for item in fields(table):
        value = getattr(table, item.name)
        if (message := _problem_of(item, value)) is None:
            values[item.name] = value
        else:
            problems.append((item.name, message))
    problems += _broken_rules(type(table), values)
    if problems:
        raise RecipeError(problems)


def _problem_of(item: Field[Any], value: Any) -> str | None:
    """Return what is wrong with the value of a field, by its declaration."""
    if value is None:
        return None
    if "check" in item.metadata:
        try:
            item.metadata["check"](value)
        except UsageError as error:
            return str(error)
    valid = item.metadata.get("one_of")
    if valid is not None and value not in valid:
        return str(UnknownNameError(item.name, value, valid))
    lowest = item.metadata.get("at_least")
    if lowest is not None and not (math.isfinite(value) and value >= lowest):
        return f"{item.name} is {value}; it must be {lowest} or more"
    return None


def _broken_rules(kind: type, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the key and the message of each broken rule whose fields all have values."""
    rules: tuple[Rule, ...] = getattr(kind, "rules", ())
    for rule in rules:
        if values.keys() >= set(rule.names):
            message = rule.problem(*(values[name] for name in rule.names))
            if message is not None:
                yield rule.names[0], message


def is_multiple(whole: str, part: str) -> Rule:
    """Return the rule that one field is a multiple of another."""

    def problem(larger: int, smaller: int) -> str | None:
        if larger % smaller == 0:
            return None
        return f"{whole} is {larger}, which is no multiple of {part} {smaller}"

    return Rule((whole, part), problem)


def below_one(name: str) -> Rule:
    """Return the rule that a field is below 1."""

    def problem(value: float) -> str | None:
        return f"{name} is {value}; it must be below 1" if value >= 1 else None

    return Rule((name,), problem)


def make_recipe(kind: type, values: Mapping[str, Any], what: str) -> Any:
    """Return the dataclass of a recipe, or of a table of one, with its values.

    Args:
        kind: the class.
        values: the keys and values of the TOML table.
        what: the table's name in messages, e.g. ``recipe`` or ``[search]``.

    Raises:
        RecipeError: naming each key that is unknown, missing, of the wrong type or out of range.
    """
    items = {item.name: item for item in fields(kind)}
    hints = get_type_hints(kind)
    problems: list[tuple[str, str]] = []
    typed: dict[str, Any] = {}
    for name, value in values.items():
        try:
            if name not in items:
                raise UnknownNameError(f"key of the {what}", name, items)
            own = "check" in items[name].metadata
            found = value if own else _typed(name, value, hints[name])
        except RecipeError as error:
            problems += [(f"{name}.{key}", message) for key, message in error.problems]
        except UsageError as error:
            problems.append((name, str(error)))
        else:
            if (message := _problem_of(items[name], found)) is None:
                typed[name] = found
            else:
                problems.append((name, message))
    left_out = {name: item.default for name, item in items.items() if name not in values}
    missing = [name for name, default in left_out.items() if default is MISSING]
    if missing:
        problems.append(("", f"the {what} lacks {', '.join(missing)}"))
    defaults = {name: value for name, value in left_out.items() if value is not MISSING}
    problems += _broken_rules(kind, {**defaults, **typed})
    if problems:
        raise RecipeError(problems)
    return kind(**typed)


def _typed(name: str, value: Any, hint: Any) -> Any:
    """Return the value as its type; whole numbers become floats and tables their classes."""
    (expected,) = [part for part in get_args(hint) or (hint,) if part is not NoneType]
    if is_dataclass(expected) and isinstance(expected, type):
        if not isinstance(value, dict):
            raise UsageError(f"{name} is {value!r}; it must be a table")
        return make_recipe(expected, value, f"[{name}]")
    if expected is float and type(value) is int:
        return float(value)
    if type(value) is not expected:
        raise UsageError(f"{name} is {value!r}; it must be of type {expected.__name__}")
    return value
