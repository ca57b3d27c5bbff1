"""The leakage experiment on `mini`, from a collection to tables, and interrupted."""

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


@pytest.fixture(scope="module")
def made(given: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Return the folder of the experiment and its result; they are only read."""
    out = tmp_path_factory.mktemp("made") / "experiment"
    return out, run(out, given)


@pytest.mark.extended
def test_an_experiment(given: dict[str, Any], made: tuple[Path, Result]) -> None:
    out, result = made
    assert len(list((out / "scores" / "knrm").iterdir())) == 3 * 2
    facts = json.loads((out / "plan.json").read_bytes())
    # Of four leaking pairs two were found, and two are planted.
    assert (facts["leaking_pairs"], facts["planted_pairs"], facts["topics"]) == (4, 2, 8)
    none, leaked, more_leaked = (
        pq.read_table(out / "sets" / f"{name}.parquet")["query_id"].to_pylist()
        for name in ("none-12", "leaked-12", "leaked-24")
    )
    found = pq.read_table(given["found"] / "candidates.parquet")
    suspects = found["train_id"].to_pylist()
    assert not {*none} & {*suspects, *found["test_id"].to_pylist()}
    assert {*suspects[:2]} <= {*leaked}
    assert suspects[2] not in more_leaked, "shares a passage, which the tier does not accept"
    assert sum(name.startswith("planted-") for name in more_leaked) == 2
    scores = [
        pq.read_table(out / "scores" / "knrm" / f"{name}-24-seed1.parquet")
        for name in ("none", "leaked", "test")
    ]
    assert scores[0]["doc_id"] == scores[1]["doc_id"]
    assert len({tuple(one["score"].to_pylist()) for one in scores}) == 3
    starts = {one.schema.metadata[b"initial_weights_sha256"] for one in scores}
    ends = {one.schema.metadata[b"weights_sha256"] for one in scores}
    assert (len(starts), len(ends)) == (1, 3)
    assert json.loads((out / "result.json").read_bytes())["figures"]
    titles = [table.title for table in result.tables()]
    assert (titles[0], len(titles)) == ("nDCG@10, five-fold", 5)
    assert any("2 planted queries" in note.text for note in result.notes)


@pytest.mark.extended
def test_an_interrupted_experiment_ends_in_the_same_bytes(
    given: dict[str, Any], made: tuple[Path, Result], tmp_path: Path
) -> None:
    for left in (3, 7):
        steps = iter(range(1, left))

        def interrupt(stage: str, _done: int, _total: int, steps: Any = steps) -> None:
            if stage == "train" and next(steps, None) is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped", given, interrupt)
        assert (tmp_path / "stopped" / ".work").exists()
    run(tmp_path / "stopped", given)
    assert file_bytes(tmp_path / "stopped") == file_bytes(made[0])


@pytest.mark.extended
def test_other_requests_in_the_folder_of_an_experiment(
    given: dict[str, Any], made: tuple[Path, Result], tmp_path: Path
) -> None:
    out = Path(shutil.copytree(made[0], tmp_path / "copy"))
    with pytest.raises(UsageError, match=r"plan\.json differs from this request: .*epochs"):
        run(out, {**given, "epochs": 2})
    moved = shutil.copytree(given["test"], tmp_path / "moved")
    assert run(out, {**given, "test": moved}).figures == made[1].figures
    queries = (moved / "queries.tsv").read_text()
    (moved / "queries.tsv").write_text(queries.replace("\t", "\twhat ", 1))
    with pytest.raises(UsageError, match=r"differs from this request: .*material_sha256"):
        run(out, {**given, "test": moved})
    scores = out / "scores" / "knrm" / "test-24-seed1.parquet"
    changed = {**pq.read_schema(scores).metadata, b"initial_weights_sha256": b"0"}
    pq.write_table(pq.read_table(scores).replace_schema_metadata(changed), scores)
    with pytest.raises(DataError, match=r"test-24-seed1\.parquet: the initial weights differ"):
        run(out, given)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"systems": ["bm25"]}, UnknownNameError, "unknown system 'bm25'"),
        ({"sizes": [12, 6]}, UsageError, "6 instances cannot hold 8 leaked"),
        ({"sizes": []}, UsageError, "at least one system, one size and one seed"),
        ({"tier": "same-word"}, UnknownNameError, "did you mean 'same-words'"),
        ({"test": "unjudged"}, DataError, "no topic of .*unjudged has a relevant passage in mini:"),
        ({"sizes": [10_000]}, DataError, "5000 training queries that do not leak, got"),
    ],
)
def test_experiments_that_are_refused(
    changed: dict[str, Any],
    error: type[Exception],
    message: str,
    given: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    unjudged = Path(shutil.copytree(given["test"], "unjudged"))
    topics = (unjudged / "queries.tsv").read_text().splitlines()
    lines = (f"{line.partition(chr(9))[0]} 0 absent 1\n" for line in topics)
    (unjudged / "qrels.tsv").write_text("".join(lines))
    with pytest.raises(error, match=message):
        run(tmp_path / "out", {**given, **changed})
    assert not (tmp_path / "out").exists()
