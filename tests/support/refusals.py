"""Errors that calls raise: their class, codes, places and values, but not their sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from subprocess import CompletedProcess

from msshift_bench.errors import DataError, MsShiftError

__all__ = ["Calls", "check_exits", "check_refusals"]

Calls = Mapping[str, Callable[[], object]]


def check_refusals(calls: Calls) -> None:
    """Check the error that each call raises.

    Args:
        calls: case -> call. A case is a title, a colon and the facts of the error, separated by
            spaces: the class; the code of every finding, in brackets; words of the message, such as
            ``file:line``, the wrong value and an option; ``fix``, if every finding has a fix.
    """
    wrong = []
    for case, call in calls.items():
        try:
            call()
        except (MsShiftError, ValueError) as error:
            lacking = list(_lacking(error, case.rpartition(": ")[2].split()))
            wrong += [f"{case}\n  lacks {' '.join(lacking)}: {error}"] if lacking else []
        else:
            wrong.append(f"{case}\n  raises nothing")
    assert not wrong, "\n".join(wrong)


def check_exits(
    run: Callable[..., CompletedProcess[str]], commands: Mapping[str, str], prefix: str = ""
) -> None:
    """Check how commands that are refused end.

    Args:
        run: runs a command, given its words.
        commands: words of a command -> its exit code, and words of its message.
        prefix: the words before those of each command.
    """
    wrong = []
    for command, facts in commands.items():
        done = run(*prefix.split(), *command.split())
        code, *words = facts.split()
        lacking = [word for word in words if not _holds(done.stderr, word)]
        if lacking or done.returncode != int(code):
            wrong.append(f"{command}: {done.returncode}, lacks {' '.join(lacking)}: {done.stderr}")
    assert not wrong, "\n".join(wrong)


def _holds(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def _lacking(error: Exception, facts: list[str]) -> Iterator[str]:
    """Yield the facts that an error does not have, and the codes that the facts do not have."""
    kind, *words = facts
    findings = error.findings if isinstance(error, DataError) else ()
    if type(error).__name__ != kind:
        yield kind
    codes = {f"[{finding.code}]" for finding in findings}
    yield from codes ^ {word for word in words if word.startswith("[")}
    for word in words:
        fixed = word == "fix" and all(finding.fix for finding in findings)
        if not fixed and not _holds(str(error), word):
            yield word
