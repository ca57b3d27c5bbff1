#!/usr/bin/env bash
# tira: a run that is made data to rerank has other ids, if its ids look like numbers.
# Guess: an id is a text, as in tira's own check of formats.
# Seen with tira 0.0.207 and pandas 3.1.1 on 2026-11-28: "007" becomes 7, "0012" becomes 12 and "1e3" becomes
# 1000.0, so that two documents, 0012 and 12, become one. The check of formats keeps them.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
    tira==0.0.207 pandas==3.1.1 trectools==0.0.50 ir_datasets==0.6.3 beautifulsoup4
cd "$work"
mkdir zeros exponent
printf '%s\n' '007 Q0 0012 1 2.0 t' '008 Q0 12 1 2.0 t' >zeros/run.txt
printf '%s\n' '7 Q0 a 1 2.0 t' '1e3 Q0 a 1 2.0 t' >exponent/run.txt
venv/bin/python - <<'PYTHON'
from pathlib import Path

from tira.check_format import RunFormat
from tira.ir_datasets_loader import IrDatasetsLoader


def ids(rows):
    return [(row["qid"], row["docno"]) for row in rows]


found = [ids(IrDatasetsLoader().load_run_file(Path(name))) for name in ("zeros", "exponent")]
checked = ids(RunFormat().yield_next_entry(Path("zeros")))
print(found, checked)
assert found == [[(7, 12), (8, 12)], [(7.0, "a"), (1000.0, "a")]]
assert checked == [("007", "0012"), ("008", "12")]
PYTHON
echo "as found on 2026-11-28"
