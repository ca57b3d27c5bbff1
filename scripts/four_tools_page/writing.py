"""Pieces of the page, and sentences that are only written where they are true."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msshift_bench.runs.qrels import Judgements, read_qrels
from msshift_bench.runs.reader import validate_run

from .tools import Answers

WIDTH = 100


class ObservationError(Exception):
    """A sentence of the page is not true of the installed tools."""


def observed(sentence: str, *facts: bool) -> str:
    """Return a sentence if what it says was seen to be so.

    Raises:
        ObservationError: if one of the facts does not hold.
    """
    if not all(facts):
        raise ObservationError(f"not so with the installed tools: {sentence}")
    return sentence


def paragraph(*sentences: str) -> str:
    """Sentences as one wrapped paragraph."""
    text = " ".join(sentences)
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose first column is text."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def block(text: str) -> str:
    """Text as it stands in a file or on a terminal."""
    return f"```text\n{text.rstrip()}\n```"


def issue(repository: str, number: int) -> str:
    """A link to an issue on GitHub."""
    name = repository.partition("/")[2]
    return f"[{name} #{number}](https://github.com/{repository}/issues/{number})"


def words_of(answers: Answers) -> str:
    """A list of what was said beside figures, or instead of them."""
    said = {
        name: f"{one.refusal}: {one.words}".removeprefix(": ")
        for name, one in answers.items()
        if one.words
    }
    # Two backticks, because a message may hold one.
    return "\n".join(f"- {name}: ``{words}``" for name, words in said.items())


def write(name: str, text: str) -> str:
    """Write a file into the current folder, and return its name."""
    Path(name).write_text(text)
    return name


def findings(qrels: str, run: str, **options: Any) -> str:
    """What ``msshift validate RUN --qrels QRELS`` finds."""
    found = validate_run(run, Judgements.from_qrels(read_qrels(qrels)), **options)
    return block("\n".join(f"{one.severity}: {one}" for one in (*found.errors, *found.warnings)))
