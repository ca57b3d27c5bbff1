"""The gate for all entries: their folders and versions, and changes to earlier entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msshift_bench.data import Dataset, open_dataset, sha256_of
from msshift_bench.errors import DataError, Finding, NotFoundError
from msshift_bench.leaderboard.boards import BOARDS
from msshift_bench.leaderboard.entries import finished, versions_of
from msshift_bench.leaderboard.gate import check_submission
from msshift_bench.leaderboard.plausibility import twins
from msshift_bench.leaderboard.verdict import Verdict
from msshift_bench.plumbing import is_unfinished

__all__ = ["EntriesVerdict", "check_entries"]


@dataclass(frozen=True, slots=True)
class EntriesVerdict:
    """The gate's verdict on all entries.

    Attributes:
        versions: the verdict on each version of each entry.
        findings: findings on entries as a whole, and on changes to earlier ones.
    """

    versions: tuple[Verdict, ...]
    findings: tuple[Finding, ...]

    @property
    def accepted(self) -> bool:
        """Whether no finding is an error."""
        return all(version.accepted for version in self.versions) and all(
            finding.severity == "warning" for finding in self.findings
        )


def check_entries(
    entries: Path,
    *,
    base: Path | None = None,
    data: Dataset | str | Path | None = None,
    runs: Path | None = None,
) -> EntriesVerdict:
    """Check every version of every entry, and entries against each other.

    Args:
        entries: the folder of ``<board>/<system>/v<n>/``.
        base: the earlier entries, e.g. a checkout of the main branch, of which none may be missing
            or changed.
        data: a built data set, see `check_submission`.
        runs: the folder of run sets of several systems, ``<system>/<shift>/...``; the gate scores
            the newest version of each of these systems again.

    Raises:
        NotFoundError: if one of the folders does not exist.
    """
    for folder in (entries, base, runs):
        if folder is not None and not folder.is_dir():
            raise NotFoundError(f"no folder {folder}")
    dataset = None if data is None else open_dataset(data)
    findings: list[Finding] = []
    versions: list[Verdict] = []
    newest: list[Verdict] = []
    for system in _systems(entries, findings):
        try:
            folders = versions_of(system)
        except DataError as error:
            findings += error.findings
            continue
        if list(folders) != list(range(1, len(folders) + 1)) or not folders:
            message = f"versions {', '.join(map(str, folders)) or 'none'}; expected 1, 2, ..."
            findings.append(Finding("version-gap", message, str(system)))
        for number, folder in folders.items():
            at_hand = runs if number == max(folders) else None
            verdict = check_submission(folder, data=dataset, runs=at_hand)
            verdict.findings += _misplaced(verdict, number)
            versions.append(verdict)
        newest += versions[-1:] if folders else []
    findings += twins(
        (str(version.folder), version.submission, version.fingerprint)
        for version in newest
        if version.submission is not None
    )
    if base is not None:
        findings += _changes(base, entries)
    findings += _unfinished(entries)
    return EntriesVerdict(tuple(versions), tuple(findings))


def _systems(entries: Path, findings: list[Finding]) -> Iterator[Path]:
    """Yield the folder of each system; add a finding for anything else."""
    for board in sorted(finished(entries)):
        if board.name not in BOARDS or not board.is_dir():
            message = f"not a board; the boards are {', '.join(BOARDS)}"
            findings.append(Finding("unknown-board", message, str(board)))
            continue
        for system in sorted(finished(board)):
            if system.is_dir() and not system.is_symlink():
                yield system
            else:
                message = "expected a folder for each system"
                findings.append(Finding("unexpected-file", message, str(system)))


def _unfinished(entries: Path) -> Iterator[Finding]:
    """Yield a finding for each unfinished addition, also of killed processes."""
    for pattern in ("*", "*/*", "*/*/*"):
        for path in sorted(filter(is_unfinished, entries.glob(pattern))):
            yield Finding(
                "unfinished",
                "is being added, or the process that added it was killed",
                str(path),
                fix="nothing reads it, and the next 'msshift leaderboard add' removes it",
                severity="warning",
            )


def _misplaced(verdict: Verdict, number: int) -> Iterator[Finding]:
    """Yield a finding where a version's content contradicts the names of its folders."""
    claims, folder = verdict.submission, verdict.folder
    if claims is None:
        return
    board, system, version = claims.board, claims.system.name, claims.version
    if (board, system, version) != (folder.parent.parent.name, folder.parent.name, number):
        yield Finding(
            "wrong-folder",
            f"it says that it is version {version} of {system} on {board}",
            str(folder),
            fix=f"it belongs into {board}/{system}/v{version}",
        )
    if number > 1 and not claims.note.strip():
        yield Finding(
            "note-needed", "a new version says in 'note' why it replaces the last", str(folder)
        )


def _changes(base: Path, entries: Path) -> Iterator[Finding]:
    """Yield a finding for each earlier file that is missing or changed, and each one added."""
    fix = "an entry stays as it is; add a new version"
    before = {path.relative_to(base): path for path in sorted(base.rglob("*")) if path.is_file()}
    for name, path in before.items():
        now = entries / name
        if not now.is_file():
            yield Finding("removed", "was there before", str(now), fix=fix)
        elif sha256_of(now) != sha256_of(path):
            yield Finding("changed", "is not what it was before", str(now), fix=fix)
    versions = {name.parts[:3] for name in before}
    for path in sorted(entries.rglob("*")):
        name = path.relative_to(entries)
        if path.is_file() and name.parts[:3] in versions and name not in before:
            yield Finding("changed", "was not in this version before", str(path), fix=fix)
