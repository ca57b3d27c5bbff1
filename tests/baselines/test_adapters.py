"""Every row of `ADAPTERS` ranks a tiny collection as a search by hand does.

Real libraries: bm25s, rank_bm25 and PyTerrier. The others are recorded shapes: methods with the
parameters and results of mteb 2.26.24, beir 2.2.0, model2vec 0.10.0 and PyLate 1.6.0.
`scripts/bench pylate` checks the real PyLate.
"""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import bm25s
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt
import pytest
import rank_bm25

from msshift_bench import SHIFTS, evaluate, open_dataset, read_run
from msshift_bench.baselines.adapters import ADAPTERS, FunctionSearch, find_searcher
from msshift_bench.data import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import DataError, UsageError
from msshift_bench.records import Passage, Row, TitledText
from tests.baselines.conftest import MINI, Patch, Values
from tests.conftest import REPOSITORY

# What PyTerrier calls in pandas.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame")

Matrix = npt.NDArray[Any]

DEPTH = 12

PASSAGES = list(MINI.passages())


def counts(texts: Sequence[str], *, query: bool = False) -> Matrix:
    """Return vectors of word counts; the vectors of queries and passages differ."""
    vectors = np.zeros((len(texts), 48), np.int64)
    for vector, text in zip(vectors, texts, strict=True):
        for word in text.split():
            vector[sum(map(ord, word)) % 48] += 1 + query * (len(word) % 3)
    return vectors


def dots(queries: Sequence[str], passages: Sequence[str]) -> Matrix:
    return counts(queries, query=True) @ counts(passages).T


def cosines(queries: Sequence[str], passages: Sequence[str]) -> Matrix:
    lengths = [
        np.linalg.norm(side, axis=1, keepdims=True)
        for side in (counts(queries, query=True), counts(passages))
    ]
    return dots(queries, passages) / (lengths[0] * lengths[1].T)


def best(text: str, k: int = DEPTH) -> list[tuple[str, float]]:
    """Return the ranking of a search engine, best first."""
    (scores,) = dots([text], [row.text for row in PASSAGES]).tolist()
    pairs = zip(scores, (row.doc_id for row in PASSAGES), strict=True)
    return [(doc_id, score) for score, doc_id in sorted(pairs, reverse=True)[:k]]


# ---- shapes of libraries -------------------------------------------------------------------------


class StaticModel:
    """The shape of model2vec's."""

    def encode(
        self, sentences: Sequence[str], show_progress_bar: bool = False, batch_size: int = 1024
    ) -> Matrix:
        return counts(sentences).astype(np.float32)


StaticModel.__module__ = "model2vec.model"


class Beir:
    """The shape of BEIR's SentenceBERT."""

    def __init__(self, sep: str = " ") -> None:
        self.sep = sep

    def encode_queries(self, queries: list[str], batch_size: int, **_: object) -> Matrix:
        assert batch_size == 64
        return counts(queries, query=True)

    def encode_corpus(self, corpus: list[dict[str, str]], batch_size: int, **_: object) -> Matrix:
        return counts([(row["title"] + self.sep + row["text"]).strip() for row in corpus])


class PromptType(StrEnum):
    query = "query"
    document = "document"


@pytest.fixture(autouse=True)
def _mteb(monkeypatch: Patch) -> None:
    """The shape of the module mteb."""
    task = SimpleNamespace(metadata=SimpleNamespace(name="MSMARCO", type="Retrieval"))
    fake: Any = ModuleType("mteb")
    fake.get_task = {"MSMARCO": task}.__getitem__
    fake.types = SimpleNamespace(PromptType=PromptType)
    monkeypatch.setitem(sys.modules, "mteb", fake)


class MtebEncoder:
    """The shape of an encoder of MTEB."""

    def __init__(self, similarity: str | None = "cosine") -> None:
        self.mteb_model_meta = SimpleNamespace(similarity_fn_name=similarity)

    def encode(
        self,
        inputs: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        **_: object,
    ) -> Matrix:
        assert task_metadata.name == "MSMARCO"
        assert "text" in inputs.dataset.features
        texts = [text for batch in inputs for text in batch["text"]]
        return counts(texts, query=prompt_type is PromptType.query)


class MtebSearch:
    """The shape of a search model of MTEB, which forgets its passages after a search."""

    mteb_model_meta = SimpleNamespace(name="mine")

    def index(self, corpus: Any, *, task_metadata: Any, encode_kwargs: Any, **_: object) -> None:
        assert encode_kwargs == {"batch_size": 64}
        self.passages = {row["id"]: row["title"] + row["text"] for row in corpus}

    def search(
        self, queries: Any, *, task_metadata: Any, top_k: int, **_: object
    ) -> dict[str, dict[str, float]]:
        ids, texts = list(self.passages), list(self.passages.values())
        del self.passages
        scores = dots(list(queries["text"]), texts).tolist()
        found = (sorted(zip(row, ids, strict=True), reverse=True)[:top_k] for row in scores)
        return {
            query: {doc_id: score for score, doc_id in ranking}
            for query, ranking in zip(queries["id"], found, strict=True)
        }


class Retriever(pt.Transformer):  # type: ignore[misc]
    """A retriever of PyTerrier, without Java."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        rows = [
            (row.qid, row.query, doc_id, score)
            for row in inp.itertuples()
            for doc_id, score in best(row.query, 40)
        ]
        frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "score"])
        return pt.model.add_ranks(frame)


def words_of(text: str) -> list[str]:
    return text.lower().split()


@cache
def term_counts() -> tuple[Matrix, dict[str, int]]:
    """Return how often each passage of `MINI` has each word, and the column of each word."""
    texts = [words_of(row.text) for row in PASSAGES]
    column = {word: n for n, word in enumerate(sorted({word for text in texts for word in text}))}
    found = np.zeros((len(texts), len(column)))
    for row, text in zip(found, texts, strict=True):
        for word in text:
            row[column[word]] += 1
    return found, column


def bm25(
    queries: Sequence[str], _: Sequence[str], idf: Callable[..., Matrix], tf: Callable[..., Matrix]
) -> Matrix:
    """Return sums over the words of a query, with k1 = 1.5 and b = 0.75."""
    found, column = term_counts()
    lengths = found.sum(axis=1, keepdims=True)
    norm = 0.25 + 0.75 * lengths / lengths.mean()
    weights = idf(len(found), (found > 0).sum(axis=0)) * tf(found, norm)
    sums = [
        sum(
            (weights[:, column[word]] for word in words_of(text) if word in column),
            np.zeros(len(found)),
        )
        for text in queries
    ]
    return np.where(np.array(sums) == 0, np.nan, sums)


def of_bm25s() -> Any:
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, idf_method="lucene")
    index.index([words_of(row.text) for row in PASSAGES], show_progress=False)
    index.tokenizer = words_of
    return index


def of_rank_bm25() -> Any:
    index = rank_bm25.BM25L([words_of(row.text) for row in PASSAGES])
    index.tokenizer = words_of
    return index


# ---- functions and vectors -----------------------------------------------------------------------


def as_pylate(queries: list[str], k: int) -> list[list[dict[str, Any]]]:
    """The shape of the results of PyLate's retrievers."""
    return [[{"id": doc, "score": score} for doc, score in best(text, k)] for text in queries]


def as_frame(queries: list[str]) -> pd.DataFrame:
    rows = [(text, *pair) for text in set(queries) for pair in best(text, DEPTH + 3)]
    return pd.DataFrame(rows, columns=["query", "doc_id", "score"])


def query_vectors(data: Path) -> Mapping[str, Matrix]:
    return {row.query_id: counts([row.text], query=True)[0] for row in queries_of(data)}


def matrix() -> Matrix:
    return counts([row.text for row in PASSAGES]).astype(np.float16)


class Case(NamedTuple):
    """Makes a model, given the data set; the scores by hand; and options of `evaluate`."""

    model: Callable[[Path], Any]
    scores: Callable[[Sequence[str], Sequence[str]], Matrix] = dots
    options: Mapping[str, Any] = {}


def objects(**methods: Any) -> Callable[[Path], Any]:
    return lambda _: SimpleNamespace(**methods)


CASES: Mapping[str, Sequence[Case]] = {
    "model2vec.StaticModel": [
        Case(lambda _: StaticModel(), lambda queries, passages: _unit(queries) @ _unit(passages).T),
        Case(lambda _: StaticModel(), lambda q, p: counts(q) @ counts(p).T, {"similarity": "dot"}),
    ],
    "pyterrier.Transformer": [
        Case(lambda _: Retriever()),
        Case(lambda _: Retriever() % 30 * 2, lambda *texts: 2 * dots(*texts)),
    ],
    "bm25s.BM25": [
        Case(lambda _: of_bm25s(), partial(
            bm25,
            idf=lambda n, df: np.log(1 + (n - df + 0.5) / (df + 0.5)),
            tf=lambda f, norm: f / (f + 1.5 * norm),
        )),
    ],
    "rank_bm25.BM25": [
        Case(lambda _: of_rank_bm25(), partial(
            bm25,
            idf=lambda n, df: np.log(n + 1) - np.log(df + 0.5),
            tf=lambda f, norm: f * 2.5 * (f / norm + 0.5) / (1.5 + f / norm + 0.5),
        )),
    ],
    "MTEB's search model": [Case(lambda _: MtebSearch())],
    "MTEB's encoder": [
        Case(lambda _: MtebEncoder(), cosines),
        Case(lambda _: MtebEncoder(None), cosines),
        Case(lambda _: MtebEncoder("dot")),
    ],
    "search(queries, k)": [
        Case(objects(search=lambda queries, k: [dict(best(text, k)) for text in queries])),
        Case(objects(search=as_pylate)),
    ],
    "encode_query(texts)": [
        Case(objects(encode_query=partial(counts, query=True), encode_document=counts)),
        Case(
            objects(encode_query=partial(counts, query=True), encode_document=counts),
            cosines,
            {"similarity": "cosine"},
        ),
    ],
    "BEIR's encoder": [
        Case(lambda _: Beir()),
        Case(objects(
            encode_queries=lambda queries: counts(queries, query=True),
            encode_corpus=lambda corpus: counts([row["text"] for row in corpus]),
        )),
    ],
    "function of queries": [
        Case(lambda _: as_pylate),
        Case(lambda _: as_frame),
        Case(lambda _: lambda queries, k: (best(text, k) for text in queries)),
    ],
    "pair of vectors": [
        Case(lambda data: (query_vectors(data), matrix())),
        Case(lambda _: (partial(counts, query=True), matrix()), cosines, {"similarity": "cosine"}),
        Case(lambda data: (query_vectors(data), matrix()), dots, {"index": "Flat"}),
    ],
}  # fmt: skip
"""Models of each row of `ADAPTERS`, except for those of sentence-transformers."""


def _unit(texts: Sequence[str]) -> Matrix:
    vectors = counts(texts)
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))


def test_every_adapter_has_a_model() -> None:
    """tests/baselines/test_kinds_of_models.py has models of sentence-transformers."""
    assert set(CASES) == {row.title for row in ADAPTERS if row.searcher is not None}


# ---- the search by hand --------------------------------------------------------------------------


def queries_of(data: Path) -> list[Row]:
    groups = open_dataset(data).test_sets(SHIFTS["length"])
    return sorted({row for rows in groups.values() for row in rows})


def check(run: Path, rows: Sequence[Row], passages: Sequence[Passage], scores: Matrix) -> None:
    """Check that a run file has the rankings of scores by hand, of shape (queries, passages)."""
    found = read_run(run)
    assert set(found) == {row.query_id for row in rows}
    for row, values in zip(rows, scores, strict=True):
        by_hand = dict(zip((passage.doc_id for passage in passages), values.tolist(), strict=True))
        ranking = found[row.query_id]
        assert ranking == pytest.approx({doc: by_hand[doc] for doc in ranking}, rel=1e-5)
        expected = sorted((value for value in values if not np.isnan(value)), reverse=True)
        assert [*ranking.values()] == pytest.approx(expected[:DEPTH], rel=1e-5)


@pytest.mark.every(3)
@pytest.mark.neural
@pytest.mark.parametrize(
    ("title", "case"),
    [
        pytest.param(
            title, case, id=f"{title} {number}", marks=[pytest.mark.extended][: number > 1]
        )
        for title, cases in CASES.items()
        for number, case in enumerate(cases, 1)
    ],
)
def test_an_adapter_ranks_as_a_search_by_hand(title: str, case: Case, given: Values) -> None:
    model = case.model(given["data"])
    (adapter,) = [row for row in ADAPTERS if row.title == title]
    assert find_searcher(model) == (adapter.kind, adapter.searcher)
    evaluate(model, name="mine", depth=DEPTH, **given, **case.options)
    rows = queries_of(given["data"])
    texts = [row.text for row in rows], [row.text for row in PASSAGES]
    check(given["runs"] / "mine" / "length.run.gz", rows, PASSAGES, case.scores(*texts))


@pytest.mark.parametrize("repeated", [False, True])
def test_queries_of_equal_text_have_one_ranking_in_a_table(repeated: bool) -> None:
    """A table by texts has the rows of an equal text once, or again for every query."""

    def table(queries: list[str], k: int) -> pd.DataFrame:
        texts = queries if repeated else dict.fromkeys(queries)
        rows = [(text, f"d{n}", -n) for text in texts for n in range(k)]
        return pd.DataFrame(rows, columns=["query", "doc_id", "score"])

    texts = {"1": "frogs", "2": "ponds", "3": "frogs"}
    rows = [Row.judged(query_id, text, "", {}) for query_id, text in texts.items()]
    search = FunctionSearch(depth=3)
    found = search.model_rankings(table, SimpleNamespace(queries=rows))  # type: ignore[arg-type]
    assert list(found) == [[("d0", 0), ("d1", -1), ("d2", -2)]] * 3


@pytest.mark.extended
def test_pipelines_of_a_factory(given: Values) -> None:
    """A model per held-out group; a query without a row of the data frame retrieves nothing."""

    def pipeline(held_out: str) -> Any:
        cut = Retriever() % (5 if held_out == "short" else 9)
        return cut >> pt.apply.generic(
            lambda frame: frame[frame["qid"] != first], required_columns=["qid"]
        )

    first = queries_of(given["data"])[0].query_id
    result = evaluate(pipeline, **{**given, "runs": None})
    assert result.figures.where(figure="rel_loss").names("group") == ["short", "long", "mean"]
    assert any("nothing was retrieved for 1 of" in line for line in result.warnings)


@pytest.mark.neural
def test_beir_gets_the_titles_apart(tmp_path: Path) -> None:
    """Every passage has a title but one; both sides know them by the words of the separator."""
    folder = tmp_path / "titled"
    (folder / "qrels").mkdir(parents=True)
    passages = [(f"d{n}", "" if n == 3 else f"Title {n}", f"frogs {n} live") for n in range(8)]
    texts = [*["frogs title"] * 10, *["where do the old frogs live in the 3 ponds"] * 10]
    corpus = [{"_id": doc, "title": title, "text": text} for doc, title, text in passages]
    queries = [{"_id": f"q{n:02}", "text": f"{text} {n}"} for n, text in enumerate(texts)]
    for name, values in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in values))
    judged = "".join(f"q{n:02}\td{n % 8}\t1\n" for n in range(20))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    collection = open_collection(str(folder))
    build_dataset(collection, ("length",), tmp_path / "data")
    where = {"data": tmp_path / "data", "collection": folder, "depth": DEPTH, "progress": False}
    evaluate(Beir(" in "), "length", name="mine", runs=tmp_path, **where)
    rows = queries_of(tmp_path / "data")
    scores = dots(
        [row.text for row in rows], [f"{title} in {text}".strip() for _, title, text in passages]
    )
    check(tmp_path / "mine" / "length.run.gz", rows, list(collection.passages()), scores)


def test_texts_with_titles_are_texts(tmp_path: Path) -> None:
    text = TitledText("Ponds", "Frogs live there.")
    again = pickle.loads(pickle.dumps(text))
    assert (again, again.heading, again.body) == (text, "Ponds", "Frogs live there.")
    assert repr([text]) == repr([str(text)]) == "['Ponds Frogs live there.']"


# ---- what is refused -----------------------------------------------------------------------------


class BrokenError(Exception):
    """An error of a user's code."""


def broken(*_: Any, **__: Any) -> Any:
    raise BrokenError("no such index")


def breaks_late(queries: list[str]) -> Any:
    yield {}
    raise BrokenError("no such index")


def of_class(name: str, module: str, **methods: Any) -> Any:
    return type(name, (), {"__module__": module, **methods})()


META = SimpleNamespace(similarity_fn_name="cosine")

BROKEN: Sequence[tuple[Any, str]] = [
    (SimpleNamespace(search=broken), "SimpleNamespace.search"),
    (SimpleNamespace(encode_query=counts, encode_document=broken), "SimpleNamespace.encode_doc"),
    (SimpleNamespace(encode_query=broken, encode_document=counts), "SimpleNamespace.encode_query"),
    (SimpleNamespace(encode_queries=counts, encode_corpus=broken), "SimpleNamespace.encode_corpus"),
    (of_class("StaticModel", "model2vec", encode=broken), "StaticModel.encode"),
    (of_class("Transformer", "pyterrier", transform=broken), "Transformer.transform"),
    (of_class("BM25", "bm25s", tokenizer=broken), "BM25.tokenizer"),
    (of_class("BM25", "rank_bm25", tokenizer=lambda *_: ["a"], get_scores=broken), "BM25.get_s"),
    (SimpleNamespace(mteb_model_meta=META, encode=broken), "SimpleNamespace.encode"),
    (SimpleNamespace(mteb_model_meta=META, index=broken, search=len), "SimpleNamespace.index"),
    (
        SimpleNamespace(mteb_model_meta=META, index=lambda *_, **__: None, search=broken),
        "SimpleNamespace.search",
    ),
    (breaks_late, "breaks_late"),
    ((broken, matrix()), "queries"),
]  # fmt: skip


@pytest.mark.neural
@pytest.mark.parametrize(("model", "where"), BROKEN)
def test_code_that_raises_is_named(model: Any, where: str, data: Path) -> None:
    with pytest.raises(
        UsageError, match=rf"^{where}\w* raised BrokenError: no such index\."
    ) as told:
        evaluate(model, "length", data=data, progress=False)
    assert isinstance(told.value.__cause__, BrokenError)


def test_a_factory_that_raises_is_named(data: Path) -> None:
    with pytest.raises(UsageError, match=r"^<lambda> raised KeyError: 'short'"):
        evaluate(lambda held_out: {}[held_out], "length", data=data, name="mine", progress=False)


def frame(**columns: Any) -> Callable[[list[str]], pd.DataFrame]:
    return lambda queries: pd.DataFrame(columns)


@pytest.mark.neural
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (bm25s.BM25(), "this BM25 has no tokenizer to divide"),
        (rank_bm25.BM25L([["a"]]), "this BM25L has no tokenizer"),
        (
            of_class("BM25", "rank_bm25", tokenizer=lambda *_: ["a"], get_scores=lambda *_: [1.0]),
            "get_scores returned scores of shape (1,), but the collection has 300 passages",
        ),
        (({}, matrix()), "test queries have no vector, e.g. '"),
        (({}, matrix()[:-1]), "the matrix has 299 rows, but mini:300 has 300 passages"),
        (MtebEncoder("MaxSim"), "must be dot or cosine, got 'MaxSim'; give a"),
        (frame(qid=["x"], docno=["7"], score=[1.0]), "a passage for 'x', which is none of its 64"),
        (frame(qid=["x"], score=[1.0]), "the table has no column doc_id or docno; rename one of"),
        (lambda queries: [[{"id": "7"}]] * len(queries), "must map doc_ids to scores, or be"),
        (lambda queries: {}, "the function returned a dict; return a list of rankings"),
        (lambda queries: [], "the function returned 0 rankings for 64 queries"),
    ],
)  # fmt: skip
def test_what_is_refused(model: Any, message: str, data: Path) -> None:
    with pytest.raises((UsageError, DataError), match=re.escape(message)):
        evaluate(model, "length", data=data, progress=False)


def test_the_page_has_every_adapter() -> None:
    page = (REPOSITORY / "docs" / "evaluate-a-model.md").read_text("utf-8")
    assert [row.title for row in ADAPTERS if row.title.split(".")[-1] not in page] == []
