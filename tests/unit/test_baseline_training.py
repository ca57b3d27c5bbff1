from __future__ import annotations

from pathlib import Path

from msshift_bench.baselines.training import _last_complete


def test_a_checkpoint_that_was_cut_short_is_not_resumed_from(tmp_path: Path) -> None:
    assert _last_complete(tmp_path / "none") is None
    for step, complete in ((3, True), (12, True), (15, False)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "model.safetensors").touch()
        if complete:
            (folder / "complete").touch()
    assert _last_complete(tmp_path) == str(tmp_path / "checkpoint-12")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-12", "checkpoint-3"]
