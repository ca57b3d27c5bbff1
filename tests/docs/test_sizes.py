"""What the size of a training set changes, as docs/experiments.md shows it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.output import to_markdown
from scripts.experiments.tables import FEW, MANY, main, sizes_of
from tests.conftest import Build, Command


def test_groups_are_compared_with_their_seeds_and_queries() -> None:
    rng = np.random.default_rng(0)
    base = {group: rng.random((3, 400)) for group in ("short", "long")}
    lower = {
        "short": base["short"] - rng.normal(0.05, 0.02, (3, 400)),
        "long": rng.permutation(base["long"].T).T,
    }

    table = sizes_of({MANY: base, FEW: lower}, "short", (2_000, 1_000))
    text = to_markdown(table)
    assert "**Without short, 3 seeds, MRR@10 x 100**" in text
    assert "trained on 2,000 | trained on 1,000" in text
    assert "| short (held out) |" in text
    assert "| 5.0 | [4." in text
    assert "| <0.001 |" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| long |")]
    difference, p = float(row.split("|")[4]), float(row.split("|")[6])
    expected = 100 * (base["long"].mean() - lower["long"].mean())
    assert difference == pytest.approx(expected, abs=0.05)
    assert p > 0.05


@pytest.mark.slow
def test_run_sets_that_do_not_fit(
    build_once: Build, msshift: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = build_once("mini:300", "length")
    made = msshift("run", "bm25", "--data", data, "--collection", "mini:300")
    assert made.returncode == 0, made.stderr
    runs = str(tmp_path / "runs")
    assert main(["sizes", str(data), runs, str(data), runs]) == 2
    assert "holds 1 run sets; one of trained models is needed" in capsys.readouterr().err
    for source in (tmp_path / "runs/bm25").glob("length.run.gz"):
        folder = tmp_path / "trained/model/length/seed-1"
        folder.mkdir(parents=True)
        for group in ("short", "long"):
            (folder / f"{group}.run.gz").write_bytes(source.read_bytes())
    trained, other = str(tmp_path / "trained"), str(build_once("mini:200", "length"))
    assert main(["sizes", str(data), trained, other, trained]) == 2
    assert "differ in their test queries" in capsys.readouterr().err
    few = tmp_path / "few/model/length/seed-1"
    few.mkdir(parents=True)
    shutil.copy(folder / "short.run.gz", few)
    assert main(["sizes", str(data), trained, str(data), str(tmp_path / "few")]) == 0
    assert capsys.readouterr().out.count("**Without short, 1 seeds") == 1
    (folder / "short.run.gz").unlink()
    assert main(["sizes", str(data), trained, str(data), str(tmp_path / "few")]) == 2
    assert "have no held-out group in common" in capsys.readouterr().err
    shutil.copy(few / "short.run.gz", folder)
    assert main(["sizes", str(data), trained, str(data), trained]) == 0
    printed = capsys.readouterr().out
    assert printed.count("**Without ") == 2
    assert printed.count("| 0.0 |") == 4
