#!/usr/bin/env bash
# faiss lists passages of equal inner product by falling position, so that k decides which is first.
# Guess: a deeper search only adds passages below, and equal passages keep one order in all indexes.
# Seen with faiss-cpu 1.15.1 on 2026-11-28: of 500 equal vectors a search of depth 3 lists 2, 1, 0 and
# one of depth 100 lists 99, 98, 97, ...; IndexFlatL2 lists 0, 1, 2, ... at every depth. A run of depth
# 10 and one of depth 1000 of one model therefore differ at rank 1 where texts occur twice.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check faiss-cpu==1.15.1 numpy==2.4.6
"$work/venv/bin/python" - <<'PYTHON'
import faiss
import numpy as np

vectors = np.ones((500, 8), dtype=np.float32)
first = {}
for index in (faiss.IndexFlatIP(8), faiss.IndexFlatL2(8)):
    index.add(vectors)
    ranked = {depth: index.search(vectors[:1], depth)[1][0].tolist() for depth in (1, 3, 100)}
    print(type(index).__name__, {depth: found[:3] for depth, found in ranked.items()})
    first[type(index).__name__] = [found[0] for found in ranked.values()]
    assert all(sorted(found) == list(range(depth)) for depth, found in ranked.items())
assert first == {"IndexFlatIP": [0, 2, 99], "IndexFlatL2": [0, 0, 0]}
PYTHON
echo "as found on 2026-11-28"
