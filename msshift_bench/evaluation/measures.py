"""Measures: each computes one number per query of a judged run.

A native measure is one formula over the possible places (ranks from 1) of a relevant document; see
`runs.judged.Placement`. If the tie policy fixes the order, there is one such place. Under the
policy ``expected``, every place of its tie is equally likely for a document. The same formula then
gives the exact mean over all orders.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.errors import UnknownNameError
from msshift_bench.runs import JudgedRun, Judgements, judge_run


@dataclass(frozen=True, slots=True, repr=False)
class Measure:
    """A measure and its properties.

    Attributes:
        name: the per-query measure's name, e.g. ``"RR@10"``.
        compute: takes versions of one run that differ only in the order of ties, and returns the
            values of each as `per_query` does.
        mean_name: the name of its mean over queries, e.g. ``"MRR@10"``.
        higher_is_better: whether a larger value is a better ranking.
        percent: whether its values are between 0 and 1: tables print its mean times 100.
        aggregate: how values are aggregated: ``mean``, or for counts ``sum``.
        computed_by: the package that computes it.
        partial: whether it may have no value for some queries, which its mean leaves out.
        reads_nonrelevant: whether it treats documents judged not relevant and unjudged ones
            differently.
        depth: number of documents of each ranking that it reads; 0 if it reads relevant ones only.
    """

    name: str
    compute: Callable[[Sequence[JudgedRun]], Sequence[Floats]] = field(repr=False, compare=False)
    mean_name: str
    higher_is_better: bool = True
    percent: bool = True
    aggregate: Literal["mean", "sum"] = "mean"
    computed_by: str = "msshift-bench"
    partial: bool = False
    reads_nonrelevant: bool = False
    depth: int = 0

    @property
    def sign(self) -> int:
        """1, or -1 where a lower value is better; Avg In - Out times this is the loss."""
        return 1 if self.higher_is_better else -1

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest possible mean: 0, and 1 if `percent`, else infinity."""
        return 0.0, 1.0 if self.percent else math.inf

    def per_query(self, run: JudgedRun) -> Floats:
        """Return the measure of every query of the run's test set, shape ``[queries]``.

        A query that is missing from the run gets the worst value, except in ``NumRel``, which
        counts judgements. In native measures, so does a query without a relevant document. A query
        without a value of a `partial` measure gets NaN.

        Raises:
            UsageError: for a measure of ir_measures, if the tie policy fixes no order, the run was
                judged to less than `depth`, a grade is above the measure's limit, or the installed
                ir_measures cannot compute it.
        """
        return self.compute([run])[0]

    def of_rankings(
        self, rankings: Mapping[str, Mapping[str, float]], relevant: Mapping[str, Iterable[str]]
    ) -> dict[str, float]:
        """Return query_id -> value, for every query in `relevant`, from rankings in memory.

        Ties are ordered by descending doc_id. For queries without a ranking, see `per_query`.

        Args:
            rankings: query_id -> doc_id -> score.
            relevant: query_id -> doc_ids of the relevant documents.

        Raises:
            RunError: if a score is not a finite number.
            UsageError: as in `per_query`.
        """
        judgements = Judgements({query: dict.fromkeys(ids, 1) for query, ids in relevant.items()})
        values = self.per_query(judge_run(rankings, judgements, depth=self.depth))
        return dict(zip(judgements.query_ids, values.tolist(), strict=True))

    def show(self, value: float | None) -> str:
        """Return an aggregate as tables print it; "-" for `None` and NaN.

        Means have one decimal, and are multiplied by 100 if `percent`. Sums have no decimal.
        """
        if value is None or math.isnan(value):
            return "-"
        if self.aggregate == "sum":
            return f"{value:.0f}"
        return f"{100 * value:z.1f}" if self.percent else f"{value:z.1f}"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Measure({self.name!r})"


def _mean_over_places(
    run: JudgedRun, cutoff: int | None, value: Callable[[Ints], Floats]
) -> Floats:
    """Return each hit's mean of a function over its possible places, with 0 beyond the cutoff.

    Args:
        run: the judged run.
        cutoff: the last place that counts; `None` for all.
        value: the function, vectorised, of places from 1.

    Returns:
        One mean per hit, in the order of the run's placement.
    """
    above, size = run.placement.above, run.placement.size
    last = above + size if cutoff is None else np.minimum(above + size, cutoff)
    first = np.minimum(above, last)
    table = value(np.arange(1, last.max(initial=0) + 1))
    sums = np.concatenate(([0.0], np.cumsum(table)))
    means: Floats = (sums[last] - sums[first]) / size
    known = (size == 1) & (last > first)
    means[known] = table[above[known]]
    return means


def _per_query(run: JudgedRun, per_hit: Floats) -> Floats:
    sums = np.zeros(len(run.judgements))
    np.add.at(sums, run.placement.query, per_hit)
    return sums


def _divide(values: Floats, counts: Ints | Floats) -> Floats:
    """Divide, with 0 / 0 = 0: a query without relevant documents scores 0."""
    return np.divide(values, counts, out=np.zeros(len(values)), where=counts > 0)


def _reciprocal(places: Ints) -> Floats:
    return 1.0 / places


def _discount(places: Ints) -> Floats:
    return 1.0 / np.log2(places + 1)


def _precision(run: JudgedRun, cutoff: int) -> Floats:
    return _per_query(run, _mean_over_places(run, cutoff, np.ones_like)) / cutoff


def _recall(run: JudgedRun, cutoff: int | None) -> Floats:
    retrieved = _per_query(run, _mean_over_places(run, cutoff, np.ones_like))
    return _divide(retrieved, run.judgements.relevant.counts)


def _success(run: JudgedRun, cutoff: int) -> Floats:
    """Return the probability that a relevant document is within the cutoff, ``[queries]``.

    A tie of m places, s of them within the cutoff, has r relevant documents. None of these is
    within the cutoff with probability C(m - s, r) / C(m, r). Only one tie straddles the cutoff,
    and the others have probability 0 or 1, so that their product is their minimum.
    """
    placement = run.placement
    outside = placement.size - np.clip(cutoff - placement.above, 0, placement.size)
    none_inside = np.ones(len(outside))
    for draws in range(placement.peers.max(initial=0)):
        left = np.maximum(outside - draws, 0) / np.maximum(placement.size - draws, 1)
        none_inside *= np.where(draws < placement.peers, left, 1.0)
    none = np.ones(len(run.judgements))
    np.minimum.at(none, placement.query, none_inside)
    return 1.0 - none


def _reciprocal_rank(run: JudgedRun, cutoff: int | None) -> Floats:
    """Return the mean of 1 / place of the first relevant document; 0 beyond the cutoff.

    Only the first tie that holds a relevant document matters.
    """
    placement = run.placement
    first_hits = np.flatnonzero(np.diff(placement.query, prepend=-1))
    queries = placement.query[first_hits]
    above, size, peers = (
        column[first_hits] for column in (placement.above, placement.size, placement.peers)
    )
    values = 1.0 / (above + 1)
    for row in np.flatnonzero(size > 1).tolist():
        values[row] = _first_of_tie(int(above[row]), int(size[row]), int(peers[row]), cutoff)
    if cutoff is not None:
        values[above >= cutoff] = 0.0
    result = np.zeros(len(run.judgements))
    result[queries] = values
    return result


def _first_of_tie(above: int, size: int, relevant: int, cutoff: int | None) -> float:
    """Return the mean of 1 / place of the first of `relevant` documents among `size` tied ones.

    Places of the tie begin at ``above + 1``; places beyond the cutoff count 0. P(place j of the tie
    has the first relevant document) = P(none of the j - 1 before it is relevant) * relevant / (size
    - j + 1).
    """
    places = np.arange(1, size - relevant + 2)
    if cutoff is not None:
        places = places[above + places <= cutoff]
    left = size - places + 1
    none_yet = np.concatenate(([1.0], np.cumprod((left - relevant) / left)[:-1]))
    return float(np.sum(none_yet[: len(places)] * relevant / left / (above + places)))


def _average_precision(run: JudgedRun, cutoff: int | None) -> Floats:
    """Return the average precision, its mean over the orders of ties, ``[queries]``.

    A hit at place t of a tie that begins after place a has ``before`` hits above the tie. Each of
    the other ``peers - 1`` hits is above it with probability (t - a - 1) / (size - 1). The
    precision at t is their mean number, itself included, over t.
    """
    placement = run.placement
    slope = (placement.peers - 1) / np.maximum(placement.size - 1, 1)
    constant = placement.before + 1 - slope * (placement.above + 1)
    precision = constant * _mean_over_places(run, cutoff, _reciprocal)
    precision += slope * _mean_over_places(run, cutoff, np.ones_like)
    return _divide(_per_query(run, precision), run.judgements.relevant.counts)


def _ndcg(run: JudgedRun, cutoff: int | None) -> Floats:
    """Return nDCG: gains are the relevance, the discount is log2(rank + 1), as in trec_eval."""
    gained = run.placement.gain * _mean_over_places(run, cutoff, _discount)
    queries, ranks, gains = run.judgements.ideal
    inside = ranks <= (cutoff or len(ranks))
    ideal = np.bincount(
        queries[inside], gains[inside] * _discount(ranks[inside]), minlength=len(run.judgements)
    )
    return _divide(_per_query(run, gained), ideal)


def _search_length(run: JudgedRun, cutoff: int) -> Floats:
    """Return the mean number of non-relevant documents above a relevant one, at most `cutoff`.

    A relevant document that was not retrieved counts `cutoff`; a query without relevant documents
    has `cutoff`. In a tie, the number of the n non-relevant documents above a relevant one is 0 ...
    n, each with the same probability. Source: Alex, Hall and Metzler 2022, "Atomized Search
    Length"; bounded as in MS-Shift, section 4.
    """
    placement = run.placement
    surely = np.minimum(placement.above - placement.before, cutoff)
    tied = placement.size - placement.peers
    counted = np.minimum(tied, cutoff - surely)
    total = (counted + 1) * surely + counted * (counted + 1) // 2 + (tied - counted) * cutoff
    lengths = _per_query(run, total / (tied + 1))
    relevant = run.judgements.relevant.counts
    lengths += (relevant - np.bincount(placement.query, minlength=len(relevant))) * float(cutoff)
    return np.where(relevant > 0, lengths / np.maximum(relevant, 1), float(cutoff))


NATIVE_MEASURES: Mapping[str, str] = MappingProxyType(
    {
        "RR": "reciprocal rank of the first relevant document",
        "RR@k": "reciprocal rank of the first relevant document",
        "nDCG": "normalised discounted cumulative gain, graded",
        "nDCG@k": "normalised discounted cumulative gain, graded",
        "R@k": "part of the relevant documents that is retrieved",
        "P@k": "part of the first k places that is relevant",
        "AP": "average precision",
        "AP@k": "average precision",
        "Success@k": "whether a relevant document is retrieved",
        "ASL@k": "atomized search length: non-relevant documents above a relevant one, at most k",
    }
)
"""The measures that this module computes: name, with k for a cutoff -> description."""

_COMPUTE: Mapping[str, Callable[[JudgedRun, Any], Floats]] = MappingProxyType(
    {
        "RR": _reciprocal_rank,
        "nDCG": _ndcg,
        "R": _recall,
        "P": _precision,
        "AP": _average_precision,
        "Success": _success,
        "ASL": _search_length,
    }
)
"""Name without cutoff -> function of a run and a cutoff or `None`; returns a value per query."""

_SPELLINGS = {
    **{name.lower(): name for name in _COMPUTE},
    "mrr": "RR",
    "map": "AP",
    "recall": "R",
    "precision": "P",
}

_NAMES_IN_OTHER_TOOLS = _SPELLINGS | {
    "recip_rank": "RR",
    **dict.fromkeys(("hit_rate", "hits", "acc", "top_k_accuracy"), "Success"),
    **dict.fromkeys(("r-precision", "r_precision"), "Rprec"),
    "ndcg_burges": "nDCG(dcg='exp-log2')",
    "bpref": "Bpref",
    "err": "ERR",
    "set_p": "SetP",
    "set_recall": "SetR",
    "set_f": "SetF",
    "num_q": "NumQ",
    "num_ret": "NumRet",
    "num_rel": "NumRel",
    "num_rel_ret": "NumRet(rel=1)",
}
"""Names of measures in other tools, in lower case, before the cutoff -> the name here."""

_WITH_CUTOFF = ("ERR", "nDCG(dcg='exp-log2')")
"""The names of `_NAMES_IN_OTHER_TOOLS` that are not native and need a cutoff."""

VALID_NAMES = (*NATIVE_MEASURES, "and, with the 'measures' extra, all of ir_measures")
"""The valid names of measures, for messages."""


def measure_hint(name: str) -> str:
    """Return a sentence with the measure's name here; "" if unknown.

    Args:
        name: its name in another tool, e.g. ``ndcg_cut_10``.
    """
    match = re.fullmatch(r"(.+?)(?:(?:_cut|_at)?[_.@]([1-9][0-9]{0,8}))?", name.lower())
    family = _NAMES_IN_OTHER_TOOLS.get(match[1]) if match else None
    if match is None or family is None:
        return ""
    cutoff = match[2]
    if f"{family}@k" in NATIVE_MEASURES or family in _WITH_CUTOFF:
        cutoff = cutoff or ("" if family in NATIVE_MEASURES else "k")
    elif cutoff:
        return ""  # no such measure has a cutoff
    return f"it is called {'@'.join(filter(None, (family, cutoff)))} here"


def native_measure(name: str) -> Measure | None:
    """Return the native measure called `name`; `None` for other names, also ``RR(rel=2)@10``.

    Args:
        name: in any case; its mean's name works, too, and ``recall`` for ``R``.

    Raises:
        UnknownNameError: if its cutoff is 0, or is missing as in ``R``; the message lists the valid
            names.
    """
    match = re.fullmatch(r"([A-Za-z]+)(?:@([0-9]{1,9}))?", name)
    family = _SPELLINGS.get(match[1].lower()) if match else None
    if match is None or family is None:
        return None
    cutoff = int(match[2]) if match[2] else None
    if cutoff == 0 or (cutoff is None and family not in NATIVE_MEASURES):
        raise UnknownNameError("measure", name, VALID_NAMES, measure_hint(name))
    canonical = family if cutoff is None else f"{family}@{cutoff}"
    is_length = family == "ASL"
    return Measure(
        canonical,
        lambda runs: [_COMPUTE[family](run, cutoff) for run in runs],
        mean_name=f"M{canonical}" if family in ("RR", "AP") else canonical,
        higher_is_better=not is_length,
        percent=not is_length,
    )
