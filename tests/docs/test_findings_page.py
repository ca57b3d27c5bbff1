"""The claims and tables of pages are computed from docs/claims.toml and the scores of entries."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from scripts import findings
from scripts.findings import BLOCK, DOCS, PAGES, PICTURE, TABLES, claims, figure_of, main, say

CLAIMS = claims()["claim"]


@pytest.mark.extended
def test_the_pages_have_the_claims_of_today() -> None:
    assert main(["--check"]) == 0


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("findings.md", b"of its MRR@10**", b"of everything**"),
        ("experiments.md", b"| topics | C0 | 587 | 79.1 |", b"| topics | C0 | 587 | 79.2 |"),
        ("public-systems.md", b"5.3 [3.5, 7.2] points", b"9.3 [3.5, 7.2] points"),
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


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_a_claim_has_its_interval_p_and_family(claim: dict[str, Any]) -> None:
    figure, line = figure_of(claim), say(claim)
    low, high = figure.interval or (0, 0)
    ends = f" [{100 * low:z.1f}, {100 * high:z.1f}]"
    assert f"{100 * figure.number:.1f}{ends}" in line or f"{100 * figure.number:.1f}%{ends}" in line
    assert figure.p is not None
    tested = "p < 0.001" if figure.p < 0.001 else f"p = {figure.p:.3f}"
    assert f"({tested}, {figure.family}" in line
    # The scores behind a public system are not in this repository.
    is_supported = figure.p <= 0.05 and "public" not in claim
    assert line.startswith("- **" if is_supported else "- Exploratory: ")
    assert not is_supported or low > 0 or high < 0


def test_every_block_has_a_place_and_every_claim_a_block() -> None:
    texts = [(DOCS / page).read_text(encoding="utf-8") for page in PAGES]
    placed = {found.group(2, 3) for text in texts for found in BLOCK.finditer(text)}
    named = {("claims", claim["block"]) for claim in CLAIMS}
    assert placed == named | {("table", name) for name in TABLES}


def test_no_page_has_a_claim_of_its_own() -> None:
    for page in DOCS.glob("*.md"):
        rest = BLOCK.sub("", page.read_text(encoding="utf-8"))
        assert not re.search(r"(?m)^- (Exploratory: |\*\*.*\*\* \(p [=<])", rest), page
