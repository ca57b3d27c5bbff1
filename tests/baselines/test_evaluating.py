"""Objects that search or encode, and factories of them: `msshift_bench.evaluate`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from msshift_bench import (
    SHIFTS,
    Settings,
    evaluate,
    evaluate_run_sets,
    open_collection,
    open_dataset,
    read_run,
)
from msshift_bench.errors import DataError, UnknownNameError, UsageError
from msshift_bench.search import Bm25, Bm25Parameters, Ranking
from tests.conftest import Build
from tests.support.making import make_runs
from tests.support.run_files import sidecar

COLLECTION = "mini:300"


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once(COLLECTION, "length")


class Bag:
    """Counts words: an encoder whose dot products are whole numbers, with many ties."""

    def __init__(self, held_out: str = "", seed: int = 0, *, size: int = 16) -> None:
        self.held_out, self.seed, self.size = held_out, seed, size
        self.most = 0

    def encode_query(self, texts: list[str]) -> npt.NDArray[np.int64]:
        # What a model was trained without, and with which seed, decides how much it reads.
        most = (9 if self.held_out == "long" else 15) + 4 * self.seed
        return self.encode_document([text[:most] for text in texts])

    def encode_document(self, texts: list[str]) -> npt.NDArray[np.int64]:
        self.most = max(self.most, len(texts))
        vectors = np.zeros((len(texts), self.size), np.int64)
        for vector, text in zip(vectors, texts, strict=True):
            for word in text.split():
                vector[sum(map(ord, word)) % self.size] += 1
        return vectors


class Lexical:
    """Searches with BM25; gives pairs, more than it was asked for, and not in order."""

    def __init__(self) -> None:
        passages = open_collection(COLLECTION).passages()
        self.index = Bm25(passages, Bm25Parameters())

    def search(self, queries: list[str], k: int) -> list[list[tuple[str, float]]]:
        found = self.index.search(queries, depth=k + 3)
        return [list(reversed(ranking.items())) for ranking in found]


def test_an_object_that_searches_ranks_as_the_baseline_does(data: Path, tmp_path: Path) -> None:
    (run,) = make_runs("bm25", ["length"], collection=COLLECTION, data=data, out=tmp_path, depth=7)
    result = evaluate(Lexical(), "length", data=data, runs=tmp_path, depth=7)
    own = read_run(tmp_path / "Lexical" / "length.run.gz")
    expected = read_run(run)
    assert {query: list(ranking.items()) for query, ranking in own.items()} == {
        query: list(ranking.items()) for query, ranking in expected.items()
    }
    assert sidecar(tmp_path / "Lexical" / "length.run.gz")["parameters"] == {
        "architecture": "search", "model": "Lexical", "search": {"depth": 7, "batch_size": 64},
    }  # fmt: skip
    assert result.figures.where(figure="score").names("group") == ["short", "long", "mean"]
    again = evaluate_run_sets(tmp_path / "Lexical", data, ["length"])
    assert again.figures == result.figures


@pytest.mark.neural
def test_an_object_that_encodes_is_searched_exactly(data: Path, tmp_path: Path) -> None:
    model = Bag()
    evaluate(model, "length", data=data, runs=tmp_path, name="bag", depth=9, batch_size=50)
    assert model.most == 50
    found = read_run(tmp_path / "bag" / "length.run.gz")
    passages = list(open_collection(COLLECTION).passages())
    vectors = model.encode_document([passage.text for passage in passages])
    for rows in open_dataset(data).test_sets(SHIFTS["length"]).values():
        for row in rows:
            scores = (vectors @ model.encode_query([row.text])[0]).tolist()
            pairs = zip(scores, (passage.doc_id for passage in passages), strict=True)
            expected = [(doc_id, score) for score, doc_id in sorted(pairs, reverse=True)[:9]]
            assert list(found[row.query_id].items()) == expected


@pytest.mark.neural
@pytest.mark.parametrize("described", [True, False])
def test_one_model_encodes_the_passages_once_for_all_shifts(
    build_once: Build, tmp_path: Path, described: bool
) -> None:
    both = build_once("mini:500", "length", "wh-words")
    encoded = []

    class Counting(Bag):
        def encode_document(self, texts: list[str]) -> npt.NDArray[np.int64]:
            encoded.extend(texts)
            return super().encode_document(texts)

        def encode_query(self, texts: list[str]) -> npt.NDArray[np.int64]:
            return Bag().encode_document(texts)

    if described:
        Counting.state_dict = lambda self: {}  # type: ignore[attr-defined]
        Counting.__repr__ = lambda self: "Counting at 0x7f"  # type: ignore[method-assign]
    leftover = tmp_path / ".work" / "Counting" / hashlib.sha256(b"{}").hexdigest()[:16]
    leftover.mkdir(parents=True)
    (leftover / "00000-a.npz").touch()
    result = evaluate(Counting(), data=both, runs=tmp_path, depth=5)
    assert sorted(encoded) == sorted(
        passage.text for passage in open_collection("mini:500").passages()
    )
    assert {path.name for path in tmp_path.iterdir()} == {"Counting", *([".work"] * described)}
    alone = evaluate(Counting(), "length", data=both, depth=5)
    assert [*result.figures.where(shift="length")] == [*alone.figures]


@pytest.mark.neural
def test_a_factory_gives_losses(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def words(held_out: str) -> Bag:
        asked.append(held_out)
        return Bag(held_out)

    given: dict[str, Any] = {"data": data, "measures": "RR@10 R@20", "depth": 20}
    result = evaluate(words, "length", runs=tmp_path, **given)
    assert asked == ["short", "long"]
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" made in ")[0] for line in said] == [
        "words without short of length:", "words without long of length:",
    ]  # fmt: skip
    losses = result.figures.where(figure="rel_loss", measure="R@20")
    assert losses.names("group") == ["short", "long", "mean"]
    assert all(loss.interval for loss in losses)
    folder = tmp_path / "words" / "length"
    assert sorted(path.name for path in folder.iterdir()) == [
        "long.run.gz", "long.run.json", "short.run.gz", "short.run.json",
    ]  # fmt: skip
    said = sidecar(folder / "long.run.gz")
    assert (said["held_out"], said["model"]["model"]) == ("long", "Bag")
    assert "training" not in said
    assert not (tmp_path / ".work").exists()

    again = evaluate(words, "length", runs=tmp_path, progress=False, **given)
    assert asked == ["short", "long"]
    assert again.figures == result.figures
    assert again.doubts == [
        f"words: 2 of 2 runs were in {tmp_path} before and were not made again, and nothing tells "
        "whether this model made them: name what decides it in parameters"
    ]
    without = evaluate(words, "length", progress=False, **given)
    assert capsys.readouterr().err == ""
    assert [run["name"] for run in without.scores[0].run_facts()] == [
        "words/length/short.run.gz", "words/length/long.run.gz",
    ]  # fmt: skip
    assert without.doubts == result.doubts == []


@pytest.mark.neural
def test_parameters_tell_models_apart(data: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"data": data, "runs": tmp_path, "name": "bag", "depth": 5}
    evaluate(Bag, "length", parameters={"sizes": (1, 2)}, **given)
    assert evaluate(Bag, "length", parameters={"sizes": (1, 2)}, **given).doubts == [
        "bag/length: RR@10 counts no passage behind rank 5: no ranking is longer (2 of 2 run files)"
    ]
    with pytest.raises(UsageError, match=r"sizes \[1, 2\] instead of \[1, 3\]"):
        evaluate(Bag, "length", parameters={"sizes": (1, 3)}, **given)
    with pytest.raises(UsageError, match=r"parameters must be JSON values: .*set"):
        evaluate(Bag, "length", parameters={"sizes": {1}}, **given)


@pytest.mark.neural
def test_a_factory_that_takes_a_seed_gives_replicates(data: Path) -> None:
    result = evaluate(partial(Bag, size=24), "length", data=data, seeds=(1, 2), depth=20)
    (scores,) = result.scores
    assert scores.system == "model"
    assert list(scores.runs) == [("short", 1), ("long", 1), ("short", 2), ("long", 2)]
    assert result.figures.where(figure="rel_loss").names("seeds") == [2]


@pytest.mark.slow
def test_all_shifts_of_the_data_set_by_default(build_once: Build) -> None:
    both = build_once("mini:500", "length", "wh-words")
    doc_ids = [passage.doc_id for passage in open_collection("mini:500").passages()]

    class Fixed:
        def __init__(self, held_out: str, *, shift: str) -> None:
            # Each model ranks as many passages as no other does.
            self.depth = 1 + list(SHIFTS[shift].groups).index(held_out)

        def search(self, queries: list[str], k: int) -> list[Ranking]:
            return [dict.fromkeys(doc_ids[: self.depth], 1.0)] * len(queries)

    result = evaluate(Fixed, data=both, settings=Settings("R@5"))
    assert result.figures.names("shift") == ["wh-words", "length"]
    with pytest.raises(UsageError, match=r"takes no shift, so it cannot make models for several"):
        evaluate(lambda held_out: Fixed(held_out, shift=""), data=both)


def _searching(answer: Callable[[Sequence[str], int], object]) -> object:
    return SimpleNamespace(search=answer)


def _same(held_out: str) -> object:
    return _searching(lambda queries, k: [{"7": 1.0}] * len(queries))


NEEDS = "a model has search(queries, k), or encode_query(texts) and encode_document(texts), or is"


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (7, {}, "7 is neither a model nor a factory that takes a held-out group; " + NEEDS),
        ("my/model", {}, "'my/model' is a model's name, and evaluate takes the model: load it"),
        (SimpleNamespace(encode=len), {}, "CrossEncoder; this SimpleNamespace has encode"),
        (SimpleNamespace(encode_query=len), {}, "this SimpleNamespace has encode_query only"),
        (type("Bare", (), {}), {}, "if it is the class of a model, give an instance"),
        (_searching(lambda queries, k: [{}] * len(queries)), {}, "found no passage for any query"),
        (lambda: None, {}, "model() cannot be called as a factory, with a held-out group: "),
        (_same, {}, "the models that _same made for 'short' and 'long' rank alike, to the byte"),
        (lambda queries, k: None, {}, "give an object with the method search(queries, k)"),
        (lambda held_out, seed: None, {}, "If it takes seed, give seeds"),
        (lambda held_out: None, {}, "model gave None for 'short', no model; " + NEEDS),
        (lambda held_out: None, {"seeds": (1,)}, "model(held_out) takes no seed, so there are no"),
        (Bag(), {"seeds": (1,)}, "seeds are for a factory that makes a model for each"),
        (Bag, {"seeds": (1, -1)}, "seeds are (1, -1); give whole numbers, 0 or more"),
        (Bag, {"seeds": "12"}, "seeds are '12'; give whole numbers"),
        (Bag(), {"device": "cpu"}, "device is for models of sentence-transformers"),
        (Bag(), {"candidates": "all"}, "the search with encoder: candidates: there is no such"),
        (Bag(), {"measures": "AP", "settings": Settings()}, "give measures or settings, not"),
        (_searching(lambda queries, k: {}), {}, "search gave a dict; it must give a list"),
        (_searching(lambda queries, k: [{}]), {}, "search gave 1 rankings for 64 queries"),
        (_searching(lambda queries, k: [7] * len(queries)), {}, "must map doc_ids to scores, or"),
        (_searching(lambda queries, k: [{7: 1.0}] * len(queries)), {}, "the doc_id 7 of type int"),
        (_searching(lambda queries, k: [{"gone": 1}] * len(queries)), {}, "'gone', which no"),
        (_searching(lambda queries, k: [{"7": "x"}] * len(queries)), {}, "must map doc_ids to"),
        (_searching(lambda queries, k: [{"7": [1, 2]}] * len(queries)), {}, "must map doc_ids to"),
        (_searching(lambda queries, k: [{"7": 10**400}] * len(queries)), {}, "must map doc_ids to"),
        (_searching(lambda queries, k: [{"7": float("nan")}] * len(queries)), {}, "not finite"),
        (_searching(lambda queries, k: [[("7", 1), ("7", 2)]] * len(queries)), {}, "'7' twice"),
    ],
)  # fmt: skip
def test_what_cannot_be_evaluated(
    model: object, options: dict[str, Any], message: str, data: Path
) -> None:
    with pytest.raises((UsageError, DataError), match=re.escape(message)):
        evaluate(model, "length", data=data, **options)


@pytest.mark.neural
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda texts: np.zeros(3), "encode_document gave an array of shape (3,) for 64 texts"),
        (lambda texts: np.zeros((1, 3)), "encode_document gave an array of shape (1, 3) for 64"),
        (lambda texts: "text", "vectors must be an array or a tensor of numbers, and str is not"),
        (lambda texts: np.full((len(texts), 3), np.nan), "gave a vector that is not finite for "),
        (
            lambda texts: np.zeros((len(texts), 3)),
            "encode_query gave vectors of 16 dimensions, and ",
        ),
    ],
)
def test_vectors_that_cannot_be_searched(
    answer: Callable[[Sequence[str]], Any], message: str, data: Path
) -> None:
    model = SimpleNamespace(encode_query=Bag().encode_query, encode_document=answer)
    with pytest.raises((UsageError, DataError), match=re.escape(message)):
        evaluate(model, "length", data=data)


@pytest.mark.neural
def test_tensors_will_do(data: Path) -> None:
    import torch

    bag = Bag()
    model = SimpleNamespace(
        encode_query=lambda texts: torch.tensor(bag.encode_query(texts), dtype=torch.bfloat16),
        encode_document=lambda texts: torch.tensor(bag.encode_document(texts)).float(),
    )
    result = evaluate(model, "length", data=data, depth=5)
    assert result.figures.names("system") == ["SimpleNamespace"]


def test_the_collection_must_be_the_data_sets(data: Path) -> None:
    with pytest.raises(UsageError, match="was built from the collection 'mini:300'"):
        evaluate(_searching(lambda queries, k: []), "length", data=data, collection="mini:200")
    with pytest.raises(UnknownNameError, match="shift 'lenght': did you mean 'length'"):
        evaluate(_searching(lambda queries, k: []), "lenght", data=data)
