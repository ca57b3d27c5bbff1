from __future__ import annotations

import sys
from types import ModuleType

import pytest

from msshift_bench import cli
from msshift_bench.cli import begin, main


@pytest.mark.parametrize(("module", "name"), [(begin, "_shift_table"), (cli, "make_app")])
def test_an_interrupted_command_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: ModuleType,
    name: str,
) -> None:
    """In its work, and before it: while the tree of commands is made."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, interrupted)
    monkeypatch.setattr(sys, "argv", ["msshift", "list"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 130
    assert capsys.readouterr().err == (
        "interrupted; type the same command again: finished parts are kept\n"
    )
