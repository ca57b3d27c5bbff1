from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.plumbing.folders import cache_root


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [
        ("own", "shared", "own"),
        (None, "shared", "shared/msshift"),
        ("", "", "home/.cache/msshift"),
        (None, None, "home/.cache/msshift"),
        ("~/kept", None, "home/kept"),
    ],
)
def test_the_nearest_variable_decides_and_nothing_is_created(
    own: str | None,
    shared: str | None,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in (("MSSHIFT_CACHE", own), ("XDG_CACHE_HOME", shared)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value if value[:1] in ("", "~") else str(tmp_path / value))
    assert cache_root() == tmp_path / expected
    assert list(tmp_path.iterdir()) == []
