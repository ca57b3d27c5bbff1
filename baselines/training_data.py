"""The training triples of a held-out group, in the order in which every system meets them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from msshift_bench.baselines.batch_order import Example, TrainingInstance, plan_batches
from msshift_bench.baselines.recipe import Recipe
from msshift_bench.baselines.system import Task
from msshift_bench.dataset_builders.negatives import random_negatives, sample_negatives
from msshift_bench.plumbing import replace_folder, write_json, write_parquet
from msshift_bench.search import Bm25, PassageIds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["TrainingData", "make_training_data"]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Triples and their texts; as a sequence, the texts of one after the other, by column.

    Attributes:
        rows: of shape (triples, 2 + negatives): the row of the query in `queries`, then those of
            the relevant passage and of the negatives in `passages`.
        queries: texts.
        passages: texts.
        examples: the pairs of a query and a relevant passage that the triples were made of.
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
        """Read what `save` wrote."""
        queries, passages = (
            pq.read_table(folder / f"{name}.parquet")["text"].combine_chunks()
            for name in ("queries", "passages")
        )
        facts = json.loads((folder / "facts.json").read_bytes())
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
    ``batch_size``, ``steps``, ``epochs``, ``seed``, and those that begin with ``negatives``.

    Args:
        task: the training queries and the collection.
        index: gives the BM25 index of the collection, where negatives are found by it.
        recipe: the recipe.

    Raises:
        DataError: if no batch can be filled.
    """
    examples = _examples(task, index, recipe)
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
        rows[place, 1:] = [passage_rows.setdefault(one, len(passage_rows)) for one in doc_ids]
        digest.update(_line(triple))
    return TrainingData(
        rows,
        pa.array([row.text for row in task.train], pa.large_string()),
        task.texts(passage_rows),
        len(examples),
        digest.hexdigest(),
    )


def _line(triple: TrainingInstance) -> bytes:
    return "\t".join((triple.query_id, triple.positive, *triple.negatives)).encode() + b"\n"


def _examples(task: Task, index: Callable[[], Bm25], recipe: Recipe) -> Sequence[Example]:
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
