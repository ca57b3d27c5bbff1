"""The page that repeats every table of docs/experiments.md: command, expected numbers, log.

All of it is taken from that page, whose tables `scripts/fill_page.py` fills with what commands
print of sidecars and runs, and from the plans in scripts/experiments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.experiments.plans import load, names
from scripts.fill_page import BLOCK

__all__ = ["Section", "reproduce_page", "sections"]

_TABLE = re.compile(r"(?:\*\*(?P<title>[^\n*]+)\*\*\n\n)?(?P<rows>(?:^\|.*\n)+)", re.MULTILINE)
_PATHS = re.compile(r"`(tests/[\w/]+\.py)`")
_CONTENT = re.compile(r"[Cc]ontent `([0-9a-f]{12})`")
_TRAININGS = "Trainings"
"""The title of the tables that are made of sidecars."""

_FIGURES = ("score", "Avg In", "Out", "Rel Loss", "95% interval")
_MOST_ROWS = 9
"""Most rows of a table that is shown whole."""

_BEGIN = """# Repeat every table

For each table of [the experiments](experiments.md): the command to copy, the numbers to expect, and
the log of what made them. `python scripts/fill_page.py WORK --check` compares what you made in the
folder WORK with the tables that were printed here, and names those that differ.

Type the commands in a clone of the repository. WORK is a folder of yours. SLICE, also called
`../shared/data/msmarco-pool`, is a slice of MS MARCO that is not part of the repository, and
neither is `official.tsv`, the official test queries of length in it. **Without these files nobody
can repeat the numbers.** What everybody can do: `scripts/reproduce NAME --quick` goes the same way
on the generated collection `mini`, in `experiments/quick`, with numbers that mean nothing;
[the leaderboard's rows](#the-leaderboards-rows) on `mini` repeat, most of them closely; and
[Table 2](table-2.md) goes from MS MARCO itself.

| experiment | expect |
|---|---|
"""

_BOARD = """## The leaderboard's rows

`msshift leaderboard check mini/bm25` prints the commands that make a row again, and with `--data`
and `--runs` compares your runs with it; [how closely](leaderboard.md#repeat-a-row) rows repeat.
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of docs/experiments.md that has tables.

    Attributes:
        title: its heading.
        commands: blocks of sh that make its tables again.
        tests: modules of tests that do.
        expected: the tables to expect, as Markdown.
        log: the lines below the tables: data and runs.
        losses: system -> its mean Rel Loss, of the first table of losses.
    """

    title: str
    commands: Sequence[str]
    tests: Sequence[str]
    expected: Sequence[str]
    log: Sequence[str]
    losses: dict[str, str]

    @property
    def anchor(self) -> str:
        """The heading as the site's links name it."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower().replace("'", "")).strip("-")


def sections(page: str) -> Iterator[Section]:
    """Yield the sections of the page of experiments that have tables."""
    for part in re.split(r"(?m)^###? ", page)[1:]:
        title, text = part.split("\n", 1)
        tables = list(_TABLE.finditer(text))
        if not tables:
            continue
        expected, made, losses = [], [], {}
        for table in tables:
            shown, of_systems = _shown(table["title"], table["rows"])
            losses = losses or of_systems
            if shown:
                (made if table["title"] == _TRAININGS else expected).append(shown)
        log = [f"- data set: content {digest}" for digest in dict.fromkeys(_CONTENT.findall(text))]
        log += dict.fromkeys(
            line
            for block in BLOCK.finditer(text)
            for line in block[3].splitlines()
            if line.startswith("- ") and (" run file" in line or line.startswith("- data:"))
        )
        commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        yield Section(title, commands, _PATHS.findall(text), expected, [*made, *log], losses)


def _shown(title: str | None, rows: str) -> tuple[str, dict[str, str]]:
    """Return a table as it is expected, "" if it is too long, and system -> mean Rel Loss."""
    head, _, *body = ([cell.strip() for cell in row.split("|")[1:-1]] for row in rows.splitlines())
    heading = f"**{title}**\n\n" if title else ""
    if head[0] == "figure":
        return "", {}
    if head[1:2] != [""]:
        return (heading + rows if len(body) <= _MOST_ROWS else ""), {}
    found: dict[str, dict[str, str]] = {}
    system = ""
    for row in body:
        system = row[0] or system
        found.setdefault(system, {})[row[1] or "score"] = row[-1]
    lines = [f"| system | {' | '.join(_FIGURES)} |", "|---" * (len(_FIGURES) + 1) + "|"]
    lines += [
        f"| {name} | {' | '.join(figures.get(one, '') for one in _FIGURES)} |"
        for name, figures in found.items()
    ]
    means = {
        name: figures["Rel Loss"].strip("*\\")
        for name, figures in found.items()
        if "Rel Loss" in figures
    }
    return f"**{title}, mean over groups**\n\n" + "\n".join(lines) + "\n", means


def reproduce_page(experiments: Path) -> str:
    """Return the page that repeats every table, as Markdown.

    Args:
        experiments: docs/experiments.md.
    """
    page = experiments.read_text("utf-8")
    found = list(sections(page))
    return "\n".join(
        (_BEGIN + "\n".join(map(_row, found)), "", *map(_written, found), _BOARD, *_plans(page))
    )


def _row(section: Section) -> str:
    expect = ", ".join(f"{name} {loss}" for name, loss in section.losses.items())
    said = f"mean Rel Loss: {expect}" if expect else "the tables there"
    return f"| [{section.title}](#{section.anchor}) | {said} |"


def _written(section: Section) -> str:
    repeat = [f"```sh\n{block}```\n" for block in section.commands]
    repeat += [
        f"```sh\nscripts/test {path}    # needs the real files\n```\n" for path in section.tests
    ]
    log = "\n".join(section.log) or "- the section has no log"
    return (
        f"## {section.title}\n\n**Command**\n\n{''.join(repeat)}\n**Expected**\n\n"
        + "\n".join(section.expected)
        + f"\n**Log**\n\n{log}\n\n[The whole section](experiments.md#{section.anchor})\n"
    )


def _plans(page: str) -> Iterator[str]:
    yield "## Plans\n\nEvery plan of scripts/experiments, and what of it was carried out.\n"
    yield "| plan | question | primary tests; family | systems | seeds | carried out |"
    yield "|---|---|---|---|---:|---|"
    for name in names():
        plan = load(name)
        done = re.search(rf"scripts/reproduce {name} .*--systems ([\w -]+) --seeds (\d+)", page)
        yield (
            f"| `scripts/reproduce {name}` | {plan.question} | {plan.primary}; {plan.family} | "
            f"{', '.join(plan.systems)} | "
            f"{plan.seeds} | {f'{done[1]}, {done[2]} seeds' if done else 'no'} |"
        )
