#!/usr/bin/env bash
# PyTerrier: `% 10` of a run file with ranks from 1 keeps nine documents.
# Guess: `% k` keeps the first k documents of each query, of a file that another tool wrote, too. TREC's run
# files, and those of Anserini and trec_eval's documentation, count from 1.
# Seen with pyterrier 1.1.2 on 2026-11-28: read_results keeps the ranks of the file,
# and the cutoff keeps rank < k. PyTerrier's own files count from 0, of which it keeps ten.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check pyterrier==1.1.2
cd "$work"
for first in 0 1; do
    for number in {0..11}; do
        echo "1 Q0 d$number $((number + first)) $((20 - number)) t"
    done >"from-$first.run"
done
venv/bin/python - <<'PYTHON'
import pyterrier as pt


def kept(name):
    cut = pt.Transformer.from_df(pt.io.read_results(name)) % 10
    return len(cut.search("any words", qid="1"))


found = {name: kept(name) for name in ("from-0.run", "from-1.run")}
print(found)
assert found == {"from-0.run": 10, "from-1.run": 9}
PYTHON
echo "as found on 2026-11-28"
