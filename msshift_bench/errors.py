"""The errors that the package raises on purpose, and the findings that they carry.

::

    MsShiftError
    ├── UsageError              the request makes no sense as asked           exit code 2
    │   └── UnknownNameError    a name that is not in the list of valid ones
    ├── DataError               the data failed a check; carries findings     exit code 1
    │   ├── CollectionError     a collection's passages, queries or qrels
    │   ├── RunError            a run file or a run set
    │   ├── IntegrityError      a built data set that is not what its manifest says
    │   └── SubmissionError     a submission to the leaderboard, or an entry
    └── MissingError            something needed is not there                 exit code 3
        ├── HubError            the Hugging Face Hub does not answer, or refuses
        ├── MissingExtraError   an optional dependency is not installed
        └── NotFoundError       a file, a folder or a data set
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Literal

__all__ = [
    "EXAMPLES",
    "MAX_FINDINGS",
    "NOT_UTF8",
    "CollectionError",
    "DataError",
    "Finding",
    "FindingLog",
    "HubError",
    "IntegrityError",
    "MissingError",
    "MissingExtraError",
    "MsShiftError",
    "NotFoundError",
    "RunError",
    "SubmissionError",
    "UnknownNameError",
    "UsageError",
    "are_warnings",
    "check_installed",
    "check_name",
    "install_fix",
    "name_of",
    "raise_errors",
    "require",
    "spell_out",
]

EXAMPLES = 3
"""How many findings of one code in one file a message spells out; the rest are counted."""

MAX_FINDINGS = 20
"""How many findings of one code an error keeps; all are counted."""

NOT_UTF8 = "the name is not UTF-8, and reports cannot hold it; rename it"
"""The message for a system or collection whose name is not UTF-8."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with data, and how to put it right.

    Attributes:
        code: stable identifier, e.g. ``"field-count"``; never reworded between versions.
        message: one sentence: what was found and what was expected.
        source: the file (as the user named it) or other origin; ``""`` if there is none.
        line: 1-based line number in ``source``; 0 when the finding is about the whole of it.
        fix: one sentence: how to put it right; ``""`` when the message says it already.
        severity: ``"error"`` stops; ``"warning"`` is counted and shown.
    """

    code: str
    message: str
    source: str = ""
    line: int = 0
    fix: str = ""
    severity: Literal["error", "warning"] = "error"

    @property
    def sentence(self) -> str:
        """Where it is, what it is, and its code, without the fix."""
        where = f"{self.source}:{self.line}" if self.line else self.source
        text = f"{where}: {self.message}" if where else self.message
        return f"{text} [{self.code}]"

    def __str__(self) -> str:
        return self.sentence + (f"\n    fix: {self.fix}" if self.fix else "")


def are_warnings(findings: Iterable[Finding]) -> bool:
    """Say whether no finding is an error."""
    return all(finding.severity == "warning" for finding in findings)


def spell_out(
    findings: Iterable[Finding],
    counts: Mapping[str, int] | None = None,
    *,
    examples: int = EXAMPLES,
) -> list[str]:
    """Return findings as the lines of a message, grouped by code.

    Args:
        findings: at least the first few of each code.
        counts: code -> how many there are in all, where `findings` holds fewer.
        examples: how many of one code in one file to spell out; those that are put right each in
            its own way are all spelled out, at most `MAX_FINDINGS` of a code.

    Returns:
        Lines, indented; codes in the order of their first findings.
    """
    by_code: dict[str, list[Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(finding)
    lines = []
    for code, group in by_code.items():
        alike = len({finding.fix for finding in group}) == 1
        shown = _first_of_each_file(group, examples) if alike else group
        shown = shown[:MAX_FINDINGS]
        lines += [f"  {finding.sentence if alike else finding}" for finding in shown]
        total = max(len(group), (counts or {}).get(code, 0))
        if total > len(shown):
            lines.append(f"  ... and {total - len(shown):,} more [{code}]")
        if alike and group[0].fix:
            lines.append(f"    fix: {group[0].fix}")
    return lines


def _first_of_each_file(findings: Iterable[Finding], most: int) -> list[Finding]:
    seen: Counter[str] = Counter()
    first = []
    for finding in findings:
        seen[finding.source] += 1
        if seen[finding.source] <= most:
            first.append(finding)
    return first


class MsShiftError(Exception):
    """Base of every error raised on purpose; ``exit_code`` is what the CLI exits with.

    Examples:
        >>> try:
        ...     open_dataset("nowhere")
        ... except MsShiftError as error:
        ...     print(type(error).__name__, error.exit_code)
        NotFoundError 3
    """

    exit_code: ClassVar[int] = 1


class UsageError(MsShiftError):
    """The request itself is wrong: contradictory or impossible arguments."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that is not one of the valid ones; the message lists them and the nearest.

    Args:
        kind: what the name names, e.g. ``"shift"``.
        name: the name that was given.
        valid: the names that would have been accepted.
        hint: what the name is elsewhere, in place of the nearest valid one.
    """

    def __init__(self, kind: str, name: str, valid: Iterable[str], hint: str = "") -> None:
        self.kind, self.name, self.valid = kind, name, tuple(valid)
        lowered = {candidate.lower(): candidate for candidate in self.valid}
        near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
        if hint:
            hint = f"{hint}; "
        elif near:
            hint = f"did you mean {lowered[near[0]]!r}? "
        valid_names = ", ".join(self.valid) or "none"
        super().__init__(f"unknown {kind} {name!r}: {hint}valid are {valid_names}")


def check_name(kind: str, name: str, valid: Collection[str]) -> str:
    """Return a name that is one of the valid ones.

    Args:
        kind: as in `UnknownNameError`, like the next two.
        name: the name that was given.
        valid: the names that are accepted.

    Raises:
        UnknownNameError: for another name.
    """
    if name not in valid:
        raise UnknownNameError(kind, name, valid)
    return name


def raise_errors(errors: Sequence[UsageError], summary: str) -> None:
    """Raise the one error that there is, or one that spells out all; nothing if there is none.

    Args:
        errors: the errors.
        summary: the first line where there are several.
    """
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise UsageError("\n  ".join([summary, *map(str, errors)]))


class DataError(MsShiftError):
    """Data failed a check.

    Args:
        summary: one line that says what was being read.
        findings: what is wrong, in file order; the message groups them by code, see `spell_out`.
        counts: code -> the number of all findings, if `findings` holds fewer.

    Attributes:
        total: the number of all findings.
    """

    exit_code = 1
    examples: ClassVar[int] = EXAMPLES

    def __init__(
        self,
        summary: str,
        findings: Sequence[Finding] = (),
        counts: Mapping[str, int] | None = None,
    ) -> None:
        self.summary = summary
        self.findings = tuple(findings)
        self.total = len(self.findings) if counts is None else sum(counts.values())
        lines = spell_out(self.findings, counts, examples=self.examples)
        super().__init__("\n".join([summary, *lines]))


class CollectionError(DataError):
    """A collection's passages, queries or qrels are malformed."""


class RunError(DataError):
    """A run file is malformed, or a run set is incomplete."""


class IntegrityError(DataError):
    """A built data set differs from what its manifest says."""


class SubmissionError(DataError):
    """A submission to the leaderboard, its description, or an entry."""

    # Whoever fills in a description must know every field, not three of them.
    examples = MAX_FINDINGS


class MissingError(MsShiftError):
    """Something that is needed is not there."""

    exit_code = 3


class HubError(MissingError):
    """The Hugging Face Hub cannot be reached or refuses, or the user forbids to ask it."""


class NotFoundError(MissingError):
    """A file, a folder or a data set does not exist."""


class MissingExtraError(MissingError):
    """An optional dependency is not installed.

    Args:
        extra: the extra that installs it, e.g. ``"neural"``, or several: ``"bm25,neural"``.
        what: what needs it; the message begins with it.
    """

    def __init__(self, extra: str, what: str = "this") -> None:
        self.extra = extra
        names = " and ".join(f"'{name}'" for name in extra.split(","))
        needed = f"the extras {names}" if "," in extra else f"the {names} extra"
        super().__init__(f"{what} needs {needed}; {install_fix(extra)}")


def install_fix(extras: str = "") -> str:
    """Return the fix that installs this package; until it is published, this works in a clone only.

    Args:
        extras: the extras, e.g. ``"bm25,neural"``; "" for the core.
    """
    command = f"pip install -e '.[{extras}]'" if extras else "pip install -e ."
    return f"in a clone of msshift-bench, run: {command}"


def require(module: str, extra: str, what: str = "this") -> ModuleType:
    """Import an optional dependency, or say in one sentence how to get it.

    Args:
        module: the module to import, e.g. ``"numba"``.
        extra: the extra that installs it.
        what: what needs it.

    Raises:
        MissingExtraError: if the module, or something it imports, is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(extra, what) from error


def check_installed(module: str, extra: str, what: str) -> None:
    """Check that an optional dependency is installed, without the seconds that its import takes.

    Args:
        module: the name of the module, without a dot.
        extra: the extra that installs it.
        what: what needs it.

    Raises:
        MissingExtraError: if it is not installed.
    """
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(extra, what) from error
    if found is None:
        raise MissingExtraError(extra, what)


def name_of(folder: Path) -> str:
    """Return the last part of a folder's path, its name in manifests and reports.

    Raises:
        UsageError: if it is not UTF-8.
    """
    name = folder.resolve().name
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name!a}: {NOT_UTF8}") from error
    return name


class FindingLog:
    """Collects findings while data is read, so that all are reported at once.

    At most `MAX_FINDINGS` errors of a code are kept; all are counted.
    """

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    def add(self, code: str, message: str, source: str, line: int = 0, fix: str = "") -> None:
        """Record one error."""
        self._counts[code] += 1
        if self._counts[code] <= MAX_FINDINGS:
            self._kept.append(Finding(code, message, source, line, fix))

    def stop_if_any(self, error: type[DataError], summary: str) -> None:
        """Raise `error` with everything recorded, if anything was."""
        if self._counts:
            raise error(summary, self._kept, self._counts)


def first_few(names: Iterable[str], count: int = 5) -> str:
    """Return the first names, sorted, for a message; dots say that there are more."""
    ordered = sorted(names)
    return ", ".join(ordered[:count]) + (", ..." if len(ordered) > count else "")


def quoted(value: object) -> str:
    """Return an id or a field as messages show it: quoted, and cut if it is too long to read."""
    shown = repr(value.decode(errors="replace") if isinstance(value, bytes) else value)
    return shown if len(shown) <= 80 else shown[:76] + "...'"
