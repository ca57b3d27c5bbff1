#!/usr/bin/env bash
# ir_measures breaks ties in three orders, depending on the measure.
# Guess: one run has one ranking, whatever is measured.
# Seen with ir_measures 0.4.3 and pyndeval 0.0.8 on 2026-11-28: of four documents with equal scores,
# RR, P, nDCG, AP and ERR rank the greatest id first (trec_eval, gdeval); RR@10, Compat, Judged,
# alpha_nDCG and ERR_IA the smallest id; Accuracy, and RBP and SDCG with cwl-eval 1.0.12, the first line.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
    ir-measures==0.4.3 pyndeval==0.0.8 cwl-eval==1.0.12
"$work/venv/bin/python" - <<'PYTHON'
import logging
import warnings

import ir_measures
from ir_measures import GenericQrel, ScoredDoc

warnings.simplefilter("ignore")
logging.disable()
LINES = ["c", "a", "d", "b"]
EXPECTED = {
    "d": ["RR", "P@1", "nDCG@10", "AP", "ERR@20"],
    "a": ["RR@10", "Compat(p=0.8)", "Judged@1", "alpha_nDCG@10", "ERR_IA@10"],
    "c": ["RBP(p=0.5,rel=1)", "SDCG(cutoff=10,max_rel=1)", "Accuracy"],
}


def first(name):
    """Return the document that stands first: the one whose relevance gives the best score."""
    measure, scores = ir_measures.parse_measure(name), {}
    run = [ScoredDoc("1", doc_id, 1.0) for doc_id in LINES]
    for relevant in LINES:
        # Two subtopics, as measures of diversity need; the others need documents judged 0.
        qrels = [GenericQrel("1", doc_id, 0, "1") for doc_id in LINES if doc_id != relevant]
        qrels += [GenericQrel("1", relevant, 1, topic) for topic in ("1", "2")]
        if name in ("Compat(p=0.8)", "Judged@1"):
            qrels = [qrel for qrel in qrels if qrel.relevance]
        scores[relevant] = ir_measures.calc_aggregate([measure], qrels, run)[measure]
    return max(scores, key=scores.get)


found = {name: first(name) for names in EXPECTED.values() for name in names}
print(found)
assert found == {name: doc_id for doc_id, names in EXPECTED.items() for name in names}
PYTHON
echo "as found on 2026-11-28"
