#!/usr/bin/env bash
# PyLate: a passage's score depends on the other candidates, and so does its rank.
# Guess: `rank.rerank` and `retrieve.ColBERT` score each passage by MaxSim with its own tokens, so that a
# passage has the same score alone and among others, and equal scores come in one order.
# Seen with pylate 1.6.0, torch 2.13.0+cpu and voyager 2.1.0 on 2026-11-29: passages of a query are padded
# with zeros to the longest, and a padded token counts as one of similarity 0. A, of one token with product
# -0.7, scores -0.7 alone and 0.0 beside B, of two tokens with products -0.6; so A is before B. Passages with
# equal scores come in the order of a set of texts, which differs by PYTHONHASHSEED, and so do the first k.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
pip() { "$work/venv/bin/pip" install --quiet --disable-pip-version-check "$@"; }
# fast-plaid, of an index that is not used here, needs an older torch.
pip --no-deps pylate==1.6.0 fastkmeans==0.5.0 ninja==1.11.1.4
pip torch==2.13.0 sentence-transformers==5.3.0 transformers==5.3.0 ujson==5.12.0 voyager==2.1.0 \
    datasets==5.2.0 accelerate==1.15.0 pandas==3.1.1
cd "$work"
cat >search.py <<'PYTHON'
import numpy as np
from pylate import indexes, rank, retrieve

query = np.array([[1, 0]], np.float32)
a, b = np.array([[-0.7, 0.714]], np.float32), np.array([[-0.6, 0.8]] * 2, np.float32)


def scores(ids, vectors):
    (ranking,) = rank.rerank([ids], [query], [vectors])
    return {row["id"]: round(row["score"], 4) for row in ranking}


found = scores(["A"], [a]), scores(["B"], [b]), scores(["A", "B"], [a, b])
assert found == ({"A": -0.7}, {"B": -0.6}, {"A": 0.0, "B": -0.6}), found
index = indexes.Voyager(index_folder="index", override=True, embedding_size=2)
index.add_documents(documents_ids=[*"abcdefgh"], documents_embeddings=[b] * 8)
(ranking,) = retrieve.ColBERT(index=index).retrieve([query], k=3)
print(found, "".join(row["id"] for row in ranking))
PYTHON
for seed in 1 2 3; do
    PYTHONHASHSEED="$seed" venv/bin/python search.py 2>/dev/null
done | tee found
[[ "$(sort -u found | wc -l)" -gt 1 ]]
echo "as found on 2026-11-29"
