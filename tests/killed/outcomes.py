"""What became of a command that met a fault, and whether that is as promised."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.killed.contents import Contents, contents, differences
from tests.killed.laboratory import Done, Laboratory, Undisturbed
from tests.killed.scenarios import SCENARIOS

__all__ = ["ENDED", "Outcome", "is_cache", "judge"]

ENDED = ("identical", "refused", "stopped", "wrong")
"""The command ended well, with the outputs of an undisturbed run; or it said what was wrong, and
after the cure did so; or it was stopped, and did so when it ran again; or none of these."""

_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a command.

    Attributes:
        ended: one of `ENDED`.
        said: the error that it printed; "" if none.
        wrong: one sentence for everything that is not as promised.
    """

    ended: str
    said: str = ""
    wrong: Sequence[str] = ()


def is_cache(path: str) -> bool:
    """Say whether a path below a laboratory's folder belongs to a cache."""
    return path.partition("/")[0] in ("cache", "datasets", "home")


def judge(
    laboratory: Laboratory,
    scenario: str,
    folder: Path,
    done: Done,
    *,
    cure: Callable[[], object] = lambda: None,
    names: Sequence[str] = (),
    damaged: Collection[str] = (),
    is_elsewhere: bool = False,
) -> Outcome:
    """Judge a command that met a fault, cure that, call it again, and remove its folder.

    Args:
        laboratory: where it ran.
        scenario: its scenario.
        folder: its folder.
        done: what became of it.
        cure: makes good what the fault did.
        names: what a refusal must name, one of them.
        damaged: the files in the folder that the fault changed.
        is_elsewhere: whether its caches were in another place.
    """
    steps, usual = SCENARIOS[scenario], laboratory.undisturbed(scenario)
    left = contents(folder)
    said = _error(done.stderr).replace(f"{folder}/", "").replace(str(folder), "the folder")
    wrong = [f"{path} is neither old nor new" for path in _torn(left, usual, damaged)]
    if done.code == 0 or (steps.done and steps.done in done.stderr):
        expected = dict(usual.after)
        for path in damaged:
            if path in usual.before and left.get(path) != expected.get(path):
                left.pop(path, None)
                expected.pop(path, None)
        if is_elsewhere:
            left = {path: value for path, value in left.items() if not is_cache(path)}
            expected = {path: value for path, value in expected.items() if not is_cache(path)}
        wrong += differences(left, expected)
        shutil.rmtree(folder)
        return Outcome("wrong" if wrong else "identical", said, wrong)
    is_stopped = done.code < 0 or done.code == _INTERRUPTED
    if not is_stopped:
        wrong += _unclear(done, names)
    elif done.code == _INTERRUPTED and "interrupted" not in done.stderr:
        wrong.append(f"it ends with {done.code}, and does not say that it was interrupted")
    cure()
    wrong += laboratory.go_on(scenario, folder)
    return Outcome("wrong" if wrong else "stopped" if is_stopped else "refused", said, wrong)


def _torn(left: Contents, usual: Undisturbed, damaged: Collection[str]) -> list[str]:
    """Return the files that are neither as before the command nor as after it."""
    return [
        path
        for path in sorted(usual.before.keys() | usual.after.keys() | left.keys())
        if path not in damaged
        and not path.startswith("datasets/")
        and not any(part.startswith(".") for part in path.split("/"))
        and not (path not in left and _is_moved_aside(Path(path), left))
        and not (is_cache(path) and path not in usual.after)  # Unfinished work, or other caches.
        and left.get(path, "missing")
        not in (usual.before.get(path, "missing"), usual.after.get(path, "missing"))
    ]


def _is_moved_aside(path: Path, left: Contents) -> bool:
    """Say whether a file is in a folder that a kill left between its two renames."""
    return any(
        (one.parent / f".{one.name}.partial" / "old").as_posix() in left
        for one in (path, *path.parents)
    )


def _unclear(done: Done, names: Sequence[str]) -> list[str]:
    """Return what a refusal lacks."""
    found = []
    if done.code not in (1, 2, 3) or "Traceback" in done.stderr or "error: " not in done.stderr:
        found.append(f"it ends with {done.code}: {done.stderr}")
    flat = "".join(done.stderr.split())
    if names and not any("".join(name.split()) in flat for name in names):
        found.append(f"it does not name {' or '.join(names)}: {done.stderr}")
    return found


def _error(stderr: str) -> str:
    """Return the sentence of an error, without what came before it."""
    return " ".join(stderr.partition("error: ")[2].split())
