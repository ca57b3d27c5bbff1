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
from msshift_bench.evaluation.run_set_report import Report
from msshift_bench.evaluation.settings import Settings
from msshift_bench.output import pictures
from tests.conftest import Command

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.slow

SETTINGS = Settings("RR@10 nDCG@10")


def report(**seeds: Sequence[int | None]) -> Report:
    """A report on systems with these seeds; those without seeds gave one run."""
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
    return Report(DATA, SETTINGS, [one for part in parts for one in part.systems])


def texts(path: Path, drawn: Report, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Draw an SVG whose letters are letters, and return its texts."""
    monkeypatch.setitem(pictures._STYLE, "svg.fonttype", "none")
    drawn.plot(path)
    found = re.findall(r"<(?:text|tspan)[^>]*>([^<]+)</", path.read_text(encoding="utf-8"))
    return [text.strip() for text in found]


def test_the_picture_shows_losses_and_matrices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = report(bm25=(), dense=(1, 2, 3), single=(None,))
    found = texts(tmp_path / "out.svg", drawn, monkeypatch)
    assert "Query length (length), MRR@10 x 100" in found
    assert "Query length (length), nDCG@10 x 100" in found
    assert {"dense, 3 seeds", "single, one seed", "bm25", "short", "long", "mean"} <= set(found)
    assert found.count("without short") == 4
    stars = 0
    for measure in drawn.systems[1].measures.values():
        for held_out in ("short", "long"):
            for group in ("short", "long"):
                assert measure.measure.show(measure.mean(group, held_out)) in found
        assert measure.loss is not None
        stars += sum(map(measure.loss.is_significant, measure.loss.groups))
    assert found.count("*") == stars > 0
    assert any("with one seed (white markers) of queries only" in line for line in found)


def test_one_seed_has_no_star_and_no_loss_no_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = texts(tmp_path / "one.svg", report(single=(None,)), monkeypatch)
    assert "*" not in found
    assert not any("significant" in line for line in found)
    found = texts(tmp_path / "bm25.svg", report(bm25=()), monkeypatch)
    assert "all" in found
    assert not any("Rel Loss" in line or "mean" in line for line in found)


def test_a_picture_is_the_same_whenever_it_is_drawn(tmp_path: Path) -> None:
    drawn = report(bm25=())
    for name in ("a.svg", "b.svg", "c.pdf", "d.pdf", "e.PNG"):
        drawn.plot(str(tmp_path / name))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.pdf").read_bytes() == (tmp_path / "d.pdf").read_bytes()
    png = (tmp_path / "e.PNG").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">I", png[16:20]) == (2 * 600,)


def test_signs_of_mathematics_in_a_name_are_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "a $x_1$ and a name that is so long that nobody could read it"
    found = texts(tmp_path / "out.svg", report(**{name: (1, 2)}), monkeypatch)
    assert any(line.startswith("a $x_1$ and a") and "…" in line for line in found)


def test_what_cannot_be_drawn_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = report(dense=(1, 2))
    with pytest.raises(UnknownNameError, match=r"'\.jpg': .*valid are \.svg, \.png, \.pdf"):
        drawn.plot(tmp_path / "out.jpg")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"a plot needs the 'plots' extra"):
        drawn.plot(tmp_path / "out.svg")
    assert not list(tmp_path.iterdir())


def test_a_plot_is_refused_before_anything_is_scored(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "my.run").write_text("no run")
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n")
    done = msshift("evaluate", "my.run", "--qrels", "qrels.txt", "--plot", "out.svg")
    assert done.returncode == 2
    assert "--plot draws the losses of run sets" in done.stderr
    done = msshift("evaluate", "runs", "--plot", "out.jpeg")
    assert done.returncode == 2
    assert "unknown ending of a plot's name '.jpeg'" in done.stderr
