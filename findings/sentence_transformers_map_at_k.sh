#!/usr/bin/env bash
# sentence-transformers: MAP@k divides by at most k relevant documents, trec_eval's map_cut_k by all.
# Guess: InformationRetrievalEvaluator's map@k is map_cut_k, as its recall@k and ndcg@k are recall_k and
# ndcg_cut_k.
# Seen with sentence-transformers 6.2.0 and pytrec_eval-terrier 0.5.11 on 2026-11-30: of five relevant
# documents, one is first. MAP@1 is 1.0 and map_cut_1 is 0.2; MAP@3 is 0.3333 and map_cut_3 is 0.2. The
# figures are equal where no query has more than k relevant documents.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check sentence-transformers==6.2.0 torch==2.13.0 \
    transformers==5.23.0 pytrec_eval-terrier==0.5.11
"$work/venv/bin/python" - <<'PYTHON'
import pytrec_eval
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

relevant = {"q": {"a", "d", "e", "f", "g"}}
run = {"q": {doc_id: 1.0 - place / 10 for place, doc_id in enumerate("abcdefg")}}
evaluator = InformationRetrievalEvaluator(
    {"q": "query"}, dict.fromkeys("abcdefg", "text"), relevant, map_at_k=[1, 3, 5], ndcg_at_k=[3], precision_recall_at_k=[3]
)
hits = [{"corpus_id": doc_id, "score": score} for doc_id, score in run["q"].items()]
ours = evaluator.compute_metrics([hits])
measures = {"map_cut.1,3,5", "ndcg_cut.3", "recall.3"}
qrels = {"q": dict.fromkeys(relevant["q"], 1)}
theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)["q"]
ap = {k: (round(float(ours["map@k"][k]), 4), round(theirs[f"map_cut_{k}"], 4)) for k in (1, 3, 5)}
print("MAP@k, map_cut_k", ap)
assert ap == {1: (1.0, 0.2), 3: (0.3333, 0.2), 5: (0.42, 0.42)}
assert abs(ours["ndcg@k"][3] - theirs["ndcg_cut_3"]) < 1e-9
assert ours["recall@k"][3] == theirs["recall_3"] == 0.2
PYTHON
echo "as found on 2026-11-30"
