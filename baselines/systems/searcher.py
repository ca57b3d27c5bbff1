"""Searchers: they rank passages with a model, by the table ``[search]`` of a recipe.

A searcher depends on the model's kind, not on its training. So trained, published and in-memory
models are searched in the same way. A model that ranks BM25's passages is a reranker: its recall is
BM25's and cannot shift. Its run tag and sidecar contain the candidates.

Each retriever searches in the same steps. Passages are encoded in blocks, with a file per block;
each block is searched for all queries; and `TopK` merges the blocks by score, then doc_id. So
neither the number of blocks nor an interruption between two blocks changes a ranking.

Rules for all rankings, of a plug-in's ``rank``, a ``search`` and a reranker: a ranking maps doc_ids
of the collection to finite scores. Each query of a run gets exactly one ranking, which is empty if
nothing is found. Rankings that break these rules are an error, because a query without a ranking
would score 0. The systems of this package make rankings from rows of the collection. For them only
the query_ids are checked, to save time.
"""

from __future__ import annotations

import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from msshift_bench.baselines.systems.recipe import SearchSettings
from msshift_bench.baselines.systems.system import Run
from msshift_bench.errors import DataError, UsageError, quoted
from msshift_bench.libraries import sentence_transformers
from msshift_bench.plumbing import CHECKSUM, batches, report_progress, slices, write_atomically
from msshift_bench.records import Passage
from msshift_bench.search import PassageIds, Ranking, TopK, rankings_of

_logger = logging.getLogger(__name__)

ALL_PASSAGES = "all"

CandidatesName = Annotated[str, Field(pattern=f"^({ALL_PASSAGES}|bm25:([1-9][0-9]*))$")]
"""A recipe's ``candidates``: ``all`` or ``bm25:<number>``."""

Candidates = Sequence[npt.NDArray[np.int64]]
"""For each query, the indices of the passages to score."""


class Searcher(SearchSettings, ABC):
    """One way to rank passages with a model, which is an argument of its methods."""

    def check_model(self, model: Any) -> None:
        """Check that a model can rank with this searcher; called before passages are read.

        Raises:
            UsageError: if it cannot; the message contains the reason.
        """

    @abstractmethod
    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) for each of the run's queries; excluded passages may be in it.

        Args:
            model: the model, which does not change.
            run: the queries and the collection; encoded passages are kept in `Run.work`.
        """

    def rankings(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) for each query: at most `depth` passages, none excluded.

        Args:
            model: the model, which does not change.
            run: the queries, the collection and the exclusions.
        """
        exclusions, more = run.exclusions, run.exclusions.most(run.queries)
        # A reranker's candidates, BM25's first passages, contain no excluded passage.
        search = self if self.reranks or not more else self.changed(depth=self.depth + more)
        for query_id, ranking in search.rank(model, run):
            yield query_id, exclusions.left(query_id, ranking, self.depth) if more else ranking

    @property
    def reranks(self) -> int:
        """The number of BM25's first passages that it reranks; 0 for a retriever."""
        return 0

    @property
    def tag(self) -> str:
        """The last part of a reranker's run tag, ``-reranks-bm25-<number>``; "" for a retriever."""
        return f"-reranks-bm25-{self.reranks}" if self.reranks else ""

    @property
    def described_candidates(self) -> str:
        """The candidates in a sidecar: ``reranks BM25's first 1000``, or ``all passages``."""
        return f"reranks BM25's first {self.reranks}" if self.reranks else "all passages"


class Scorer(Searcher):
    """A searcher that can also score given passages; validation and teachers need it."""

    @abstractmethod
    def score(
        self, model: Any, queries: Sequence[str], passages: Sequence[str], candidates: Candidates
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield, for each query, the scores of its candidates, shape (candidates,).

        Args:
            model: the model.
            queries: the texts of the queries.
            passages: the texts of the passages; each is a candidate of a query.
            candidates: for each query, the indices of its candidates in `passages`.
        """

    def together(self, model: Any) -> int:
        """Return the number of texts or pairs that a model encodes together.

        It is `batch_size`; for a transformer on a CPU at most `_CPU_BATCH`.
        """
        transformer = sentence_transformers.base.modules.Transformer
        has_one = any(isinstance(module, transformer) for module in model.modules())
        is_capped = has_one and model.device.type == "cpu"
        return min(self.batch_size, _CPU_BATCH) if is_capped else self.batch_size


Arrays = Mapping[str, npt.NDArray[Any]]
"""The arrays of one block: name -> array."""

AddBlock = Callable[[TopK, slice, Arrays, slice], None]
"""``(best, part, block, rows)``: adds to `best` the scores of a block's passages for the queries of
the slice `part`; `rows` are the rows of the passages in the collection."""

_CPU_BATCH = 16
"""Most texts that a transformer on a CPU encodes together: the states of more do not fit into the
CPU's caches."""

_SIZE = 20_480
"""Passages per block: 63 MB of vectors with 768 dimensions."""

_QUERIES = 16_384
"""Queries searched together: with 1,000 passages each, 0.5 GB of candidates at most."""

_RANKINGS = 128
"""Rankings that are in memory as Python mappings at the same time."""


@dataclass(frozen=True, slots=True)
class EncodedPassages:
    """The encoded passages of a collection, in files of blocks.

    Attributes:
        ids: the doc_ids of the passages, in the order of the blocks.
        files: file of a block's arrays -> rows of the block's passages in the collection.
    """

    ids: PassageIds
    files: Mapping[Path, slice]

    @property
    def bytes(self) -> int:
        """The size of all blocks on disk in bytes."""
        return sum(file.stat().st_size for file in self.files)

    def blocks(self) -> Iterator[tuple[slice, Arrays]]:
        """Yield the rows and the arrays of each block, one block in memory at a time."""
        for file, rows in self.files.items():
            with np.load(file) as arrays:
                yield rows, dict(arrays)


def encode_passages(
    encode: Callable[[list[str]], Arrays], passages: Iterable[Passage], folder: Path, total: int = 0
) -> EncodedPassages:
    """Return passages encoded into files of blocks; existing blocks are used again.

    A block's file name contains the digest of its passages, but not of the model: use a separate
    folder for each model.

    Args:
        encode: returns the arrays of a block's texts.
        passages: the passages; streamed once.
        folder: the folder of the blocks.
        total: the number of passages, for the progress; 0 if unknown.
    """
    report_progress("encode", 0, total)
    doc_ids: list[str] = []
    files: dict[Path, slice] = {}
    for block in batches(passages, _SIZE):
        digest = hashlib.sha256(repr(block).encode()).hexdigest()
        path = folder / f"{len(files):05d}-{digest[:32]}.npz"
        if not path.exists():
            arrays = encode([passage.text for passage in block])
            with write_atomically(path) as file:
                np.savez(file, allow_pickle=False, **arrays)
        files[path] = slice(len(doc_ids), len(doc_ids) + len(block))
        doc_ids.extend(passage.doc_id for passage in block)
        report_progress("encode", len(doc_ids), total)
    return EncodedPassages(PassageIds(doc_ids), files)


def search_blocks(
    add: AddBlock, passages: EncodedPassages, queries: int, *, depth: int, floor: float = -np.inf
) -> Iterator[Ranking]:
    """Yield a ranking for each query, in order; empty if no score is above `floor`.

    One block of passages is in memory at a time.

    Args:
        add: adds the scores of a block's passages; see `AddBlock`.
        passages: the encoded passages.
        queries: the number of queries.
        depth: passages per ranking.
        floor: only passages with a score above it are ranked.
    """
    for part in slices(queries, _QUERIES):
        best = TopK(passages.ids, part.stop - part.start, depth, floor)
        for number, (rows, block) in enumerate(passages.blocks(), 1):
            add(best, part, block, rows)
            report_progress("search blocks", number, len(passages.files))
        keys = best.keys
        for rows in slices(len(keys), _RANKINGS):
            yield from rankings_of(keys[rows], passages.ids)


def best_of(
    ids: PassageIds, rows: npt.NDArray[np.int64], scores: npt.NDArray[np.float32], depth: int | None
) -> Ranking:
    """Return the ranking of the given passages: by score, then doc_id, both descending.

    Args:
        ids: the collection's doc_ids.
        rows: the passages' rows in the collection, shape (passages,).
        scores: the passages' scores, shape (passages,).
        depth: most passages of the ranking; `None` for all.
    """
    best = np.lexsort((-ids.order[rows], -scores))[:depth]
    return dict(zip(ids.ids[rows[best]].tolist(), scores[best].tolist(), strict=True))


class BlockSearch(Scorer):
    """A search over passages that the model encodes in blocks.

    Attributes:
        floor: only passages with a score above it are ranked.
        similarities: the names of the similarities that models may have; if empty, none is checked.
    """

    floor: ClassVar[float] = -np.inf
    similarities: ClassVar[tuple[str, ...]] = ()

    def check_model(self, model: Any) -> None:
        """Check that the search supports the model's similarity.

        Raises:
            UsageError: if it does not.
        """
        if self.similarities and self.similarity_name(model) not in self.similarities:
            raise UsageError(
                f"the model's similarity must be {' or '.join(self.similarities)}, got "
                f"{self.similarity_name(model)!r}; give a function of queries that ranks with the "
                "model's own retriever, or set its similarity_fn_name"
            )

    def similarity_name(self, model: Any) -> str:
        """Return the name of a model's similarity, e.g. ``cosine``."""
        return str(model.similarity_fn_name)

    @abstractmethod
    def encode(self, model: Any, texts: Sequence[str], *, query: bool) -> Any:
        """Return the encoded texts: the arrays of a block for passages, an array-like for queries.

        The encoded queries have a ``shape`` and can be sliced.

        Args:
            model: the model.
            texts: the texts of queries or passages.
            query: whether the texts are queries.

        Raises:
            DataError: if a value is not finite.
        """

    @abstractmethod
    def add(self, best: TopK, queries: Any, block: Arrays, rows: slice) -> None:
        """Add the scores of a block's passages to `best`.

        Args:
            best: the passages with the highest scores of each query so far.
            queries: the queries of `best`, a slice of the result of `encode`.
            block: the arrays of the block.
            rows: the rows of the block's passages in the collection.
        """

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) for each query; passages encoded earlier are used again."""
        queries, passages = self.encoded(model, run)
        yield from run.ranked(self.search(queries, passages), passages.ids)

    def search(self, queries: Any, passages: EncodedPassages) -> Iterator[Ranking]:
        """Yield a ranking for each query: at most `depth` passages with scores above `floor`.

        Args:
            queries: all queries, as `encode` returns them.
            passages: the encoded passages.
        """

        def add(best: TopK, part: slice, block: Arrays, rows: slice) -> None:
            self.add(best, queries[part], block, rows)

        return search_blocks(add, passages, queries.shape[0], depth=self.depth, floor=self.floor)

    @property
    def folder(self) -> str:
        """The name of the folder of blocks, in the folder of unfinished work."""
        return "passages"

    def sides(self, model: Any, run: Run) -> tuple[Iterable[Passage], list[str]]:
        """Return the passages of a run and the texts of its queries, to be encoded."""
        del model
        return run.passages(""), [row.text for row in run.queries]

    def encoded(self, model: Any, run: Run) -> tuple[Any, EncodedPassages]:
        """Return the encoded queries and the encoded passages of a run."""
        with run.stage("encode"):
            passages_to_encode, texts = self.sides(model, run)
            passages = encode_passages(
                partial(self.encode, model, query=False),
                passages_to_encode,
                run.work / self.folder,
                run.passage_count,
            )
            queries = self.encode(model, texts, query=True)
        run.facts["index"] = {"bytes": passages.bytes}
        return queries, passages


# ---- the rules for rankings ----------------------------------------------------------------------


_PAIRS = "it must yield a pair (query_id, ranking) for each query of the run"

_SIDECAR = (
    *(
        "schema",
        "baseline",
        "training_queries",
        "tag",
        "collection",
        "queries",
        "versions",
        "hardware",
        "seconds",
    ),
    *("run_sha256", "queries_without_passages", CHECKSUM),
)
"""The keys of a sidecar that no fact may replace, besides the keys of the run's identity."""


def checked_rankings(run: Run, given: Any) -> Generator[tuple[str, Ranking], None, None]:
    """Yield the pairs (query_id, ranking) that a system's ``rank`` returned, checked.

    Rankings of other packages' systems are sorted, without excluded passages. The queries of empty
    rankings are recorded in the run's facts.

    Args:
        run: the run.
        given: pairs (query_id, ranking), or a mapping from query_id to ranking.

    Raises:
        UsageError: if `given`, a pair or a ranking has another type, or a fact of the system has a
            key of the sidecar.
        DataError: if a query has no ranking or two, a ranking breaks the rules of this module, or
            all rankings are empty.
    """
    pairs = given.items() if isinstance(given, Mapping) else given
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise UsageError(f"rank of {run.system.name} returned {quoted(given)}; {_PAIRS}")
    left = {row.query_id: True for row in run.queries}
    is_ours = type(run.system).__module__.startswith("msshift_bench.")
    empty: list[str] = []
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise UsageError(f"rank of {run.system.name} yielded {quoted(pair)}; {_PAIRS}")
        query_id, ranking = pair
        if not left.get(query_id):
            problem = "has two rankings" if query_id in left else "is not a query of this run"
            raise DataError(
                f"{run.name}: {quoted(query_id)} {problem}; yield exactly one ranking for each of "
                "run.queries"
            )
        _check_facts(run)
        left[query_id] = False
        if not is_ours:
            ranking = checked_ranking(ranking, query_id, run.passage_ids())
            ranking = run.exclusions.left(query_id, ranking)
        if not ranking:
            empty.append(query_id)
        yield query_id, ranking
    _check_facts(run)
    if missing := [query_id for query_id, is_left in left.items() if is_left]:
        raise DataError(
            f"{run.name}: {len(missing)} of {len(left)} queries have no ranking, e.g. "
            f"{missing[0]!r}; yield an empty ranking, {{}}, for a query for which nothing is found"
        )
    if len(empty) == len(left):
        raise DataError(
            f"{run.name}: all rankings are empty; check that the queries and the collection belong "
            "together"
        )
    if empty:
        run.facts["queries_without_passages"] = sorted(empty)
        _logger.warning(
            "%s: nothing was retrieved for %d of %d queries, which score 0",
            *(run.name, len(empty), len(left)),
        )


def _check_facts(run: Run) -> None:
    for key in run.facts:
        if key in _SIDECAR or key in run.identity:
            raise UsageError(
                f"run.facts[{key!r}] would replace the key {key!r} of the sidecar of {run.name}; "
                "choose another key"
            )


def checked_ranking(
    given: Any, query_id: str, ids: PassageIds, depth: int | None = None
) -> Ranking:
    """Return a checked ranking, sorted by score, then doc_id, both descending; it may be empty.

    Args:
        given: doc_id -> score; or pairs (doc_id, score); or mappings with the keys ``id`` and
            ``score``, as PyLate's retrievers return them.
        query_id: the query, for messages.
        ids: the doc_ids of the collection.
        depth: most passages to keep; by default all.

    Raises:
        UsageError: if `given` does not consist of doc_ids and scores.
        DataError: if a doc_id is repeated or not in the collection, or a score is not finite.
    """
    where = f"the ranking of query {query_id!r}"
    try:
        pairs = [
            (pair["id"], pair["score"]) if isinstance(pair, Mapping) else pair
            for pair in (given.items() if isinstance(given, Mapping) else given)
        ]
        doc_ids = [doc_id for doc_id, _ in pairs]
        with np.errstate(over="ignore"):
            scores = np.array([float(score) for _, score in pairs], np.float32)
    except (TypeError, ValueError, OverflowError, KeyError) as error:
        raise UsageError(
            f"{where} must map doc_ids to scores, or be a list of pairs (doc_id, score): {error}"
        ) from error
    if wrong := [doc_id for doc_id in doc_ids if not isinstance(doc_id, str)]:
        raise UsageError(
            f"{where} has the doc_id {wrong[0]!r} of type {type(wrong[0]).__name__}; return the "
            "doc_ids of the collection, as str"
        )
    if len(set(doc_ids)) < len(doc_ids):
        twice = next(doc_id for doc_id in doc_ids if doc_ids.count(doc_id) > 1)
        raise DataError(f"{where} has the doc_id {twice!r} twice; return each passage once")
    rows = ids.rows(doc_ids)
    if None in rows:
        raise DataError(
            f"{where} has the doc_id {doc_ids[rows.index(None)]!r}, which is not in the "
            "collection; rank the passages of the collection that the data set was built from"
        )
    check_scores(scores, doc_ids, where)
    return best_of(ids, np.array(rows, np.int64), scores, depth)


def check_scores(scores: npt.NDArray[np.float32], names: Sequence[str], where: str) -> None:
    """Check that each passage has one finite score.

    Args:
        scores: the scores of a model or a plug-in.
        names: the name of each passage in messages.
        where: the subject of messages, e.g. ``the ranking of query '7'``.

    Raises:
        DataError: if the numbers of scores and passages differ, or a score is not finite.
    """
    if scores.shape != (len(names),):
        raise DataError(
            f"{where} has scores of shape {scores.shape} for {len(names)} passages; return one "
            "score per passage"
        )
    for row in np.flatnonzero(~np.isfinite(scores))[:1]:
        raise DataError(
            f"{where} has the score {scores[row]} for {names[row]!r}; scores must be finite in 32 "
            "bits"
        )
