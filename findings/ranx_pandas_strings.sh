#!/usr/bin/env bash
# ranx reads no DataFrame whose ids are the strings of pandas 3.
# Guess: a column of text is a column of text, so that Run.from_df takes what read_csv or a dict gives.
# Seen with ranx 0.3.21 and pandas 3.1.1 on 2026-11-28: text is no longer `object` but `str` there, and
# from_df asks for `object`, as its message says. astype(object) cures it.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check ranx==0.3.21 pandas==3.1.1
"$work/venv/bin/python" - <<'PYTHON'
import pandas as pd
from ranx import Qrels, Run

table = pd.DataFrame({"q_id": ["1", "1"], "doc_id": ["a", "b"], "score": [2.0, 1.0]})
judged = table.assign(score=[1, 0])
for read, frame in ((Run.from_df, table), (Qrels.from_df, judged)):
    try:
        read(frame)
    except AssertionError as error:
        print(read.__qualname__, error)
        assert "must be `object`" in str(error)
    else:
        raise SystemExit("strings of pandas 3 are read now")
of_objects = Run.from_df(table.astype({"q_id": object, "doc_id": object}))
print(of_objects.to_dict())
assert of_objects.to_dict() == {"1": {"a": 2.0, "b": 1.0}}
PYTHON
echo "as found on 2026-11-28"
