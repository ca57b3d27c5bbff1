"""Every line that installs this package works in a clone, and code has it in one place only."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest

from msshift_bench.errors import install_fix
from scripts.site.pages import OTHER_PAGES
from tests.conftest import REPOSITORY

LINE = re.compile(r"pip install (-e \.(?!\[)|-e '\.\[(?P<extras>[a-z0-9,]+)\]')(?![\w-])")
CODE = ("msshift_bench", "baselines", "dataset_builders", "leaderboard")
EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


def pages() -> Iterator[tuple[str, str]]:
    """Yield path and text, on one line, of every page and notebook but the changes."""
    names = ("README.md", *OTHER_PAGES)
    paths = [REPOSITORY / name for name in names if name != "CHANGELOG.md"]
    for path in (*paths, *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("docs/**/*.ipynb")):
        yield str(path.relative_to(REPOSITORY)), " ".join(path.read_text("utf-8").split())


def faults(text: str) -> list[str]:
    """Return the lines of a text that install from elsewhere than a clone, or an unknown extra."""
    found = [text[at.start() : at.end() + 40] for at in re.finditer(r"msshift-bench\[", text)]
    for at in re.finditer(r"pip install ", text):
        line = LINE.match(text, at.start())
        extras = (line["extras"] or "").split(",") if line else ["?"]
        if not {*extras} <= {*EXTRAS, ""}:
            found.append(text[at.start() : at.end() + 40])
    return found


def test_every_line_of_the_pages_works_in_a_clone() -> None:
    texts = dict(pages())
    assert len(texts) > 20
    assert {path: bad for path, text in texts.items() if (bad := faults(text))} == {}
    assert sum("pip install" in text for text in texts.values()) > 3


def test_the_code_has_the_line_in_one_place() -> None:
    files = [path for folder in CODE for path in (REPOSITORY / folder).rglob("*.py")]
    with_line = {path.name for path in files if "pip install" in path.read_text("utf-8")}
    assert with_line == {"errors.py"}
    assert [path for path in files if "msshift-bench[" in path.read_text("utf-8")] == []


@pytest.mark.parametrize("extras", ["", *EXTRAS, "bm25,neural"])
def test_the_line_of_the_code_is_the_line_of_the_pages(extras: str) -> None:
    assert faults(install_fix(extras)) == []
    assert "pip install -e " in install_fix(extras)


@pytest.mark.parametrize(
    "line",
    [
        "pip install 'msshift-bench[neural]'",
        "pip install msshift-bench",
        "pip install -U msshift-bench",
        "pip install -e '.[nueral]'",
        "pip install '.[all]'",
    ],
)
def test_another_line_is_found(line: str) -> None:
    assert faults(f"run `{line}` first")
