"""The training triples of a held-out group, in the order of training, the same for every system."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from msshift_bench.baselines.batch_order import Example, TrainingInstance, plan_batches
from msshift_bench.baselines.provenance import read_own_json
from msshift_bench.baselines.recipe import Recipe
from msshift_bench.baselines.shift_data import ReleasedTriples
from msshift_bench.baselines.system import Task
from msshift_bench.dataset_builders.negatives import random_negatives, sample_negatives
from msshift_bench.errors import DataError, UsageError
from msshift_bench.plumbing import replace_folder, write_json, write_parquet
from msshift_bench.schema import digest, integer, object_of
from msshift_bench.search import Bm25, PassageIds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["TrainingData", "make_training_data"]


_FACTS = object_of({"examples": integer(), "digest": digest})


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Triples and their texts; as a sequence, each triple's texts by column.

    Attributes:
        rows: of shape (triples, 2 + negatives): the row of the query in `queries`, then those of
            the relevant passage and of the negatives in `passages`.
        queries: the queries' texts.
        passages: the passages' texts.
        examples: the pairs of a query and a relevant passage that the triples come from.
        digest: SHA-256 of the ids of all triples in their order, 64 hexadecimal digits.
    """

    rows: npt.NDArray[np.int32]
    queries: pa.Array
    passages: pa.Array
    examples: int
    digest: str

    @property
    def columns(self) -> tuple[str, ...]:
        """``query``, ``positive``, ``negative_1``, ``negative_2``, ..."""
        return ("query", "positive", *(f"negative_{n + 1}" for n in range(self.rows.shape[1] - 2)))

    def save(self, folder: Path) -> None:
        """Write everything into a folder, which appears only when it is complete."""
        with replace_folder(folder) as partial:
            np.save(partial / "rows.npy", self.rows)
            for name, texts in (("queries", self.queries), ("passages", self.passages)):
                write_parquet(partial / f"{name}.parquet", pa.table({"text": texts}))
            write_json(partial / "facts.json", {"examples": self.examples, "digest": self.digest})

    @classmethod
    def load(cls, folder: Path) -> TrainingData:
        """Read a folder that `save` wrote.

        Raises:
            UsageError: if its facts are not as they were written.
        """
        queries, passages = (
            pq.read_table(folder / f"{name}.parquet")["text"].combine_chunks()
            for name in ("queries", "passages")
        )
        facts = read_own_json(folder / "facts.json", _FACTS)
        return cls(np.load(folder / "rows.npy"), queries, passages, **facts)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, str]:
        query, *passages = self.rows[place].tolist()
        texts = [self.queries[query].as_py(), *(self.passages[row].as_py() for row in passages)]
        return dict(zip(self.columns, texts, strict=True))


def make_training_data(task: Task, index: Callable[[], Bm25], recipe: Recipe) -> TrainingData:
    """Make a group's triples: as many batches as steps, each of ``batch_size`` triples in a row.

    They follow from the training queries, the collection and these fields of the recipe:
    ``batch_size``, ``steps``, ``epochs``, ``seed``, and those that begin with ``negatives``. If the
    task has the data set's triples, training meets no others: an example's negatives are those of
    its query and its relevant passage, in their order, and of the fields that begin with
    ``negatives`` only ``negatives_per_query`` counts.

    Args:
        task: the training queries and the collection.
        index: returns the BM25 index of the collection, if BM25 finds the negatives.
        recipe: the recipe.

    Raises:
        UsageError: if the data set's triples hold fewer negatives for a relevant passage than the
            recipe takes at once.
        DataError: if no batch can be filled, or the data set's triples hold queries that are not
            its training queries, or passages that the collection lacks.
    """
    if task.triples:
        examples = _released_examples(task, task.triples, recipe.negatives_per_query)
    else:
        examples = _mined_examples(task, index, recipe)
    query_rows = {row.query_id: place for place, row in enumerate(task.train)}
    passage_rows: dict[str, int] = {}
    steps, negatives = recipe.steps_of(len(examples)), recipe.negatives_per_query
    rows = np.empty((steps * recipe.batch_size, 2 + negatives), np.int32)
    digest = hashlib.sha256()
    plan = plan_batches(
        examples,
        batch_size=recipe.batch_size,
        negatives=negatives,
        steps=steps,
        seed=recipe.seed,
    )
    for place, triple in enumerate(triple for batch in plan for triple in batch):
        doc_ids = (triple.positive, *triple.negatives)
        rows[place, 0] = query_rows[triple.query_id]
        rows[place, 1:] = [passage_rows.setdefault(doc_id, len(passage_rows)) for doc_id in doc_ids]
        digest.update(_line(triple))
    passages = task.texts(passage_rows)
    if passages.null_count:
        raise DataError(
            f"{task.collection.name} lacks {passages.null_count} passages that the data set's "
            "triples name; give the collection that they were mined from, or take --triples mine"
        )
    return TrainingData(
        rows,
        pa.array([row.text for row in task.train], pa.large_string()),
        passages,
        len(examples),
        digest.hexdigest(),
    )


def _line(triple: TrainingInstance) -> bytes:
    return "\t".join((triple.query_id, triple.positive, *triple.negatives)).encode() + b"\n"


def _released_examples(task: Task, released: ReleasedTriples, at_once: int) -> Sequence[Example]:
    """Return an example for every query and relevant passage in the data set's triples."""
    relevant = {row.query_id: frozenset(row.relevant_doc_ids) for row in task.train}
    pools: dict[tuple[str, str], list[str]] = {}
    triples = released.load()
    done = 0
    for batch in triples.batches():
        columns = (column.to_pylist() for column in batch)
        for query_id, positive_id, negative_id in zip(*columns, strict=True):
            pools.setdefault((query_id, positive_id), []).append(sys.intern(negative_id))
        done += len(batch)
        task.progress("negatives", done, len(triples))
    examples = []
    for (query_id, positive_id), pool in pools.items():
        if query_id not in relevant:
            raise DataError(
                f"query {query_id!r} of {released.config} is none of its training queries; "
                f"make the triples again: msshift triples build {released.dataset.folder}"
            )
        if len(pool) < at_once:
            raise UsageError(
                f"{released.config} holds {len(pool)} negatives for the query {query_id!r} and its "
                f"passage {positive_id!r}, and the recipe takes {at_once} at once "
                "(negatives_per_query); take --triples mine, or build triples with more --negatives"
            )
        examples.append(Example(query_id, positive_id, tuple(pool), relevant[query_id]))
    return examples


def _mined_examples(task: Task, index: Callable[[], Bm25], recipe: Recipe) -> Sequence[Example]:
    ids, negatives = _negatives(task, index, recipe)
    examples = []
    for done, (row, pool) in enumerate(zip(task.train, negatives, strict=True), 1):
        relevant = frozenset(row.relevant_doc_ids)
        places = ids.rows(row.relevant_doc_ids)
        for doc_id, place in zip(row.relevant_doc_ids, places, strict=True):
            if place is not None:
                examples.append(Example(row.query_id, doc_id, pool, relevant))
        task.progress("negatives", done, len(task.train))
    return examples


def _negatives(
    task: Task, index: Callable[[], Bm25], recipe: Recipe
) -> tuple[PassageIds, Iterator[tuple[str, ...]]]:
    """Return the doc_ids of the collection, and the pool of each training query."""
    count, seed = recipe.negatives_pool, recipe.seed
    if recipe.negatives_depth is None:
        ids = PassageIds([passage.doc_id for passage in task.passages()])
        return ids, random_negatives(ids, task.train, count=count, seed=seed)
    bm25, depth = index(), recipe.negatives_depth
    return bm25.ids, sample_negatives(bm25, task.train, count=count, depth=depth, seed=seed)
