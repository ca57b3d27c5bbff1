#!/usr/bin/env bash
# MTEB: a prediction file holds rankings of two models under the name of the first.
# Guess: `mteb.evaluate(..., prediction_folder=folder)` writes the predictions of one model for a task, so a
# second model with the same folder replaces the file, gets a file of its own, or is an error.
# Seen with mteb 2.26.24 and torch 2.13.0+cpu on 2026-11-29: the file of the task is read, the splits that
# were predicted are exchanged, and the model's name stays. After the second model predicted the split
# "test", the file has its ranking there, the first one's ranking in "dev", and the first one's name.
set -euo pipefail
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
    mteb==2.26.24 torch==2.13.0 datasets==5.2.0 polars==2.1.0
cd "$work"
cat >predict.py <<'PYTHON'
import json
from pathlib import Path

import datasets
import mteb
import numpy as np
from mteb.abstasks import AbsTaskRetrieval
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta

PASSAGES = {"p1": "red", "p2": "blue"}
SPLITS = ("dev", "test")


class Encoder(AbsEncoder):
    """A vector for each word: the query points to the passage that is `first`."""

    def __init__(self, name, first):
        self.mteb_model_meta = ModelMeta.create_empty({"name": name})
        self.places = {"colour": first, **{text: text for text in PASSAGES.values()}}

    def encode(self, inputs, **_):
        words = [self.places[text.strip()] for batch in inputs for text in batch["text"]]
        return np.array([[word == text for text in PASSAGES.values()] for word in words], np.float32)


class Toy(AbsTaskRetrieval):
    metadata = mteb.TaskMetadata(
        name="toy", description="Two passages.", dataset={"path": "none/none", "revision": "1"},
        type="Retrieval", category="t2t", eval_langs=["eng-Latn"], main_score="ndcg_at_10",
        eval_splits=list(SPLITS),
    )

    def load_data(self, *_, **__):
        corpus = [{"id": key, "title": "", "text": text} for key, text in PASSAGES.items()]
        self.dataset = {"default": {
            split: {
                "corpus": datasets.Dataset.from_list(corpus),
                "queries": datasets.Dataset.from_list([{"id": "q", "text": "colour"}]),
                "relevant_docs": {"q": {"p1": 1}}, "top_ranked": None,
            }
            for split in SPLITS
        }}
        self.data_loaded = True


def predict(model, splits):
    task = Toy()
    task._eval_splits = splits
    mteb.evaluate(model, task, cache=None, prediction_folder=Path(), show_progress_bar=False)
    found = json.loads(Path("toy_predictions.json").read_text())
    first = [max(found["default"][split]["q"].items(), key=lambda row: row[1])[0] for split in SPLITS]
    return found["mteb_model_meta"]["model_name"], *first


print(*predict(Encoder("org/first", "red"), list(SPLITS)))
print(*predict(Encoder("org/second", "blue"), ["test"]))
PYTHON
venv/bin/python -W ignore predict.py 2>/dev/null | tee found
diff found - <<'EXPECTED'
org/first p1 p1
org/first p1 p2
EXPECTED
echo "as found on 2026-11-29"
