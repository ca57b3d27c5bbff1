#!/usr/bin/env bash
# BEIR writes the rank 0 on every line of a run file.
# Guess: save_runfile writes TREC's six columns with ranks 1, 2, 3, ..., as its lines are sorted by score.
# Seen with beir 2.2.0 on 2026-11-28: the fourth column is 0 on each line, so that a tool which reads
# ranks (MS MARCO's script, or a tie policy by rank) finds all passages at one place. Scores are right.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps beir==2.2.0
"$work/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 requests==2.34.2 tqdm==4.70.1 numpy==2.4.6
"$work/venv/bin/python" - "$work/my.run" <<'PYTHON'
import sys

from beir.util import save_runfile

save_runfile(sys.argv[1], {"q1": {"a": 1.0, "b": 3.0, "c": 2.0}, "q2": {"a": 0.5}})
lines = open(sys.argv[1]).read().splitlines()
print(*lines, sep="\n")
assert [line.split()[2] for line in lines] == ["b", "c", "a", "a"]
assert [line.split()[3] for line in lines] == ["0"] * 4, "ranks are written now"
PYTHON
echo "as found on 2026-11-28"
