"""docs/public-systems.md and the entries of public systems have the figures of one file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from msshift_bench.leaderboard import check_entry
from scripts import public_systems
from scripts.public_systems import CSV, ENTRIES, PAGE, TITLES, compute, main, stored


def test_the_page_and_the_entries_have_the_stored_figures() -> None:
    assert main(["--check"]) == 0
    entries = {path.parent.parent.name for path in ENTRIES.glob("public-*/v1/figures.csv")}
    assert entries == {f"public-{system}" for system in TITLES}
    for name in entries:
        assert check_entry(ENTRIES / name / "v1").findings == []


def test_a_changed_figure_is_found_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, path in (("CSV", CSV), ("PAGE", PAGE)):
        monkeypatch.setattr(public_systems, name, Path(shutil.copy(path, tmp_path)))
    monkeypatch.setattr(public_systems, "ENTRIES", shutil.copytree(ENTRIES, tmp_path / "entries"))
    monkeypatch.setattr(public_systems, "REPOSITORY", tmp_path)
    copy = tmp_path / PAGE.name
    copy.write_text(PAGE.read_text("utf-8").replace("17.3 [16.0", "18.3 [16.0"), encoding="utf-8")
    assert main(["--check"]) == 1
    assert capsys.readouterr().out == f"{PAGE.name} differs\n"
    assert main([]) == 0
    assert copy.read_bytes() == PAGE.read_bytes()


def test_a_mark_goes_with_a_corrected_test_and_an_interval_without_zero() -> None:
    tested = [row for row in stored() if row.p is not None]
    assert tested
    for row in tested:
        assert bool(row.mark) is (row.p is not None and row.p <= 0.05)
        assert row.low is not None
        assert row.high is not None
        assert not row.mark or not row.low <= 0 <= row.high


@pytest.mark.realdata
@pytest.mark.extended
def test_the_stored_figures_are_those_of_the_published_files(real_data: Path) -> None:
    pairs = zip(compute(real_data), stored(), strict=True)
    for found, known in ((one.model_dump(), other.model_dump()) for one, other in pairs):
        for name, expected in known.items():
            is_float = isinstance(expected, float)
            value = pytest.approx(expected, rel=1e-4) if is_float else expected or None
            assert (found[name] if is_float else found[name] or None) == value, (name, known)
