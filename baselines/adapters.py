"""Adapters: the kinds of objects that rank or encode, and the class that searches with each.

`ADAPTERS` is the table. An object is recognised by the names of its classes, methods and
parameters, so that no library is imported for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.retrievers.biencoder import COSINE, DenseSearch
from msshift_bench.baselines.systems.finding import kind_of, neural_systems
from msshift_bench.baselines.systems.searcher import Searcher, checked_ranking
from msshift_bench.baselines.systems.system import Run
from msshift_bench.errors import MsShiftError, UsageError
from msshift_bench.libraries import Library, torch
from msshift_bench.plumbing import batches
from msshift_bench.records import Passage, Row
from msshift_bench.runs import is_table, table_rows
from msshift_bench.search import PassageIds, Ranking, TopK, rankings_of
from msshift_bench.settings import later

_datasets: Any = Library("datasets", what="a model of MTEB")
_pandas: Any = Library("pandas", extra="")

_IDS = ("query_id", "qid", "q_id")
"""The names of the column of query ids, as in data frames of runs."""

ENCODES = ("encode_query", "encode_document")
"""The methods of an object that encodes texts."""

_INCOMPLETE = (
    "encode",
    "encode_queries",
    "encode_corpus",
    "embed_query",
    "embed_documents",
    "predict",
)
"""Methods of other libraries' models that alone do not make an object a model here."""


class Adapter(NamedTuple):
    """One kind of object that ranks or encodes.

    Attributes:
        title: the name of the kind in messages and in the documentation.
        recognise: returns whether an object is of this kind.
        kind: the name of the kind in sidecars; "" for sentence-transformers' classes, whose
            kinds are the names of `neural_systems`.
        searcher: ranks passages with the object; `None` for sentence-transformers' classes.
    """

    title: str
    recognise: Callable[[Any], bool]
    kind: str = ""
    searcher: type[Searcher] | None = None


def find_searcher(model: Any) -> tuple[str, type[Searcher]] | None:
    """Return the kind of a model and the class that ranks with it; `None` for other objects.

    Args:
        model: an object of a kind in `ADAPTERS`.

    Examples:
        >>> class Engine:
        ...     def search(self, queries, k): ...
        >>> find_searcher(Engine())
        ('search', <class 'msshift_bench.baselines.adapters.EngineSearch'>)
        >>> find_searcher(lambda held_out: Engine()) is None
        True
    """
    if isinstance(model, type):
        return None
    for adapter in ADAPTERS:
        if adapter.recognise(model):
            if adapter.searcher is not None:
                return adapter.kind, adapter.searcher
            kind = kind_of(adapter.title, type(next(iter(model), None)).__name__)
            assert kind is not None
            return kind, neural_systems()[kind].searcher()
    return None


def model_needs(given: object) -> str:
    """Return the kinds of models, and which of their methods an object has, for messages."""
    found = [method for method in (*_INCOMPLETE, *ENCODES) if has(given, method)]
    titles = ", ".join(row.title for row in reversed(ADAPTERS) if "(" not in row.title)
    return (
        "a model has search(queries, k), or encode_query(texts) and encode_document(texts), or is "
        f"one of these: {titles}"
        + (f"; this {type(given).__name__} has {' and '.join(found)} only" if found else "")
    )


def has(model: object, *methods: str) -> bool:
    """Return whether an object has all of some methods."""
    return all(callable(getattr(model, method, None)) for method in methods)


def accepted(function: Callable[..., object], **options: Any) -> dict[str, Any]:
    """Return the options that a function accepts by name.

    Raises:
        ValueError: if the function does not name its parameters.

    Examples:
        >>> accepted(lambda held_out, seed: ..., seed=1, shift="length")
        {'seed': 1}
    """
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return options
    return {name: value for name, value in options.items() if name in parameters}


@contextmanager
def user_code(model: object, method: str) -> Iterator[None]:
    """Name the model and its method in the error that its code raises.

    Raises:
        UsageError: for any error that is not of this package.
    """
    try:
        yield
    except MsShiftError:
        raise
    except Exception as error:
        name = getattr(model, "__name__", method)
        where = f"{type(model).__name__}.{method}" if hasattr(model, method) else name
        raise UsageError(
            f"{where} raised {type(error).__name__}: {error}. Call it alone with the same values, "
            "and repair it; the error above has the line"
        ) from error


# ---- objects that encode -------------------------------------------------------------------------


_UNPACKED = {
    np.dtype(np.uint8): "np.unpackbits(vectors, axis=1)",
    np.dtype(np.int8): "np.unpackbits(vectors.view(np.uint8) ^ 128, axis=1)",
}
"""The types of packed bits, and how sentence-transformers' ``ubinary`` and ``binary`` unpack."""


class EncoderSearch(DenseSearch):
    """How an object that encodes texts is searched: by dot product or cosine.

    Attributes:
        similarity: ``dot`` or ``cosine``; by default the dot product, for a StaticModel the
            cosine, and for an encoder of MTEB the similarity that it names.
    """

    default: ClassVar[str] = "dot"
    """The similarity where none is given."""

    similarity: Literal["dot", "cosine"] | None = later(None)

    def compares_by(self, model: Any) -> str:
        """Return the similarity of two vectors."""
        del model
        return self.similarity or self.default

    def vectors(self, model: Any, texts: Sequence[str], *, query: bool) -> npt.NDArray[np.float32]:
        """Give the model some texts at a time, and check the vectors that it returns."""
        method = self.methods[query]
        parts = []
        for part in batches(texts, self.batch_size):
            with user_code(model, method):
                given = self.call(model, part, query=query)
            parts.append(_checked(method, given, part))
        return np.concatenate(parts)

    def call(self, model: Any, texts: list[str], *, query: bool) -> Any:
        """Return the vectors that the model gives some texts."""
        return getattr(model, self.methods[query])(texts)


def _checked(method: str, given: Any, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    vectors = _as_array(given)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise UsageError(
            f"{method} gave an array of shape {vectors.shape} for {len(texts)} texts; it must "
            f"give one vector per text, an array of shape ({len(texts)}, dimensions)"
        )
    if vectors.dtype in _UNPACKED:
        raise UsageError(
            f"{method} gave vectors of {vectors.dtype}, which are codes: their dot products rank "
            f"nothing. Unpack binary vectors, {_UNPACKED[vectors.dtype]} * 2.0 - 1, or scale "
            "quantized numbers back to 32-bit floats"
        )
    return vectors.astype(np.float32, copy=False)


def _as_array(given: Any) -> npt.NDArray[Any]:
    """Return vectors of floats, or of codes; tensors of torch may lie on another device."""
    if has(given, "detach"):
        given = given.detach().cpu()
        given = given.float() if given.is_floating_point() else given
    try:
        found = np.asarray(given)
        if np.iscomplexobj(found):  # its other half would be dropped
            raise TypeError(f"{found.dtype} is not real")
        return found if found.dtype in _UNPACKED else found.astype(np.float32, copy=False)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"vectors must be an array or a tensor of numbers, and {type(given).__name__} is not "
            f"one: {error}"
        ) from error


class StaticSearch(EncoderSearch):
    """How a StaticModel of model2vec is searched: by cosine, unless `similarity` is given."""

    methods = ("encode", "encode")
    default = COSINE


class BeirSearch(EncoderSearch):
    """How an encoder of BEIR is searched; it gets the titles of passages apart from their texts."""

    methods = ("encode_corpus", "encode_queries")

    def call(self, model: Any, texts: list[str], *, query: bool) -> Any:
        """Return the vectors that the model gives queries, or passages as dictionaries."""
        method = getattr(model, self.methods[query])
        options = accepted(method, batch_size=self.batch_size, show_progress_bar=False)
        return method(texts if query else list(map(_parts_of, texts)), **options)


class MtebEncoderSearch(EncoderSearch):
    """How an encoder of MTEB is searched: by the similarity that it names, with MSMARCO's prompts.

    It is called as for the retrieval task MSMARCO of MTEB.
    """

    methods = ("encode", "encode")

    def compares_by(self, model: Any) -> str:
        """Return the similarity of two vectors, as MTEB chooses it."""
        named = getattr(model.mteb_model_meta, "similarity_fn_name", None)
        inner = getattr(getattr(model, "model", None), "similarity_fn_name", None)
        return self.similarity or str(named or inner or COSINE)

    def call(self, model: Any, texts: list[str], *, query: bool) -> Any:
        """Return the vectors that the model gives texts in a DataLoader."""
        rows = [
            {"query": text, "text": text}
            if query
            else {**_parts_of(text), "body": getattr(text, "body", text), "text": text}
            for text in texts
        ]
        return model.encode(
            torch.utils.data.DataLoader(_datasets.Dataset.from_list(rows), self.batch_size),
            prompt_type=_mteb().types.PromptType("query" if query else "document"),
            batch_size=self.batch_size,
            **_mteb_task(),
        )


def _parts_of(text: str) -> dict[str, str]:
    """Return the title of a passage, "" if it has none, and its text without the title."""
    return {"title": getattr(text, "heading", ""), "text": getattr(text, "body", text)}


def _mteb() -> Any:
    """Import MTEB, which is installed where one of its models is."""
    return import_module("mteb")


def _mteb_task() -> dict[str, Any]:
    """Return the arguments by which MTEB names the task, part and language to its models."""
    return {
        "task_metadata": _mteb().get_task("MSMARCO").metadata,
        "hf_split": "test",
        "hf_subset": "default",
    }


class VectorSearch(EncoderSearch):
    """How vectors are searched: a pair of the queries' vectors and the passages' matrix.

    The matrix has one row per passage, in the collection's order. The queries are a mapping from
    query_id to vector, or a function from a list of texts to vectors.
    """

    methods = ("passages", "queries")

    def sides(self, model: Any, run: Run) -> tuple[Iterable[Passage], list[str]]:
        """Return the passages with their rows as texts, and the ids or the texts of queries.

        Raises:
            UsageError: if a passage or a query has no vector.
        """
        (queries, matrix), (passages, texts) = model, super().sides(model, run)
        if len(matrix) != (count := len(run.passage_ids())):
            raise UsageError(
                f"the matrix has {len(matrix)} rows, and {run.collection.name} has {count} "
                "passages; encode open_collection(...).passages() in their order"
            )
        rows = (passage._replace(text=str(row)) for row, passage in enumerate(passages))
        if callable(queries):
            return rows, texts
        ids = [row.query_id for row in run.queries]
        if missing := [query_id for query_id in ids if query_id not in queries]:
            raise UsageError(
                f"{len(missing)} of {len(ids)} test queries have no vector, e.g. {missing[0]!r}; "
                "give a mapping from each query_id to its vector"
            )
        return rows, ids

    def call(self, model: Any, texts: list[str], *, query: bool) -> Any:
        """Return rows of the matrix, or the vectors of queries."""
        queries, matrix = model
        if not query:
            return matrix[list(map(int, texts))]
        return queries(texts) if callable(queries) else [queries[query_id] for query_id in texts]


# ---- objects that rank ---------------------------------------------------------------------------


class EngineSearch(Searcher):
    """How an object searches that does so itself: ``search(queries, k)`` ranks for each query."""

    method: ClassVar[str] = "search"

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Search for some queries at a time, and check the rankings that come back."""
        ids = run.passage_ids()
        pairs = zip(run.queries, self.model_rankings(model, run), strict=True)
        rankings = (checked_ranking(each, row.query_id, ids, self.depth) for row, each in pairs)
        return run.ranked(rankings, ids)

    def model_rankings(self, model: Any, run: Run) -> Iterator[Any]:
        """Yield what the model gives for each query of a run, in their order."""
        for rows in batches(run.queries, self.batch_size):
            with user_code(model, self.method):
                given = _in_order(self.method, self.call(model, rows), rows)
            yield from given

    def call(self, model: Any, rows: Sequence[Row]) -> Any:
        """Return the rankings that the model gives for some queries."""
        return model.search([row.text for row in rows], self.depth)


def _in_order(method: str, found: Any, rows: Sequence[Row]) -> list[Any]:
    """Return one ranking per query, in the order of the queries.

    Args:
        method: the method or function that gave the rankings, for messages.
        found: rankings in the order of the queries, or a table of them.
        rows: the queries.

    Raises:
        UsageError: if they are neither, or their number is not that of the queries.
    """
    if is_table(found):
        return _of_table(method, found, rows)
    if isinstance(found, str | Mapping) or not has(found, "__iter__"):
        raise UsageError(
            f"{method} gave a {type(found).__name__}; it must give a list of rankings, "
            "one per query in the order of the queries"
        )
    given = list(found)
    if len(given) != len(rows):
        raise UsageError(
            f"{method} gave {len(given)} rankings for {len(rows)} queries; it must give "
            "one per query, empty if nothing is found"
        )
    return given


def _of_table(method: str, table: Any, rows: Sequence[Row]) -> list[list[tuple[Any, Any]]]:
    """Return the pairs of doc_id and score that a table has for each query, by id or by text."""
    names = getattr(table, "column_names", None) or list(table.columns)
    by_text = not any(name in names for name in _IDS)
    keys = [row.text if by_text else row.query_id for row in rows]
    found: dict[Any, list[tuple[Any, Any]]] = {key: [] for key in keys}
    for key, doc_id, score in table_rows(
        table, ((*_IDS, "query"), ("doc_id", "docno"), ("score",))
    ):
        if key not in found:
            raise UsageError(
                f"{method} gave a passage for {key!r}, which is none of its {len(rows)} queries; "
                "give the ids or the texts of these queries, as str"
            )
        found[key].append((doc_id, score))
    return [found[key] for key in keys]


class FunctionSearch(EngineSearch):
    """How a function of ``queries`` ranks; it gets ``k``, too, if it accepts that."""

    method = "the function"

    def call(self, model: Any, rows: Sequence[Row]) -> Any:
        """Return the rankings that the function gives for some texts."""
        return model([row.text for row in rows], **accepted(model, k=self.depth))


class PyTerrierSearch(EngineSearch):
    """How a pipeline of PyTerrier ranks: ``transform`` of a data frame of queries."""

    method = "transform"

    def call(self, model: Any, rows: Sequence[Row]) -> Any:
        """Return the data frame that the pipeline gives for some queries."""
        ids, texts = [row.query_id for row in rows], [row.text for row in rows]
        return model.transform(_pandas.DataFrame({"qid": ids, "query": texts}))


class MtebSearch(EngineSearch):
    """How a search model of MTEB ranks: it indexes all passages, and searches all queries at once.

    The passages are held in memory.
    """

    def model_rankings(self, model: Any, run: Run) -> Iterator[Any]:
        """Yield the ranking that the model gives for each query of a run, in their order."""
        options: dict[str, Any] = {"encode_kwargs": {"batch_size": self.batch_size}}
        passages = [
            {"id": passage.doc_id, **_parts_of(passage.text)} for passage in run.passages("")
        ]
        queries = [{"id": row.query_id, "text": row.text} for row in run.queries]
        with user_code(model, "index"):
            model.index(_datasets.Dataset.from_list(passages), **_mteb_task(), **options)
        with user_code(model, "search"):
            found = model.search(
                _datasets.Dataset.from_list(queries), top_k=self.depth, **_mteb_task(), **options
            )
            rankings = [found[row.query_id] for row in run.queries]
        yield from rankings


class WordSearch(Searcher):
    """How an index of bm25s or rank_bm25 ranks: passages that share a word with the query.

    Its passages are the collection's, in their order. Its attribute ``tokenizer`` is a function
    from a text to a list of words.
    """

    def check_model(self, model: Any) -> None:
        """Check that the index has a tokenizer.

        Raises:
            UsageError: if it has none.
        """
        if not has(model, "tokenizer"):
            raise UsageError(
                f"this {type(model).__name__} has no tokenizer, so nothing tells how its passages "
                "became words; set the function that you used, from a text to a list of words, "
                "e.g. model.tokenizer = str.split"
            )

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Rank the passages whose score is not 0, for one query after the other."""
        ids = run.passage_ids()
        return run.ranked((self._ranking(model, row.text, ids) for row in run.queries), ids)

    def _ranking(self, model: Any, text: str, ids: PassageIds) -> Ranking:
        with user_code(model, "tokenizer"):
            words = list(model.tokenizer(text))
        if not words:  # bm25s refuses a query without words
            return {}
        with user_code(model, "get_scores"):
            scores = np.asarray(model.get_scores(words), np.float32)
        if scores.shape != (len(ids),):
            raise UsageError(
                f"get_scores gave scores of shape {scores.shape}, and the collection has "
                f"{len(ids)} passages; index open_collection(...).passages() in their order"
            )
        rows = np.flatnonzero(scores)
        best = TopK(ids, 1, self.depth)
        best.add_some(0, scores[rows], rows)
        return rankings_of(best.keys, ids)[0]


# ---- the table -----------------------------------------------------------------------------------


def _is(library: str, name: str) -> Callable[[object], bool]:
    """Return the function that recognises the objects of a class and of its subclasses."""

    def recognise(model: object) -> bool:
        return any(
            (one.__module__.partition(".")[0], one.__name__) == (library, name)
            for one in type(model).__mro__
        )

    return recognise


def _takes_queries(model: object) -> bool:
    """Return whether an object can be called, and its first parameter is ``queries``."""
    try:
        return callable(model) and next(iter(inspect.signature(model).parameters)) == "queries"
    except (StopIteration, TypeError, ValueError):
        return False


def _are_vectors(model: object) -> bool:
    """Return whether an object is a pair of queries' vectors and a matrix."""
    if not (isinstance(model, tuple) and len(model) == 2):
        return False
    queries, matrix = model
    is_queries = callable(queries) or isinstance(queries, Mapping)
    return is_queries and getattr(matrix, "ndim", 0) == 2


def _is_mteb(*methods: str) -> Callable[[object], bool]:
    """Return the function that recognises models of MTEB that have some methods."""
    return lambda model: hasattr(model, "mteb_model_meta") and has(model, *methods)


_OF_SENTENCE_TRANSFORMERS = (
    "CrossEncoder",
    "MultiVectorEncoder",
    "SparseEncoder",
    "SentenceTransformer",
)

ADAPTERS: tuple[Adapter, ...] = (
    *(Adapter(name, _is("sentence_transformers", name)) for name in _OF_SENTENCE_TRANSFORMERS),
    Adapter("model2vec.StaticModel", _is("model2vec", "StaticModel"), "static", StaticSearch),
    Adapter("pyterrier.Transformer", _is("pyterrier", "Transformer"), "pyterrier", PyTerrierSearch),
    Adapter("bm25s.BM25", _is("bm25s", "BM25"), "bm25s", WordSearch),
    Adapter("rank_bm25.BM25", _is("rank_bm25", "BM25"), "rank-bm25", WordSearch),
    Adapter("MTEB's search model", _is_mteb("index", "search"), "mteb-search", MtebSearch),
    Adapter("MTEB's encoder", _is_mteb("encode"), "mteb-encoder", MtebEncoderSearch),
    Adapter("search(queries, k)", lambda model: has(model, "search"), "search", EngineSearch),
    Adapter("encode_query(texts)", lambda model: has(model, *ENCODES), "encoder", EncoderSearch),
    Adapter("BEIR's encoder", lambda model: has(model, *BeirSearch.methods), "beir", BeirSearch),
    Adapter("function of queries", _takes_queries, "function", FunctionSearch),
    Adapter("pair of vectors", _are_vectors, "vectors", VectorSearch),
)
"""The kinds of objects that rank or encode; the first that recognises an object counts."""
