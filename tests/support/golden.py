"""Texts as they were before, in files beside the tests.

What differs is meant, or it is a mistake; ``MSSHIFT_WRITE_GOLDEN=1 python -m pytest FILE`` writes
what is meant anew.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from subprocess import CompletedProcess

from msshift_bench import Figure, __version__
from msshift_bench.evaluation import Result
from msshift_bench.output import to_markdown

__all__ = ["WRITE", "Golden", "check_figures", "read_csv"]

WRITE = bool(os.environ.get("MSSHIFT_WRITE_GOLDEN"))

_NAMES = Figure._fields[: Figure._fields.index("value")]


class Golden:
    """The golden files of a folder of tests.

    Args:
        folder: where they are.
        hidden: what a text does not show -> the word that stands for it.
    """

    def __init__(self, folder: Path, hidden: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._hidden = {__version__: "VERSION", **(hidden or {})}

    def check(self, name: str, text: str) -> None:
        """Check that a text is that of a golden file, but for paths, versions and digests."""
        for part, word in self._hidden.items():
            text = text.replace(part, word)
        text = re.sub(r"\b(sha256|content)((?: [0-9a-f]{8,})+)", r"\1 DIGESTS", text)
        text = re.sub(r"[^\s']*/made-[0-9a-f]{12}/", "BUILT/", text)
        # Why, a library says in its own words.
        text = re.sub(r"(input is damaged|whole Parquet file|not CSV): [^\[\n]*", r"\1: WHY ", text)
        text = re.sub(r"(has the columns) .*(; expected)", r"\1 NAMES\2", text)
        path = self._folder / name
        if WRITE:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        assert text == path.read_text("utf-8")

    def check_results(self, name: str, results: Mapping[str, Result]) -> None:
        """Check the tables of results, as Markdown, and the notes below them.

        Args:
            name: the golden file.
            results: what a result is of -> the result.
        """
        lines = []
        for title, result in results.items():
            lines.append(f"# {title}")
            for tables, notes in result.sections():
                lines += [*map(to_markdown, tables), *(f"- {note}" for note in notes), ""]
        self.check(name, "\n".join(lines))

    def check_commands(
        self, name: str, run: Callable[..., CompletedProcess[str]], commands: Iterable[str]
    ) -> None:
        """Check what commands print, and how they end.

        Args:
            name: the golden file.
            run: runs one, given its words.
            commands: their words, with a space between every two.
        """
        lines = []
        for command in commands:
            done = run(*command.split())
            lines += [f"$ {command}", done.stdout + done.stderr + f"[{done.returncode}]\n"]
        self.check(name, "\n".join(lines))


def check_figures(path: Path, place: str, figures: Iterable[tuple[str, Figure]]) -> None:
    """Check that figures are those of a golden file: the same names, and numbers to 8 digits.

    Args:
        path: a CSV file with gzip.
        place: what it calls where figures are from.
        figures: where they are from, and the figures, in any order.
    """
    texts = [(of, *map(_text, figure)) for of, figure in figures]
    if WRITE:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([(place, *Figure._fields), *texts])
        path.write_bytes(gzip.compress(out.getvalue().encode(), mtime=0))
    head, *lines = read_csv(path)
    assert head == [place, *Figure._fields]
    names = 1 + len(_NAMES)
    golden = {tuple(line[:names]): tuple(line[names:]) for line in lines}
    computed = {row[:names]: row[names:] for row in texts}
    assert len(computed) == len(texts), "two figures have the same names"
    wrong = [
        f"{' '.join(key)}: {golden.get(key, 'none')} is now {computed.get(key, 'none')}"
        for key in {**golden, **computed}
        if key not in golden
        or key not in computed
        or not all(map(_alike, golden[key], computed[key]))
    ]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(golden)} differ:", *wrong[:20]])


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.12g}"
    return "" if cell is None or cell is False else str(cell)


def read_csv(path: Path) -> list[list[str]]:
    """Return the rows of a CSV file with gzip."""
    return list(csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode())))


def _alike(before: str, now: str) -> bool:
    if before == now or not before or not now:
        return before == now
    try:
        return math.isclose(float(before), float(now), rel_tol=1e-8, abs_tol=1e-12)
    except ValueError:
        return False
