"""``msshift demo`` from end to end; its models barely train, what they learn is tested apart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import opening
from msshift_bench.baselines.systems.finding import our_systems
from msshift_bench.baselines.systems.recipe import read_recipe
from msshift_bench.cli import begin
from msshift_bench.errors import MissingExtraError
from msshift_bench.report import writing
from tests.support.figures import read_figures

pytestmark = [pytest.mark.extended, pytest.mark.neural]

COLLECTION = "mini:300"
SHIFTS = ("wh-words", "length")
SYSTEMS = ["bi-encoder", "bm25"]
TITLES = ("question words", "query length")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out a shift, three systems, all steps of training but two, and formats of pictures."""

    def load_short(*arguments: Any) -> Any:
        recipe = read_recipe(*arguments)
        random = recipe.random.changed(layers=1, hidden=16, inner=32, vocabulary=300)
        return recipe.changed(steps=2, checkpoint_every=2, random=random)

    monkeypatch.setattr(opening, "read_recipe", load_short)
    assert {*begin.SYSTEMS, *begin.OTHER_SYSTEMS} < set(our_systems())
    monkeypatch.setattr(begin, "SYSTEMS", SYSTEMS[:1])
    monkeypatch.setattr(begin, "OTHER_SYSTEMS", SYSTEMS[1:])
    monkeypatch.setattr(begin, "SHIFT_NAMES", SHIFTS)
    monkeypatch.setattr(writing, "PICTURE_FORMATS", ["svg"])


def _lacks_plots(module: str, extra: str, what: str) -> None:
    raise MissingExtraError(extra, what)


def test_the_demo_of_all_systems_goes_on_from_the_short_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as without_plots:
        without_plots.setattr(writing, "check_installed", _lacks_plots)
        begin.demo(tmp_path, COLLECTION)
    told = capsys.readouterr().err
    assert "a report needs the 'plots' extra" in told
    assert not (tmp_path / "report").exists()
    assert re.findall(r"^    (\S+): (\d) runs in \d+ s$", told, re.M) == [("bi-encoder", "5")]
    made = sorted((tmp_path / "runs" / "bi-encoder").rglob("*.run.gz"))
    written = [path.stat().st_mtime_ns for path in made]
    assert len(made) == 5

    begin.demo(tmp_path, COLLECTION, everything=True)
    printed, told = capsys.readouterr()
    assert re.findall(r"^    (\S+): (\d) runs in \d+ s$", told, re.M)[1:] == [("bm25", "2")]
    assert [path.stat().st_mtime_ns for path in made] == written
    titles = ("Question words (wh-words), MRR@10 x 100", "Query length (length), MRR@10 x 100")
    *_, of_words, of_length = re.split("|".join(map(re.escape, titles)), printed)
    for table in (of_words, of_length.partition("Avg In:")[0]):
        assert re.findall(r"^  (\S+)  ", table, re.M) == ["system", *reversed(SYSTEMS)]
        assert re.findall(r"^ {15}(\S.*?)  ", table, re.M) == ["Out", "Rel Loss"]
    # What all tables rest on is said once, and what one of them rests on is left to `evaluate`.
    assert printed.count("data: mini:300, edition rebuilt") == 1
    assert "sha256" not in printed

    page = tmp_path / "report" / "report.html"
    assert f"{page}  the report: open it in a browser" in printed
    assert all(
        f"{system}, {title}" in page.read_text() for system in SYSTEMS[:1] for title in TITLES
    )
    figures = read_figures((tmp_path / "figures.json").read_text())
    assert len({(row.shift, row.system) for row in figures}) == len(SHIFTS) * len(SYSTEMS)
