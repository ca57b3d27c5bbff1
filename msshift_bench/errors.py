"""Errors that the package raises on purpose, and findings: problems in data.

::

    MsShiftError
    ├── UsageError              arguments are wrong                           exit code 2
    │   └── UnknownNameError    a name is not one of the valid names
    ├── DataError               data failed a check; contains findings        exit code 1
    │   ├── CollectionError     a collection's passages, queries or qrels
    │   ├── RunError            a run file or a run set
    │   ├── IntegrityError      a built data set differs from its manifest
    │   └── SubmissionError     a submission to the leaderboard, or an entry
    └── MissingError            something required is absent                  exit code 3
        ├── HubError            the Hugging Face Hub does not answer, or refuses
        ├── MissingExtraError   an optional dependency is not installed
        └── NotFoundError       a file, a folder or a data set does not exist
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
    "format_findings",
]

EXAMPLES = 3
"""Number of findings of one code in one file that a message lists; the rest are counted."""

MAX_FINDINGS = 20
"""Number of findings of one code that an error keeps; all are counted."""

NOT_UTF8 = "the name is not UTF-8, and reports cannot hold it; rename it"
"""The message for a system or collection whose name is not UTF-8."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem in data, and its fix.

    Attributes:
        code: stable identifier, e.g. ``"field-count"``; it never changes between versions.
        message: one sentence: the wrong value, and the expected value.
        source: the file, as the user named it, or another origin; ``""`` if there is none.
        line: 1-based line number in ``source``; 0 if unknown, or for the complete source.
        fix: one sentence: how to correct it; ``""`` if the message contains the fix.
        severity: ``"error"`` stops the command; ``"warning"`` is counted and shown.
    """

    code: str
    message: str
    source: str = ""
    line: int = 0
    fix: str = ""
    severity: Literal["error", "warning"] = "error"

    @property
    def sentence(self) -> str:
        """Source, line, message and code, without the fix."""
        where = f"{self.source}:{self.line}" if self.line else self.source
        text = f"{where}: {self.message}" if where else self.message
        return f"{text} [{self.code}]"

    def __str__(self) -> str:
        return self.sentence + (f"\n    fix: {self.fix}" if self.fix else "")


def are_warnings(findings: Iterable[Finding]) -> bool:
    """Return whether all findings are warnings; true if there are none."""
    return all(finding.severity == "warning" for finding in findings)


def format_findings(
    findings: Iterable[Finding],
    counts: Mapping[str, int] | None = None,
    *,
    examples: int = EXAMPLES,
) -> list[str]:
    """Return findings as the lines of a message, grouped by code.

    Args:
        findings: the findings; at least the first few of each code.
        counts: code -> number of all its findings, if `findings` contains fewer.
        examples: maximum number of findings to list for one code in one file. If the findings of a
            code have different fixes, up to `MAX_FINDINGS` of them are listed.

    Returns:
        Indented lines; codes in the order of their first findings.
    """
    by_code: dict[str, list[Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(finding)
    lines = []
    for code, group in by_code.items():
        same_fix = len({finding.fix for finding in group}) == 1
        shown = _first_of_each_file(group, examples) if same_fix else group
        shown = shown[:MAX_FINDINGS]
        lines += [f"  {finding.sentence if same_fix else finding}" for finding in shown]
        total = max(len(group), (counts or {}).get(code, 0))
        if total > len(shown):
            lines.append(f"  ... and {total - len(shown):,} more [{code}]")
        if same_fix and group[0].fix:
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
    """Base class of every error raised on purpose; ``exit_code`` is the command's exit code.

    Examples:
        >>> try:
        ...     open_dataset("nowhere")
        ... except MsShiftError as error:
        ...     print(type(error).__name__, error.exit_code)
        NotFoundError 3
    """

    exit_code: ClassVar[int] = 1


class UsageError(MsShiftError):
    """Arguments are wrong or contradict each other."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name is not valid; the message lists the valid names and suggests the nearest.

    Args:
        kind: the kind of thing, e.g. ``"shift"``.
        name: the wrong name.
        valid: the valid names.
        hint: text of the message that replaces the nearest valid name.
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
    """Return a name unchanged if it is valid.

    Args:
        kind: the kind of thing, e.g. ``"shift"``.
        name: the name to check.
        valid: the valid names.

    Raises:
        UnknownNameError: if the name is not valid.
    """
    if name not in valid:
        raise UnknownNameError(kind, name, valid)
    return name


def raise_errors(errors: Sequence[UsageError], summary: str) -> None:
    """Raise one error for several errors; do nothing if there are none.

    Args:
        errors: the errors; a single error is raised unchanged.
        summary: the first line of the message for several errors.

    Raises:
        UsageError: if there is an error.
    """
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise UsageError("\n  ".join([summary, *map(str, errors)]))


class DataError(MsShiftError):
    """Data failed a check.

    Args:
        summary: one line that names the data.
        findings: the problems, in file order; `format_findings` groups them by code.
        counts: code -> number of all its findings, if `findings` contains fewer.

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
        lines = format_findings(self.findings, counts, examples=self.examples)
        super().__init__("\n".join([summary, *lines]))


class CollectionError(DataError):
    """A collection's passages, queries or qrels are malformed."""


class RunError(DataError):
    """A run file is malformed, or a run set is incomplete."""


class IntegrityError(DataError):
    """A built data set differs from its manifest."""


class SubmissionError(DataError):
    """A submission to the leaderboard, its description, or an entry is wrong."""

    examples = MAX_FINDINGS  # An author must correct every field of a description.


class MissingError(MsShiftError):
    """Something required is absent, such as a file, a library or a server."""

    exit_code = 3


class HubError(MissingError):
    """The Hugging Face Hub does not answer, refuses a request, or is disabled by the user."""


class NotFoundError(MissingError):
    """A file, a folder or a data set does not exist."""


class MissingExtraError(MissingError):
    """An optional dependency is not installed.

    Args:
        extra: the extra that installs it, e.g. ``"neural"``, or several: ``"bm25,neural"``.
        what: the feature that needs it, at the beginning of the message.
    """

    def __init__(self, extra: str, what: str = "this") -> None:
        self.extra = extra
        names = " and ".join(f"'{name}'" for name in extra.split(","))
        needed = f"the extras {names}" if "," in extra else f"the {names} extra"
        super().__init__(f"{what} needs {needed}; {install_fix(extra)}")


def install_fix(extras: str = "") -> str:
    """Return the fix for a message that a package or extra is not installed.

    Until the package is published, its command works in a clone of the repository only.

    Args:
        extras: the extras, e.g. ``"bm25,neural"``; "" for the package without extras.
    """
    command = f"pip install -e '.[{extras}]'" if extras else "pip install -e ."
    return f"in a clone of msshift-bench, run: {command}"


def require(module: str, extra: str, what: str = "this") -> ModuleType:
    """Return the module of an optional dependency.

    Args:
        module: the module to import, e.g. ``"numba"``.
        extra: the extra that installs it.
        what: the feature that needs it, for the message.

    Raises:
        MissingExtraError: if the module, or a module that it imports, is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(extra, what) from error


def check_installed(module: str, extra: str, what: str) -> None:
    """Check that an optional dependency is installed, without importing it.

    Args:
        module: the name of a top-level module.
        extra: the extra that installs it.
        what: the feature that needs it, for the message.

    Raises:
        MissingExtraError: if the module is not installed.
    """
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(extra, what) from error
    if spec is None:
        raise MissingExtraError(extra, what)


def name_of(folder: Path) -> str:
    """Return the last part of a folder's resolved path, for manifests and reports.

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
    """Log of findings while data are read, so that one error reports all.

    It keeps at most `MAX_FINDINGS` findings of a code, and counts all (`len`).
    """

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    def add(self, code: str, message: str, source: str, line: int = 0, fix: str = "") -> None:
        """Add a finding with severity ``error``; see `Finding`."""
        self._counts[code] += 1
        if self._counts[code] <= MAX_FINDINGS:
            self._kept.append(Finding(code, message, source, line, fix))

    def stop_if_any(self, error: type[DataError], summary: str) -> None:
        """Raise `error` with all findings, if there are any.

        Args:
            error: the class of the error.
            summary: the first line of its message.
        """
        if self._counts:
            raise error(summary, self._kept, self._counts)


def first_few(names: Iterable[str], count: int = 5) -> str:
    """Return the first `count` sorted names, joined by commas; "..." replaces the rest."""
    ordered = sorted(names)
    return ", ".join(ordered[:count]) + (", ..." if len(ordered) > count else "")


def quoted(value: object) -> str:
    """Return an id or a field for a message: quoted, and cut to 80 characters."""
    shown = repr(value.decode(errors="replace") if isinstance(value, bytes) else value)
    return shown if len(shown) <= 80 else shown[:76] + "...'"
