"""Predicting what systems will lose on new queries, from a link that was fitted before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from msshift_bench.analysis.analysed import Analysis
from msshift_bench.analysis.group_links import GroupLink
from msshift_bench.errors import DataError, NotFoundError, UnknownNameError, UsageError
from msshift_bench.output import (
    FIGURE_COLUMNS,
    FigureRow,
    LongTable,
    WithFigures,
    plain,
    report_head,
)
from msshift_bench.plumbing import is_as_written
from msshift_bench.schema import Place, schema_of, typed
from msshift_bench.similarity import (
    IndicatorOptions,
    QuerySource,
    find_indicator,
    read_query_set,
    set_similarity,
)
from msshift_bench.stats import Interval

__all__ = ["ForetoldLoss", "Prediction", "predict_losses", "read_links"]

_ALIKE = 2
"""Test sets are of about the same size if neither is more than so many times the other."""


@dataclass(frozen=True, slots=True)
class ForetoldLoss:
    """What one system is expected to lose on the new queries.

    Attributes:
        system: the system, or `MEAN_OF_SYSTEMS`.
        rel_loss: the line there: the expected Rel Loss, a fraction.
        interval: the prediction interval: it holds the loss of one more group with the confidence
            of the link, if that scatters about the line as the fitted groups do.
        line_interval: the interval of the line itself.
    """

    system: str
    rel_loss: float
    interval: Interval
    line_interval: Interval


@dataclass(frozen=True, slots=True, eq=False)
class Prediction(WithFigures):
    """What systems are expected to lose on new queries.

    Attributes:
        indicator: the indicator.
        similarity: its value for the new queries.
        measure: the measure of the losses.
        shifts: the shifts whose groups the link was fitted to.
        groups: the number of these groups.
        lowest: the smallest similarity among them.
        highest: the largest.
        extrapolated: whether `similarity` lies beyond these two.
        confidence: the level of the intervals.
        systems: the systems' losses; that of their mean comes last.
        remarks: doubts about the prediction.
    """

    indicator: str
    similarity: float
    measure: str
    shifts: tuple[str, ...]
    groups: int
    lowest: float
    highest: float
    extrapolated: bool
    confidence: float
    systems: tuple[ForetoldLoss, ...]
    remarks: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as plain JSON values."""
        values: dict[str, Any] = plain(self)
        return {**report_head(), "kind": "prediction", **values}

    def tidy(self) -> LongTable:
        """Return one row per system."""
        rows = [
            FigureRow(
                " and ".join(self.shifts),
                one.system,
                self.measure,
                "new queries",
                "rel_loss",
                one.rel_loss,
                *one.interval,
                label=f"{self.indicator}: {self.similarity:.6g}",
            )
            for one in self.systems
        ]
        return LongTable(rows, (*FIGURE_COLUMNS, "label"))


def read_links(path: str | Path) -> tuple[GroupLink, ...]:
    """Read the links over groups of an analysis that was written as JSON.

    Raises:
        NotFoundError: if there is no such file.
        DataError: if it is not the JSON of an analysis, or was changed after it was written.
    """
    file = Path(path)
    if not file.is_file():
        raise NotFoundError(
            f"{file} is no file; 'msshift analyse RUNS --output {file.name}' writes the links of "
            "run sets"
        )
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is no JSON; give what 'msshift analyse --output' wrote") from error
    if not isinstance(content, dict) or content.get("kind") != "analysis":
        raise DataError(
            f"{file} is not the JSON of an analysis; give what 'msshift analyse --output' wrote"
        )
    if not is_as_written(content):
        raise DataError(
            f"{file} was changed after it was written; write it again by 'msshift analyse "
            "--output', or take out the member 'checksum' if the change is yours"
        )
    place = Place(str(file))
    kind = tuple[GroupLink, ...]
    links = content.get("group_links")
    schema_of(kind, {})(links, place.at("group_links"))
    if place.findings:
        raise DataError(f"the links in {file} cannot be used:", place.findings)
    return tuple(typed(kind, links))


def predict_losses(
    links: Analysis | str | Path | Iterable[GroupLink],
    train: QuerySource,
    test: QuerySource,
    *,
    indicator: str | None = None,
    measure: str | None = None,
    shift: str | None = None,
    extrapolate: bool = False,
    **options: Unpack[IndicatorOptions],
) -> Prediction:
    """Say what systems will lose on new test queries, by their similarity to training queries.

    Args:
        links: an analysis, the path of its JSON, or its links over groups.
        train: the training queries; see `set_similarity`.
        test: the new test queries, likewise.
        indicator: whose link; by default the first one's.
        measure: whose Rel Loss; by default the first link's.
        shift: the link over this shift's groups; by default the link over the most groups.
        extrapolate: go on where the similarity lies beyond all groups that the link was fitted to.
        **options: how the indicator is computed; see `set_similarity`. It must be computed as it
            was for the link.

    Returns:
        Every system's expected Rel Loss, with intervals.

    Raises:
        DataError: if the similarity lies beyond the fitted ones (unless `extrapolate`), or the
            queries or the JSON cannot be read.
        UnknownNameError: if there is no link of this indicator, measure or shift.
        NotFoundError: if there is no such file.
        UsageError: if there is no link, or its indicator takes an encoder and none is named.
    """
    if isinstance(links, str | Path):
        links = read_links(links)
    known = links.group_links if isinstance(links, Analysis) else tuple(links)
    link = _choose(known, indicator, measure, shift)
    if find_indicator(link.indicator).needs == "encoder" and not options.get("encoder"):
        raise UsageError(
            f"{link.indicator} was computed with an encoder, which the link does not hold; name "
            "the same one: --encoder (encoder=...)"
        )
    training, tested = read_query_set(train), read_query_set(test)
    value = set_similarity(training, tested, link.indicator, **options)
    line = link.mean.line
    inside = line.holds(value)
    if not inside and not extrapolate:
        raise DataError(
            f"{link.indicator} of the new queries is {value:.4g}, and the link was fitted to "
            f"{line.groups} groups of {line.lowest:.4g} to {line.highest:.4g}: beyond that it says "
            "nothing; to continue the line all the same, --extrapolate (extrapolate=True)"
        )
    remarks = []
    if not link.verdict.shown:
        remarks.append(f"{link.verdict.sentence} The prediction then says little.")
    if not inside:
        remarks.append(
            f"extrapolated: {value:.4g} lies beyond the fitted {line.lowest:.4g} to "
            f"{line.highest:.4g}; the intervals assume that the line goes on"
        )
    sizes = [point.queries for point in link.points if point.queries is not None]
    if sizes and not min(sizes) / _ALIKE <= len(tested) <= max(sizes) * _ALIKE:
        remarks.append(
            f"the link was fitted to test sets of {min(sizes):,} to {max(sizes):,} queries, and "
            f"this one has {len(tested):,}; indicators that count words depend on the number of "
            "queries, and small sets scatter more"
        )
    systems = [*link.systems, link.mean] if len(link.systems) > 1 else link.systems
    return Prediction(
        link.indicator,
        value,
        link.measure,
        link.shifts,
        line.groups,
        line.lowest,
        line.highest,
        not inside,
        line.confidence,
        tuple(
            ForetoldLoss(
                one.system,
                one.line.at(value),
                one.line.prediction(value),
                one.line.interval(value),
            )
            for one in systems
        ),
        tuple(remarks),
    )


def _choose(
    links: Sequence[GroupLink], indicator: str | None, measure: str | None, shift: str | None
) -> GroupLink:
    if not links:
        raise UsageError("there is no link to predict with; analyse run sets first")
    wanted = {"indicator": indicator or links[0].indicator, "measure": measure or links[0].measure}
    for field, name in wanted.items():
        names = list(dict.fromkeys(getattr(link, field) for link in links))
        if name not in names:
            raise UnknownNameError(f"{field} of a link", name, names)
        links = [link for link in links if getattr(link, field) == name]
    if shift is not None:
        names = [link.name for link in links]
        if shift not in names:
            raise UnknownNameError("shift of a link", shift, names)
        links = [link for link in links if link.name == shift]
    return max(links, key=lambda link: link.mean.line.groups)
