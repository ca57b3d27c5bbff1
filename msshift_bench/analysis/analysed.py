"""The result of an analysis, from which its tables, its figures and its JSON are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msshift_bench.analysis.binned_losses import Distribution
from msshift_bench.analysis.decomposing import LossByWords
from msshift_bench.analysis.group_links import GroupLink
from msshift_bench.analysis.link_rows import link_rows
from msshift_bench.analysis.plans import DetectableLoss
from msshift_bench.analysis.query_links import QueryLink
from msshift_bench.data import DataInfo
from msshift_bench.output import FIGURE_COLUMNS, LongTable, WithFigures, plain, report_head

__all__ = ["Analysis"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Analysis(WithFigures):
    """Why systems lose: the links between losses and indicators, and how sure they are.

    Attributes:
        source: what was analysed, in words.
        data: the data set; `None` for published figures.
        measures: the measures.
        indicators: the indicators whose links with the losses of groups were tested.
        group_links: one per indicator, measure and shift, then one for all shifts together.
        distributions: one per shift and indicator that single queries have.
        query_links: one per shift, such indicator and measure.
        losses_by_words: one per shift, system and measure, where the words of training are known.
        detectable: one per shift, system, measure and group.
        remarks: doubts about the figures, and what could not be analysed.
    """

    source: str
    data: DataInfo | None
    measures: tuple[str, ...]
    indicators: tuple[str, ...]
    group_links: tuple[GroupLink, ...]
    distributions: tuple[Distribution, ...] = ()
    query_links: tuple[QueryLink, ...] = ()
    losses_by_words: tuple[LossByWords, ...] = ()
    detectable: tuple[DetectableLoss, ...] = ()
    remarks: Sequence[str] = ()

    def __repr__(self) -> str:
        what = ", ".join(f"{link.name} by {link.indicator}" for link in self.group_links)
        return f"<Analysis: {self.source}, {what}, {', '.join(self.measures)}>"

    def tidy(self) -> LongTable:
        """Return every slope, correlation, loss of an interval and share as one long table."""
        rows = link_rows(self.group_links, self.query_links, self.losses_by_words, self.detectable)
        return LongTable(list(rows), (*FIGURE_COLUMNS, "label"))

    def to_json(self) -> dict[str, Any]:
        """Return the analysis as plain JSON values; `read_links` reads the links of it."""
        values = {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}
        return {**report_head(), "kind": "analysis", **values}
