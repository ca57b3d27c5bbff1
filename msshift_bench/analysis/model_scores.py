"""Models' scores by interpolation, by extrapolation and elsewhere, and the files that hold them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msshift_bench.errors import DataError, FindingLog, NotFoundError

__all__ = ["ModelScores", "read_model_scores"]

_OWN = ("model", "interpolation", "extrapolation")


@dataclass(frozen=True, slots=True)
class ModelScores:
    """What one model scores.

    Attributes:
        model: its name.
        interpolation: its score on test queries like its training queries, on any scale.
        extrapolation: its score on test queries unlike them.
        outside: test set -> its score there.
    """

    model: str
    interpolation: float
    extrapolation: float
    outside: Mapping[str, float]


def read_model_scores(path: str | Path) -> tuple[ModelScores, ...]:
    """Read models' scores from a CSV file, or one with tabs.

    Its header names the columns ``model``, ``interpolation``, ``extrapolation``, and one for each
    test set elsewhere, in any order.

    Args:
        path: the file.

    Raises:
        NotFoundError: if there is no such file.
        DataError: if a column is missing, a model stands there twice, or a score is no number; the
            message has every such line.
    """
    path = Path(path).expanduser()
    try:
        text = path.read_text("utf-8-sig")
    except (FileNotFoundError, IsADirectoryError):
        raise NotFoundError(f"no file {path}; it holds a header and a line per model") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8: {error}") from None
    header_line = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text), delimiter="\t" if "\t" in header_line else ",")
    try:
        lines = [(cells, rows.line_num) for cells in rows]
    except csv.Error as error:  # a quote that is not closed takes in what follows
        raise DataError(f"{path}:{rows.line_num} is no line of CSV: {error}") from None
    header = [name.strip() for name in lines[0][0]] if lines else []
    findings = FindingLog()
    missing = [name for name in _OWN if name not in header]
    outside = [name for name in header if name not in _OWN]
    if missing:
        fix = f"the header names {', '.join(_OWN)}, and the test sets elsewhere"
        findings.add("missing-column", f"no column {', '.join(missing)}", str(path), 1, fix=fix)
    elif not outside:
        findings.add("missing-column", "no column of a test set elsewhere", str(path), 1)
    repeated = sorted({name for name in header if header.count(name) > 1 or not name})
    for name in repeated:
        findings.add("repeated-column", f"column {name!r} twice, or without a name", str(path), 1)
    found: dict[str, ModelScores] = {}
    if not len(findings):
        for cells, number in lines[1:]:
            if cells:
                _read_line(cells, header, found, findings, (str(path), number))
    findings.stop_if_any(DataError, f"the scores in {path} cannot be used:")
    return tuple(found.values())


def _read_line(
    cells: Sequence[str],
    header: Sequence[str],
    found: dict[str, ModelScores],
    findings: FindingLog,
    where: tuple[str, int],
) -> None:
    """Add the model of a line, or say what is wrong with it."""

    def add(code: str, message: str) -> None:
        findings.add(code, message, *where)

    if len(cells) != len(header):
        add("wrong-columns", f"{len(cells)} columns, where the header has {len(header)}")
        return
    values = dict(zip(header, (cell.strip() for cell in cells), strict=True))
    model = values.pop("model")
    if not model or model in found:
        add("repeated-model", f"model {model!r} again" if model else "a model without a name")
        return
    scores = {}
    for name, cell in values.items():
        try:
            scores[name] = float(cell)
        except ValueError:
            scores[name] = math.nan
        if not math.isfinite(scores[name]):
            add("not-a-number", f"{name} of {model} is {cell!r}, which is no number")
    own = scores.pop("interpolation"), scores.pop("extrapolation")
    found[model] = ModelScores(model, *own, scores)
