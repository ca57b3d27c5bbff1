"""Tables of settings: checked fields, whose digest stays the same when new fields are added.

Recipes, systems and the settings of models are such tables.
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


def later(default: Any, **limits: Any) -> Any:
    """Declare a field that recipes did not have at first.

    With its default it is in no digest, so that what was trained without it still is what its
    recipe makes.
    """

    def is_default(value: object) -> bool:
        return bool(value == default)

    return Field(default, exclude_if=is_default, **limits)


def refusal(source: str, findings: Sequence[Finding]) -> UsageError:
    """Return the error that tells what is wrong with values, each with its line where there is one.

    Args:
        source: the file, or what else holds the values.
        findings: what is wrong with them.
    """
    lines = []
    for finding in findings:
        where = f"{source}:{finding.line}" if finding.line else source
        fix = f" ({finding.fix})" if finding.fix else ""
        lines.append(f"{where}: {finding.message}{fix}")
    if len(lines) == 1:
        return UsageError(lines[0])
    return UsageError("\n  ".join([f"{source} holds {len(lines)} errors:", *lines]))


def _no_hint(_name: str) -> str:
    return ""


class Table(Checked):
    """Settings in one table: fields that are checked when the table is made."""

    def parameters(self) -> dict[str, Any]:
        """Return all fields as JSON values, but those that are `later` and have their defaults."""
        return dict(as_json(self.model_dump(), ""))

    def digest(self) -> str:
        """Return the SHA-256 of all fields, as JSON with sorted keys: 64 hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.parameters(), sort_keys=True).encode()).hexdigest()

    @classmethod
    def with_defaults(cls, values: Mapping[str, Any], where: str) -> Self:
        """Return a table of some values; a field without a value has its default.

        Args:
            values: field -> value; `None` means the default.
            where: what messages call the values, e.g. ``the search with splade``.

        Raises:
            UsageError: naming each field that there is not, or whose value cannot be.
        """
        chosen = {name: value for name, value in values.items() if value is not None}
        return check_value(chosen, cls, where, partial(refusal, where))

    def changed(self, **values: Any) -> Self:
        """Return the table with other values, checked like all.

        Raises:
            UsageError: naming each field whose value cannot be.
        """
        checked = check_value(
            {**dict(self), **values}, type(self), "the recipe", partial(refusal, "the recipe")
        )
        return self.model_copy(update=dict(checked))

    def with_changes(
        self, changes: Mapping[str, Any], hint_for: Callable[[str], str] = _no_hint
    ) -> Self:
        """Return the table with other values, checked like all.

        Args:
            changes: field -> value; those of a table within by ``table.field``.
            hint_for: says, for the message, who has a field that this one has not.

        Raises:
            UsageError: naming each field that it has not, or whose value cannot be.
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
        """Yield the fields and their defaults, those of a table within after it: ``table.field``.

        The default of a field that has none, and that a recipe must give, is ``...``; that of a
        table is `None`.
        """
        for name, field in cls.model_fields.items():
            default = None if isinstance(field.default, Table) else field.default
            yield prefix + name, ... if field.is_required() else default
            for part in (field.annotation, *get_args(field.annotation)):
                if isinstance(part, type) and issubclass(part, Table):
                    yield from part.defaults(f"{name}.")

    @classmethod
    def check_names(cls, changes: Iterable[str], hint_for: Callable[[str], str]) -> None:
        """Check that there are the fields that are to be changed; see `with_changes`."""
        label = getattr(cls, "name", cls.__name__)
        names = [name for name, _ in cls.defaults()]
        unknown = []
        for name in changes:
            if name not in names:
                near = [valid for valid in names if valid.endswith(f".{name}")]
                hint = f"did you mean {near[0]!r}" if near else hint_for(name)
                unknown.append(UnknownNameError(f"field of {label}", name, names, hint))
        raise_errors(unknown, f"{label} does not have {len(unknown)} of these fields:")


def nested(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes with those of a table's fields, ``table.field``, in a dictionary of theirs."""
    values: dict[str, Any] = {}
    for name, value in changes.items():
        table, dot, field = name.partition(".")
        if dot:
            values.setdefault(table, {})[field] = value
        else:
            values[name] = value
    return values
