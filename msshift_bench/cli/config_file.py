"""``msshift.toml``: values for options that are typed again and again.

A command takes a value from the first place that has one: the option, the environment variable, the
file, the default. From Python, the file is not read.
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
"""The environment variable that names the file, wherever it is."""

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "data": "MSSHIFT_HOME",
        "collection": "MSSHIFT_COLLECTION",
        "cache": "MSSHIFT_CACHE",
        "recipes": "MSSHIFT_RECIPES",
    }
)
"""Key -> the environment variable of the same setting, which wins over the file."""

_READ_RECIPES = ("demo", "experiment", "list", "pretrain", "run")
"""The commands that find recipes by name."""


ConfigFile = Mapping[str, tuple[Any, str]]
"""What a file sets: key -> its value, and where it stands, FILE:LINE. ``data`` and ``cache`` are
absolute paths, and so is ``collection`` if it is a folder."""


def read_config(path: Path) -> ConfigFile:
    """Read a file.

    Raises:
        NotFoundError: if there is none.
        UsageError: if it is not TOML, or a key is unknown or has a wrong value; the message has
            all that is wrong, each with its line and the nearest valid name.
    """
    from msshift_bench.checked import parse_toml, toml_lines  # most people have no such file

    model = settings_model()

    def refuse(findings: list[Finding]) -> UsageError:
        listed = "".join(f"\n  {finding}" for finding in findings)
        return UsageError(
            f"{path} cannot be used:{listed}\nvalid are {', '.join(model.model_fields)}; "
            "docs/configuration.md explains them"
        )

    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(f"no file {path}, which {CONFIG_VARIABLE} names") from None
    values = parse_toml(content, model, path, refuse).model_dump(exclude_none=True, mode="json")
    folder, lines = path.absolute().parent, toml_lines(content.decode())
    return {
        key: (_resolve(key, value, folder), f"{path}:{lines.get(key, 1)}")
        for key, value in values.items()
    }


def settings_model() -> type[Checked]:
    """Return the model of the file; pydantic is imported only where there is a file."""
    from pydantic import Field

    from msshift_bench.checked import Checked, Listed, ShiftName, Text, valid_name
    from msshift_bench.words import WORDS

    place = Annotated[Text, Field(min_length=1)]

    class Settings(Checked):
        data: place | None = None
        collection: place | None = None
        cache: place | None = None
        recipes: place | None = None
        shifts: Annotated[tuple[ShiftName, ...], Listed, Field(min_length=1)] | None = None
        words: Annotated[str, valid_name("words", WORDS)] | None = None

    return Settings


def _resolve(key: str, value: Any, folder: Path) -> Any:
    """Make paths of the file absolute; the name of a collection that is no folder stays."""
    # As for --collection, a folder that is called mini is written ./mini.
    if key in ("shifts", "words") or (key == "collection" and value.partition(":")[0] == "mini"):
        return value
    path = folder / Path(value).expanduser()
    names_a_path = key != "collection" or value.startswith((".", "/", "~")) or path.is_dir()
    return str(path) if names_a_path else value


def find_config() -> ConfigFile | None:
    """Read the file that holds here: of this folder or one above, up to the user's home.

    Raises:
        NotFoundError: if `CONFIG_VARIABLE` names no file.
        UsageError: see `read_config`.
    """
    if named := os.environ.get(CONFIG_VARIABLE):
        return read_config(Path(named).expanduser())
    here, home = Path.cwd(), os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 (or none)
    for folder in (here, *here.parents):
        path = folder / CONFIG_NAME
        if path.is_file():
            return read_config(Path(CONFIG_NAME) if folder == here else path)
        if str(folder) == home:
            break
    return None


def fill_in(context: Any) -> None:
    """Fill in what was not typed before a command runs, and say so on stderr.

    The data set, the shifts and the words become the command's arguments. The collection, the cache
    and the folder of recipes become environment variables until it ends: they are read where they
    are used.

    Args:
        context: typer's context of the command.

    Raises:
        NotFoundError: if `CONFIG_VARIABLE` names no file.
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
    # Single runs are scored on one test set, files of queries compared, and published figures
    # analysed, whatever the shift.
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
        # `doctor` takes several data sets.
        is_one_of_several = parameters[key].nargs == -1 and not isinstance(value, list)
        context.params[parameters[key].name] = [value] if is_one_of_several else value


def key_of(parameter: Any) -> str:
    """Return the key that says the same as an option or argument, or ""."""
    if parameter.name == "data" or parameter.default == DATASET_NAME:
        return "data"
    if parameter.name == "collection" and parameter.default is None:
        return "collection"
    return {"shift": "shifts", "shifts": "shifts", "words": "words"}.get(parameter.name, "")
