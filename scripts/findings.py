"""Write the claims of docs/claims.toml, and the tables behind them, into the pages.

Run it from the repository's root: ``python -m scripts.findings`` writes the blocks between
``<!-- claims: NAME -->`` or ``<!-- table: NAME -->`` and the next ``<!-- end -->`` of `PAGES`, and
draws the picture of the topics. ``--check`` prints which files differ, and exits with 1 if any do.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msshift_bench.analysis import load_published
from msshift_bench.baselines import recipe_files
from msshift_bench.data import DataInfo
from msshift_bench.evaluation import Result, Scores, Settings, estimates_of
from msshift_bench.evaluation.evaluating import differences_of, losses_of
from msshift_bench.leaderboard import Entry, entries_folder, open_entry
from msshift_bench.output import (
    Table,
    p_text,
    show_p,
    show_percent,
    show_percent_interval,
    to_markdown,
)
from msshift_bench.report.losses import draw_result
from msshift_bench.shifts import get_shift
from msshift_bench.stats import FIGURES, MEAN, STAR, Figure, Figures, detectable_loss
from scripts.public_systems import stored

DOCS = Path(__file__).resolve().parents[1] / "docs"
PICTURE = "findings-topics.svg"
PAGES = ("findings.md", "experiments.md", "public-systems.md", "baselines.md")
BLOCK = re.compile(r"(<!-- (claims|table): ([\w-]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)
SETTINGS = Settings(measures=("RR@10",))
SEEN_QUERIES = {"none": "no", "held-out": "no", "trained-on-everything": "perhaps"}
"""Class of an entry's training queries -> whether its models saw test queries."""


@cache
def claims() -> Mapping[str, Any]:
    """Return the content of docs/claims.toml."""
    return tomllib.loads((DOCS / "claims.toml").read_text(encoding="utf-8"))


def newest_entry(board: str, system: str) -> Entry:
    """Return the newest version of a system's entry."""
    versions = (entries_folder() / board / system).iterdir()
    return open_entry(max(versions, key=lambda path: int(path.name[1:])))


def scores_of(board: str, systems: Sequence[str], shifts: Sequence[str]) -> list[Scores]:
    """Return the scores of the newest entries of systems, on shifts."""
    entries = [newest_entry(board, system) for system in systems]
    return [entry.scores[shift] for entry in entries for shift in shifts]


@cache
def losses(name: str) -> Result:
    """Return the losses of the systems of an experiment."""
    about = claims()["experiment"][name]
    scores = scores_of(about["board"], about["systems"], about["shifts"])
    return losses_of(scores, DataInfo(), SETTINGS)


@cache
def differences(name: str, reference: str | None = None) -> Result:
    """Return the differences of an experiment's systems, from each other or from a reference."""
    about = claims()["experiment"][name]
    systems = [*([reference] if reference else []), *about["systems"]]
    scores = scores_of(about["board"], systems, about["shifts"])
    return differences_of(scores, DataInfo(), SETTINGS, reference=reference)


def figure_of(claim: Mapping[str, Any]) -> Figure:
    """Return the one figure that a claim names."""
    names = {"figure": "rel_loss", **claim["of"]}
    if "public" in claim:
        rows = (Figure(**row.model_dump(exclude_none=True)) for row in stored())
        (figure,) = Figures(rows).where(**names, test=claim["public"])
        return figure
    name = claim.get("experiment", "topics")
    reference = claims()["experiment"][name].get("reference")
    if "against" not in names:
        result = losses(name)
    else:
        result = differences(name, reference if names["against"] == reference else None)
    (figure,) = result.figures.where(**{"slice": "", "against": "", **names})
    return figure


def paper_loss(system: str, shift: str) -> str:
    """Return the average loss of a system of MS-Shift's paper over the groups of a shift."""
    rows = load_published("ms_shift_v2")["topics"]
    groups = get_shift(shift).groups
    found = [r["rel_loss_pct"] for r in rows if r["system"] == system and r["group"] in groups]
    return f"{sum(found) / len(found):.1f}%"


def detectable(claim: Mapping[str, Any]) -> str:
    """Return the loss that 80 of 100 repetitions would find, without a correction."""
    names = claim["of"]
    (scores,) = [
        part
        for part in losses(claim.get("experiment", "topics")).scores
        if part.system == names["system"] and part.shift_name == names.get("shift", part.shift_name)
    ]
    estimates = estimates_of(scores, SETTINGS.measures[0], scores.groups, "macro")
    estimate = estimates[names["group"]]["rel_loss"]
    known = None if estimate is None else estimate.uncertainty()
    return show_percent(None if known is None else detectable_loss(known))


def say(claim: Mapping[str, Any]) -> str:
    """Return a claim as a line of a list."""
    figure = figure_of(claim)
    unit = "%" if FIGURES[figure.figure].unit == "share" else ""
    value = f"{hundredfold(figure)}{unit} {show_percent_interval(figure.interval)}"
    text, test = claim["says"].format(figure=value), f"{p_text(figure.p or 0.0)}, {figure.family}"
    paper = f" In the paper: {paper_loss(*claim['paper'])}." if "paper" in claim else ""
    if figure.mark == STAR and "public" not in claim:
        return f"- **{text}** ({test}).{paper}"
    if "against" not in claim["of"] and "public" not in claim:
        test += f"; a loss of {detectable(claim)} would have been found"
    return f"- Exploratory: {text} ({test}).{paper}"


def losses_on_topics() -> Table:
    """Return the losses of the systems on topics, as ``msshift evaluate`` prints them."""
    (table,) = losses("topics").tables()
    return table


def differences_on_topics() -> Table:
    """Return how far the systems are apart, on average over the topics."""
    rows = differences("topics").figures.where(group=MEAN, figure=("avg_in", "out", "rel_loss"))
    return listed("Differences on average over the topics", [row for row in rows if row.against])


def leads_on_topics() -> Table:
    """Return how far the systems are from BM25, on average over the topics."""
    rows = differences("topics", "bm25").figures.where(group=MEAN, figure=("lead_in", "lead_out"))
    return listed("Leads over BM25 on average over the topics", rows)


def listed(title: str, rows: Sequence[Figure]) -> Table:
    """Return differences of systems as rows."""
    header = ("systems", "figure", "difference x 100", "95% interval", "p (holm)")
    cells = [
        (f"{row.system} - {row.against}", FIGURES[row.figure].title, *tested(row)) for row in rows
    ]
    return Table.plain(title, header, cells, names=2)


def hundredfold(figure: Figure) -> str:
    """Return a value times 100; a zero has no minus."""
    return f"{100 * figure.number:z.1f}"


def tested(figure: Figure) -> tuple[str, str, str]:
    """Return a value with its mark, its interval and its p."""
    mark = "*" if figure.mark == STAR else ""
    interval = show_percent_interval(figure.interval)
    return f"{hundredfold(figure)}{mark}", interval, show_p(figure.p)


def losses_on_mini() -> Table:
    """Return the average losses of the systems on the shifts of the generated collection."""
    means = losses("mini").figures.where(group=MEAN, slice="")
    cells = []
    for (shift, system), of_system in means.each("shift", "system"):
        (inside,), (out,), (loss,) = (
            of_system.where(figure=name) for name in ("avg_in", "out", "rel_loss")
        )
        cells.append((shift, system, hundredfold(inside), hundredfold(out), *tested(loss)))
    header = ("shift", "system", "Avg In", "Out", "Rel Loss (%)", "95% interval", "p (holm)")
    return Table.plain("MRR@10 x 100, means over groups", header, cells, names=2)


def scores_of_bm25() -> Table:
    """Return BM25's scores on the groups of the slice."""
    rows = losses("bm25").figures.where(figure="score", slice="")
    cells = [
        (row.shift, row.group, f"{row.queries:,}", hundredfold(row), tested(row)[1]) for row in rows
    ]
    header = ("shift", "group", "queries", "MRR@10 x 100", "95% interval")
    return Table.plain("BM25", header, cells, names=2)


def baselines_on_the_slice() -> Table:
    """Return the scores and losses of systems on the slice's lengths, and how each was trained."""
    about, cells = claims()["experiment"]["slice"], []
    for system in about["systems"]:
        made = about["made"][system]
        of_system = losses("slice").figures.where(system=system, slice="", against="")
        figures = ("avg_in", "out") if of_system.where(figure="out") else ("score", "none")
        recipe = made.get("recipe", "-")
        steps = tomllib.loads(recipe_files()[recipe].text)["steps"] if "recipe" in made else "-"
        seen = SEEN_QUERIES[newest_entry(about["board"], system).training_class]
        scores = [
            with_interval(of_system.where(figure=figure, group=group))
            for group in get_shift("length").groups
            for figure in figures
        ]
        loss = with_interval(of_system.where(figure="rel_loss", group=MEAN))
        cells.append((system, seen, *scores, loss, recipe, str(steps), str(made["minutes"])))
    header = (
        *("system", "test queries seen", "short, Avg In", "short, Out", "long, Avg In"),
        *("long, Out", "Rel Loss (%)", "recipe", "steps", "minutes"),
    )
    return Table.plain("MRR@10 x 100 on the slice", header, cells, names=2)


def with_interval(figures: Figures) -> str:
    """Return the value of the one figure and its 95% interval, both times 100; "-" for none."""
    return (
        " ".join(f"{hundredfold(row)} {show_percent_interval(row.interval)}" for row in figures)
        or "-"
    )


TABLES: Mapping[str, Callable[[], Table]] = {
    "topics": losses_on_topics,
    "order": differences_on_topics,
    "leads": leads_on_topics,
    "bm25": scores_of_bm25,
    "mini": losses_on_mini,
    "slice": baselines_on_the_slice,
}
"""Name of a block -> function that returns its table."""


def block(kind: str, name: str) -> str:
    """Return the text of a block.

    Raises:
        ValueError: if docs/claims.toml has no claim of the block.
    """
    if kind == "table":
        return printed(TABLES[name]())
    lines = [say(claim) for claim in claims()["claim"] if claim["block"] == name]
    if not lines:
        raise ValueError(f"docs/claims.toml has no claim of the block {name!r}; add one")
    return "\n".join(lines) + "\n"


def printed(table: Table) -> str:
    """Return a table in Markdown, with its note."""
    return f"{to_markdown(table)}\n{table.note}\n" if table.note else to_markdown(table)


def stamp() -> str:
    """Return the last line of the picture: the digest of the table that it shows.

    The bytes of equal pictures differ in the last digits of their layout.
    """
    table = losses_on_topics()
    digest = hashlib.sha256(f"{to_markdown(table)}\n{table.note}".encode()).hexdigest()
    return f"<!-- table {digest} -->\n"


def draw() -> None:
    """Draw the picture of the losses on topics."""
    draw_result(losses("topics"), DOCS / PICTURE)
    with (DOCS / PICTURE).open("a", encoding="utf-8") as file:
        file.write(stamp())


def filled(text: str) -> str:
    """Return a page with the claims and tables of today."""
    return BLOCK.sub(lambda found: f"{found[1]}{block(found[2], found[3])}{found[4]}", text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages and the picture, or print which differ."""
    parser = argparse.ArgumentParser(description="Write the claims of docs/claims.toml into pages.")
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
