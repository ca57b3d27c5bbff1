"""Figures and texts of earlier versions, in files next to the tests.

``MSSHIFT_WRITE_GOLDEN=1 python -m pytest FILE`` writes the files again, after an intended change.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

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
        hidden: text that differs between runs -> its replacement.
    """

    def __init__(self, folder: Path, hidden: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._hidden = {__version__: "VERSION", **(hidden or {})}

    def check(self, name: str, text: str) -> None:
        """Check that a text equals a golden file, except for paths, versions and digests."""
        for part, word in self._hidden.items():
            text = text.replace(part, word)
        text = re.sub(r"\b(sha256|content)((?: [0-9a-f]{8,})+)", r"\1 DIGESTS", text)
        text = re.sub(r"[^\s']*/made-[0-9a-f]{12}/", "BUILT/", text)
        path = self._folder / name
        if WRITE:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        assert text == path.read_text("utf-8")

    def check_results(self, name: str, results: Mapping[str, Result]) -> None:
        """Check the figures of results.

        Args:
            name: the golden file.
            results: title of a result -> the result.
        """
        figures, seen = [], Counter[tuple[object, ...]]()
        for title, result in results.items():
            for row in result.figures:
                seen[names := (title, *row[: len(_NAMES)])] += 1
                # Intervals of a distribution have the same names.
                figures.append((f"{title} {seen[names]}" if seen[names] > 1 else title, row))
        check_figures(self._folder / name, "result", figures)

    def check_layout(self, name: str, result: Result) -> None:
        """Check the tables of a result, as Markdown, and the notes below them."""
        lines = []
        for tables, notes in result.sections(verbose=True):
            lines += [*map(to_markdown, tables), *(f"- {note}" for note in notes), ""]
        self.check(name, "\n".join(lines))


def check_figures(path: Path, place: str, figures: Iterable[tuple[str, Figure]]) -> None:
    """Check that figures equal a golden file: the same names, and numbers to 8 digits.

    Args:
        path: a CSV file, compressed if its name ends in ``.gz``.
        place: the title of the first column.
        figures: the value of the first column, and the figure, in any order.
    """
    texts = [(of, *map(_text, figure)) for of, figure in figures]
    if WRITE:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([(place, *Figure._fields), *texts])
        data = out.getvalue().encode()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
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
    """Return the rows of a CSV file, compressed or not."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return list(csv.reader(io.StringIO(text)))


def _alike(before: str, now: str) -> bool:
    if before == now or not before or not now:
        return before == now
    try:
        return math.isclose(float(before), float(now), rel_tol=1e-8, abs_tol=1e-12)
    except ValueError:
        return False
