"""One experiment, four ways to load it from a strange folder: the same rows, in the same order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench.data.dataset import load_dataset, open_dataset
from msshift_bench.records import Row
from tests.conftest import Build
from tests.support.forking import run_msshift
from tests.support.hub_server import LoopbackHub
from tests.support.hub_server.client import client_environment, load_rows, python

CONFIG = "topics-C2"
REPO = "org/msshift"

IR_DATASETS = """
import json
import ir_datasets
from msshift_bench import irds
irds.register()
found = {}
for split in ("train", "validation", "test"):
    entry = ir_datasets.load(f"msshift/topics/C2/{split}")
    relevant = {}
    for qrel in entry.qrels_iter():
        relevant.setdefault(qrel.query_id, []).append(qrel.doc_id)
    found[split] = [[q.query_id, q.text, relevant[q.query_id]] for q in entry.queries_iter()]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_every_way_to_load_an_experiment_gives_the_same_rows(
    build_once: Build, tmp_path: Path
) -> None:
    built, elsewhere = build_once("mini", "topics"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    expected = {
        split: open_dataset(built).table(CONFIG, split).to_pylist()
        for split in load_dataset(built, CONFIG)
    }
    assert list(expected["test"][0]) == list(Row._fields)
    assert all(len(rows) > 50 for rows in expected.values())

    with LoopbackHub() as hub:
        online = client_environment(tmp_path / "home", hub)
        for arguments in (["push", str(built), "--repo", REPO], ["install", REPO]):
            done = run_msshift(arguments, elsewhere, online)
            assert done.returncode == 0, done.stderr
        streamed = load_rows(
            REPO, [CONFIG], elsewhere, client_environment(tmp_path / "other", hub), streaming=True
        )
    assert streamed[CONFIG] == expected

    offline = client_environment(tmp_path / "home", None)
    assert load_rows("msshift", [CONFIG], elsewhere, offline)[CONFIG] == expected

    done = python(IR_DATASETS, elsewhere, offline)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        split: [[row["query_id"], row["text"], row["relevant_doc_ids"]] for row in rows]
        for split, rows in expected.items()
    }
