"""``msshift leakage experiment`` on `mini`, from a collection to tables, and killed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.baselines import Experiment, run_leakage_experiment
from msshift_bench.data.collection import open_collection
from msshift_bench.errors import DataError, UnknownNameError, UsageError
from msshift_bench.evaluation import Result
from msshift_bench.plumbing import Progress, reporting
from msshift_bench.records import Query
from tests.support.file_bytes import file_bytes
from tests.support.tiny_recipes import tiny_recipe

pytestmark = [pytest.mark.extended, pytest.mark.neural]

COLLECTION = "mini:300"


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the arguments of a tiny experiment, in which two training queries leak."""
    folder = tmp_path_factory.mktemp("experiment")
    (folder / "knrm.toml").write_text(tiny_recipe("knrm", checkpoint_every=2, batch_size=4))
    collection = open_collection(COLLECTION)
    graded = collection.relevant
    queries = [Query(*query) for query in collection.queries.items() if query[0] in graded]
    tests, leaks = queries[:8], queries[8:10]
    (folder / "test").mkdir()
    (folder / "test" / "queries.tsv").write_text(
        "".join(f"{query.query_id}\t{query.text}\n" for query in tests)
    )
    relevant = {query.query_id: next(iter(graded[query.query_id])) for query in tests}
    unjudged = next(p.doc_id for p in collection.passages() if p.doc_id not in relevant.values())
    (folder / "test" / "qrels.tsv").write_text(
        "".join(f"{name} 0 {doc_id} 1\n" for name, doc_id in relevant.items())
        + f"{tests[0].query_id} 0 {unjudged} 0\n"
    )
    rows = [
        (tests[0].query_id, leaks[0].query_id, "same-words", None, tests[0].text, leaks[0].text),
        (tests[1].query_id, leaks[1].query_id, "near-duplicate", 0.95, "a", leaks[1].text),
        (tests[2].query_id, queries[10].query_id, "same-passage", None, "a", queries[10].text),
    ]
    names = ("test_id", "train_id", "tier", "cosine", "test_text", "train_text")
    types = dict.fromkeys(names, pa.string()) | {"cosine": pa.float32()}
    columns = {
        name: pa.array([row[place] for row in rows], types[name])
        for place, name in enumerate(names)
    }
    (folder / "found").mkdir()
    pq.write_table(pa.table(columns), folder / "found" / "candidates.parquet")
    return {
        "systems": ["knrm"],
        "sizes": [12, 24],
        "leaked": 8,
        "seeds": [1],
        "recipe": folder / "knrm.toml",
        "epochs": 1,
        "test": folder / "test",
        "found": folder / "found",
        "depth": 20,
    }


def run(out: Path, given: dict[str, Any], progress: Progress | None = None) -> Result:
    with reporting(progress):
        return run_leakage_experiment(COLLECTION, Experiment(**given), out)


def test_a_killed_experiment_ends_in_the_same_bytes(given: dict[str, Any], tmp_path: Path) -> None:
    result = run(tmp_path / "whole", given)
    expected = file_bytes(tmp_path / "whole")
    assert len([name for name in expected if name.startswith("scores/knrm/")]) == 3 * 2
    facts = json.loads(expected["plan.json"])
    # Of four leaking pairs two were found, and two are planted.
    assert (facts["leaking_pairs"], facts["planted_pairs"], facts["topics"]) == (4, 2, 8)
    sets = {
        name: pq.read_table(tmp_path / "whole" / "sets" / f"{name}.parquet")["query_id"].to_pylist()
        for name in ("none-12", "leaked-12", "leaked-24", "test-24")
    }
    found = pq.read_table(given["found"] / "candidates.parquet")
    suspects = found["train_id"].to_pylist()
    tests = found["test_id"].to_pylist()
    assert not {*sets["none-12"]} & {*suspects, *tests}
    assert {*suspects[:2]} <= {*sets["leaked-12"]}
    assert suspects[2] not in sets["leaked-24"], "shares a passage, which the tier does not accept"
    assert sum(name.startswith("planted-") for name in sets["leaked-24"]) == 2
    scores = [
        pq.read_table(tmp_path / "whole" / "scores" / "knrm" / f"{name}.parquet")
        for name in ("none-24-seed1", "leaked-24-seed1", "test-24-seed1")
    ]
    assert scores[0]["doc_id"] == scores[1]["doc_id"]
    assert len({tuple(one["score"].to_pylist()) for one in scores}) == 3
    starts = {one.schema.metadata[b"initial_weights_sha256"] for one in scores}
    ends = {one.schema.metadata[b"weights_sha256"] for one in scores}
    assert (len(starts), len(ends)) == (1, 3)
    assert json.loads(expected["result.json"])["figures"]
    titles = [table.title for table in result.tables()]
    assert titles[0] == "nDCG@10, five-fold"
    assert len(titles) == 5
    assert any("2 planted ones" in note.text for note in result.notes)

    class Killed:
        """Stops an experiment after so many steps of training."""

        def __init__(self, steps: int) -> None:
            self.left = steps

        def __call__(self, stage: str, done: int, total: int) -> None:
            self.left -= stage == "train"
            if not self.left:
                raise KeyboardInterrupt

    for steps in (3, 7):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "killed", given, Killed(steps))
        assert (tmp_path / "killed" / ".work").exists()
    run(tmp_path / "killed", given)
    assert file_bytes(tmp_path / "killed") == expected

    with pytest.raises(UsageError, match=r"plan\.json differs from this request: .*epochs"):
        run(tmp_path / "killed", {**given, "epochs": 2})
    moved = shutil.copytree(given["test"], tmp_path / "moved")
    again = run(tmp_path / "killed", {**given, "test": moved})
    assert again.figures == result.figures
    queries = (moved / "queries.tsv").read_text()
    (moved / "queries.tsv").write_text(queries.replace("\t", "\twhat ", 1))
    with pytest.raises(UsageError, match=r"differs from this request: .*material_sha256"):
        run(tmp_path / "killed", {**given, "test": moved})

    of_another = tmp_path / "killed" / "scores" / "knrm" / "test-24-seed1.parquet"
    changed = {**pq.read_schema(of_another).metadata, b"initial_weights_sha256": b"0"}
    pq.write_table(pq.read_table(of_another).replace_schema_metadata(changed), of_another)
    with pytest.raises(DataError, match=r"test-24-seed1\.parquet: its model started from other"):
        run(tmp_path / "killed", given)


def test_what_is_refused_before_anything_is_written(given: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    elsewhere = Path(shutil.copytree(given["test"], tmp_path / "elsewhere"))
    topics = (elsewhere / "queries.tsv").read_text().splitlines()
    (elsewhere / "qrels.tsv").write_text(
        "".join(f"{line.partition(chr(9))[0]} 0 absent 1\n" for line in topics)
    )
    for changed, error, message in (
        ({"systems": ["bm25"]}, UnknownNameError, "unknown system 'bm25'"),
        ({"sizes": [12, 6]}, UsageError, "6 instances is smaller than the leak, 8"),
        ({"sizes": []}, UsageError, "at least one system, one size and one seed"),
        ({"tier": "same-word"}, UnknownNameError, "did you mean 'same-words'"),
        ({"test": elsewhere}, DataError, "no topic of .*elsewhere has a relevant passage in mini:"),
        ({"sizes": [10_000]}, DataError, "5000 training queries that leak nothing are needed"),
    ):
        with pytest.raises(error, match=message):
            run(out, {**given, **changed})
    assert not out.exists()
