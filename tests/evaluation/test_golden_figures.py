"""Every figure and every table of the made world, and the boards' figures, as they were before.

What differs is meant, or it is a mistake; what is meant is written anew by
``MSSHIFT_WRITE_GOLDEN=1 python -m pytest tests/evaluation/test_golden_figures.py``.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from msshift_bench import __version__
from msshift_bench.cli import app
from msshift_bench.evaluation import Figure as BoardFigure
from msshift_bench.leaderboard import entries_folder, open_entry
from tests.conftest import Build
from tests.support.made_runs import COLLECTION, SHIFT_NAMES, write_world

GOLDEN = Path(__file__).parent / "golden"
WRITE = bool(os.environ.get("MSSHIFT_WRITE_GOLDEN"))

_RUNS = "runs/bm25/length.run runs/late/length/short.run runs/sparse/length/seed-1/short.run"
CALLS: Mapping[str, str] = {
    "losses-macro": "evaluate runs --measures RR@10,nDCG@10,ASL@5 --average macro",
    "losses-pooled": (
        "evaluate runs --measures nDCG@10,ASL@5 --average pooled --shift length --shift wh-words"
    ),
    "losses-skip": (
        "evaluate runs --missing skip --ties expected --correction benjamini-hochberg "
        "--shift wh-words"
    ),
    "losses-partial": "evaluate partial --allow-partial",
    "delta": "evaluate runs --measures RR@10,ASL@5 --delta --shift length --shift wh-words",
    "slices-labels": "evaluate runs --by labels.tsv --shift length --shift topics",
    "slices-groups": "evaluate runs --by wh-words --shift length",
    "leaked": "evaluate runs --leakage leaked --shift length --shift wh-words",
    "leaked-pooled": "evaluate runs --leakage leaked --average pooled --shift length",
    "leaked-lower": "evaluate runs --leakage leaked --measures ASL@5 --shift topics",
    "pairs": "compare runs",
    "pairs-lower": "compare runs --measures ASL@5 --shift length",
    "pairs-pooled": "compare runs --average pooled --missing skip --shift wh-words",
    "reference": "compare runs --baseline bm25",
    "extra": "evaluate runs --also-test graded=graded --measures RR@10,nDCG@10,ASL@5",
    "variants": "evaluate runs --also-test typos=typos.tsv --measures RR@10,ASL@5",
    "variants-graded": "evaluate runs --also-test mistyped=mistyped --measures nDCG@10",
    "runs-qrels": f"evaluate {_RUNS} --qrels qrels.tsv --intervals --measures RR@10,ASL@5,NumRet",
    "runs-leaked": f"evaluate {_RUNS} --test length-short --leakage leaked",
    "runs-pairs": f"compare {_RUNS} --qrels qrels.tsv",
    "runs-reference": f"compare {_RUNS} --test length-long --baseline runs/bm25/length.run",
}
"""The name of a call -> its words."""

FORMATS = {"text": "txt", "markdown": "md", "latex": "tex"}
"""Format -> the ending of its golden file.

Markdown and LaTeX are of one shift where the call names none, so that the files stay small.
"""

pytestmark = pytest.mark.slow


class Figure(NamedTuple):
    """One number of a result; names that do not apply are ""."""

    figure: str
    test: str = ""
    shift: str = ""
    system: str = ""
    against: str = ""
    measure: str = ""
    group: str = ""
    model: str = ""
    slice: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    queries: int | None = None
    seeds: int | None = None


# From here to `_ends`: how today's JSON holds figures.


def figures_of(result: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield every figure of a result's JSON."""
    for label, systems in {"": result.get("systems", ()), **result.get("slices", {})}.items():
        for system in systems:
            for measure, values in system["measures"].items():
                head = Figure("", shift=system["shift"], system=system["system"], measure=measure)
                yield from _losses(head._replace(slice=label), values)
    for comparison in result.get("comparisons", ()):
        yield from _comparison(comparison)
    for run in result.get("runs", ()):
        for measure, values in run["measures"].items():
            head = Figure("", result["test_set"], system=run["name"], measure=measure)
            head = head._replace(queries=values["queries"])
            yield head._replace(figure="ties", low=values["worst"], high=values["best"])
            yield _ends(head._replace(figure=values["aggregate"], value=values["mean"]), values)
    for values in (*result.get("figures", ()), *result.get("drops", ())):
        yield from _on_extra_set(values)
    for values in result.get("compounds", ()):
        yield from _compound(values)
    for values in result.get("leakage", {}).get("scores", ()):
        named = {name: values[name] for name in ("figure", "shift", "system", "measure", "group")}
        head = Figure(**named, queries=values["queries"])
        clean = values["queries"] - values["left_out"]
        yield head._replace(slice="all", value=values["everything"])
        yield head._replace(slice="not leaked", value=values["kept"], queries=clean)
        head = head._replace(slice="all minus not leaked", value=values["difference"])
        yield _ends(head, values)._replace(p=values["p"])


def _losses(head: Figure, values: Mapping[str, Any]) -> Iterator[Figure]:
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell in values["cells"]:
        cells.setdefault((cell["group"], cell["held_out"] or "all"), []).append(cell)
    for (group, model), of_seeds in cells.items():
        row = head._replace(group=group, model=model, queries=of_seeds[0]["queries"])
        mean, low, high = (fmean(c[n] for c in of_seeds) for n in ("mean", "worst", "best"))
        yield row._replace(figure="mean", value=mean, seeds=len(of_seeds))
        yield row._replace(figure="ties", low=low, high=high, seeds=len(of_seeds))
    if values["loss"] is None:
        return
    groups, overall = values["loss"]["groups"], values["loss"]["overall"]
    everything = sum(loss["queries"] for loss in groups.values())
    for group, loss in {**groups, "mean": overall}.items():
        for figure in ("avg_in", "out", "loss", "rel_loss"):
            row = head._replace(figure=figure, group=group, value=loss[figure])
            row = row._replace(queries=loss.get("queries", everything), seeds=overall["seeds"])
            if figure == "rel_loss":
                p = overall["p"] if loss is overall else overall["adjusted_p"].get(group)
                row = row._replace(p=p)
            yield _ends(row, {"interval": (loss["intervals"] or {}).get(figure)})


def _comparison(compared: Mapping[str, Any]) -> Iterator[Figure]:
    shift, measure = compared["shift"] or "", compared["measure"]
    everything = sum(compared["queries"].values())
    for figure, of_figure in compared["figures"].items():
        head = Figure(figure, compared["test_set"], shift, measure=measure)
        systems: dict[tuple[str, str], Figure] = {}
        for pair in of_figure["pairs"]:
            adjusted = {**pair["adjusted_p"], "mean": pair["adjusted_overall_p"]}
            for group, values in {**pair["groups"], "mean": pair["overall"]}.items():
                head = head._replace(
                    group=group, queries=compared["queries"].get(group, everything)
                )
                for side in "ab":
                    system = pair[side]
                    seeds, value = compared["seeds"][system], values[f"value_{side}"]
                    row = head._replace(system=system, value=value, seeds=seeds)
                    systems[system, group] = row
                row = head._replace(system=pair["a"], against=pair["b"], p=adjusted.get(group))
                yield _ends(row._replace(value=values["difference"]), values)
        for place in of_figure["ranking"]:
            row = systems[place["system"], "mean"]
            systems[place["system"], "mean"] = _ends(row, place)
            ranks = place["rank"], place["best_rank"], place["worst_rank"]
            yield row._replace(figure=f"rank by {figure}")._replace(
                **dict(zip(("value", "low", "high"), ranks, strict=True))
            )
        yield from systems.values()


def _on_extra_set(values: Mapping[str, Any]) -> Iterator[Figure]:
    named = {name: values[name] for name in ("shift", "system", "measure", "queries", "seeds")}
    head = Figure("", values["test_set"], **named, model=values.get("model", "mean"))
    if "drop" in values:
        drop = head._replace(figure="drop", against=values["against"], value=values["drop"])
        yield _ends(drop, values)
    elif "method" in values:
        head = head._replace(slice=values["method"])
        yield head._replace(figure="as_is", value=values["score"])
        yield head._replace(figure="changed", value=values["changed"])
        head = head._replace(figure="loss_by_change", value=values["loss"], p=values["p"])
        yield _ends(head, values)
    else:
        yield _ends(head._replace(figure="mean", value=values["mean"]), values)


def _compound(values: Mapping[str, Any]) -> Iterator[Figure]:
    losses = values["losses"]
    named = {name: values[name] for name in ("shift", "system", "measure", "group", "seeds")}
    head = Figure("", values["test_set"], **named, queries=losses["queries"])
    yield head._replace(figure="loss_by_change_in", value=losses["inside"])
    yield head._replace(figure="loss_by_change_out", value=losses["out"])
    yield head._replace(figure="rel_loss", value=losses["rel_loss"])
    yield head._replace(figure="rel_loss_changed", value=losses["rel_loss_changed"])
    head = head._replace(figure="out_minus_in", value=losses["difference"], p=values["p"])
    yield _ends(head, losses)


def _ends(figure: Figure, values: Mapping[str, Any]) -> Figure:
    interval = values.get("interval") or {"low": None, "high": None}
    return figure._replace(low=interval["low"], high=interval["high"])


@pytest.fixture(scope="module")
def call(
    build_once: Build, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], tuple[str, dict[str, Any]]]:
    """Return a function that gives what a call prints in a format, and its JSON."""
    world = tmp_path_factory.mktemp("world")
    data = build_once(COLLECTION, *SHIFT_NAMES)
    write_world(world, data)
    (world / "msshift").symlink_to(data)

    @cache
    def run(name: str, table_format: str) -> tuple[str, dict[str, Any]]:
        words = [*CALLS[name].split(), "--format", table_format, "--output", "output.json"]
        if table_format != "text" and words[1] == "runs" and "--shift" not in words:
            words += ["--shift", "length"]
        with contextlib.chdir(world):
            done = CliRunner().invoke(app, words, catch_exceptions=False)
            assert done.exit_code == 0, done.stderr
            return done.stdout, json.loads(Path("output.json").read_bytes())

    return run


def check_rows(
    path: Path, columns: tuple[str, ...], names: int, rows: Iterable[tuple[object, ...]]
) -> None:
    """Check that rows are those of a golden file: the same names, and numbers alike to 10 digits.

    Args:
        path: the golden file, a CSV file with gzip.
        columns: its columns.
        names: how many of the columns are names, which come first.
        rows: the rows, in any order.
    """
    texts = [tuple("" if cell is None else str(cell) for cell in row) for row in rows]
    if WRITE:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([columns, *texts])
        path.write_bytes(gzip.compress(out.getvalue().encode(), mtime=0))
    head, *lines = _read(path)
    assert tuple(head) == columns
    golden = {tuple(line[:names]): tuple(line[names:]) for line in lines}
    computed = {row[:names]: row[names:] for row in texts}
    assert len(computed) == len(texts), "two figures have the same names"
    wrong = [
        f"{' '.join(key)}: {golden.get(key, 'none')} is now {computed.get(key, 'none')}"
        for key in {**golden, **computed}
        if key not in golden
        or key not in computed
        or not all(map(_alike, golden[key], computed[key]))
    ]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(golden)} differ:", *wrong[:20]])


def _read(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode())))


def _alike(before: str, now: str) -> bool:
    if before == now or not before or not now:
        return before == now
    try:
        return math.isclose(float(before), float(now), rel_tol=1e-10, abs_tol=1e-13)
    except ValueError:
        return False


def test_every_figure_is_as_it_was(
    call: Callable[[str, str], tuple[str, dict[str, Any]]],
) -> None:
    rows = [(name, *row) for name in CALLS for row in figures_of(call(name, "text")[1])]
    columns = ("call", *Figure._fields)
    check_rows(GOLDEN / "figures.csv.gz", columns, columns.index("value"), rows)


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("name", CALLS)
def test_every_table_is_as_it_was(
    name: str, table_format: str, call: Callable[[str, str], tuple[str, dict[str, Any]]]
) -> None:
    printed = call(name, table_format)[0].replace(__version__, "VERSION")
    printed = re.sub(r"\b(sha256|content)((?: [0-9a-f]{8,})+)", r"\1 DIGESTS", printed)
    path = GOLDEN / f"{name}.{FORMATS[table_format]}"
    if WRITE:
        path.write_text(printed, "utf-8")
    assert printed == path.read_text("utf-8")


def test_every_figure_of_the_boards_is_as_it_was() -> None:
    folder, golden = entries_folder(), GOLDEN / "entries.csv.gz"
    places = {path.relative_to(folder).as_posix() for path in folder.glob("*/*/v*")}
    if not WRITE:
        # An entry that joins a board later changes no figure of the others.
        places &= {line[0] for line in _read(golden)}
    entries = {place: open_entry(folder / place) for place in sorted(places)}
    rows = [(place, *figure) for place, entry in entries.items() for figure in entry.figures]
    columns = ("entry", *BoardFigure._fields)
    check_rows(golden, columns, columns.index("value"), rows)
