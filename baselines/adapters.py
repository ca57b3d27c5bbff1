"""Adapters: the kinds of objects that rank or encode, and the searcher class of each.

`ADAPTERS` is the table of kinds. An object's kind is recognised by the names of its classes,
methods and parameters, so no library is imported for it.
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
from msshift_bench.settings import added_field

_datasets: Any = Library("datasets", what="a model of MTEB")
_pandas: Any = Library("pandas", extra="")

_IDS = ("query_id", "qid", "q_id")
"""The accepted names of the column of query ids in a table of rankings."""

ENCODES = ("encode_query", "encode_document")
"""The methods of an encoder: they return the vectors of queries and of passages."""

_INCOMPLETE = (
    "encode",
    "encode_queries",
    "encode_corpus",
    "embed_query",
    "embed_documents",
    "predict",
)
"""Methods of other libraries' models; one of them alone is not enough to rank."""


class Adapter(NamedTuple):
    """One kind of object that ranks or encodes.

    Attributes:
        title: the name of the kind in messages and in the documentation.
        recognise: returns whether an object is of this kind.
        kind: the name of the kind in sidecars; "" for sentence-transformers' classes, whose
            kinds are keys of `neural_systems`.
        searcher: the class that ranks passages with the object; `None` for
            sentence-transformers' classes, whose searchers are in `neural_systems`.
    """

    title: str
    recognise: Callable[[Any], bool]
    kind: str = ""
    searcher: type[Searcher] | None = None


def find_searcher(model: Any) -> tuple[str, type[Searcher]] | None:
    """Return a model's kind, as in sidecars, and its searcher class; `None` for other objects.

    Args:
        model: any object; a model is an object of a kind in `ADAPTERS`, not a class.

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
    """Return the part of an error message that lists the kinds of models.

    Args:
        given: an object that is no model; the message names its methods of other kinds.
    """
    methods = [method for method in (*_INCOMPLETE, *ENCODES) if has(given, method)]
    titles = ", ".join(row.title for row in reversed(ADAPTERS) if "(" not in row.title)
    return (
        "a model has search(queries, k), or encode_query(texts) and encode_document(texts), or is "
        f"one of these: {titles}"
        + (f"; this {type(given).__name__} has {' and '.join(methods)} only" if methods else "")
    )


def has(model: object, *methods: str) -> bool:
    """Return whether an object has all the named methods."""
    return all(callable(getattr(model, method, None)) for method in methods)


def accepted(function: Callable[..., object], **options: Any) -> dict[str, Any]:
    """Return the options that a function accepts by name; all if it has ``**options``.

    Raises:
        ValueError: if the function's parameters cannot be read, as for some built-in functions.

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
    """Return a context that turns exceptions of a user's model into a `UsageError`.

    The message names the model, the method and the exception.

    Args:
        model: the user's model or function.
        method: the method that is called, or the name of the function.

    Raises:
        UsageError: for any exception except this package's own errors, which pass unchanged.
    """
    try:
        yield
    except MsShiftError:
        raise
    except Exception as error:
        name = getattr(model, "__name__", method)
        where = f"{type(model).__name__}.{method}" if hasattr(model, method) else name
        raise UsageError(
            f"{where} raised {type(error).__name__}: {error}. Correct {where}; the traceback above "
            "shows the line"
        ) from error


# ---- objects that encode -------------------------------------------------------------------------


_UNPACKED = {
    np.dtype(np.uint8): "np.unpackbits(vectors, axis=1)",
    np.dtype(np.int8): "np.unpackbits(vectors.view(np.uint8) ^ 128, axis=1)",
}
"""Data type of packed binary vectors -> the expression that unpacks them into bits.

The types are sentence-transformers' precisions ``ubinary`` and ``binary``.
"""


class EncoderSearch(DenseSearch):
    """Search with an encoder in memory: it compares vectors by dot product or cosine.

    Attributes:
        similarity: ``dot`` or ``cosine``; `None` for the default. The default is the dot product,
            for a StaticModel the cosine, and for an encoder of MTEB the similarity in its metadata.
    """

    default: ClassVar[str] = "dot"
    """The similarity if `similarity` is `None`."""

    similarity: Literal["dot", "cosine"] | None = added_field(None)

    def similarity_name(self, model: Any) -> str:
        """Return the name of the similarity: ``dot`` or ``cosine``."""
        del model
        return self.similarity or self.default

    def vectors(self, model: Any, texts: Sequence[str], *, query: bool) -> npt.NDArray[np.float32]:
        """Return the vectors of one text or more, 32-bit floats of shape (texts, dimensions).

        Raises:
            UsageError: if the model raises an exception, or does not return one vector of real
                numbers per text; 8-bit integers are refused.
        """
        method = self.methods[query]
        parts = []
        for part in batches(texts, self.batch_size):
            with user_code(model, method):
                vectors = self.call(model, part, query=query)
            parts.append(_checked_vectors(method, vectors, part))
        return np.concatenate(parts)

    def call(self, model: Any, texts: list[str], *, query: bool) -> Any:
        """Return the model's vectors of one batch of texts, unchecked."""
        return getattr(model, self.methods[query])(texts)


def _checked_vectors(method: str, returned: Any, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    vectors = _as_array(returned)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise UsageError(
            f"{method} returned an array of shape {vectors.shape} for {len(texts)} texts; return "
            f"one vector per text, an array of shape ({len(texts)}, dimensions)"
        )
    if vectors.dtype in _UNPACKED:
        raise UsageError(
            f"{method} returned vectors of type {vectors.dtype}: these are codes, whose dot "
            "products are no similarities. Unpack binary vectors with "
            f"{_UNPACKED[vectors.dtype]} * 2.0 - 1, or scale quantized numbers to 32-bit floats"
        )
    return vectors.astype(np.float32, copy=False)


def _as_array(values: Any) -> npt.NDArray[Any]:
    """Return an array of 32-bit floats, or of 8-bit codes unchanged; torch tensors may be on a GPU.

    Raises:
        UsageError: if the value is no array of real numbers.
    """
    if has(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() else values
    try:
        array = np.asarray(values)
        if np.iscomplexobj(array):  # the imaginary part would be dropped
            raise TypeError(f"{array.dtype} is not real")
        return array if array.dtype in _UNPACKED else array.astype(np.float32, copy=False)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"vectors must be an array or a tensor of numbers, got {type(values).__name__}: {error}"
        ) from error


class StaticSearch(EncoderSearch):
    """Search with a StaticModel of model2vec: by cosine, unless `similarity` is given."""

    methods = ("encode", "encode")
    default = COSINE


class BeirSearch(EncoderSearch):
    """Search with an encoder of BEIR, which gets a passage's title and text separately."""

    methods = ("encode_corpus", "encode_queries")

    def call(self, model: Any, texts: list[str], *, query: bool) -> Any:
        """Return the model's vectors of one batch; passages have ``title`` and ``text``."""
        method = getattr(model, self.methods[query])
        options = accepted(method, batch_size=self.batch_size, show_progress_bar=False)
        return method(texts if query else list(map(_title_and_text, texts)), **options)


class MtebEncoderSearch(EncoderSearch):
    """Search with an encoder of MTEB, by `similarity`.

    By default, it is the similarity in the encoder's metadata, else its inner model's, else cosine.

    The encoder is called with the metadata of MTEB's retrieval task MSMARCO, so that it uses the
    prompts of that task.
    """

    methods = ("encode", "encode")

    def similarity_name(self, model: Any) -> str:
        """Return `similarity`, else the metadata's or the inner model's, else ``cosine``."""
        named = getattr(model.mteb_model_meta, "similarity_fn_name", None)
        inner = getattr(getattr(model, "model", None), "similarity_fn_name", None)
        return self.similarity or str(named or inner or COSINE)

    def call(self, model: Any, texts: list[str], *, query: bool) -> Any:
        """Return the model's vectors of one batch, which it gets in a DataLoader."""
        rows = [
            {"query": text, "text": text}
            if query
            else {**_title_and_text(text), "body": getattr(text, "body", text), "text": text}
            for text in texts
        ]
        return model.encode(
            torch.utils.data.DataLoader(_datasets.Dataset.from_list(rows), self.batch_size),
            prompt_type=_mteb().types.PromptType("query" if query else "document"),
            batch_size=self.batch_size,
            **_mteb_task(),
        )


def _title_and_text(text: str) -> dict[str, str]:
    """Return ``title``, "" if a passage has none, and ``text``, without the title."""
    return {"title": getattr(text, "heading", ""), "text": getattr(text, "body", text)}


def _mteb() -> Any:
    return import_module("mteb")


def _mteb_task() -> dict[str, Any]:
    return {
        "task_metadata": _mteb().get_task("MSMARCO").metadata,
        "hf_split": "test",
        "hf_subset": "default",
    }


class VectorSearch(EncoderSearch):
    """Search with ready vectors: a pair of the queries' vectors and the passages' matrix.

    The matrix has the shape (passages, dimensions), in the collection's order. The queries are a
    mapping from query_id to vector, or a function from a list of texts to vectors.
    """

    methods = ("passages", "queries")

    def sides(self, model: Any, run: Run) -> tuple[Iterable[Passage], list[str]]:
        """Return the inputs of `call` for passages and for queries.

        Returns:
            The passages, each with its row number in the matrix as text; and the query_ids if the
            queries are a mapping, else their texts.

        Raises:
            UsageError: if a passage or a query has no vector.
        """
        (queries, matrix), (passages, texts) = model, super().sides(model, run)
        if len(matrix) != (count := len(run.passage_ids())):
            raise UsageError(
                f"the matrix has {len(matrix)} rows, but {run.collection.name} has {count} "
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
        """Return the vectors of a batch from `sides`: of query ids or texts, or matrix rows."""
        queries, matrix = model
        if not query:
            return matrix[list(map(int, texts))]
        return queries(texts) if callable(queries) else [queries[query_id] for query_id in texts]


# ---- objects that rank ---------------------------------------------------------------------------


class EngineSearch(Searcher):
    """Search with an object that ranks: its ``search(queries, k)`` returns a ranking per query."""

    method: ClassVar[str] = "search"

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) for each query: the model's ranking, cut at `depth`.

        Raises:
            UsageError, DataError: if a ranking is wrong; see `checked_ranking`.
        """
        ids = run.passage_ids()
        pairs = zip(run.queries, self.model_rankings(model, run), strict=True)
        rankings = (checked_ranking(each, row.query_id, ids, self.depth) for row, each in pairs)
        return run.ranked(rankings, ids)

    def model_rankings(self, model: Any, run: Run) -> Iterator[Any]:
        """Yield the model's ranking for each query of a run, in order and not yet checked.

        Raises:
            UsageError: if the model raises an exception, or returns no list of rankings or not one
                per query.
        """
        for rows in batches(run.queries, self.batch_size):
            with user_code(model, self.method):
                rankings = _in_order(self.method, self.call(model, rows), rows)
            yield from rankings

    def call(self, model: Any, rows: Sequence[Row]) -> Any:
        """Return the model's rankings for one batch of queries."""
        return model.search([row.text for row in rows], self.depth)


def _in_order(method: str, rankings: Any, rows: Sequence[Row]) -> list[Any]:
    """Return one ranking per query, in the order of the queries.

    Args:
        method: the method or function that returned the rankings, for messages.
        rankings: rankings in the order of the queries, or a table of them.
        rows: the queries.

    Raises:
        UsageError: if `rankings` is no list or table, or has not one ranking per query.
    """
    if is_table(rankings):
        return _table_rankings(method, rankings, rows)
    if isinstance(rankings, str | Mapping) or not has(rankings, "__iter__"):
        raise UsageError(
            f"{method} returned a {type(rankings).__name__}; return a list of rankings, "
            "one per query in the order of the queries"
        )
    given = list(rankings)
    if len(given) != len(rows):
        raise UsageError(
            f"{method} returned {len(given)} rankings for {len(rows)} queries; return "
            "one per query, empty if nothing is found"
        )
    return given


def _table_rankings(method: str, table: Any, rows: Sequence[Row]) -> list[list[tuple[Any, Any]]]:
    """Return the pairs (doc_id, score) of each query in `rows`; `[]` if the table has none.

    Queries are found by id, or by text if no column has ids. Queries of equal text have the same
    ranking, which the table may repeat for each. An unknown query is a `UsageError`.
    """
    names = getattr(table, "column_names", None) or list(table.columns)
    by_text = not any(name in names for name in _IDS)
    keys = [row.text if by_text else row.query_id for row in rows]
    rankings: dict[Any, list[tuple[Any, Any]]] = {key: [] for key in keys}
    for key, doc_id, score in table_rows(
        table, ((*_IDS, "query"), ("doc_id", "docno"), ("score",))
    ):
        if key not in rankings:
            raise UsageError(
                f"{method} returned a passage for {key!r}, which is none of its {len(rows)} "
                "queries; return the ids or the texts of these queries, as str"
            )
        rankings[key].append((doc_id, score))
    return [
        list(dict.fromkeys(rankings[key])) if keys.count(key) > 1 else rankings[key] for key in keys
    ]


class FunctionSearch(EngineSearch):
    """Search with a function of ``queries``, and of ``k`` if it has such a parameter."""

    method = "the function"

    def call(self, model: Any, rows: Sequence[Row]) -> Any:
        """Return the function's rankings for one batch of queries."""
        return model([row.text for row in rows], **accepted(model, k=self.depth))


class PyTerrierSearch(EngineSearch):
    """Search with a pipeline of PyTerrier: ``transform`` of a data frame of queries."""

    method = "transform"

    def call(self, model: Any, rows: Sequence[Row]) -> Any:
        """Return the pipeline's data frame of rankings for one batch of queries."""
        ids, texts = [row.query_id for row in rows], [row.text for row in rows]
        return model.transform(_pandas.DataFrame({"qid": ids, "query": texts}))


class MtebSearch(EngineSearch):
    """Search with a search model of MTEB: it indexes all passages, then ranks for all queries.

    All passages are in memory at once.
    """

    def model_rankings(self, model: Any, run: Run) -> Iterator[Any]:
        """Yield the model's ranking for each query of a run, in order and not yet checked."""
        options: dict[str, Any] = {"encode_kwargs": {"batch_size": self.batch_size}}
        passages = [
            {"id": passage.doc_id, **_title_and_text(passage.text)} for passage in run.passages("")
        ]
        queries = [{"id": row.query_id, "text": row.text} for row in run.queries]
        with user_code(model, "index"):
            model.index(_datasets.Dataset.from_list(passages), **_mteb_task(), **options)
        with user_code(model, "search"):
            by_query = model.search(
                _datasets.Dataset.from_list(queries), top_k=self.depth, **_mteb_task(), **options
            )
            rankings = [by_query[row.query_id] for row in run.queries]
        yield from rankings


class WordSearch(Searcher):
    """Search with an index of bm25s or rank_bm25: it ranks passages whose score is not 0.

    The index holds the collection's passages in their order. Its attribute ``tokenizer`` is a
    function from a text to a list of words.
    """

    def check_model(self, model: Any) -> None:
        """Check that the index has a tokenizer.

        Raises:
            UsageError: if it has none.
        """
        if not has(model, "tokenizer"):
            raise UsageError(
                f"this {type(model).__name__} has no tokenizer to divide queries into words; set "
                "the function that divided its passages, from a text to a list of words, e.g. "
                "model.tokenizer = str.split"
            )

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) for each query; empty for a query without words.

        Raises:
            UsageError: if the index does not return one score per passage.
        """
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
                f"get_scores returned scores of shape {scores.shape}, but the collection has "
                f"{len(ids)} passages; index open_collection(...).passages() in their order"
            )
        rows = np.flatnonzero(scores)
        best = TopK(ids, 1, self.depth)
        best.add_rows(0, scores[rows], rows)
        return rankings_of(best.keys, ids)[0]


# ---- the table -----------------------------------------------------------------------------------


def _is_a(library: str, name: str) -> Callable[[object], bool]:
    """Return a function that checks whether an object's class, or a base of it, has these names."""

    def recognise(model: object) -> bool:
        return any(
            (kind.__module__.partition(".")[0], kind.__name__) == (library, name)
            for kind in type(model).__mro__
        )

    return recognise


def _takes_queries(model: object) -> bool:
    try:
        return callable(model) and next(iter(inspect.signature(model).parameters)) == "queries"
    except (StopIteration, TypeError, ValueError):
        return False


def _are_vectors(model: object) -> bool:
    if not (isinstance(model, tuple) and len(model) == 2):
        return False
    queries, matrix = model
    is_queries = callable(queries) or isinstance(queries, Mapping)
    return is_queries and getattr(matrix, "ndim", 0) == 2


def _is_mteb(*methods: str) -> Callable[[object], bool]:
    """Return a function that returns whether an object is a model of MTEB with these methods."""
    return lambda model: hasattr(model, "mteb_model_meta") and has(model, *methods)


_SENTENCE_TRANSFORMERS = (
    "CrossEncoder",
    "MultiVectorEncoder",
    "SparseEncoder",
    "SentenceTransformer",
)

ADAPTERS: tuple[Adapter, ...] = (
    *(Adapter(name, _is_a("sentence_transformers", name)) for name in _SENTENCE_TRANSFORMERS),
    Adapter("model2vec.StaticModel", _is_a("model2vec", "StaticModel"), "static", StaticSearch),
    Adapter(
        "pyterrier.Transformer", _is_a("pyterrier", "Transformer"), "pyterrier", PyTerrierSearch
    ),
    Adapter("bm25s.BM25", _is_a("bm25s", "BM25"), "bm25s", WordSearch),
    Adapter("rank_bm25.BM25", _is_a("rank_bm25", "BM25"), "rank-bm25", WordSearch),
    Adapter("MTEB's search model", _is_mteb("index", "search"), "mteb-search", MtebSearch),
    Adapter("MTEB's encoder", _is_mteb("encode"), "mteb-encoder", MtebEncoderSearch),
    Adapter("search(queries, k)", lambda model: has(model, "search"), "search", EngineSearch),
    Adapter("encode_query(texts)", lambda model: has(model, *ENCODES), "encoder", EncoderSearch),
    Adapter("BEIR's encoder", lambda model: has(model, *BeirSearch.methods), "beir", BeirSearch),
    Adapter("function of queries", _takes_queries, "function", FunctionSearch),
    Adapter("pair of vectors", _are_vectors, "vectors", VectorSearch),
)
"""The kinds of objects that rank or encode; the first that recognises an object is its kind."""
