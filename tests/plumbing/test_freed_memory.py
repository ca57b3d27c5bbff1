from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import pytest

from msshift_bench.plumbing import keep_freed_memory


def test_only_glibc_gets_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    library = SimpleNamespace(mallopt=lambda *option: told.append(option))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(sys, "platform", "linux")
    keep_freed_memory()
    assert dict(told) == {-1: 256 << 20, -3: 32 << 20}
    del library.mallopt
    keep_freed_memory()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(ctypes, "CDLL")
    keep_freed_memory()
    assert len(told) == 2
