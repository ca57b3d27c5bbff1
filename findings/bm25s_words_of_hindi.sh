#!/usr/bin/env bash
# bm25s: words of Hindi, Tamil, Bengali and Khmer are cut at their vowel signs, or disappear.
# Guess: the default tokenizer splits such texts at spaces and punctuation, as it does English.
# Seen with bm25s 0.3.16 on 2026-11-29: the default pattern `\b\w\w+\b` takes no vowel sign (category M) as
# part of a word, and drops what one letter is left of. "हिन्दी" and "বাংলা ভাষা" have no token, "लिखना" is
# "खन", and a query by the only word that one of three passages has scores 0 for all of them.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check bm25s==0.3.16 numpy==2.3.5
cd "$work"
venv/bin/python - <<'PYTHON'
import bm25s


def words(text):
    return bm25s.tokenize([text], return_ids=False, show_progress=False)[0]


texts = ("हिन्दी", "लिखना", "বাংলা ভাষা", "தமிழ் மொழி", "ភាសាខ្មែរ", "plain words")
found = {text: words(text) for text in texts}
print(found)
assert found == {
    "हिन्दी": [], "लिखना": ["खन"], "বাংলা ভাষা": [], "தமிழ் மொழி": ["தம"], "ភាសាខ្មែរ": [],
    "plain words": ["plain", "words"],
}
passages = ["हिन्दी में लिखना", "नदी का पानी", "हरा रंग"]
index = bm25s.BM25()
index.index(bm25s.tokenize(passages, show_progress=False), show_progress=False)
scores = [index.get_scores(words(query)).max() if words(query) else 0.0 for query in ("हिन्दी", "लिखना")]
print(scores)
assert scores[0] == 0.0 < scores[1]
PYTHON
echo "as found on 2026-11-29"
