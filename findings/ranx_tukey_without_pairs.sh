#!/usr/bin/env bash
# ranx: Tukey's test ignores that the systems answered the same queries.
# Guess: compare(stat_test="tukey") tests differences per query, as its Student's and Fisher's tests do and
# as Tukey's test is used in retrieval: a model with systems and queries.
# Seen with ranx 0.3.21 and scipy 1.17.1 on 2026-11-30: B has every document one rank below A, for each of
# 27 queries. Student's and Fisher's tests give p < 0.001, Tukey's p = 0.11. It is the one-way test, so that
# the spread between queries hides the difference.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check ranx==0.3.21 scipy==1.17.1
"$work/venv/bin/python" - <<'PYTHON'
from ranx import Qrels, Run, compare
from scipy.stats import tukey_hsd

ranks = [2 + place % 9 for place in range(27)]
qrels = Qrels({f"q{place}": {"relevant": 1} for place in range(len(ranks))})


def run(name, below):
    return Run(
        {
            f"q{place}": {"relevant": -float(rank + below)}
            | {f"x{other}": -float(other) for other in range(1, 12) if other < rank + below}
            for place, rank in enumerate(ranks)
        },
        name=name,
    )


found = {
    test: compare(qrels, [run("A", 0), run("B", 1)], ["mrr"], stat_test=test).to_dict()["A"]["comparisons"]["B"]["mrr"]
    for test in ("student", "fisher", "tukey")
}
one_way = tukey_hsd([1 / rank for rank in ranks], [1 / (rank + 1) for rank in ranks]).pvalue[0, 1]
print({test: round(p, 4) for test, p in found.items()}, "one-way", round(one_way, 4))
assert found["student"] < 0.001 and found["fisher"] < 0.001 and found["tukey"] > 0.05
assert abs(found["tukey"] - one_way) < 1e-9
PYTHON
echo "as found on 2026-11-30"
