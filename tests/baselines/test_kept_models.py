"""Models that were kept beside their runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.data import sha256_of
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import with_checksum, write_json
from msshift_bench.runs import model_path, sidecar_path
from tests.baselines.conftest import MINI, Make
from tests.support.bare_runs import bare_run

pytestmark = pytest.mark.neural


@pytest.mark.parametrize("kept", ["other", "same"])
def test_a_model_that_was_kept_for_a_removed_run_is_refused(
    tmp_path: Path, load: Make, kept: str
) -> None:
    path = tmp_path / "short.run"
    path.write_text("q1 Q0 d1 1 0.5 tag\n")
    facts = {"run_sha256": sha256_of(path), "training": {"weights_sha256": "same"}}
    write_json(sidecar_path(path), with_checksum(facts))
    model_path(path).mkdir()
    write_json(model_path(path) / "training.json", {"weights_sha256": kept})
    run = bare_run(MINI, tmp_path / "work", system=load(), path=path, keep_model=True)
    if kept == "same":
        assert run.state() == "complete"
        return
    with pytest.raises(UsageError, match=r"short\.model is not the model that made short\.run"):
        run.state()
