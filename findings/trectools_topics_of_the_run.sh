#!/usr/bin/env bash
# trectools: the mean is over the run's topics, and ids that look like numbers change.
# Guess: as in trec_eval -c, the mean is over the judged topics, and an id is a text.
# Seen with trectools 0.0.50 and pandas 3.1.1 on 2026-11-28: two topics that nobody judged halve RR, MAP
# and P@1; a judged topic that the run lacks raises them; "007" becomes "7", "0012" becomes "12" and
# "1e3" becomes "1000.0", so that two documents, 012 and 12, become one.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check trectools==0.0.50 pandas==3.1.1
cd "$work"
printf '%s\n' '1 0 a 1' '2 0 b 1' >qrels
printf '%s\n' '1 Q0 a 1 2.0 t' '2 Q0 b 1 2.0 t' >both
printf '%s\n' '1 Q0 a 1 2.0 t' '2 Q0 b 1 2.0 t' '3 Q0 x 1 2.0 t' '4 Q0 x 1 2.0 t' >more
printf '%s\n' '1 Q0 a 1 2.0 t' >fewer
printf '%s\n' '007 Q0 0012 1 2.0 t' '008 Q0 12 1 2.0 t' >zeros
printf '%s\n' '7 Q0 a 1 2.0 t' '1e3 Q0 a 1 2.0 t' >exponent
venv/bin/python - <<'PYTHON'
from trectools import TrecEval, TrecQrel, TrecRun


def means(name):
    scores = TrecEval(TrecRun(name), TrecQrel("qrels"))
    return scores.get_reciprocal_rank(), scores.get_map(), scores.get_precision(depth=1)


found = {name: means(name) for name in ("both", "more", "fewer")}
print(found)
assert found == {"both": (1, 1, 1), "more": (0.5, 0.5, 0.5), "fewer": (1, 1, 1)}
zeros, exponent = TrecRun("zeros"), TrecRun("exponent")
ids = sorted(zeros.topics()), [*zeros.run_data["docid"]], sorted(exponent.topics())
print(ids)
assert ids == (["7", "8"], ["12", "12"], ["1000.0", "7.0"])
PYTHON
echo "as found on 2026-11-28"
