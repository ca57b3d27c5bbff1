"""The picture of a report: what is on it, and what is said where it cannot be drawn."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.support.synthetic_entries import DATA, scored_report
from msshift_bench.errors import MissingExtraError, UnknownNameError
from msshift_bench.evaluation import Result, Settings, losses_of
from msshift_bench.output import pictures
from msshift_bench.report import draw_result
from tests.conftest import Command

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.slow

SETTINGS = Settings("RR@10 nDCG@10")


def result_of(**seeds: Sequence[int | None]) -> Result:
    """A result on systems with these seeds; those without seeds gave one run."""
    parts = [
        scored_report(
            name,
            0.3,
            shifts=["length"],
            seeds=of_system or (None,),
            per_group=bool(of_system),
            settings=SETTINGS,
        )
        for name, of_system in seeds.items()
    ]
    return losses_of([scores for part in parts for scores in part.scores], DATA, SETTINGS)


def texts(path: Path, result: Result, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Draw an SVG whose letters are letters, and return its texts."""
    monkeypatch.setitem(pictures._STYLE, "svg.fonttype", "none")
    draw_result(result, path)
    lines = re.findall(r"<(?:text|tspan)[^>]*>([^<]+)</", path.read_text(encoding="utf-8"))
    return [text.strip() for text in lines]


def test_the_picture_shows_losses_and_matrices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = result_of(bm25=(), dense=(1, 2, 3), single=(None,))
    lines = texts(tmp_path / "out.svg", result, monkeypatch)
    assert "Query length (length), MRR@10 x 100" in lines
    assert "Query length (length), nDCG@10 x 100" in lines
    assert {"dense, 3 seeds", "single, one seed", "bm25", "short", "long", "mean"} <= set(lines)
    assert lines.count("without short") == 4
    for row in result.figures.where(system="dense", figure="model_score"):
        measure = next(one for one in SETTINGS.measures if one.name == row.measure)
        assert measure.show(row.value) in lines
    marks = [row.mark for row in result.figures.where(figure="rel_loss")]
    for mark in "*†":
        assert lines.count(mark) == marks.count(mark) > 0
    assert any("with one seed (white markers) of queries only" in line for line in lines)


def test_one_seed_has_no_star_and_no_loss_no_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = texts(tmp_path / "one.svg", result_of(single=(None,)), monkeypatch)
    assert "*" not in lines
    assert not any("significant" in line for line in lines)
    lines = texts(tmp_path / "bm25.svg", result_of(bm25=()), monkeypatch)
    assert "all" in lines
    assert not any("Rel Loss" in line or "mean" in line for line in lines)


def test_a_picture_is_the_same_whenever_it_is_drawn(tmp_path: Path) -> None:
    result = result_of(bm25=())
    for name in ("a.svg", "b.svg", "c.pdf", "d.pdf", "e.PNG"):
        draw_result(result, str(tmp_path / name))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.pdf").read_bytes() == (tmp_path / "d.pdf").read_bytes()
    png = (tmp_path / "e.PNG").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">I", png[16:20]) == (2 * 600,)


def test_signs_of_mathematics_in_a_name_are_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "a $x_1$ and a name that is so long that nobody could read it"
    lines = texts(tmp_path / "out.svg", result_of(**{name: (1, 2)}), monkeypatch)
    assert any(line.startswith("a $x_1$ and a") and "…" in line for line in lines)


def test_what_cannot_be_drawn_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = result_of(dense=(1, 2))
    with pytest.raises(UnknownNameError, match=r"'\.jpg': .*valid are \.svg, \.png, \.pdf"):
        draw_result(result, tmp_path / "out.jpg")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"a plot needs the 'plots' extra"):
        draw_result(result, tmp_path / "out.svg")
    assert not list(tmp_path.iterdir())


def test_a_plot_is_refused_before_anything_is_scored(msshift: Command) -> None:
    done = msshift("evaluate", "runs", "--plot", "out.jpeg")
    assert done.returncode == 2
    assert "unknown ending of a plot's name '.jpeg'" in done.stderr
