from __future__ import annotations

import sys

import pytest

from msshift_bench.cli import list_, main


def test_an_interrupted_command_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(list_, "_print_shift", interrupted)
    monkeypatch.setattr(sys, "argv", ["msshift", "list"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 130
    assert capsys.readouterr().err == (
        "interrupted; type the same command again: finished parts are kept\n"
    )
