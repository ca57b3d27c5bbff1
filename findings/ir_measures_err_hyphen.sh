#!/usr/bin/env bash
# ir_measures: a hyphen in the ids of queries halves ERR, without a message.
# Guess: ids are opaque, so that renaming queries changes no score. Ids with hyphens are common
# (topics of a session, "31-1"; passages as queries).
# Seen with ir_measures 0.4.3 on 2026-11-28: gdeval returns the part behind the hyphen as the id. Each such
# query is reported twice, with its score under the other id and with 0 under its own, and the mean
# counts both. RR of the same input is right.
set -euo pipefail
command -v perl >/dev/null || { echo "needs perl, which ir_measures calls for ERR" >&2; exit 3; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check ir-measures==0.4.3
"$work/venv/bin/python" - <<'PYTHON'
import ir_measures
from ir_measures import ERR, RR, Qrel, ScoredDoc


def scores(*query_ids):
    qrels = [Qrel(query_id, "d", 1) for query_id in query_ids]
    run = [ScoredDoc(query_id, "d", 1.0) for query_id in query_ids]
    means = ir_measures.calc_aggregate([ERR @ 20, RR], qrels, run)
    ids = sorted(one.query_id for one in ir_measures.iter_calc([ERR @ 20], qrels, run))
    return means[ERR @ 20], means[RR], ids


plain, hyphen = scores("31", "32"), scores("31-1", "32-2")
print(plain, hyphen, sep="\n")
assert plain == (0.0625, 1.0, ["31", "32"])
assert hyphen == (0.03125, 1.0, ["1", "2", "31-1", "32-2"])
PYTHON
echo "as found on 2026-11-28"
