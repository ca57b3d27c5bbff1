"""The outcome of a command that had a fault: whether its files and its message are as promised."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.trial_folders import (
    Contents,
    Done,
    Reference,
    Trials,
    contents,
    differences,
)

__all__ = ["ENDED", "Outcome", "is_cache", "judge"]

ENDED = ("identical", "refused", "stopped", "wrong")
"""The command left the files of the reference run; or it refused, or was stopped, and left them
when it ran again after the remedy; or none of these."""

_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a command that had a fault.

    Attributes:
        ended: one of `ENDED`.
        wrong: one sentence for everything that is not as promised.
    """

    ended: str
    wrong: Sequence[str] = ()

    def with_wrong(self, wrong: Sequence[str]) -> Outcome:
        """Return the outcome with more sentences."""
        both = [*wrong, *self.wrong]
        return Outcome("wrong" if both else self.ended, both)


def is_cache(path: str) -> bool:
    """Return whether a path below a trial's folder belongs to a cache."""
    return path.partition("/")[0] in ("cache", "datasets", "home")


def judge(
    trials: Trials,
    scenario: str,
    folder: Path,
    done: Done,
    *,
    remedy: Callable[[], object] = lambda: None,
    names: Sequence[str] = (),
    damaged: Collection[str] = (),
    other_caches: bool = False,
) -> Outcome:
    """Judge a command that had a fault, and remove its folder.

    If the command did not end well, the remedy is applied and the command runs again.

    Args:
        trials: the folders of trials.
        scenario: the command's scenario.
        folder: its folder.
        done: its end.
        remedy: repairs the damage of the fault.
        names: words of which the message of a refusal contains one.
        damaged: the files in the folder that the fault changed.
        other_caches: whether its caches are not those of the reference run.
    """
    reference, found = trials.reference(scenario), contents(folder)
    wrong = [f"{path} is neither old nor new" for path in _torn(found, reference, damaged)]
    if done.code == 0:
        expected = dict(reference.after)
        for path in damaged:
            if path in reference.before and found.get(path) != expected.get(path):
                found.pop(path, None)
                expected.pop(path, None)
        if other_caches:
            found = {path: value for path, value in found.items() if not is_cache(path)}
            expected = {path: value for path, value in expected.items() if not is_cache(path)}
        shutil.rmtree(folder)
        return Outcome("identical").with_wrong(wrong + differences(found, expected))
    is_stopped = done.code < 0 or done.code == _INTERRUPTED
    if not is_stopped:
        wrong += _unclear(done, names)
    elif done.code == _INTERRUPTED and "interrupted" not in done.stderr:
        wrong.append(f"it ends with {done.code} without the word 'interrupted': {done.stderr}")
    remedy()
    wrong += trials.check_next_commands(scenario, folder)
    return Outcome("stopped" if is_stopped else "refused").with_wrong(wrong)


def _torn(found: Contents, reference: Reference, damaged: Collection[str]) -> list[str]:
    """Return the files that are neither as before the command nor as after it."""
    return [
        path
        for path in sorted(reference.before.keys() | reference.after.keys() | found.keys())
        if path not in damaged
        and not path.startswith("datasets/")
        and not any(part.startswith(".") for part in path.split("/"))
        and not (path not in found and _is_moved_aside(Path(path), found))
        and not (is_cache(path) and path not in reference.after)  # Unfinished, or other caches.
        and found.get(path, "missing")
        not in (reference.before.get(path, "missing"), reference.after.get(path, "missing"))
    ]


def _is_moved_aside(path: Path, found: Contents) -> bool:
    """Return whether a file is in a folder that a kill left between its two renames."""
    return any(
        (one.parent / f".{one.name}.partial" / "old").as_posix() in found
        for one in (path, *path.parents)
    )


def _unclear(done: Done, names: Sequence[str]) -> list[str]:
    """Return what the message of a refusal lacks."""
    wrong = []
    if done.code not in (1, 2, 3) or "Traceback" in done.stderr or "error: " not in done.stderr:
        wrong.append(f"it ends with {done.code}: {done.stderr}")
    text = "".join(done.stderr.split())
    if names and not any("".join(name.split()) in text for name in names):
        wrong.append(f"it does not name {' or '.join(names)}: {done.stderr}")
    return wrong
