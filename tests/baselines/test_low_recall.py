"""An approximate index that finds too little: a warning in the result and in the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msshift_bench import evaluate, evaluate_run_sets, read_run, score_runs
from msshift_bench.baselines.systems.finding import neural_systems
from tests.baselines.conftest import Values
from tests.conftest import Command
from tests.support.run_files import sidecar

pytestmark = pytest.mark.neural


@pytest.mark.extended
def test_a_low_recall_is_a_doubt_at_every_door(
    tiny_models: Path, given: Values, data: Path, tmp_path: Path, msshift: Command
) -> None:
    folder = tiny_models / "my-bi-encoder"
    model = neural_systems()["bi-encoder"].load_model(folder)
    exact = evaluate(model, name="exact", depth=7, progress=False, **given)
    assert not any("its index" in warning for warning in exact.warnings)
    result = evaluate(model, name="fast", depth=7, index="IVF16,Flat", progress=False, **given)
    # The recall by hand: the share of the exact ranking, on the same 100 of the queries.
    run = tmp_path / "fast" / "length.run.gz"
    wanted, found = read_run(tmp_path / "exact" / "length.run.gz"), read_run(run)
    ids = [sorted(wanted)[place] for place in np.linspace(0, len(wanted) - 1, 100, dtype=np.int64)]
    recall = np.mean([len(wanted[query].keys() & found[query].keys()) / 7 for query in ids])
    assert 0.1 < recall < 0.9
    assert sidecar(run)["index"]["recall"] == pytest.approx(recall)
    warning = (
        f"its index finds {recall:.1%} of the passages that exact search finds; search exactly"
    )
    on_disk = evaluate_run_sets(run.parent, data), score_runs([run], "length-short", data=data)
    for one in (result, *on_disk):
        assert sum(warning in text for text in one.warnings) == 1, one.warnings
    search = ["--set", "search.depth=7", "--set", "search.index=IVF16,Flat"]
    done = msshift("run", folder, *search, "--data", data, "--out", tmp_path / "by-command")
    assert (done.returncode, warning in done.stderr) == (0, True), done.stderr
    done = msshift("evaluate", tmp_path / "by-command", "--data", data)
    assert (done.returncode, warning in " ".join(done.stdout.split())) == (0, True), done.stdout
