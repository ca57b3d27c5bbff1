"""Alignment: does extrapolation say how models do elsewhere, better than interpolation does?

Source: Zhan et al., "Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models" (CIKM 2022), section 4.2: over many models, the rank correlations of both with the scores on
test sets of other distributions (Table 5), and the points (Figure 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msshift_bench.analysis.dependent_correlations import (
    FEWEST_MODELS,
    OutsideAlignment,
    compare_correlations,
)
from msshift_bench.analysis.model_scores import ModelScores
from msshift_bench.analysis.rank_correlations import RANK_CORRELATIONS
from msshift_bench.errors import DataError
from msshift_bench.output import FigureRow, LongTable, WithFigures, plain, report_head

__all__ = ["Alignment", "PrintedAlignment", "align_scores"]


@dataclass(frozen=True, slots=True)
class PrintedAlignment:
    """Correlations that a paper prints, without the scores of the models.

    Attributes:
        outside: the test set.
        kind: one of `RANK_CORRELATIONS`.
        models: how many models each correlation counts.
        interpolation: its correlation.
        interpolation_interval: low and high end.
        extrapolation: its correlation.
        extrapolation_interval: low and high end.
    """

    outside: str
    kind: str
    models: int
    interpolation: float
    interpolation_interval: tuple[float, float]
    extrapolation: float
    extrapolation_interval: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Alignment(WithFigures):
    """Whether extrapolation aligns with scores elsewhere, and better than interpolation.

    Attributes:
        source: what was analysed, in words.
        scores: the models.
        alignments: one per test set elsewhere.
        printed: correlations that a paper prints; empty for scores of one's own.
        remarks: doubts about the figures.
    """

    source: str
    scores: tuple[ModelScores, ...]
    alignments: tuple[OutsideAlignment, ...]
    printed: tuple[PrintedAlignment, ...] = ()
    remarks: Sequence[str] = ()

    def __repr__(self) -> str:
        outside = ", ".join(one.outside for one in self.alignments)
        return f"<Alignment: {self.source}, {len(self.scores)} models, {outside}>"

    def tidy(self) -> LongTable:
        """Return every score, correlation and difference as one long table.

        The column `label` names the model, or how many models a correlation counts.
        """
        columns = ("system", "group", "figure", "value", "low", "high", "p", "label")
        return LongTable(list(self._rows()), columns)

    def _rows(self) -> Iterator[FigureRow]:
        for one in self.scores:
            found = {"interpolation": one.interpolation, "extrapolation": one.extrapolation}
            for figure, score in found.items():
                yield FigureRow("", one.model, "", "", figure, score)
            for outside, score in one.outside.items():
                yield FigureRow("", one.model, "", outside, "outside", score)
        for aligned in self.alignments:
            for pair in aligned.correlations:
                label = f"{pair.models} models"
                for figure, value, interval, p in (
                    ("interpolation", pair.first, pair.first_interval, None),
                    ("extrapolation", pair.second, pair.second_interval, None),
                    ("difference", pair.difference, pair.interval, pair.p),
                ):
                    low, high = interval or (None, None)
                    name = f"{pair.kind}_{figure}"
                    yield FigureRow(
                        "", "", "", aligned.outside, name, value, low, high, p, label=label
                    )
        for known in self.printed:
            for figure, value, (low, high) in (
                ("interpolation", known.interpolation, known.interpolation_interval),
                ("extrapolation", known.extrapolation, known.extrapolation_interval),
            ):
                name, label = f"printed_{known.kind}_{figure}", f"{known.models} models"
                yield FigureRow("", "", "", known.outside, name, value, low, high, label=label)

    def to_json(self) -> dict[str, Any]:
        """Return the analysis as plain JSON values."""
        values = {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}
        return {**report_head(), "kind": "alignment", **values}

    def plot(self, path: str | Path) -> Path:
        """Draw every model's points, one row per test set elsewhere (Figure 2 of the paper).

        Args:
            path: the file to write; its name ends in ``.svg``, ``.png`` or ``.pdf``.

        Raises:
            UnknownNameError: if its name ends otherwise.
            MissingExtraError: if matplotlib is not installed.
        """
        from msshift_bench.analysis.alignment_scatter import draw_alignment
        from msshift_bench.output import check_plot
        from msshift_bench.plumbing import write_atomically

        picture_format = check_plot(path)
        drawn = draw_alignment(self.scores, self.alignments, picture_format)
        with write_atomically(Path(path)) as file:
            file.write(drawn)
        return Path(path)


def align_scores(
    scores: Sequence[ModelScores],
    source: str,
    *,
    printed: Sequence[PrintedAlignment] = (),
    remarks: Sequence[str] = (),
) -> Alignment:
    """Correlate the models' interpolation and extrapolation with their scores elsewhere.

    Args:
        scores: 5 models or more, with the same test sets elsewhere, at least one.
        source: what they are, in words.
        printed: correlations to show beside them.
        remarks: doubts about the scores.

    Raises:
        DataError: if there are fewer models, or no test set elsewhere.
    """
    if len(scores) < FEWEST_MODELS:
        raise DataError(
            f"{source} holds {len(scores)} models, and a comparison of alignments takes "
            f"{FEWEST_MODELS}"
        )
    outside = list(scores[0].outside)
    if not outside:
        raise DataError(f"{source} holds no scores of a test set elsewhere")
    alignments = [
        OutsideAlignment(
            name,
            tuple(
                compare_correlations(
                    kind,
                    [one.interpolation for one in scores],
                    [one.extrapolation for one in scores],
                    [one.outside[name] for one in scores],
                )
                for kind in RANK_CORRELATIONS
            ),
        )
        for name in outside
    ]
    return Alignment(source, tuple(scores), tuple(alignments), tuple(printed), tuple(remarks))
