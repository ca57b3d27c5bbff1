"""The page that repeats every table: commands, expected numbers and log of all of them."""

from __future__ import annotations

import re

from scripts.experiments.plans import names
from scripts.site.reproduce import reproduce_page, sections
from tests.conftest import REPOSITORY

EXPERIMENTS = REPOSITORY / "docs" / "experiments.md"
PAGE = EXPERIMENTS.read_text("utf-8")


def test_every_section_with_a_table_has_command_numbers_and_log() -> None:
    made = reproduce_page(EXPERIMENTS)
    with_tables = [
        part.partition("\n")[0]
        for part in re.split(r"(?m)^###? ", PAGE)[1:]
        if re.search(r"(?m)^\|", part)
    ]
    found = list(sections(PAGE))
    assert [one.title for one in found] == with_tables
    assert len(found) >= 8
    for one in found:
        assert one.commands or one.tests, one.title
        assert one.expected, one.title
        assert f"| [{one.title}](#{one.anchor}) |" in made
        assert all(f"```sh\n{command}```" in made for command in one.commands)
        assert all((REPOSITORY / path).is_file() for path in one.tests)
    assert all(f"`scripts/reproduce {name}`" in made for name in names())


def test_losses_are_those_of_the_column_of_means() -> None:
    (topics,) = (one for one in sections(PAGE) if one.title == "Four systems on topics")
    for system, loss in topics.losses.items():
        assert re.search(rf"\| {system} \| Avg In (?s:.)*?Rel Loss [^\n]*{loss}[^\n]*\|\n", PAGE)
    assert set(topics.losses) == {"bi-encoder", "colbert", "monobert", "splade"}
    runs = [line for line in topics.log if "sha256" in line]
    assert len(runs) == 5
    assert any("| topics | splade | 15 | 3 |" in table for table in topics.log)
    assert not any("Trainings" in table or "| figure |" in table for table in topics.expected)


def test_a_table_of_losses_is_cut_to_its_means() -> None:
    page = (
        "## One's own, twice\n\n```sh\ndo it\n```\n\nContent `0123456789ab`:\n\n**Here**\n\n"
        "| system |  | a | mean |\n|---|---|---|---|\n| bm25 |  | 1 | 2 |\n"
        "| us | Avg In | 3 | 4 |\n|  | Rel Loss | 5% | **6%**\\* |\n"
    )
    (found,) = sections(page)
    assert found.anchor == "ones-own-twice"
    assert found.losses == {"us": "6%"}
    assert found.log == ["- data set: content 0123456789ab"]
    (table,) = found.expected
    assert "| bm25 | 2 |  |  |  |  |\n| us |  | 4 |  | **6%**\\* |  |\n" in table
