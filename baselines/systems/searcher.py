"""How a model ranks passages: the table ``[search]`` of a recipe, and what it does.

A model that was trained here, one that is published and one in memory are searched alike, so what
searches knows the model's kind and nothing of its training. A model that ranks BM25's passages is
a reranker: its recall is BM25's and cannot shift. Readers of the run must see that, so every run
names its candidates.

Every retriever searches in one form: passages are encoded block by block, each block in a file of
its own; every block is searched for all queries; and `TopK` merges the blocks by score, then
doc_id. So neither the number of blocks nor a kill between two of them changes a ranking.

The contract of all rankings, of a plug-in's ``rank``, a ``search`` and a reranker: a ranking maps
doc_ids of the collection to finite scores. Each query of a run gets exactly one, which is empty if
nothing is found. Rankings that break the contract are refused: a query without a ranking would be
scored as if nothing were found for it. The systems of this package make rankings from the rows of
the collection, so that only the queries of those are checked: a look at each doc_id takes as long
as BM25's search.
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
from msshift_bench.plumbing import CHECKSUM, batches, report_progress, slices, write_atomically
from msshift_bench.records import Passage
from msshift_bench.search import PassageIds, Ranking, TopK, rankings_of

_logger = logging.getLogger(__name__)

ALL_PASSAGES = "all"

CandidatesName = Annotated[str, Field(pattern=f"^({ALL_PASSAGES}|bm25:([1-9][0-9]*))$")]
"""A recipe's ``candidates``: ``all`` or ``bm25:<number>``."""

Candidates = Sequence[npt.NDArray[np.int64]]
"""For each query, the places of the passages to score."""


class Searcher(SearchSettings, ABC):
    """One way to rank passages with a model, which is handed to its methods."""

    def check_model(self, model: Any) -> None:
        """Check, before passages are read, that a model can rank them.

        Raises:
            UsageError: saying what keeps it from that.
        """

    @abstractmethod
    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield a ranking for each of the run's queries.

        Args:
            model: the model, which does not change.
            run: the queries to rank for; what is encoded stands in its work folder.
        """

    def rankings(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield a ranking for each of the run's queries: `depth` passages, none of them excluded.

        Args:
            model: the model, which does not change.
            run: the queries to rank for.
        """
        exclusions, more = run.exclusions, run.exclusions.most(run.queries)
        # Of BM25's first passages none is excluded.
        search = self if self.reranks or not more else self.changed(depth=self.depth + more)
        for query_id, ranking in search.rank(model, run):
            yield query_id, exclusions.left(query_id, ranking, self.depth) if more else ranking

    @property
    def reranks(self) -> int:
        """How many of BM25's first passages it reranks; 0 if it searches by itself."""
        return 0

    @property
    def tag(self) -> str:
        """The part of a run tag that says that the model only reranks; "" for others."""
        return f"-reranks-bm25-{self.reranks}" if self.reranks else ""

    @property
    def described_candidates(self) -> str:
        """What it ranks, in a sidecar's words, e.g. ``reranks BM25's first 1000``."""
        return f"reranks BM25's first {self.reranks}" if self.reranks else "all passages"


class Scorer(Searcher):
    """A searcher that can score chosen passages, too: its models can be validated, and teach."""

    @abstractmethod
    def score(
        self, model: Any, queries: Sequence[str], passages: Sequence[str], candidates: Candidates
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield, for each query, the scores of its candidates among the passages.

        Args:
            model: the model.
            queries: texts.
            passages: texts; each is a candidate of some query.
            candidates: the places of each query's candidates in `passages`.
        """


Arrays = Mapping[str, npt.NDArray[Any]]
"""The arrays of one block, by name."""

AddBlock = Callable[[TopK, slice, Arrays, slice], None]
"""``(best, part, block, rows)``: adds the scores that a block's passages, which have these rows in
the collection, have for a part of the queries."""

_SIZE = 20_480
"""Passages per block: 63 MB of vectors with 768 dimensions, and whole matrices of a search."""

_QUERIES = 16_384
"""Queries searched together: with 1,000 passages each, 0.5 GB of candidates at most."""

_TOLD = 128
"""Rankings that are Python's mappings at the same time."""


@dataclass(frozen=True, slots=True)
class EncodedPassages:
    """All passages, block by block.

    Attributes:
        ids: their doc_ids, in the order of the blocks.
        files: the file of each block's arrays -> the rows of its passages in the collection.
    """

    ids: PassageIds
    files: Mapping[Path, slice]

    @property
    def bytes(self) -> int:
        """The bytes that the blocks take on disk."""
        return sum(file.stat().st_size for file in self.files)

    def blocks(self) -> Iterator[tuple[slice, Arrays]]:
        """Read the arrays of one block after the other."""
        for file, rows in self.files.items():
            with np.load(file) as arrays:
                yield rows, dict(arrays)


def encode_passages(
    encode: Callable[[list[str]], Arrays], passages: Iterable[Passage], folder: Path, total: int = 0
) -> EncodedPassages:
    """Encode passages in blocks on disk; existing blocks are kept.

    A block's file name holds the digest of its passages, so that it is used for the same passages
    only. The folder belongs to one model and must not serve another.

    Args:
        encode: turns the texts of a block into arrays.
        passages: the passages; streamed once.
        folder: the folder of the blocks.
        total: how many passages there are; 0 if that is not known.
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
    """Rank passages for each query, one block of passages in memory at a time.

    Args:
        add: adds the scores of one block's passages.
        passages: the passages.
        queries: how many queries there are.
        depth: passages per ranking.
        floor: passages that do not score above it are not ranked.

    Yields:
        A ranking for each query, in their order.
    """
    for part in slices(queries, _QUERIES):
        best = TopK(passages.ids, part.stop - part.start, depth, floor)
        for number, (rows, block) in enumerate(passages.blocks(), 1):
            add(best, part, block, rows)
            report_progress("search blocks", number, len(passages.files))
        keys = best.keys
        for some in slices(len(keys), _TOLD):
            yield from rankings_of(keys[some], passages.ids)


def best_of(
    ids: PassageIds, rows: npt.NDArray[np.int64], scores: npt.NDArray[np.float32], depth: int | None
) -> Ranking:
    """Rank some passages by score, then doc_id, both descending, and cut at `depth`.

    Args:
        ids: the collection's doc_ids.
        rows: the rows of the passages.
        scores: their scores.
        depth: most passages of the ranking; `None` for all.
    """
    best = np.lexsort((-ids.order[rows], -scores))[:depth]
    return dict(zip(ids.ids[rows[best]].tolist(), scores[best].tolist(), strict=True))


class BlockSearch(Scorer):
    """A search over passages that the model encodes in blocks.

    Attributes:
        floor: passages that do not score above it are not ranked.
        similarities: how models may compare vectors; empty, if that is not their choice.
    """

    floor: ClassVar[float] = -np.inf
    similarities: ClassVar[tuple[str, ...]] = ()

    def check_model(self, model: Any) -> None:
        """Check that the model compares vectors as the search does.

        Raises:
            UsageError: if it does not.
        """
        if self.similarities and self.compares_by(model) not in self.similarities:
            raise UsageError(
                f"the model compares vectors by {self.compares_by(model)!r}, and search knows "
                f"{' and '.join(self.similarities)}; give a function of queries that ranks with "
                "the model's own retriever, or set its similarity_fn_name to one of these"
            )

    def compares_by(self, model: Any) -> str:
        """Return the name of the similarity by which a model compares vectors."""
        return str(model.similarity_fn_name)

    @abstractmethod
    def encode(self, model: Any, texts: Sequence[str], *, query: bool) -> Any:
        """Return what the model makes of texts: of passages the arrays of a block.

        Raises:
            DataError: if something of it is not finite.
        """

    @abstractmethod
    def add(self, best: TopK, queries: Any, block: Arrays, rows: slice) -> None:
        """Add the scores of a block's passages.

        Args:
            best: the best passages of the queries so far.
            queries: some queries, as `encode` returns them.
            block: the arrays of the block.
            rows: the rows of its passages in the collection.
        """

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Encode the passages unless that is done, and search them."""
        queries, passages = self.encoded(model, run)
        yield from run.ranked(self.search(queries, passages), passages.ids)

    def search(self, queries: Any, passages: EncodedPassages) -> Iterator[Ranking]:
        """Rank all passages for each query, as `encode` returns them."""

        def add(best: TopK, part: slice, block: Arrays, rows: slice) -> None:
            self.add(best, queries[part], block, rows)

        return search_blocks(add, passages, queries.shape[0], depth=self.depth, floor=self.floor)

    @property
    def folder(self) -> str:
        """The folder of the blocks, in that of unfinished work."""
        return "passages"

    def sides(self, model: Any, run: Run) -> tuple[Iterable[Passage], list[str]]:
        """Return the passages and the texts of queries of a run, for `encode`."""
        del model
        return run.passages(""), [row.text for row in run.queries]

    def encoded(self, model: Any, run: Run) -> tuple[Any, EncodedPassages]:
        """Return the encoded queries of a run, and its passages, encoded unless that is done."""
        with run.stage("encode"):
            given, texts = self.sides(model, run)
            passages = encode_passages(
                partial(self.encode, model, query=False),
                given,
                run.work / self.folder,
                run.passage_count,
            )
            queries = self.encode(model, texts, query=True)
        run.facts["index"] = {"bytes": passages.bytes}
        return queries, passages


# ---- the contract of rankings --------------------------------------------------------------------


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
"""The keys of a sidecar that no fact may replace, besides those of the run's identity."""


def checked_rankings(run: Run, given: Any) -> Generator[tuple[str, Ranking], None, None]:
    """Yield what a system's ``rank`` returned, checked; record the queries of empty rankings.

    Args:
        run: the run, whose queries were ranked for.
        given: pairs of a query_id and its ranking, or a mapping.

    Raises:
        UsageError: if it is neither, or the system wrote a fact under a key of the sidecar.
        DataError: if a query has no ranking or two, a ranking breaks the contract, or all rankings
            are empty.
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
            problem = "has two rankings" if query_id in left else "is no query of this run"
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
        raise DataError(f"{run.name}: found no passage for any query; all rankings are empty")
    if empty:
        run.facts["queries_without_passages"] = sorted(empty)
        _logger.warning(
            "%s: nothing was retrieved for %d of %d queries, which count 0",
            *(run.name, len(empty), len(left)),
        )


def _check_facts(run: Run) -> None:
    for key in run.facts:
        if key in _SIDECAR or key in run.identity:
            raise UsageError(
                f"run.facts[{key!r}] would replace what the sidecar of {run.name} holds under "
                f"{key!r}; choose another key"
            )


def checked_ranking(
    given: Any, query_id: str, ids: PassageIds, depth: int | None = None
) -> Ranking:
    """Return a ranking in the order of all systems: by score, then doc_id, both descending.

    Args:
        given: doc_id -> score, pairs of both, or mappings with the keys ``id`` and ``score``, as
            PyLate's retrievers return them.
        query_id: the query.
        ids: the doc_ids of the collection.
        depth: the most passages to keep; all by default.

    Raises:
        UsageError: if it is not made of doc_ids and scores.
        DataError: if a doc_id stands twice or is not in the collection, or a score is not finite.
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
    if strange := [doc_id for doc_id in doc_ids if not isinstance(doc_id, str)]:
        raise UsageError(
            f"{where} holds the doc_id {strange[0]!r} of type {type(strange[0]).__name__}; doc_ids "
            "are the collection's, as str"
        )
    if len(set(doc_ids)) < len(doc_ids):
        twice = next(doc_id for doc_id in doc_ids if doc_ids.count(doc_id) > 1)
        raise DataError(f"{where} holds the doc_id {twice!r} twice")
    rows = ids.rows(doc_ids)
    if None in rows:
        raise DataError(
            f"{where} holds the doc_id {doc_ids[rows.index(None)]!r}, which no passage of the "
            "collection has; rank the passages of the collection that the data set was built from"
        )
    check_scores(scores, doc_ids, where)
    return best_of(ids, np.array(rows, np.int64), scores, depth)


def check_scores(scores: npt.NDArray[np.float32], names: Sequence[str], where: str) -> None:
    """Check that a model or a plug-in gave each passage one finite score.

    Args:
        scores: the scores.
        names: what messages call each passage.
        where: where the scores are, for messages.

    Raises:
        DataError: if the numbers of scores and passages differ, or a score is not finite.
    """
    if scores.shape != (len(names),):
        raise DataError(
            f"{where} holds scores of shape {scores.shape} for {len(names)} passages; each passage "
            "needs one score"
        )
    for row in np.flatnonzero(~np.isfinite(scores))[:1]:
        raise DataError(
            f"{where} holds the score {scores[row]} for {names[row]!r}, which is not finite in 32 "
            "bits"
        )
