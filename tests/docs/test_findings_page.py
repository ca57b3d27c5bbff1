"""docs/findings.md and "What this supports" say what docs/claims.toml holds, and nothing else."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from scripts import findings
from scripts.experiments.plans import load, names
from scripts.findings import BLOCK, DOCS, PAGES, PICTURE, claims, figure_of, main, say
from tests.conftest import REPOSITORY

CLAIMS = claims()["claim"]


def rows_of(page: str) -> list[str]:
    """Return the rows of the tables of a page, without marks."""
    text = (DOCS / page).read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [row.replace("**", "").replace("\\*", "") for row in rows]


def test_the_pages_are_those_of_the_claims() -> None:
    assert main(["--check"]) == 0


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("findings.md", b"of its MRR@10**", b"of everything**"),
        (PICTURE, b"<!-- table ", b"<!-- another "),
    ],
)
def test_a_page_or_a_picture_that_says_something_else_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    before: bytes,
    after: bytes,
) -> None:
    for page in (*PAGES, PICTURE):
        shutil.copy(DOCS / page, tmp_path)
    content = (DOCS / name).read_bytes()
    assert before in content
    (tmp_path / name).write_bytes(content.replace(before, after))
    monkeypatch.setattr(findings, "DOCS", tmp_path)
    assert main(["--check"]) == 1
    assert capsys.readouterr().err == f"{name} differs\n"
    assert main([]) == 0
    capsys.readouterr()
    assert main(["--check"]) == 0
    if name != PICTURE:
        assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["says"])
def test_the_figure_of_a_claim_and_its_p_are_printed(claim: dict[str, str]) -> None:
    cells = {cell for row in rows_of(claim.get("page", "findings.md")) for cell in row.split(" | ")}
    line = say(claim)
    if "page" in claim:
        assert any(cell.startswith(claim["figure"]) for cell in cells)
        assert not {claim["p"], f"{claim['p']} |"}.isdisjoint(cells) if "p" in claim else True
        assert line.startswith("- Exploratory: ")
        return
    figure = figure_of(claim["of"])
    shown = re.search(r"(-?[\d.]+%) (\[.*?\])", line)
    assert shown is not None
    p = f"{figure.p:.3f}"
    for printed in (*shown.groups(), p):
        assert any(cell.startswith(printed) for cell in cells), printed
    assert figure.family in (DOCS / "findings.md").read_text().split("<!-- claims: tables -->")[1]
    assert f"p = {p}, {figure.family}" in line
    assert line.startswith("- **") == (figure.mark == "*")


def test_prose_outside_the_claims_holds_no_figures() -> None:
    prose = BLOCK.sub("", (DOCS / "findings.md").read_text(encoding="utf-8"))
    assert re.findall(r"\d", re.sub(r"!\[.*", "", prose)) == []
    for page in PAGES[1:]:
        text = (DOCS / page).read_text(encoding="utf-8")
        for part in text.split("What this supports")[1:]:
            said = BLOCK.sub("", part.partition("What it does not support")[0])
            assert re.findall(r"\d", said) == [], said


def test_every_block_has_a_place_and_every_claim_a_block() -> None:
    texts = [(DOCS / page).read_text(encoding="utf-8") for page in PAGES]
    placed = [found[2] for text in texts for found in BLOCK.finditer(text)]
    assert {claim["block"] for claim in CLAIMS} | {"tables"} == set(placed)


def test_every_plan_names_its_primary_tests_before_it_is_trained() -> None:
    for name in names():
        plan = load(name)
        assert plan.primary
        assert plan.family
    page = (REPOSITORY / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert "primary" in page
