"""The picture of a report: what is on it, and what is said where it cannot be drawn."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from msshift_bench.errors import MissingExtraError, UnknownNameError
from msshift_bench.evaluation import Result, Settings, losses_of, parse_measure
from msshift_bench.output import pictures
from msshift_bench.report import draw_result
from tests.conftest import Command
from tests.support.synthetic_entries import DATA, scored_report

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.slow

SETTINGS = Settings("RR@10 nDCG@10")

Texts = Callable[[Result], list[str]]


def result_of(**seeds: Sequence[int | None]) -> Result:
    """A result on systems with these seeds; those without seeds gave one run."""
    options = {"shifts": ["length"], "settings": SETTINGS}
    parts = [
        scored_report(name, 0.3, seeds=taken or (None,), per_group=bool(taken), **options)  # type: ignore[arg-type]
        for name, taken in seeds.items()
    ]
    return losses_of([scores for part in parts for scores in part.scores], DATA, SETTINGS)


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Texts:
    """Draw an SVG whose letters are letters, and return its texts."""
    monkeypatch.setitem(pictures._STYLE, "svg.fonttype", "none")

    def drawn(result: Result) -> list[str]:
        draw_result(result, tmp_path / "out.svg")
        lines = re.findall(r"<(?:text|tspan)[^>]*>([^<]+)</", (tmp_path / "out.svg").read_text())
        return [text.strip() for text in lines]

    return drawn


def test_the_picture_shows_losses_and_matrices(texts: Texts) -> None:
    result = result_of(bm25=(), dense=(1, 2, 3), single=(None,))
    lines = texts(result)
    assert "Query length (length), MRR@10 x 100" in lines
    assert "Query length (length), nDCG@10 x 100" in lines
    assert {"dense, 3 seeds", "single, one seed", "bm25", "short", "long", "mean"} <= set(lines)
    assert lines.count("without short") == 4
    for row in result.figures.where(system="dense", figure="model_score"):
        assert parse_measure(row.measure).show(row.value) in lines
    marks = [row.mark for row in result.figures.where(figure="rel_loss")]
    for mark in "*†":
        assert lines.count(mark) == marks.count(mark) > 0
    assert any("with one seed (white markers) of queries only" in line for line in lines)


@pytest.mark.parametrize(
    ("system", "seeds", "shown", "absent"),
    [
        ("single", (None,), r"single, one seed$", r"\*$|.*significant"),
        ("bm25", (), "all$", ".*(Rel Loss|mean)"),
        # Signs of mathematics in a name are letters.
        (
            "a $x_1$ and a name so long that nobody could read it",
            (1, 2),
            r"a \$x_1\$ and a.*…",
            " $",
        ),
    ],
    ids=["no star of one seed", "no axis without a loss", "a long name"],
)
def test_what_is_shown_depends_on_the_system(
    system: str, seeds: tuple[int | None, ...], shown: str, absent: str, texts: Texts
) -> None:
    lines = texts(result_of(**{system: seeds}))
    assert any(re.match(shown, line) for line in lines)
    assert not any(re.match(absent, line) for line in lines)


def test_a_picture_is_the_same_whenever_it_is_drawn(tmp_path: Path) -> None:
    result = result_of(bm25=())
    for name in ("a.svg", "b.svg", "c.pdf", "d.pdf", "e.PNG"):
        draw_result(result, str(tmp_path / name))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.pdf").read_bytes() == (tmp_path / "d.pdf").read_bytes()
    png = (tmp_path / "e.PNG").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">I", png[16:20]) == (2 * 600,)


def test_what_cannot_be_drawn_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, msshift: Command
) -> None:
    result = result_of(dense=(1, 2))
    with pytest.raises(UnknownNameError, match=r"'\.jpg': .*valid are \.svg, \.png, \.pdf"):
        draw_result(result, tmp_path / "out.jpg")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"a plot needs the 'plots' extra"):
        draw_result(result, tmp_path / "out.svg")
    assert not list(tmp_path.glob("out*"))
    done = msshift("evaluate", "runs", "--plot", "out.jpeg")
    assert done.returncode == 2  # before anything is scored
    assert "unknown ending of a plot's name '.jpeg'" in done.stderr
