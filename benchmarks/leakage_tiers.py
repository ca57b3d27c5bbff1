"""What every tier of `msshift leakage find` finds of planted leaks and of near misses.

The training queries are those of `mini`; each has one test query: the same in another spelling,
order or wording, or one that asks something else in nearly the same words.

``scripts/bench leakage_tiers [--size 3000] [--encoder terms] [--pooling own] [--threshold X]``
"""

from __future__ import annotations

import argparse
from collections import Counter

from benchmarks.support.planted_leaks import KINDS, plant
from msshift_bench.leakage import TIERS, find_leakage
from msshift_bench.output import Table, to_markdown

COMPARED = TIERS[:-1]


def tables(
    size: int, encoder: str = "terms", pooling: str = "own", threshold: float | None = None
) -> tuple[Table, Table]:
    """Return what becomes of each kind of test query, and every tier's precision and recall."""
    train, planted = plant(size)
    tests = {one.test_id: one.text for one in planted}
    found = find_leakage(train, tests, encoder=encoder, pooling=pooling, threshold=threshold)
    of_test = {one.test_id: one for one in planted}
    tier_of = {(one.test_id, one.train_id): one.tier for one in found.pairs}
    count = Counter(one.kind for one in planted)
    rows = []
    for kind, (expected, _) in KINDS.items():
        mine = [one for one in planted if one.kind == kind]
        # A near miss has no training query of its own; any that is found is wrong.
        pairs = Counter(
            tier
            for (test_id, train_id), tier in tier_of.items()
            if of_test[test_id].kind == kind and train_id == (of_test[test_id].train_id or train_id)
        )
        rows.append((kind, expected or "none", len(mine), *(pairs[tier] for tier in COMPARED)))
    by_kind = Table.plain("By what was planted", ("planted", "as", "queries", *COMPARED), rows)
    by_tier = []
    for tier in COMPARED:
        pairs_here = [pair for pair, its in tier_of.items() if its == tier]
        right = sum(of_test[test_id].train_id == train_id for test_id, train_id in pairs_here)
        wanted = sum(number for kind, number in count.items() if KINDS[kind][0] == tier)
        caught = sum(
            KINDS[one.kind][0] == tier and (one.test_id, one.train_id) in tier_of for one in planted
        )
        precision = f"{right / len(pairs_here):.3f}" if pairs_here else "-"
        by_tier.append((tier, len(pairs_here), precision, wanted, f"{caught / wanted:.3f}"))
    header = ("tier", "pairs", "precision", "planted", "recall")
    return by_kind, Table.plain("By tier", header, by_tier)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=3000)
    parser.add_argument("--encoder", default="terms")
    parser.add_argument("--pooling", default="own")
    parser.add_argument("--threshold", type=float)
    given = parser.parse_args()
    for table in tables(given.size, given.encoder, given.pooling, given.threshold):
        print(to_markdown(table))


if __name__ == "__main__":
    main()
