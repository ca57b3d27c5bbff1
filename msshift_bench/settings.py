"""Tables of checked settings: recipes, systems and the settings of models.

The digest of a table stays the same when new fields are added with `added_field`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self, get_args

from pydantic import Field

from msshift_bench.checked import Checked, as_json, check_value
from msshift_bench.errors import Finding, UnknownNameError, UsageError, raise_errors


def added_field(default: Any, **limits: Any) -> Any:
    """Return the declaration of a field that was added after the first version of a table.

    A field with its default value is left out of digests. So the digests of older recipes, and of
    models trained with them, stay valid.

    Args:
        default: the default value.
        **limits: further arguments of `pydantic.Field`, e.g. ``ge=1``.
    """

    def is_default(value: object) -> bool:
        return bool(value == default)

    return Field(default, exclude_if=is_default, **limits)


def refusal(source: str, findings: Sequence[Finding]) -> UsageError:
    """Return an error that lists findings, each with its line if it is known.

    Args:
        source: the file or the table with the values.
        findings: the findings, at least one.
    """
    lines = []
    for finding in findings:
        where = f"{source}:{finding.line}" if finding.line else source
        fix = f" ({finding.fix})" if finding.fix else ""
        lines.append(f"{where}: {finding.message}{fix}")
    if len(lines) == 1:
        return UsageError(lines[0])
    return UsageError("\n  ".join([f"{source} contains {len(lines)} errors:", *lines]))


def _no_hint(_name: str) -> str:
    return ""


class Table(Checked):
    """Table of settings, whose fields are checked when the table is made."""

    def parameters(self) -> dict[str, Any]:
        """Return the fields as JSON values; an `added_field` with its default is omitted."""
        return dict(as_json(self.model_dump(), ""))

    def digest(self) -> str:
        """Return the SHA-256 of `parameters` as JSON with sorted keys: 64 hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.parameters(), sort_keys=True).encode()).hexdigest()

    @classmethod
    def with_defaults(cls, values: Mapping[str, Any], where: str) -> Self:
        """Return a table from values; a field without a value has its default.

        Args:
            values: field -> value; `None` means the default.
            where: the name of the table in messages, e.g. ``the search with splade``.

        Raises:
            UsageError: for unknown fields and wrong values; the message lists all.
        """
        chosen = {name: value for name, value in values.items() if value is not None}
        return check_value(chosen, cls, where, partial(refusal, where))

    def changed(self, **values: Any) -> Self:
        """Return a copy of the table with some fields changed.

        Args:
            **values: field -> new value.

        Raises:
            UsageError: for unknown fields and wrong values; the message lists all.
        """
        checked = check_value(
            {**dict(self), **values}, type(self), "the recipe", partial(refusal, "the recipe")
        )
        return self.model_copy(update=dict(checked))

    def with_changes(
        self, changes: Mapping[str, Any], hint_for: Callable[[str], str] = _no_hint
    ) -> Self:
        """Return a copy of the table with some fields changed, including fields of nested tables.

        Args:
            changes: field -> new value; a field of a nested table is ``table.field``.
            hint_for: function that returns a hint for the message, given an unknown field's name.

        Raises:
            UsageError: for unknown fields, or else for wrong values; the message lists all.
        """
        if not changes:
            return self
        self.check_names(changes, hint_for)
        values = nested(changes)
        for name, value in values.items():
            table = getattr(self, name)
            if isinstance(value, dict) and isinstance(table, Table):
                values[name] = {**dict(table), **value}
        return self.changed(**values)

    @classmethod
    def defaults(cls, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield the names of all fields with their defaults.

        Fields of a nested table follow it, as ``table.field``. The default of a required field is
        ``...``; the default of a nested table is `None`.

        Args:
            prefix: text before each name, but not before names of nested tables' fields.
        """
        for name, field in cls.model_fields.items():
            default = None if isinstance(field.default, Table) else field.default
            yield prefix + name, ... if field.is_required() else default
            for part in (field.annotation, *get_args(field.annotation)):
                if isinstance(part, type) and issubclass(part, Table):
                    yield from part.defaults(f"{name}.")

    @classmethod
    def check_names(cls, changes: Iterable[str], hint_for: Callable[[str], str]) -> None:
        """Raise UsageError with the unknown fields of `changes`, if any; see `with_changes`."""
        label = getattr(cls, "name", cls.__name__)
        names = [name for name, _ in cls.defaults()]
        unknown = []
        for name in changes:
            if name not in names:
                near = [valid for valid in names if valid.endswith(f".{name}")]
                hint = f"did you mean {near[0]!r}" if near else hint_for(name)
                unknown.append(UnknownNameError(f"field of {label}", name, names, hint))
        raise_errors(unknown, f"{len(unknown)} unknown fields of {label}:")


def nested(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes with each ``table.field`` moved to a dictionary of its table.

    Examples:
        >>> nested({"seed": 1, "training.steps": 10})
        {'seed': 1, 'training': {'steps': 10}}
    """
    values: dict[str, Any] = {}
    for name, value in changes.items():
        table, dot, field = name.partition(".")
        if dot:
            values.setdefault(table, {})[field] = value
        else:
            values[name] = value
    return values
