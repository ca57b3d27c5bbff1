"""Submissions to the leaderboard, spoiled: what the tests of the gate share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msshift_bench.errors import Finding
from msshift_bench.leaderboard.file_list import write_file_list
from msshift_bench.leaderboard.strict_files import dump_json
from msshift_bench.leaderboard.verdict import Verdict

Json = dict[str, Any]


def errors(checked: Verdict) -> list[Finding]:
    return [one for one in checked.findings if one.severity == "error"]


def assert_refused(checked: Verdict, code: str, message: str) -> None:
    found = errors(checked)
    assert code in [one.code for one in found], found
    assert any(one.code == code and message in str(one) for one in found), found
    assert not checked.accepted


def read(folder: Path) -> Json:
    value: Json = json.loads((folder / "submission.json").read_bytes())
    return value


def seal(folder: Path, value: Json | None = None) -> None:
    """Write the submission, and a list of files that fits: a forger can do as much."""
    if value is not None:
        (folder / "submission.json").write_bytes(dump_json(value))
    write_file_list(folder)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def cut(path: Path, size: int) -> Path:
    return write(path, path.read_bytes()[:size])


def flip(path: Path, position: int) -> Path:
    content = bytearray(path.read_bytes())
    content[position] ^= 255
    return write(path, bytes(content))


def at(value: Any, path: str) -> tuple[Any, str]:
    *parents, last = path.split("/")
    for part in parents:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value, last


def put(path: str, new: Any) -> Callable[[Json], None]:
    def change(value: Json) -> None:
        parent, key = at(value, path)
        parent[int(key) if isinstance(parent, list) else key] = new

    return change
