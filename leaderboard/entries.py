"""The entries of the leaderboards: accepted submissions, in every version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from msshift_bench.errors import Finding, NotFoundError, SubmissionError
from msshift_bench.evaluation import SystemScores
from msshift_bench.leaderboard.boards import BOARDS, Board
from msshift_bench.leaderboard.file_list import SCORES_NAME, file_problems
from msshift_bench.leaderboard.rescoring import scores_by_shift
from msshift_bench.leaderboard.strict_files import read_scores_table
from msshift_bench.leaderboard.submission import Submission, read_submission
from msshift_bench.plumbing import is_unfinished

__all__ = ["Entry", "entries_folder", "finished", "load_entries", "read_version", "versions_of"]

_VERSION = re.compile(r"v([1-9][0-9]{0,3})")


@dataclass(frozen=True, slots=True)
class Entry:
    """A system on a board: its newest version and those before.

    Attributes:
        board: the board.
        submission: the newest version, which counts.
        folder: the folder of the newest version.
        history: the superseded versions, newest first.
    """

    board: Board
    submission: Submission
    folder: Path
    history: tuple[Submission, ...]

    def scores(self) -> dict[str, SystemScores]:
        """Return shift -> per-query scores; empty for results from a paper.

        Raises:
            SubmissionError: if the file is no table of scores.
            DataError: if its rows do not belong to the report.
        """
        report = self.submission.report
        if report is None:
            return {}
        return scores_by_shift(report, read_scores_table(self.folder / SCORES_NAME))


def entries_folder() -> Path:
    """Return the folder of the entries that come with the package."""
    return Path(str(files(__package__))) / "entries"


def finished(folder: Path) -> Iterator[Path]:
    """Yield the contents of a folder, without files that are being written."""
    return (path for path in folder.iterdir() if not is_unfinished(path))


def versions_of(system: Path) -> dict[int, Path]:
    """Return version -> folder of a system's entries, oldest first.

    It skips versions that are being added, and leftovers of killed processes.

    Raises:
        SubmissionError: if something else is in the folder.
    """
    versions = {}
    for folder in finished(system):
        match = _VERSION.fullmatch(folder.name)
        if match is None or not folder.is_dir():
            finding = Finding("unexpected-file", "expected folders v1, v2, ...", str(folder))
            raise SubmissionError("entries are laid out wrongly:", [finding])
        versions[int(match[1])] = folder
    return dict(sorted(versions.items()))


def read_version(folder: Path) -> Submission:
    """Read the folder of a version, if it is as it was added.

    Raises:
        NotFoundError: if it lacks its submission or its list of files.
        SubmissionError: if a file was changed since, or is not a submission.
    """
    if problems := file_problems(folder):
        raise SubmissionError(
            f"{folder} is not as it was added; put it back as it was, or remove it and add the "
            "submission again:",
            problems,
        )
    return read_submission(folder)


def load_entries(root: str | Path | None = None) -> tuple[Entry, ...]:
    """Read all entries; the gate (`history.check_entries`) checks them.

    Args:
        root: the folder of ``<board>/<system>/v<n>/submission.json``; by default the package's.

    Returns:
        The entries by board in the order of `BOARDS`, then by system.

    Raises:
        NotFoundError: if there is no such folder, or a version lacks its submission.
        SubmissionError: if a file is not a submission, or was changed since it was added.
    """
    root = entries_folder() if root is None else Path(root)
    if not root.is_dir():
        raise NotFoundError(f"no folder of entries at {root}")
    entries = []
    for board in BOARDS.values():
        systems = root / board.id
        for system in sorted(finished(systems)) if systems.is_dir() else []:
            versions = versions_of(system)
            if not versions:
                raise NotFoundError(f"{system} holds no version")
            *older, newest = map(read_version, versions.values())
            folder = versions[max(versions)]
            entries.append(Entry(board, newest, folder, tuple(reversed(older))))
    return tuple(entries)
