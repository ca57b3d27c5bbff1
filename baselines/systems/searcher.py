"""How a model ranks passages: the table ``[search]`` of a recipe, and what it does.

A model that was trained here, one that is published and one in memory are searched alike, so what
searches knows the model's kind and nothing of its training. A model that ranks BM25's passages is
a reranker: its recall is BM25's and cannot shift. Readers of the run must see that, so every run
names its candidates.

Every retriever searches in one form: passages are encoded block by block, each block in a file of
its own; every block is searched for all queries; and `Best` merges the blocks by score, then
doc_id. So neither the number of blocks nor a kill between two of them changes a ranking.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from msshift_bench.baselines.systems.recipe import SearchSettings
from msshift_bench.baselines.systems.system import Run
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import batches, report_progress, slices, write_atomically
from msshift_bench.records import Passage
from msshift_bench.search import Best, PassageIds, Ranking, rankings_of

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
        del model

    @abstractmethod
    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield a ranking for each of the run's queries.

        Args:
            model: the model, which does not change.
            run: the queries to rank for; what is encoded stands in its work folder.
        """

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

AddBlock = Callable[[Best, slice, Arrays, slice], None]
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
        best = Best(passages.ids, part.stop - part.start, depth, floor)
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
        if self.similarities and model.similarity_fn_name not in self.similarities:
            raise UsageError(
                f"the model compares vectors by {model.similarity_fn_name!r}, and search knows "
                f"{' and '.join(self.similarities)}; if that will do, set the model's "
                "similarity_fn_name to it"
            )

    @abstractmethod
    def encode(self, model: Any, texts: Sequence[str], *, query: bool) -> Any:
        """Return what the model makes of texts: of passages the arrays of a block.

        Raises:
            DataError: if something of it is not finite.
        """

    @abstractmethod
    def add(self, best: Best, queries: Any, block: Arrays, rows: slice) -> None:
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

        def add(best: Best, part: slice, block: Arrays, rows: slice) -> None:
            self.add(best, queries[part], block, rows)

        count = queries.shape[0]
        return search_blocks(add, passages, count, depth=self.depth, floor=self.floor)

    @property
    def folder(self) -> str:
        """The folder of the blocks, in that of unfinished work."""
        return "passages"

    def encoded(self, model: Any, run: Run) -> tuple[Any, EncodedPassages]:
        """Return the encoded queries of a run, and its passages, encoded unless that is done."""
        with run.stage("encode"):
            passages = encode_passages(
                partial(self.encode, model, query=False),
                run.passages(""),
                run.work / self.folder,
                run.passage_count,
            )
            queries = self.encode(model, [row.text for row in run.queries], query=True)
        run.facts["index"] = {"bytes": passages.bytes}
        return queries, passages
