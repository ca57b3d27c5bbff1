"""What the gate says of one submission: its findings, and what it could and could not check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from msshift_bench.errors import DataError, Finding, NotFoundError, UsageError
from msshift_bench.leaderboard.submission import Submission

__all__ = ["Verdict"]


@dataclass(slots=True)
class Verdict:
    """The gate's verdict on one submission.

    Attributes:
        folder: the submission's folder.
        submission: its content; `None` if it cannot be read.
        findings: errors and warnings.
        exposure: the class of its training queries, a key of `CLASSES`.
        checked: what was checked, in words.
        unchecked: what could not be checked, in words -> why, and what it takes.
        rescored: the shifts whose run files were scored again.
        fingerprint: shift -> digest of its per-query scores.
    """

    folder: Path
    submission: Submission | None = None
    findings: list[Finding] = field(default_factory=list)
    exposure: str = "undeclared"
    checked: list[str] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)
    rescored: tuple[str, ...] = ()
    fingerprint: dict[str, str] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity == "warning" for finding in self.findings)

    def call(self, name: str) -> None:
        """Name the submission in all findings as the user did, not by the folder it lies in."""
        here = str(self.folder)
        self.findings = [
            replace(
                finding,
                source=finding.source.replace(here, name),
                message=finding.message.replace(here, name),
            )
            for finding in self.findings
        ]

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Turn errors that a submitter can make into findings, instead of raising them."""
        try:
            yield
        except DataError as error:
            unnamed = [Finding("unreadable", str(error), str(self.folder))]
            self.findings += error.findings or unnamed
        except NotFoundError as error:
            self.findings.append(Finding("missing-file", str(error), str(self.folder)))
        except UsageError as error:
            self.findings.append(Finding("cannot-check", str(error), str(self.folder)))
