"""The claims in docs/findings.md and other pages are those of docs/claims.toml, with their p."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from scripts import findings
from scripts.experiments.plans import load, names
from scripts.findings import BLOCK, DOCS, PAGES, PICTURE, claims, figure_of, main, say

CLAIMS = claims()["claim"]


def test_the_pages_have_the_claims_of_today() -> None:
    assert main(["--check"]) == 0


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("findings.md", b"of its MRR@10**", b"of everything**"),
        (PICTURE, b"<!-- table ", b"<!-- another "),
    ],
)
def test_a_changed_page_or_picture_is_found_and_written_again(
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


@pytest.mark.parametrize("claim", [one for one in CLAIMS if "page" in one], ids=str)
def test_a_typed_figure_and_its_p_are_in_a_table_of_the_page(claim: dict[str, str]) -> None:
    text = (DOCS / claim["page"]).read_text(encoding="utf-8").replace("**", "")
    cells = {cell for row in re.findall(r"(?m)^\|.*$", text) for cell in row.split(" | ")}
    assert any(cell.startswith(claim["figure"]) for cell in cells)
    assert "p" not in claim or not {claim["p"], f"{claim['p']} |"}.isdisjoint(cells)
    assert say(claim).startswith("- Exploratory: ")


@pytest.mark.parametrize("claim", [one for one in CLAIMS if "page" not in one], ids=str)
def test_a_computed_claim_has_its_interval_p_and_family(claim: dict[str, str]) -> None:
    figure, line = figure_of(claim["of"]), say(claim)
    low, high = figure.interval or (0, 0)
    assert f"{100 * figure.value:.1f}% [{100 * low:.1f}, {100 * high:.1f}]" in line
    assert f"p = {figure.p:.3f}, {figure.family}" in line
    assert line.startswith("- **") == (figure.mark == "*")


def test_every_block_has_a_place_and_every_claim_a_block() -> None:
    texts = [(DOCS / page).read_text(encoding="utf-8") for page in PAGES]
    placed = [found[2] for text in texts for found in BLOCK.finditer(text)]
    assert {claim["block"] for claim in CLAIMS} | {"tables"} == set(placed)


def test_every_plan_has_primary_tests_and_a_family() -> None:
    for name in names():
        assert load(name).primary, name
        assert load(name).family, name
