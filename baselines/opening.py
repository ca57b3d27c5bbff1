"""Opening a system by what a user calls it: a name, a class, a folder or a Hub id of a model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msshift_bench.baselines.in_memory import open_model
from msshift_bench.baselines.systems.finding import find_systems, load_class
from msshift_bench.baselines.systems.recipe import (
    TrainingSettings,
    find_recipe,
    nested,
    parse_recipe,
    refusal,
)
from msshift_bench.baselines.systems.system import System
from msshift_bench.checked import check_value
from msshift_bench.errors import UnknownNameError, UsageError

__all__ = ["open_system"]


def open_system(
    what: str, recipe: str | Path | None = None, changes: Mapping[str, Any] | None = None
) -> System:
    """Return a system, ready for a `Plan`.

    Args:
        what: the name of a system of this package or of another, ``module:Class`` of one that no
            package registers, or the folder or the id on the Hugging Face Hub of a model, which
            then ranks as it is.
        recipe: of a system that is trained: the name of a recipe that comes along, by default
            ``mini``, or a TOML file.
        changes: replaces fields: name -> value, for a field of a table ``table.name``. What can be
            replaced for a model, see `open_model`.

    Returns:
        The system; what `find_systems` holds tells its class.

    Raises:
        UnknownNameError: if there is no such system, recipe or field.
        UsageError: if a value is impossible, or a system that has no recipe is given one.
        NotFoundError: if there is no such file or model.

    Examples:
        >>> open_system("bm25", changes={"depth": 10}).depth
        10
    """
    values = dict(changes or {})
    systems = find_systems()
    if what in systems:
        kind = systems[what]
    elif ":" in what:
        kind = load_class(what)
    elif "/" in what or Path(what).is_dir():
        _refuse_recipe(what, recipe)
        return open_model(what, nested(values))
    else:
        raise UnknownNameError("system", what, systems)
    if issubclass(kind, TrainingSettings):
        system = parse_recipe(kind, find_recipe(kind.name, "mini" if recipe is None else recipe))
    else:
        _refuse_recipe(what, recipe)
        where = f"the fields of {kind.name}"
        kind.check_names(values, _who_has)
        return check_value(nested(values), kind, where, partial(refusal, where))
    return system.with_changes(values, _who_has)


def _refuse_recipe(what: str, recipe: str | Path | None) -> None:
    if recipe is not None:
        raise UsageError(f"{what} is not trained by a recipe; leave {str(recipe)!r} out")


def _who_has(name: str) -> str:
    """Say which systems have a field; "" if none does."""
    systems = [system.name for system in find_systems().values() if name in system.model_fields]
    return f"it is a field of {', '.join(systems)}" if systems else ""
