#!/usr/bin/env bash
# ranx: after the norm "borda", fusion by ranks takes the ranks from the order of a Python set.
# Guess: a norm keeps the order of a run's documents, so that fusion by ranks (rrf, isr, rbc, bordafuse,
# condorcet) gives with every norm what it gives with none.
# Seen with ranx 0.3.21 on 2026-11-30: with min-max, max, sum, zmuv and rank the order of a run that is fused
# with itself stays a, b, c. With borda, rrf gives several orders, by PYTHONHASHSEED. Fusion by scores (sum)
# is right after borda. norm=None, or fusion by scores, avoids it.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check ranx==0.3.21
cat >"$work/order.py" <<'PYTHON'
import sys
import warnings

warnings.filterwarnings("ignore")
from ranx import Run, fuse

norms, method = sys.argv[1].split(","), sys.argv[2]
for norm in norms:
    runs = [Run({"q": {"a": 3.0, "b": 2.0, "c": 1.0}}) for _ in range(2)]
    norm = None if norm == "none" else norm
    fused = fuse(runs, norm=norm, method=method, params={"k": 60} if method == "rrf" else None)
    scores = fused.to_dict()["q"]
    print("".join(sorted(scores, key=lambda doc_id: -scores[doc_id])))
PYTHON
orders() { # HASHSEED NORMS METHOD
    PYTHONHASHSEED="$1" "$work/venv/bin/python" "$work/order.py" "$2" "$3" 2>/dev/null
}
kept="$(orders 0 none,min-max,max,sum,zmuv,rank rrf | sort -u)"
by_scores="$(for seed in 0 1 2 3; do orders "$seed" borda sum; done | sort -u)"
by_ranks="$(for seed in 0 1 2 3; do orders "$seed" borda rrf; done | sort -u)"
echo "other norms, rrf: $kept; borda, sum: $by_scores; borda, rrf:" $by_ranks
[[ "$kept" == abc && "$by_scores" == abc ]]
[[ "$(wc -l <<<"$by_ranks")" -gt 1 ]]
echo "as found on 2026-11-30"
