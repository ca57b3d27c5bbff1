"""Objects that search or encode, and factories of them: `msshift_bench.evaluate`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from msshift_bench import SHIFTS, Settings, evaluate, evaluate_run_sets, libraries, open_dataset
from msshift_bench.errors import DataError, UsageError
from msshift_bench.runs import read_run
from msshift_bench.search import Bm25, Ranking
from tests.baselines.conftest import COLLECTION, MINI, Values
from tests.conftest import Build
from tests.support.making import make_runs
from tests.support.run_files import sidecar


class Bag:
    """Counts words: an encoder whose dot products are whole numbers, with many ties."""

    def __init__(self, held_out: str = "") -> None:
        # What a model was trained without decides how much of a query it reads.
        self.letters = 9 if held_out == "long" else 15
        self.most = 0

    def encode_query(self, texts: list[str]) -> npt.NDArray[np.int64]:
        return self.encode_document([text[: self.letters] for text in texts])

    def encode_document(self, texts: list[str]) -> npt.NDArray[np.int64]:
        self.most = max(self.most, len(texts))
        vectors = np.zeros((len(texts), 16), np.int64)
        for vector, text in zip(vectors, texts, strict=True):
            for word in text.split():
                vector[sum(map(ord, word)) % 16] += 1
        return vectors


def test_an_object_that_searches_ranks_as_bm25_does(given: Values, tmp_path: Path) -> None:
    index = Bm25(MINI.passages())

    class Lexical:
        def search(self, queries: list[str], k: int) -> list[list[tuple[str, float]]]:
            """Return pairs, more than it was asked for, and not in order."""
            return [[*reversed(found.items())] for found in index.search(queries, depth=k + 3)]

    (run,) = make_runs("bm25", data=given["data"], out=tmp_path, depth=7)
    result = evaluate(Lexical(), depth=7, **given)
    mine = tmp_path / "Lexical" / "length.run.gz"
    expected, found = (
        {query: [*ranking.items()] for query, ranking in read_run(file).items()}
        for file in (run, mine)
    )
    assert found == expected
    search = {"depth": 7, "batch_size": 64}
    parameters = {"architecture": "search", "model": "Lexical", "search": search}
    assert sidecar(mine)["parameters"] == parameters
    assert result.figures.where(figure="score").names("group") == ["short", "long", "mean"]
    again = evaluate_run_sets(tmp_path / "Lexical", given["data"], ["length"])
    assert again.figures == result.figures


@pytest.mark.neural
@pytest.mark.parametrize(
    ("form", "options"),
    [
        (np.asarray, {}),
        (lambda counts: libraries.torch.tensor(counts, dtype=libraries.torch.bfloat16), {}),
        (np.asarray, {"index": "Flat"}),
    ],
)
def test_an_object_that_encodes_is_searched_exactly(
    form: Callable[..., Any], options: Values, given: Values, tmp_path: Path
) -> None:
    bag = Bag()
    model = SimpleNamespace(
        encode_query=lambda texts: form(bag.encode_query(texts)),
        encode_document=lambda texts: form(bag.encode_document(texts)),
    )
    evaluate(model, name="bag", depth=9, batch_size=50, **given, **options)
    assert bag.most == 50
    found = read_run(tmp_path / "bag" / "length.run.gz")
    passages = list(MINI.passages())
    vectors = bag.encode_document([passage.text for passage in passages])
    for rows in open_dataset(given["data"]).test_sets(SHIFTS["length"]).values():
        for row in rows:
            scores = (vectors @ bag.encode_query([row.text])[0]).tolist()
            pairs = zip(scores, (passage.doc_id for passage in passages), strict=True)
            expected = [(doc_id, score) for score, doc_id in sorted(pairs, reverse=True)[:9]]
            assert list(found[row.query_id].items()) == expected


@pytest.mark.neural
@pytest.mark.parametrize("described", [True, False])
def test_one_model_encodes_once(build_once: Build, tmp_path: Path, described: bool) -> None:
    both, encoded = build_once(COLLECTION, "length", "wh-words"), []

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
    texts = [passage.text for passage in MINI.passages()]
    assert sorted(encoded) == sorted(texts)
    assert {path.name for path in tmp_path.iterdir()} == {"Counting", *([".work"] * described)}
    alone = evaluate(Counting(), "length", data=both, depth=5)
    assert [*result.figures.where(shift="length")] == [*alone.figures]


@pytest.mark.neural
def test_a_factory_gives_losses(given: Values, tmp_path: Path, capsys: Any) -> None:
    asked = []

    def words(held_out: str) -> Bag:
        asked.append(held_out)
        return Bag(held_out)

    given |= {"measures": "RR@10 R@20", "depth": 20}
    result = evaluate(words, **given)
    assert asked == ["short", "long"]
    told = [line.partition(" made in ")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == ["words without short of length:", "words without long of length:"]
    losses = result.figures.where(figure="rel_loss", measure="R@20")
    assert losses.names("group") == ["short", "long", "mean"]
    assert all(loss.interval for loss in losses)
    facts = sidecar(tmp_path / "words" / "length" / "long.run.gz")
    assert (facts["held_out"], facts["model"]["model"]) == ("long", "Bag")
    assert "training" not in facts
    assert not (tmp_path / ".work").exists()

    again = evaluate(words, progress=False, **given)
    assert asked == ["short", "long"]
    assert again.figures == result.figures
    (warning,) = again.warnings
    assert warning.startswith(
        f"words: 2 of 2 runs already were in {tmp_path} and were not made again"
    )
    assert warning.endswith("parameters=")
    without = evaluate(words, progress=False, **{**given, "runs": None})
    assert capsys.readouterr().err == ""
    names = [run["name"] for run in without.scores[0].run_facts()]
    assert names == ["words/length/short.run.gz", "words/length/long.run.gz"]
    assert without.warnings == result.warnings == []


@pytest.mark.neural
def test_parameters_distinguish_models(given: Values) -> None:
    given |= {"name": "bag", "depth": 5}
    evaluate(Bag, parameters={"sizes": (1, 2)}, **given)
    assert evaluate(Bag, parameters={"sizes": (1, 2)}, **given).warnings == [
        "bag/length: RR@10 needs more passages: no ranking has more than 5 (2 of 2 run files)"
    ]
    with pytest.raises(UsageError, match=r"sizes \[1, 2\] instead of \[1, 3\]"):
        evaluate(Bag, parameters={"sizes": (1, 3)}, **given)


def test_a_factory_gives_replicates_on_all_shifts_of_the_data_set(build_once: Build) -> None:
    both = build_once(COLLECTION, "length", "wh-words")
    doc_ids = [passage.doc_id for passage in MINI.passages()]

    class Fixed:
        def __init__(self, held_out: str, *, shift: str, seed: int) -> None:
            # Each model ranks as many passages as no other does.
            self.depth = 10 * seed + list(SHIFTS[shift].groups).index(held_out)

        def search(self, queries: list[str], k: int) -> list[Ranking]:
            return [dict.fromkeys(doc_ids[: self.depth], 1.0)] * len(queries)

    result = evaluate(partial(Fixed), data=both, seeds=(1, 2), measures=Settings("R@5"))
    assert result.figures.names("shift") == ["wh-words", "length"]
    _, scores = result.scores
    assert scores.system == "model"
    assert list(scores.runs) == [("short", 1), ("long", 1), ("short", 2), ("long", 2)]
    assert result.figures.where(figure="rel_loss").names("seeds") == [2]


def _answering(answer: Callable[[int], object]) -> object:
    """A model whose search gives what a function makes of the number of queries."""
    return SimpleNamespace(search=lambda queries, k: answer(len(queries)))


def _each(ranking: object) -> object:
    return _answering(lambda count: [ranking] * count)


def _same(held_out: str) -> object:
    return _each({"7": 1.0})


NEEDS = "a model has search(queries, k), or encode_query(texts) and encode_document(texts), or is"


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (7, {}, "7 is neither a model nor a factory that takes a held-out group; " + NEEDS),
        ("my/model", {}, "an object, got the name 'my/model': load the model"),
        (SimpleNamespace(encode=len), {}, "CrossEncoder; this SimpleNamespace has encode"),
        (SimpleNamespace(encode_query=len), {}, "this SimpleNamespace has encode_query only"),
        (_each({}), {}, "all rankings are empty; check"),
        (lambda: None, {}, "model() cannot be called as a factory with a held-out group: "),
        (_same, {"shift": ["length", "wh-words"]}, "has no parameter shift, so it cannot"),
        (_same, {}, "not every run is a model's own"),
        (_same, {"runs": None}, "not every run is a model's own"),
        (lambda held_out, seed: None, {}, "If it has a parameter seed, give seeds"),
        (lambda held_out: None, {}, "model returned None for 'short', which is no model; " + NEEDS),
        (lambda held_out: None, {"seeds": (1,)}, "model(held_out) has no parameter seed, so it"),
        (Bag(), {"seeds": (1,)}, "seeds need a factory"),
        (Bag, {"seeds": (1, -1)}, "seeds must be integers, 0 or more, e.g. (1, 2, 3), got (1, -1)"),
        (Bag, {"seeds": "12"}, "(1, 2, 3), got '12'"),
        (Bag(), {"parameters": {"sizes": [len]}}, "parameters.sizes[0] is <built-in function len>"),
        (Bag(), {"device": "cpu"}, "device is an option for models of sentence-transformers"),
        (Bag(), {"candidates": "all"}, "the search with encoder: candidates: there is no such"),
        (_answering(lambda _: {}), {}, "search returned a dict; return a list"),
        (_answering(lambda _: [{}]), {}, "search returned 1 rankings for 64 queries"),
        (_each(7), {}, "must map doc_ids to scores, or"),
        (_each({7: 1.0}), {}, "the doc_id 7 of type int"),
        (_each({"gone": 1}), {}, "'gone', which is not"),
        (_each({"7": "x"}), {}, "must map doc_ids to"),
        (_each({"7": 10**400}), {}, "must map doc_ids to"),
        (_each({"7": float("nan")}), {}, "must be finite"),
        (_each([("7", 1), ("7", 2)]), {}, "'7' twice"),
        (_each({}), {"collection": "mini:200"}, "was built from the collection 'mini:300'"),
        (_each({}), {"shift": "lenght"}, "shift 'lenght': did you mean 'length'"),
    ],
)  # fmt: skip
def test_models_and_options_that_are_refused(
    model: object, options: Values, message: str, given: Values
) -> None:
    with pytest.raises((UsageError, DataError), match=re.escape(message)):
        evaluate(model, **{**given, **options})


@pytest.mark.neural
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda texts: np.zeros(3), "encode_document returned an array of shape (3,) for 64 texts"),
        (lambda texts: np.zeros((1, 3)), "encode_document returned an array of shape (1, 3)"),
        (lambda texts: "text", "vectors must be an array or a tensor of numbers, got str"),
        (lambda texts: np.full((len(texts), 3), np.nan), " a vector that is not finite; train"),
        (
            lambda texts: np.zeros((len(texts), 3)),
            "encode_query returned vectors of 16 dimensions, ",
        ),
    ],
)
def test_vectors_that_are_refused(answer: Callable[..., Any], message: str, data: Path) -> None:
    model = SimpleNamespace(encode_query=Bag().encode_query, encode_document=answer)
    with pytest.raises((UsageError, DataError), match=re.escape(message)):
        evaluate(model, "length", data=data)
