"""Every public name, option, system and code is on a written page.

The generated reference does not count: it has every name, but no reader learns when to use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pytest

import msshift_bench
from msshift_bench import baselines, errors
from msshift_bench.baselines.systems.finding import our_systems
from msshift_bench.baselines.systems.recipe import recipe_files
from msshift_bench.cli.config_file import CONFIG_VARIABLE, VARIABLES, settings_model
from msshift_bench.cli.failures import DEBUG
from msshift_bench.dataset_builders.typos import EDITS
from msshift_bench.evaluation.measures import NATIVE_MEASURES
from msshift_bench.runs import CODES, TIE_POLICIES
from msshift_bench.shifts import SHIFTS
from msshift_bench.similarity import INDICATORS
from scripts.site.pages import OTHER_PAGES
from tests.conftest import REPOSITORY
from tests.support.commands import COMMANDS

PAGES = [*sorted((REPOSITORY / "docs").glob("*.md")), *map(REPOSITORY.joinpath, OTHER_PAGES)]
WORDS = "\n".join(page.read_text("utf-8") for page in PAGES if page.name != "CHANGELOG.md")


def options() -> Iterable[str]:
    return {
        option
        for command in COMMANDS.values()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }


NAMES: Mapping[str, Iterable[str]] = {
    "public name": set(msshift_bench.__all__) - {"__version__"},
    "name of baselines": baselines.__all__,
    "error": [name for name in errors.__all__ if name.endswith("Error")],
    "error code": CODES,
    "command": [" ".join(words) for words in COMMANDS],
    "option": options(),
    "system": our_systems(),
    "recipe": {
        name.removeprefix(f"{system}-")
        for name in recipe_files()
        for system in (*our_systems(), "pretrain")
        if name.startswith(f"{system}-")
    },
    "key of msshift.toml": list(settings_model().model_fields),
    "environment variable": [*VARIABLES.values(), CONFIG_VARIABLE, DEBUG],
    "shift": SHIFTS,
    "group": {group for shift in SHIFTS.values() for group in shift.groups},
    "measure": NATIVE_MEASURES,
    "tie policy": TIE_POLICIES,
    "indicator": INDICATORS,
    "kind of edit": EDITS,
}


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", NAMES)
def test_a_page_mentions_every_name(kind: str) -> None:
    names = [name.removesuffix("@k") for name in NAMES[kind]]
    assert len(names) >= 3
    assert [name for name in sorted(names) if not mentioned(name)] == []


def test_a_part_of_a_name_is_not_a_mention() -> None:
    assert mentioned("--train-size")
    assert not mentioned("--train-siz")
    assert not mentioned("rain-size")


def mentioned(name: str) -> bool:
    return bool(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", WORDS))


def test_every_option_has_a_help_text() -> None:
    for command in COMMANDS.values():
        for parameter in command.params:
            assert parameter.help, f"{command.name} {parameter.opts}"
