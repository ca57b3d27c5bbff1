"""Put the claims of docs/claims.toml where the pages say what was found.

Run it from the repository's root: ``python scripts/findings.py`` writes the blocks between
``<!-- claims: NAME -->`` and ``<!-- end claims -->`` of docs/findings.md, docs/experiments.md and
docs/leakage.md anew, and draws the picture of the topics; ``--check`` says what differs, and exits
with 1. The block ``tables`` is the table of losses and those of differences in which computed
claims are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msshift_bench.analysis import load_published
from msshift_bench.data import DataInfo
from msshift_bench.evaluation import Result, Settings, estimates_of
from msshift_bench.evaluation.evaluating import differences_of, losses_of
from msshift_bench.leaderboard import entries_folder, open_entry
from msshift_bench.output import show_p, show_percent, show_percent_interval, to_markdown
from msshift_bench.report.losses import draw_result
from msshift_bench.shifts import get_shift
from msshift_bench.stats import STAR, Figure, detectable_loss

DOCS = Path(__file__).resolve().parents[1] / "docs"
PICTURE = "findings-topics.svg"
PAGES = ("findings.md", "experiments.md", "leakage.md")
BLOCK = re.compile(r"(<!-- claims: ([\w-]+) -->\n).*?(<!-- end claims -->\n)", re.DOTALL)
SETTINGS = Settings(measures=("RR@10",))


@cache
def claims() -> Mapping[str, Any]:
    """Return the table of claims."""
    return tomllib.loads((DOCS / "claims.toml").read_text(encoding="utf-8"))


@cache
def results() -> tuple[Result, Result]:
    """Return losses and differences on topics of the systems whose scores are in the repository."""
    folder = entries_folder() / claims()["board"]
    scores = [open_entry(folder / name / "v1").scores["topics"] for name in claims()["family_of"]]
    return losses_of(scores, DataInfo(), SETTINGS), differences_of(scores, DataInfo(), SETTINGS)


def figure_of(names: Mapping[str, str]) -> Figure:
    """Return the one Rel Loss, or difference of two, that a claim names."""
    losses, differences = results()
    figures = (differences if "against" in names else losses).figures
    (figure,) = figures.where(**{"figure": "rel_loss", "slice": "", "against": "", **names})
    return figure


def paper_loss(system: str, where: str) -> str:
    """Return what a system of MS-Shift loses on a group, or on average over a shift."""
    tables = load_published("ms_shift_v2")
    groups = (where,) if where in ("short", "long") else get_shift(where).groups
    losses = [
        row["rel_loss_pct"]
        for row in (*tables["topics"], *tables["wh_and_length"])
        if row["system"] == system and row["group"] in groups
    ]
    return f"{sum(losses) / len(losses):.1f}%"


def could_have_been_found(names: Mapping[str, str]) -> str:
    """Return the loss that would have been found in 80 of 100 repetitions, without a correction."""
    (scores,) = [part for part in results()[0].scores if part.system == names["system"]]
    estimates = estimates_of(scores, SETTINGS.measures[0], scores.groups, "macro")
    estimate = estimates[names["group"]]["rel_loss"]
    known = None if estimate is None else estimate.uncertainty()
    return show_percent(None if known is None else detectable_loss(known))


def say(claim: Mapping[str, Any]) -> str:
    """Return a claim as a line of a list."""
    paper = claim.get("paper", "")
    paper = paper_loss(*paper) if isinstance(paper, list) else paper
    behind = f" In the paper: {paper}." if paper else ""
    if "of" not in claim:
        printed = claim.get("p", "")
        p = printed.replace("<", "p < ") if "<" in printed else f"p = {printed}"
        test = f"{p} as printed, {claim['family']}" if printed else "no p was printed"
        text = claim["says"].format(figure=claim["figure"].lstrip("-"))
        return f"- Exploratory: {text} ({test}).{behind}"
    figure = figure_of(claim["of"])
    value = f"{show_percent(figure.value)} {show_percent_interval(figure.interval)}"
    test = f"p = {show_p(figure.p)}, {figure.family}"
    text = claim["says"].format(figure=value)
    if figure.mark == STAR:
        return f"- **{text}** ({test}).{behind}"
    if "against" not in claim["of"]:
        test += f"; a loss of {could_have_been_found(claim['of'])} would have been found"
    return f"- Exploratory: {text} ({test}).{behind}"


def tables() -> str:
    """Return the tables in which computed claims are printed, with what p goes over."""
    losses, differences = results()
    pairs = [table for table in differences.tables() if " - " in table.title]
    printed = [*losses.tables(), *pairs]
    return "\n".join(f"{to_markdown(table)}\n{table.note}\n" for table in printed)


def block(name: str) -> str:
    """Return what stands in a block."""
    if name == "tables":
        return tables()
    lines = [say(claim) for claim in claims()["claim"] if claim["block"] == name]
    if not lines:
        raise ValueError(f"docs/claims.toml has no claim of the block {name}")
    return "\n".join(lines) + "\n"


def stamp() -> str:
    """Return what the picture ends with: a digest of the table that it shows.

    Bytes of equal pictures differ in the last digits of their layout, so that they tell nothing.
    """
    (table,) = results()[0].tables()
    digest = hashlib.sha256(f"{to_markdown(table)}\n{table.note}".encode()).hexdigest()
    return f"<!-- table {digest} -->\n"


def draw() -> None:
    """Draw the picture of the losses on topics."""
    draw_result(results()[0], DOCS / PICTURE)
    with (DOCS / PICTURE).open("a", encoding="utf-8") as file:
        file.write(stamp())


def filled(text: str) -> str:
    """Return a page with its blocks as the claims have them."""
    return BLOCK.sub(lambda found: f"{found[1]}{block(found[2])}{found[3]}", text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages and the picture, or say which differ."""
    parser = argparse.ArgumentParser(description="Put claims where the pages say what was found.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a page differs")
    check = parser.parse_args(arguments).check
    differing = []
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        if filled(text) != text:
            differing.append(page)
            if not check:
                (DOCS / page).write_text(filled(text), encoding="utf-8")
    if not (DOCS / PICTURE).read_text(encoding="utf-8").endswith(stamp()):
        differing.append(PICTURE)
        if not check:
            draw()
    print(
        f"{', '.join(differing) or 'no page'} {'differs' if check else 'written'}", file=sys.stderr
    )
    return int(check and bool(differing))


if __name__ == "__main__":
    raise SystemExit(main())
