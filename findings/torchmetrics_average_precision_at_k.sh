#!/usr/bin/env bash
# torchmetrics: average precision with a cutoff divides by the relevant documents that were found.
# Guess: RetrievalMAP(top_k=k) is trec_eval's map_cut_k, which divides by all relevant documents, as
# RetrievalMAP without a cutoff and RetrievalRecall(top_k=k) do.
# Seen with torchmetrics 1.9.0, torch 2.13.0 and pytrec_eval-terrier 0.5.11 on 2026-11-30: of five relevant
# documents, one is first and four are behind the cutoff of 3. MAP is 1.0 and map_cut_3 is 0.2. A smaller
# cutoff raises the figure, and a system that finds nothing more after its first hit has 1.0.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check torchmetrics==1.9.0 torch==2.13.0 \
    pytrec_eval-terrier==0.5.11
"$work/venv/bin/python" - <<'PYTHON'
import pytrec_eval
import torch
from torchmetrics.retrieval import RetrievalMAP, RetrievalRecall

relevant = [1, 0, 0, 1, 1, 1, 1]
scores = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]
qrels = {"q": {f"d{place}": grade for place, grade in enumerate(relevant)}}
run = {"q": {f"d{place}": score for place, score in enumerate(scores)}}
theirs = pytrec_eval.RelevanceEvaluator(qrels, {"map", "map_cut.1,3", "recall.3"}).evaluate(run)["q"]


def of(metric):
    one_query = torch.zeros(len(scores), dtype=torch.long)
    return round(metric(torch.tensor(scores), torch.tensor(relevant), indexes=one_query).item(), 4)


found = {k: of(RetrievalMAP(top_k=k)) for k in (1, 3, None)}
print("torchmetrics", found, "recall", of(RetrievalRecall(top_k=3)))
print("trec_eval", {name: round(value, 4) for name, value in theirs.items()})
assert found == {1: 1.0, 3: 1.0, None: 0.6962}
assert [round(theirs[name], 4) for name in ("map_cut_1", "map_cut_3", "map")] == [0.2, 0.2, 0.6962]
assert of(RetrievalRecall(top_k=3)) == round(theirs["recall_3"], 4) == 0.2
PYTHON
echo "as found on 2026-11-30"
