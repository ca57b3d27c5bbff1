"""Every block of the pages runs in a test, or is of sh and is listed here with a reason.

Each command in a block of sh exists, with its options.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.docs.test_blocks import PAGES as BLOCK_CASES
from tests.support.commands import COMMANDS

PAGES = [
    *sorted((REPOSITORY / "docs").glob("*.md")),
    *map(REPOSITORY.joinpath, ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
]

NOT_RUN: Mapping[str, tuple[int, str]] = {
    "CONTRIBUTING.md": (2, "they run the tests"),
    "analysis.md": (5, "a trained encoder, three shifts, judgements and annotators of one's own"),
    "baselines.md": (7, "the recipe pool takes minutes; several GPUs, the Hub, and packages"),
    "cluster.md": (2, "a Ray cluster; tests/engine runs the same on one machine"),
    "data.md": (2, "MS MARCO, TREC DL and the release of 2022"),
    "evaluate-runs.md": (1, "runs for the test queries of a board"),
    "experiments.md": (3, "the slice of MS MARCO, or hours"),
    "leaderboard.md": (3, "what follows is filled in by hand; runs of hours; a maintainer's clone"),
    "leakage.md": (4, "the Hub, the annotations of Froebe et al., experiments of an hour"),
    "official-release.md": (1, "the release of Zhan et al."),
    "slice.md": (1, "a copy of MS MARCO, and a checkpoint of the Hub"),
    "index.md": (1, "an installation"),
    "start.md": (1, "an installation"),
    "table-2.md": (5, "a week of a GPU"),
    "variants.md": (2, "a clone of CharacterBERT-DR, and runs from elsewhere"),
}
"""Page -> how many blocks of sh it has, and why no test runs them."""

RUN_BY: Mapping[str, str] = {
    **{Path(case.values[0]).name: "docs/test_blocks.py" for case in BLOCK_CASES},
    "architecture.md": "kinds/test_run_formats.py",
    "configuration.md": "cli/test_config.py",
    "hub.md": "integration/test_hub_over_http.py",
    "leaderboard.md": "integration/test_leaderboard_page.py",
    "measures.md": "integration/test_cli.py",
    "mteb.md": "integration/test_mteb.py",
}
"""Page -> the module that runs its blocks of console and Python as they stand."""


def blocks(language: str) -> Counter[str]:
    """Return page -> how many blocks it has in a language."""
    return Counter(
        page.name
        for page in PAGES
        for _ in re.findall(rf"(?m)^```({language})$", page.read_text("utf-8"))
    )


def test_every_block_is_run_or_listed_with_a_reason() -> None:
    assert blocks("sh") == {page: count for page, (count, _) in NOT_RUN.items()}
    assert set(blocks("console|python")) == set(RUN_BY)
    for page, module in RUN_BY.items():
        text = (REPOSITORY / "tests" / module).read_text("utf-8")
        assert page in text
        runs = ("run_blocks(", "```console", "```(console", "```python")
        assert any(word in text for word in runs), page
    for page in PAGES:
        text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text("utf-8"))
        assert not re.search(r"(?m)^(    |\t)(msshift|scripts/|python|\$) ", text), page


def lines_of_sh() -> Iterator[tuple[str, str]]:
    """Yield ``(page, line)`` of every block of sh."""
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                yield page.name, line.replace("$(which msshift)", "msshift")


def check_line(line: str) -> str:
    """Check one line, and return the program that it calls; "" for a foreign one.

    Click raises its own errors for options and arguments that a command does not have.
    """
    words = shlex.split(line.partition(" > ")[0], comments=True)
    if "msshift" in words:
        given = words[words.index("msshift") + 1 :]
        length = next((n for n in (3, 2, 1) if tuple(given[:n]) in COMMANDS), 0)
        assert length, f"no command: {line}"
        command: Any = COMMANDS[tuple(given[:length])]
        command.make_context(" ".join(given[:length]), given[length:])
        return "msshift"
    script = next((word for word in words if word.startswith("scripts/")), None)
    if script is None:
        return ""
    text = (REPOSITORY / script).read_text("utf-8")
    for module in re.findall(r"-m (scripts\.\w+)", text):
        folder = REPOSITORY / Path(*module.split("."))
        text += "".join(file.read_text("utf-8") for file in folder.glob("*.py"))
    for option in words:
        assert not option.startswith("--") or option in text, f"no option {option}: {line}"
    return script


@pytest.mark.parametrize("page", sorted({page for page, _ in lines_of_sh()}))
def test_every_line_of_sh_has_known_commands_and_options(page: str) -> None:
    called = [check_line(line) for name, line in lines_of_sh() if name == page]
    assert any(called)


NEEDED = {
    "bm25": r"msshift (?:triples|run (?:bm25|monobert|monot5|duet|knrm|pacrr)\b)",
    "neural": r"msshift (?:pretrain|run (?!bm25))",
}
"""Extra -> a pattern of the commands that need it."""


@pytest.mark.parametrize("extra", NEEDED)
def test_pages_that_install_extras_install_those_of_their_commands(extra: str) -> None:
    pages = 0
    for page in PAGES:
        text = page.read_text("utf-8")
        installed = {
            name for part in re.findall(r"\.\[([a-z0-9,]+)\]", text) for name in part.split(",")
        }
        if installed and re.search(rf"(?m)^(?:\$ )?{NEEDED[extra]}", text):
            assert installed & {extra, "all"}, page
            pages += 1
    assert pages > 2


def commands_in_words(text: str) -> Iterator[str]:
    """Yield every command in the sentences and tables of a page."""
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    for span in re.findall(r"`(msshift [^`]+)`", text):
        yield " ".join(span.split())


def faults_of(command: str) -> list[str]:
    """Return the unknown words of a command in a sentence, which may be incomplete."""
    words = command.split()[1:]
    named = [word.strip(".,") for word in words]
    length = next((n for n in (3, 2, 1) if tuple(named[:n]) in COMMANDS), 0)
    if not length:
        groups = {known[:n] for known in COMMANDS for n in range(1, len(known))}
        known = any(tuple(named[:n]) in groups for n in (1, 2)) or named[0].startswith("-")
        return [] if known else [command]
    has = {one for parameter in COMMANDS[tuple(named[:length])].params for one in parameter.opts}
    options = [word.partition("=")[0] for word in named if word.startswith("--")]
    return [f"{command}: {one}" for one in options if one not in {*has, "--help"}]


def test_every_command_in_a_sentence_exists_with_its_options() -> None:
    spans = [span for page in PAGES for span in commands_in_words(page.read_text("utf-8"))]
    assert len(spans) > 100
    assert [fault for span in spans for fault in faults_of(span)] == []
    assert faults_of("msshift evaluat runs") == ["msshift evaluat runs"]
    assert faults_of("msshift build --silze 3") == ["msshift build --silze 3: --silze"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("msshift evaluat runs", "no command: msshift evaluat"),
        ("msshift evaluate runs --alsotest a=b", "No such option: --alsotest"),
        ("msshift export length-short-triples", "Missing"),
        ("scripts/release --dryrun", "no option --dryrun"),
        ("msshift run splade --shfit topics", "No such option: --shfit"),
    ],
)
def test_an_unknown_command_or_option_is_found(line: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        check_line(line)


def test_the_scripts_can_be_executed() -> None:
    assert "exec msshift demo" in (REPOSITORY / "scripts" / "demo").read_text()
    for script in ("demo", "test", "check", "bench"):
        assert os.access(REPOSITORY / "scripts" / script, os.X_OK)
    assert "scripts/test --all" in (REPOSITORY / ".ci" / "run").read_text()
