"""Links inside the groups of one shift, of known slopes: the verdicts, and how tables say them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from msshift_bench.analysis import (
    Analysis,
    GroupLink,
    LossPoint,
    QueryLink,
    analysis_panels,
    link_losses,
    predict_losses,
)
from msshift_bench.analysis.query_links import link_queries
from msshift_bench.analysis.query_losses import QueryLosses
from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError, UsageError
from msshift_bench.stats.group_scores import GroupScores

SLOPES = (-0.30, -0.28, -0.31, -0.29)
X = np.linspace(0, 1, 40)


def linked(slopes: Sequence[float], alike: Sequence[str] = (), bins: int = 2) -> QueryLink:
    """Link losses that change at these slopes in C0, C1, ...; queries of `alike` do not differ."""
    inside = np.ones((1, 1, len(X)))
    scores = {
        f"C{n}": GroupScores(inside, 0.5 - slope * X[np.newaxis]) for n, slope in enumerate(slopes)
    }
    values: dict[str, Floats] = {g: np.full(len(X), 0.5) if g in alike else X for g in scores}
    losses = QueryLosses("wh-words", "dense", "RR@10", 1, scores)
    return link_queries("model-based", [losses], values, bins=bins)


def said(link: QueryLink | GroupLink) -> tuple[dict[str, list[list[str]]], list[str]]:
    """Return the rows of each table of a link by the header's last column, and the notes."""
    groups = (link,) if isinstance(link, GroupLink) else ()
    queries = (link,) if isinstance(link, QueryLink) else ()
    found = Analysis("made up", None, ("RR@10",), (), groups, query_links=queries)
    ((tables, notes),) = analysis_panels(found)
    rows = {table.header[-1]: [[cell.text for cell in row] for row in table.rows]
            for table in tables}  # fmt: skip
    return rows, notes


@pytest.mark.parametrize(("sign", "way", "slope"), [(1, "less", "-29.5"), (-1, "more", "+29.5")])
def test_slopes_that_agree_show_a_link(sign: int, way: str, slope: str) -> None:
    link = linked([sign * one for one in SLOPES])
    assert link.verdict.shown
    assert link.verdict.sentence == (
        "These data show a link between model-based and what single queries of wh-words lose in "
        f"RR@10: the higher it is, the {way} is lost."
    )
    # By hand: the slopes' mean is 0.295, their standard error 0.0129 / 2, and t(3) 3.182.
    ends = "[-31.6, -27.4]" if sign > 0 else "[27.4, 31.6]"
    evidence = link.verdict.evidence[0]
    assert f"{slope} points of Rel Loss per 1 of model-based, 95% interval {ends}" in evidence
    assert "p < 0.001 (t with 3 degrees of freedom: the slopes of 4 groups)" in evidence
    rows, notes = said(link)
    assert rows["Wald p"][0][:4] == ["dense", "4", f"{slope.lstrip('+')} {ends}", "<0.001"]
    assert [row[1] for row in rows["dense"]] == ["80", "80"]
    assert any("comes from another model: the intervals mix their scales" in one for one in notes)


def test_two_groups_with_a_slope_are_too_few_witnesses() -> None:
    link = linked(SLOPES, alike=("C2", "C3"))
    assert not link.verdict.shown
    assert link.verdict.evidence == (
        "fewer than 3 groups have queries that differ in it, and groups are the witnesses",
    )
    rows, _ = said(link)
    assert rows["Wald p"][0][:4] == ["dense", "-", "-", "-"]


@pytest.mark.parametrize("bins", [41, 1000])
def test_more_intervals_than_values_leave_none_of_them_empty(bins: int) -> None:
    (system,) = linked(SLOPES, bins=bins).systems
    assert sum(one.queries for one in system.bins) == 160
    assert min(one.queries for one in system.bins) > 0
    assert len(system.bins) > 30
    assert all(one.high == after.low for one, after in pairwise(system.bins))
    assert (system.bins[0].low, system.bins[-1].high) == (0, 1)


def test_what_has_no_intervals_or_no_loss_is_refused() -> None:
    with pytest.raises(
        DataError, match=r"of wh-words have the same model-based \(0\.5\), .* take an"
    ):
        linked(SLOPES, alike=("C0", "C1", "C2", "C3"))
    nothing = GroupScores(np.zeros((1, 1, 2)), np.zeros((1, 2)))
    losses = QueryLosses("wh-words", "dense", "RR@10", 1, {"C0": nothing})
    assert repr(losses) == "<QueryLosses: dense on wh-words, RR@10>"
    with pytest.raises(DataError, match=r"dense scores 0 in RR@10 on C0, .* leave the system out"):
        losses.relative()


def test_groups_that_all_lose_the_same_have_no_rank_correlation() -> None:
    points = [
        LossPoint("topics", group, "dense", x, 0.2, queries=600, seeds=1)
        for group, x in (("C0", 0.0), ("C1", 0.2), ("C2", 1.0))
    ]
    link = link_losses("weighted-jaccard", "RR@10", points)
    rows, _ = said(link)
    (row,) = rows["p"]
    assert row[:2] == ["dense", "3"]
    assert row[4:] == ["-"] * 5
    assert not link.verdict.shown
    # The line is flat, so that whatever the queries, the prediction is the loss of all groups.
    found = predict_losses([link], {"1": "red shoes", "2": "who is it"}, {"9": "who is rome"})
    header, line = found.tidy().to_csv().splitlines()
    told = dict(zip(header.split(","), line.split(","), strict=True))
    assert (told["system"], told["group"], told["figure"]) == ("dense", "new queries", "rel_loss")
    assert (told["value"], told["low"], told["high"]) == ("0.2", "0.2", "0.2")
    assert told["label"] == f"weighted-jaccard: {found.similarity:.6g}"


def test_nothing_can_be_foretold_without_a_link() -> None:
    with pytest.raises(UsageError, match="no link to predict with; analyse run sets first"):
        predict_losses([], {"1": "red shoes"}, {"9": "who is rome"})


def test_the_legend_holds_for_every_system_and_every_shift() -> None:
    """Of several seeds and one, and of shifts whose control is not the same."""
    random = np.random.default_rng(1)
    values = dict.fromkeys(("C0", "C1", "C2"), X)

    def of_shift(shift: str, control: str, *seeds: int) -> QueryLink:
        losses = [
            QueryLosses(
                shift,
                f"of-{count}",
                "RR@10",
                1,
                {
                    group: GroupScores(
                        np.ones((count, 2, len(X))), random.uniform(0.2, 0.8, (count, len(X)))
                    )
                    for group in values
                },
            )
            for count in seeds
        ]
        difficulty = values if control else None
        return link_queries(
            "nearest-query", losses, values, bins=2, control=control, difficulty=difficulty
        )

    def legend(*links: QueryLink) -> list[str]:
        found = Analysis("made up", None, ("RR@10",), (), (), query_links=links)
        return analysis_panels(found)[-1][1]

    links = of_shift("topics", "bm25", 2, 1), of_shift("wh-words", "clarity", 2)
    notes = "\n".join(legend(*links))
    assert "bootstrap count queries and seeds where a system has several seeds, else qu" in notes
    assert "fifth by bm25 (topics), clarity (wh-words)" in notes
    notes = "\n".join(legend(of_shift("topics", "", 1), links[1]))
    assert "fifth by clarity (wh-words)" in notes
    notes = "\n".join(legend(links[1]))
    assert "bootstrap count queries and seeds; slopes" in notes
    assert notes.endswith("fifth by clarity")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (LossPoint("topics", "C2", "dense", 1.0, 0.2), "dense has two losses on C2 of topics"),
        (
            LossPoint("topics", "C2", "splade", 0.9, 0.2),
            "C2 of topics has the similarity 1 for dense and 0.9 for splade",
        ),
    ],
    ids=["seeds one by one", "another similarity"],
)
def test_a_group_has_one_loss_per_system_and_one_similarity(more: LossPoint, said: str) -> None:
    """The last of several losses, and the first of several similarities, would count alone."""
    points = [
        LossPoint("topics", group, system, x, y)
        for system in ("dense", more.system)
        for group, x, y in (("C0", 0.0, 0.3), ("C1", 0.2, 0.25), ("C2", 1.0, 0.1))
        if (group, system) != ("C2", "splade")
    ]
    with pytest.raises(DataError, match=said):
        link_losses("weighted-jaccard", "RR@10", [*dict.fromkeys(points), more])
