"""docs/experiments.md: whoever reads a table can make it again, and knows what it rests on."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "experiments.md").read_text("utf-8")
SECTIONS = dict(part.split("\n", 1) for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:])
WITH_TABLES = [name for name, text in SECTIONS.items() if re.search(r"^\|", text, re.MULTILINE)]


@pytest.mark.parametrize("section", WITH_TABLES)
def test_a_section_with_a_table_says_how_to_make_it_again(section: str) -> None:
    text = SECTIONS[section]
    made_by_a_test = re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert all((REPOSITORY / path).is_file() for path in made_by_a_test)
    if made_by_a_test and "```console" not in text:
        return
    assert "```console\n$ " in text or "```sh\n" in text
    assert (
        re.search(r"content (\S* )?`?[0-9a-f]{12}", text, re.IGNORECASE) or "last section" in text
    )


@pytest.mark.parametrize("system", ["bi-encoder", "splade", "colbert", "monobert"])
def test_what_stands_with_a_system_s_figures_tells_of_its_lexical_prior(system: str) -> None:
    recipe = files("msshift_bench.baselines") / "recipes" / f"{system}-mini.toml"
    prior = tomllib.loads(recipe.read_text("utf-8"))["random"].get("matching", False)
    entry = files("msshift_bench.leaderboard") / "entries" / "mini" / system / "v1"
    described = tomllib.loads((entry / "system.toml").read_text("utf-8"))["system"]["description"]
    assert ("lexical prior" in described) == prior
    assert prior == (system in ("splade", "monobert")), "the page and the board name them"
