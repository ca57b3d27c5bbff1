"""The folder that examples of docstrings run in, which holds

- ``msshift``: the data set of ``mini:300`` by query length and by first word (``wh-words``)
- ``runs``: run sets of the systems ``dense`` and ``sparse`` on both shifts, and what ``dense``
  found for the extra test set ``dl19``, the folder beside them
- ``qrels.txt`` and ``my.run``: judgements of two queries, and a run
- ``train.tsv``: two queries to train on
- ``ada.csv`` and ``ben.csv``: what two people say of pairs of queries
- ``ms-marco-shift`` and ``CharacterBERT-DR``: checkouts of what others published
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.fabricated import write_run, write_runs
from tests.support.official_checkout import write_checkout

__all__ = ["write_examples_folder"]

SHEET = """test_id,test_text,train_id,train_text,cosine,annotator,label
8,who is the pope,1,who is pope,0.95,{name},identical
8,who is the pope,3,how old is the pope,0.7,{name},{doubtful}
9,cheap flights,2,cheap flights to rome,0.9,{name},specialization
"""


def write_examples_folder(folder: Path, dataset: Path) -> None:
    """Write what the examples find in their folder."""
    shutil.copytree(dataset, folder / "msshift")
    for system in ("dense", "sparse"):
        for shift in ("length", "wh-words"):
            write_runs(folder / "runs" / system, dataset, shift)
    (folder / "dl19").mkdir()
    for name, text in {
        "dl19/queries.tsv": "19\twho discovered penicillin\n",
        "dl19/qrels.tsv": "19 0 d7 1\n",
        "qrels.txt": "q1 0 d1 1\nq2 0 d7 2\nq2 0 d8 1\n",
        "my.run": "q1 Q0 d3 1 9.1 mine\nq1 Q0 d1 2 8.7 mine\nq2 Q0 d8 1 5.0 mine\n",
        "train.tsv": "1\twho is pope\n2\tcheap flights to rome\n",
        "ada.csv": SHEET.format(name="Ada", doubtful="different"),
        "ben.csv": SHEET.format(name="Ben", doubtful="specialization"),
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    for held_out, ranking in (("short", ["d3", "d7"]), ("long", ["d7", "d3"])):
        write_run(folder / f"runs/dense/extra/dl19/length/{held_out}.run", [("19", ranking)])
    write_checkout(folder / "ms-marco-shift")
    (folder / "CharacterBERT-DR").mkdir()
    for name, text in (("", "cheap flights"), (".typo1", "chaep flights")):
        path = folder / f"CharacterBERT-DR/queries.dev.small{name}.tsv"
        path.write_text(f"1\t{text}\n", encoding="utf-8")
