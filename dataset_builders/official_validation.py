"""Validation queries for the official edition, which the release does not name.

The papers stop training early by 1,600 queries that no shift touches (MS-Shift, section 4); the
files of 2022 do not say which. We sample ours by keyed hash from the joined training queries
(`official_training`) that no test set and no training set of the release holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from msshift_bench.dataset_builders.cut import VALIDATION_SIZE, Cut, cut_table
from msshift_bench.dataset_builders.keyed_draws import sample
from msshift_bench.dataset_builders.official_release import OfficialRelease
from msshift_bench.records import OTHERS, Row

__all__ = ["Validated", "add_validation"]

_SEED = 0


@dataclass(frozen=True, slots=True)
class Validated:
    """Imported shifts with the validation queries that they share.

    Attributes:
        shifts: the shifts, in the order in which they were given.
        report: the manifest's facts on the validation queries; JSON values only: ``queries``, their
            number, and, if it is 0, ``why``.
    """

    shifts: tuple[Cut, ...]
    report: Mapping[str, object]


def add_validation(releases: Sequence[OfficialRelease]) -> Validated:
    """Give all shifts that have training queries the same validation queries.

    A query that has the id or the text of a training or test query of any shift is left out. The
    sample does not depend on which shifts are written.

    Args:
        releases: all releases that are imported together.

    Returns:
        The shifts. If no query is left to sample from, none has the split ``validation``.
    """
    cuts = [cut for release in releases for cut in release.shifts]
    joined = {id_: query for release in releases for id_, query in release.joined.items()}
    if not joined:
        return Validated(
            tuple(cuts), {"queries": 0, "why": "no training queries were joined to a collection"}
        )
    used_ids, used_texts = (
        {value for cut in cuts for value in cut.table[name].to_pylist()}
        for name in ("query_id", "text")
    )
    free = [
        query_id
        for query_id, query in joined.items()
        if query_id not in used_ids and query.text not in used_texts
    ]
    if not free:
        return Validated(
            tuple(cuts),
            {"queries": 0, "why": "every joined query is trained on or tested with in some shift"},
        )
    sampled = sample(free, VALIDATION_SIZE, seed=_SEED, purpose="validation")
    chosen = [(query_id, joined[query_id]) for query_id in sorted(sampled)]

    def validated(cut: Cut) -> Cut:
        if "train" not in cut.splits:
            return cut
        name = cut.shift.name
        rows = [
            Row.judged(query_id, query.text, query.groups.get(name, OTHERS), query.relevant)
            for query_id, query in chosen
        ]
        table = pa.concat_tables([cut.table, cut_table({"validation": rows})]).sort_by("query_id")
        return replace(cut, table=table, splits=(*cut.splits, "validation"))

    return Validated(
        tuple(map(validated, cuts)),
        {"queries": len(chosen), "sampled_from": len(free), "seed": _SEED},
    )
