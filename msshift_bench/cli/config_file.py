"""Read ``msshift.toml``: default values of options that are used often.

A command uses the first value in this order: the option, the environment variable, the file, the
built-in default. Python functions do not read the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from msshift_bench.cli.output import note
from msshift_bench.errors import Finding, NotFoundError, UsageError
from msshift_bench.shifts import DATASET_NAME

if TYPE_CHECKING:
    from msshift_bench.checked import Checked

CONFIG_NAME = "msshift.toml"

CONFIG_VARIABLE = "MSSHIFT_CONFIG"
"""The environment variable with the path of the file."""

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "data": "MSSHIFT_HOME",
        "collection": "MSSHIFT_COLLECTION",
        "cache": "MSSHIFT_CACHE",
        "recipes": "MSSHIFT_RECIPES",
    }
)
"""Key -> the environment variable of the same setting, which overrides the file."""

_READ_RECIPES = ("demo", "experiment", "list", "pretrain", "run")
"""The commands that find recipes by name."""


ConfigFile = Mapping[str, tuple[Any, str]]
"""The settings of a file: key -> its value, and FILE:LINE. Paths are absolute."""


def read_config(path: Path) -> ConfigFile:
    """Return the settings in a file.

    Raises:
        NotFoundError: if the file does not exist.
        UsageError: if it is not TOML, or a key is unknown or has a wrong value. The message lists
            every error with its line and the nearest valid name.
    """
    from msshift_bench.checked import parse_toml, toml_lines  # slow, and rarely needed

    model = settings_model()

    def refuse(findings: list[Finding]) -> UsageError:
        listed = "".join(f"\n  {finding}" for finding in findings)
        return UsageError(
            f"{path} cannot be used:{listed}\nvalid keys are {', '.join(model.model_fields)}; "
            "docs/configuration.md explains them"
        )

    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(
            f"no file {path}, the value of {CONFIG_VARIABLE}; correct the value, or unset it"
        ) from None
    values = parse_toml(content, model, path, refuse).model_dump(exclude_none=True, mode="json")
    folder, lines = path.absolute().parent, toml_lines(content.decode())
    return {
        key: (_resolve(key, value, folder), f"{path}:{lines.get(key, 1)}")
        for key, value in values.items()
    }


def settings_model() -> type[Checked]:
    """Return the pydantic model of the file; pydantic is imported only for an existing file."""
    from pydantic import Field

    from msshift_bench.checked import Checked, Listed, ShiftName, Text, valid_name
    from msshift_bench.words import WORDS

    path = Annotated[Text, Field(min_length=1)]

    class Settings(Checked):
        data: path | None = None
        collection: path | None = None
        cache: path | None = None
        recipes: path | None = None
        shifts: Annotated[tuple[ShiftName, ...], Listed, Field(min_length=1)] | None = None
        words: Annotated[str, valid_name("words", WORDS)] | None = None

    return Settings


def _resolve(key: str, value: Any, folder: Path) -> Any:
    """Return a value, made absolute if it is a path; a collection may also be a name."""
    # As in --collection, mini is the generated collection, and ./mini a folder.
    if key in ("shifts", "words") or (key == "collection" and value.partition(":")[0] == "mini"):
        return value
    path = folder / Path(value).expanduser()
    names_a_path = key != "collection" or value.startswith((".", "/", "~")) or path.is_dir()
    return str(path) if names_a_path else value


def find_config() -> ConfigFile | None:
    """Return the settings in the file of `CONFIG_VARIABLE`, or else the nearest file.

    The search is from the current folder up to the user's home, or else the root. If no file is
    found, the result is `None`.

    Raises:
        NotFoundError: if the path in `CONFIG_VARIABLE` does not exist.
        UsageError: see `read_config`.
    """
    if named := os.environ.get(CONFIG_VARIABLE):
        return read_config(Path(named).expanduser())
    current, home = Path.cwd(), os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 (home may be unknown)
    for folder in (current, *current.parents):
        path = folder / CONFIG_NAME
        if path.is_file():
            return read_config(Path(CONFIG_NAME) if folder == current else path)
        if str(folder) == home:
            break
    return None


def apply_config(context: Any) -> None:
    """Set options that were not typed from the configuration file, and print their keys on stderr.

    The data set, the shifts and the words become arguments of the command. The collection, the
    cache and the folder of recipes become environment variables until the command ends. With
    ``--test``, ``--qrels`` or ``--published``, the file's shifts are ignored.

    Args:
        context: typer's context of the command.

    Raises:
        NotFoundError: if the path in `CONFIG_VARIABLE` does not exist.
        UsageError: see `read_config`.
    """
    file = find_config()
    if not file:
        return
    parameters = {
        key_of(parameter): parameter
        for parameter in context.command.params
        if context.get_parameter_source(parameter.name).name == "DEFAULT"
    }
    # A test set, files of queries and published figures do not depend on the shifts of the file.
    if any(context.params.get(name) for name in ("test", "qrels", "published")):
        parameters.pop("shifts", None)
    recipes = ["recipes"] if context.command.name in _READ_RECIPES else []
    keys = [
        key
        for key in (*parameters, "cache", *recipes)
        if key in file and not os.environ.get(VARIABLES.get(key, ""))
    ]
    if keys:
        path, _, _ = file[keys[0]][1].rpartition(":")
        note(f"from {path}: {', '.join(keys)}")
    for key in keys:
        value, _ = file[key]
        if key in ("collection", "cache", "recipes"):
            os.environ[VARIABLES[key]] = value
            context.call_on_close(partial(os.environ.pop, VARIABLES[key]))
            continue
        # `doctor` accepts several data sets.
        needs_list = parameters[key].nargs == -1 and not isinstance(value, list)
        context.params[parameters[key].name] = [value] if needs_list else value


def key_of(parameter: Any) -> str:
    """Return the configuration key for a typer parameter; "" if it has none."""
    if parameter.name == "data" or parameter.default == DATASET_NAME:
        return "data"
    if parameter.name == "collection" and parameter.default is None:
        return "collection"
    return {"shift": "shifts", "shifts": "shifts", "words": "words"}.get(parameter.name, "")
