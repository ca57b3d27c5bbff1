"""Everything the README and the page on the data set show works, in the order shown."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.support.documents import run_blocks
from tests.support.forking import SHORT, SMALL

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/architecture.md",
        "CONTRIBUTING.md",
        "docs/data.md",
        "docs/hub.md",
        "docs/ir_datasets.md",
        "docs/measures.md",
    ],
)
def test_every_link_leads_somewhere(page: str) -> None:
    path = REPOSITORY / page
    links = re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8"))
    assert links
    for link in links:
        assert link.startswith("https://") or (path.parent / link.partition("#")[0]).exists(), link


def test_the_set_up_scripts_are_those_it_names() -> None:
    assert "exec msshift demo" in (REPOSITORY / "scripts" / "demo").read_text()
    for script in ("demo", "test", "check", "bench"):
        assert os.access(REPOSITORY / "scripts" / script, os.X_OK)
    assert "scripts/test" in (REPOSITORY / ".ci" / "run").read_text()
    for page in (README, (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        assert {"`scripts/test --fast`", "`scripts/test`", "`scripts/check`"} <= {
            *re.findall(r"`scripts/[^`]*`", page)
        }


@pytest.mark.neural
@pytest.mark.slow
def test_every_command_and_every_snippet_of_the_readme_runs(tmp_path: Path) -> None:
    # the demo has a test of its own; the others brought us here
    skipping = ("scripts/demo", "scripts/test", "pip")
    ran = run_blocks(README, tmp_path, skipping=skipping, before=SHORT)
    assert sum(command[0] == "msshift" for command in ran) >= 10
    assert sum(command[1:2] == ["-c"] for command in ran) >= 3


@pytest.mark.slow
def test_every_command_of_the_page_on_the_data_set_runs(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "data.md").read_text(encoding="utf-8")
    ran = run_blocks(page, tmp_path, before=SMALL)
    assert {command[1] for command in ran} == {"build", "verify", "import", "triples"}
