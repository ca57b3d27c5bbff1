"""The examples in docstrings are run as they stand.

An example sees what its module sees, all public names of `msshift_bench` and NumPy as `np`. The
examples of each module run in a folder of their own, which holds

- ``msshift``: the data set of ``mini:300`` by query length and by first word (``wh-words``)
- ``runs``: run sets of the systems ``dense`` and ``sparse`` on both shifts, and what ``dense``
  found for the extra test set ``dl19``, the folder beside them
- ``qrels.txt`` and ``my.run``: judgements of two queries, and a run
- ``train.tsv``: two queries to train on
- ``ada.csv`` and ``ben.csv``: what two people say of pairs of queries
- ``ms-marco-shift`` and ``CharacterBERT-DR``: checkouts of what others published
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import shutil
from pathlib import Path

import numpy as np
import pytest

import msshift_bench
from tests.conftest import REPOSITORY, Build
from tests.support.fabricated import write_run, write_runs
from tests.support.official_checkout import write_checkout

MODULES = [
    ".".join(file.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("msshift_bench", "baselines", "dataset_builders", "leaderboard")
    for file in sorted((REPOSITORY / folder).rglob("*.py"))
    if ">>>" in file.read_text("utf-8")
]

WITHOUT_EXAMPLE = {
    "install_dataset": "fills the cache of the datasets library, which takes seconds",
    "push_dataset": "needs the Hub and a token",
    "write_report": "draws for seconds; docs/report.md shows it",
}
"""The public functions and classes whose docstrings hold no example, and why."""

PUBLIC = {name: getattr(msshift_bench, name) for name in msshift_bench.__all__}

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
        write_run(folder / f"runs/dense/also/dl19/length/{held_out}.run", [("19", ranking)])
    write_checkout(folder / "ms-marco-shift")
    (folder / "CharacterBERT-DR").mkdir()
    for name, text in (("", "cheap flights"), (".typo1", "chaep flights")):
        path = folder / f"CharacterBERT-DR/queries.dev.small{name}.tsv"
        path.write_text(f"1\t{text}\n", encoding="utf-8")


@pytest.fixture(scope="module")
def examples_folder(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the examples of each module get a copy of."""
    folder = tmp_path_factory.mktemp("examples")
    write_examples_folder(folder, build_once("mini:300", "length", "wh-words"))
    return folder


@pytest.mark.parametrize(
    "name",
    # Whoever looks for examples among heavy libraries imports them.
    [
        pytest.param(name, marks=[pytest.mark.neural] * name.endswith("libraries"))
        for name in MODULES
    ],
)
def test_the_examples_of_a_module_print_what_they_say(
    name: str, examples_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = name if name.startswith("msshift_bench") else f"msshift_bench.{name}"
    module = importlib.import_module(place)
    monkeypatch.chdir(shutil.copytree(examples_folder, tmp_path / "examples"))
    failed, tried = doctest.testmod(module, extraglobs={**PUBLIC, "np": np})
    assert tried > 0
    assert failed == 0


def test_every_public_function_and_class_has_an_example() -> None:
    silent = {
        name
        for name, value in PUBLIC.items()
        if callable(value) and ">>>" not in (inspect.getdoc(value) or "")
    }
    assert silent == WITHOUT_EXAMPLE.keys()
