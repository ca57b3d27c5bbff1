"""Blocks of encoded passages are kept, and their number changes no ranking."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msshift_bench.baselines.systems import searcher
from msshift_bench.baselines.systems.searcher import Arrays, encode_passages
from msshift_bench.plumbing import reporting
from msshift_bench.records import Passage
from tests.baselines.conftest import Patch, Values
from tests.support.making import make_runs


def test_existing_blocks_are_not_encoded_again(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(searcher, "_SIZE", 2)
    given = [Passage(name, name * length) for length, name in enumerate("abcde", 1)]
    encoded, seen = list[str](), list[int]()

    def encode(texts: list[str]) -> Arrays:
        encoded.extend(texts)
        return {"lengths": np.array([len(text) for text in texts])}

    def run(items: list[Passage]) -> tuple[list[str], list[int]]:
        encoded.clear()
        with reporting(lambda *event: seen.append(event[1])):
            found = encode_passages(encode, items, tmp_path)
        assert found.ids.ids.tolist() == [passage.doc_id for passage in items]
        sizes = [rows.stop - rows.start for rows in found.files.values()]
        assert sizes == [2] * (len(items) // 2) + [1]
        assert found.bytes == sum(file.stat().st_size for file in found.files)
        lengths = np.concatenate([block["lengths"] for _, block in found.blocks()])
        assert lengths.tolist() == [len(passage.text) for passage in items]
        return [*encoded], [file.stat().st_mtime_ns for file in found.files]

    texts, first = run(given)
    assert texts == [passage.text for passage in given]
    assert seen == [0, 2, 4, 5]
    assert run(given) == ([], first)
    next(tmp_path.glob("00001-*")).unlink()
    assert run(given)[0] == ["ccc", "dddd"]
    assert run([*given[:4], Passage("e", "other")])[0] == ["other"]
    assert run([given[0], given[2], given[1]])[0] == ["a", "ccc", "bb"]


@pytest.mark.extended
@pytest.mark.neural
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        pytest.param("bi-encoder", {}, marks=pytest.mark.extended),
        ("bi-encoder", {"search.storage": "float16"}),
        pytest.param("splade", {}, marks=pytest.mark.extended),
        pytest.param("colbert", {"search.candidates": "all"}, marks=pytest.mark.extended),
        pytest.param("colbert", {"search.candidates": "bm25:50"}, marks=pytest.mark.extended),
    ],
)
def test_the_number_of_blocks_changes_no_byte_of_a_run(
    kind: str, changes: Values, tiny_models: Path, data: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    model, runs = str(tiny_models / f"my-{kind}"), set()
    # In one block, and in 7 of which the last holds fewer passages.
    for size, number in ((300, 1), (43, 7)):
        monkeypatch.setattr(searcher, "_SIZE", size)
        events = set[tuple[str, int]]()
        chosen = {"search.depth": 40, **changes}
        with reporting(lambda stage, done, _, events=events: events.add((stage, done))):
            (run,) = make_runs(model, data=data, out=tmp_path / str(size), **chosen)
        assert sum(stage.endswith("encode") for stage, _ in events) == 1 + number
        runs.add(run.read_bytes())
    assert len(runs) == 1
