"""The training triples of a held-out group, in the order of training, the same for every system.

With negatives = "mined", a training has its triples in parts. Each part continues the order of the
queries where the previous part ended. Source: Zhan et al., "Optimizing Dense Retrieval Model
Training with Hard Negatives" (SIGIR 2021), section 4.1 (STAR). There a model is first trained on
BM25's negatives, and ranks all passages for the training queries once. Then it is trained on
negatives from the top of these rankings.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from msshift_bench.baselines.systems.recipe import RANDOM, Recipe
from msshift_bench.baselines.systems.shift_data import GivenTriples, ScoringBatch, Teacher
from msshift_bench.baselines.systems.sidecars import read_json
from msshift_bench.baselines.systems.system import Run, no_rows
from msshift_bench.data import sha256_of
from msshift_bench.dataset_builders.negatives import (
    random_negatives,
    ranked_negatives,
    sample_negatives,
)
from msshift_bench.errors import DataError, IntegrityError, UsageError
from msshift_bench.plumbing import (
    checksum_matches,
    counted,
    counted_parts,
    progress_line,
    replace_folder,
    reporting,
    with_checksum,
    write_array,
    write_json,
    write_parquet,
)
from msshift_bench.sampling import keyed_hash
from msshift_bench.search import PassageIds


@dataclass(frozen=True, slots=True)
class Example:
    """One query with a relevant passage and negatives.

    Attributes:
        query_id: the query.
        positive: doc_id of a relevant passage.
        pool: doc_ids of negatives, at least as many as an example has in one batch.
        relevant: doc_ids of all passages that are relevant to the query or excluded for it.
    """

    query_id: str
    positive: str
    pool: tuple[str, ...]
    relevant: frozenset[str]


TrainingTuple = tuple[str, ...]
"""A query_id, the doc_id of a relevant passage, and the doc_ids of negatives."""


def plan_batches(
    examples: Sequence[Example], *, batch_size: int, negatives: int, steps: int, seed: int
) -> Iterator[list[TrainingTuple]]:
    """Yield the batch of each step.

    Every round uses each example once, in an order that depends on the seed and the round. In each
    round, an example has the next negatives of its pool, which begins again after its end. In-batch
    negatives are never judged relevant: an example waits for the next batch if one of its passages
    is relevant to another query, or the reverse.

    Args:
        examples: the training examples, in any order.
        batch_size: examples per batch.
        negatives: negatives per example and batch.
        steps: the number of batches.
        seed: the seed of the orders.

    Yields:
        The batch of a step: `batch_size` tuples.

    Raises:
        DataError: if there are fewer examples than `batch_size`, or too many of them share passages
            to fill a batch.
    """
    if len(examples) < batch_size:
        raise DataError(
            f"batch_size must be at most the {len(examples)} training examples, got {batch_size}"
        )
    used = [0] * len(examples)
    waiting: deque[int] = deque()
    order: list[int] = []
    rounds = 0
    for _ in range(steps):
        batch: list[TrainingTuple] = []
        relevant: set[str] = set()
        present: set[str] = set()
        put_off: list[int] = []
        while len(batch) < batch_size:
            if len(put_off) > len(examples):
                raise DataError(
                    f"{len(examples)} training examples cannot fill a batch of {batch_size}, "
                    "because they share passages; choose a smaller batch_size"
                )
            if waiting:
                place = waiting.popleft()
            else:
                if not order:
                    order = _order(examples, seed, rounds)
                    rounds += 1
                place = order.pop()
            example = examples[place]
            first = used[place] * negatives % len(example.pool)
            end = first + negatives
            chosen = example.pool[first:end] + example.pool[: max(0, end - len(example.pool))]
            documents = {example.positive, *chosen}
            if documents & relevant or example.relevant & present:
                put_off.append(place)
                continue
            used[place] += 1
            batch.append((example.query_id, example.positive, *chosen))
            relevant |= example.relevant
            present |= documents
        waiting.extendleft(reversed(put_off))
        yield batch


def _order(examples: Sequence[Example], seed: int, rounds: int) -> list[int]:
    def keyed(place: int) -> bytes:
        example = examples[place]
        return keyed_hash(f"{example.query_id}\0{example.positive}", f"{seed}/order/{rounds}")

    return sorted(range(len(examples)), key=keyed)


_SCORES = "scores.npy"

_CERTAIN = 100
"""With more training queries than this times ``batch_size``, every batch can be filled."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Triples and their texts; a sequence whose items map each column to a text.

    With a teacher, an item also maps ``label`` to the list of its scores.

    Attributes:
        rows: shape (triples, 2 + negatives). The first column is the query's index in `queries`;
            the others are the indices of the relevant passage and the negatives in `passages`.
        queries: the queries' texts.
        passages: the passages' texts.
        examples: the number of examples from which the triples were made.
        digest: SHA-256 of the ids of all triples in their order, 64 hexadecimal digits.
        scores: the teacher's scores, shape (triples, 1 + negatives); `None` without a teacher.
    """

    rows: npt.NDArray[np.int32]
    queries: pa.Array
    passages: pa.Array
    examples: int
    digest: str
    scores: npt.NDArray[np.float32] | None = None

    @property
    def scores_digest(self) -> str | None:
        """SHA-256 of the teacher's scores, little-endian; `None` without a teacher."""
        if self.scores is None:
            return None
        return hashlib.sha256(self.scores.astype("<f4").tobytes()).hexdigest()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of texts: ``query``, ``positive``, ``negative_1``, ``negative_2``, ..."""
        return ("query", "positive", *(f"negative_{n + 1}" for n in range(self.rows.shape[1] - 2)))

    def save(self, folder: Path) -> None:
        """Write the triples into a folder, which appears only when it is complete."""
        with replace_folder(folder) as partial:
            write_array(partial / "rows.npy", self.rows)
            if self.scores is not None:
                write_array(partial / _SCORES, self.scores)
            for name, texts in (("queries", self.queries), ("passages", self.passages)):
                write_parquet(partial / f"{name}.parquet", pa.table({"text": texts}))
            files = {path.name: sha256_of(path) for path in sorted(partial.iterdir())}
            facts = {"examples": self.examples, "digest": self.digest, "files": files}
            write_json(partial / "facts.json", with_checksum(facts))

    @classmethod
    def load(cls, folder: Path) -> TrainingData:
        """Return the triples from a folder that `save` wrote.

        Raises:
            UsageError: if its file of facts was changed.
            IntegrityError: if another file is missing or was changed.
        """
        facts = read_json(folder / "facts.json")
        if "files" not in facts or not checksum_matches(facts):
            raise UsageError(
                f"{folder / 'facts.json'} was changed after it was written; remove the folder "
                f"{folder}, and run the command again"
            )
        for name, expected in facts["files"].items():
            if not (folder / name).is_file() or sha256_of(folder / name) != expected:
                raise IntegrityError(
                    f"{folder / name} is missing or was damaged after it was written: remove "
                    f"{folder}, and run the command again"
                )
        queries, passages = (
            pq.read_table(folder.absolute() / f"{name}.parquet")["text"].combine_chunks()
            for name in ("queries", "passages")
        )
        scores = np.load(folder / _SCORES) if _SCORES in facts["files"] else None
        rows = np.load(folder / "rows.npy")
        return cls(rows, queries, passages, facts["examples"], facts["digest"], scores)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        query, *passages = self.rows[place].tolist()
        texts = [self.queries[query].as_py(), *(self.passages[row].as_py() for row in passages)]
        texts_by_column: dict[str, Any] = dict(zip(self.columns, texts, strict=True))
        # The losses of sentence-transformers read the teacher's scores from this column.
        labels = {} if self.scores is None else {"label": self.scores[place].tolist()}
        return texts_by_column | labels


def make_training_data(
    run: Run,
    recipe: Recipe,
    number: int = 0,
    *,
    steps: int | None = None,
    examples: Sequence[Example] | None = None,
) -> TrainingData:
    """Return the triples of a part of a training: ``batch_size`` consecutive triples per step.

    They depend on the training queries, the collection and these fields of the recipe:
    ``batch_size``, ``steps``, ``epochs``, ``seed``, and all fields that begin with ``negatives``.
    If the run has the data set's triples, all negatives come from them, in their order. Of the
    fields that begin with ``negatives``, only ``negatives_per_query`` is then used.

    Args:
        run: the training queries and the collection.
        recipe: the recipe.
        number: the number of the part, from 0 to below `Recipe.parts`.
        steps: the steps of all parts; by default the recipe's.
        examples: the examples; by default made from the run and the recipe.

    Raises:
        UsageError: if the data set's triples have fewer negatives for a relevant passage than
            ``negatives_per_query``. Also if the teacher was changed.
        DataError: if a batch cannot be filled, a query has too few negatives, or a teacher's score
            is missing or not finite. Also if the data set's triples have queries that are not
            training queries, or passages that the collection lacks.
    """
    if examples is None:
        examples = _first_examples(run, recipe)
    query_rows = {row.query_id: place for place, row in enumerate(run.train)}
    passage_rows: dict[str, int] = {}
    first, last = recipe.part(number, steps or recipe.steps_of(len(examples)))
    rows = np.empty(((last - first) * recipe.batch_size, 2 + recipe.negatives_per_query), np.int32)
    digest = hashlib.sha256()
    batches = islice(_batches(examples, recipe, last), first, None)
    for place, triple in enumerate(chain.from_iterable(batches)):
        query_id, *doc_ids = triple
        rows[place, 0] = query_rows[query_id]
        rows[place, 1:] = [passage_rows.setdefault(doc_id, len(passage_rows)) for doc_id in doc_ids]
        digest.update("\t".join(triple).encode() + b"\n")
    passages = run.texts(passage_rows)
    if passages.null_count:
        raise DataError(
            f"{run.collection.name} lacks {passages.null_count} passages of the data set's "
            "triples; give the collection from which they were made, or set triples=mine"
        )
    scores = None
    if run.teacher is not None:
        unscaled = _teacher_scores(run, run.teacher, rows, list(passage_rows), passages)
        scores = (unscaled * recipe.teacher_scale).astype(np.float32)
    queries = pa.array([row.text for row in run.train], pa.large_string())
    return TrainingData(rows, queries, passages, len(examples), digest.hexdigest(), scores)


def check_batches(run: Run, recipe: Recipe) -> None:
    """Check that the examples of a training's first part can fill its batches.

    As examples that share passages cannot be in one batch, few examples cannot fill a batch with
    some seeds. More than `_CERTAIN` * ``batch_size`` queries always can, and are not checked.

    Raises:
        UsageError: see `released_examples`.
        DataError: if a batch cannot be filled, or a query has too few negatives.
    """
    training = run.facts.get("training")
    count = training["queries"] if training else len(run.train)
    if count > _CERTAIN * recipe.batch_size:
        return
    with reporting(None):
        examples = _first_examples(replace(run, facts={}, seconds={}), recipe)
    _, last = recipe.part(0, recipe.steps_of(len(examples)))
    deque(_batches(examples, recipe, last), maxlen=0)


def _batches(
    examples: Sequence[Example], recipe: Recipe, steps: int
) -> Iterator[list[TrainingTuple]]:
    return plan_batches(
        examples,
        batch_size=recipe.batch_size,
        negatives=recipe.negatives_per_query,
        steps=steps,
        seed=recipe.seed,
    )


def _first_examples(run: Run, recipe: Recipe) -> Sequence[Example]:
    """Return the examples of a training, or of its first part if negatives are ``mined``."""
    if run.triples:
        return released_examples(run, run.triples, recipe.negatives_per_query)
    count, seed = recipe.negatives_pool, recipe.seed
    barred = run.exclusions.barring(run.train)
    if recipe.negatives == RANDOM:
        ids = PassageIds([passage.doc_id for passage in run.passages()])
        return pair_examples(run, ids, random_negatives(ids, barred, count=count, seed=seed))
    bm25, depth = run.bm25(), recipe.negatives_depth
    assert depth is not None
    pools = sample_negatives(bm25, barred, count=count, depth=depth, seed=seed)
    return pair_examples(run, bm25.ids, pools)


def _teacher_scores(
    run: Run, teacher: Teacher, rows: npt.NDArray[np.int32], doc_ids: Sequence[str], texts: pa.Array
) -> npt.NDArray[np.float32]:
    """Return the teacher's scores, shape (triples, 1 + negatives); score each pair once.

    `rows` is as in `TrainingData`. A score that is not finite is a DataError.
    """
    pairs = rows[:, :1].astype(np.int64) * len(doc_ids) + rows[:, 1:]
    distinct, where = np.unique(pairs, return_inverse=True)
    queries, places = np.divmod(distinct, len(doc_ids))
    used, starts = np.unique(queries, return_index=True)
    batch = ScoringBatch(
        [run.train[query] for query in used.tolist()], doc_ids, texts, np.split(places, starts[1:])
    )
    scores = teacher.score(batch, run.bm25)
    if not np.isfinite(scores).all():
        count = int(np.count_nonzero(~np.isfinite(scores)))
        raise DataError(
            f"{count:,} of the teacher's {len(scores):,} scores are not finite; train the teacher "
            "again with a lower learning_rate, or use another teacher"
        )
    return scores[where].reshape(pairs.shape)


def released_examples(run: Run, released: GivenTriples, at_once: int) -> Sequence[Example]:
    """Return an example for every query and relevant passage in the data set's triples.

    Excluded passages are left out of its pool.

    Args:
        run: the training queries and the excluded passages.
        released: the data set's triples.
        at_once: the least number of negatives that an example needs.

    Raises:
        UsageError: if a query and relevant passage have fewer negatives than `at_once`.
        DataError: if the triples have a query that is not a training query.
    """
    barred = run.exclusions.barring(run.train)
    relevant = {row.query_id: frozenset(row.relevant_doc_ids) for row in barred}
    pools: dict[tuple[str, str], list[str]] = {}
    triples = released.load()
    for batch in counted_parts(triples.batches(), "negatives", len(triples)):
        columns = (column.to_pylist() for column in batch)
        for query_id, positive_id, negative_id in zip(*columns, strict=True):
            pool = pools.setdefault((query_id, positive_id), [])
            if negative_id not in run.exclusions.of_query(query_id):
                pool.append(sys.intern(negative_id))
    examples = []
    for (query_id, positive_id), pool in pools.items():
        if query_id not in relevant:
            raise DataError(
                f"query {query_id!r} of {released.config} is not a training query; make the "
                f"triples again: msshift triples {released.where}"
            )
        if len(pool) < at_once:
            raise UsageError(
                f"negatives_per_query (in Python negatives) must be at most {len(pool)}, the "
                f"negatives in {released.config} for query {query_id!r} and passage "
                f"{positive_id!r}, got {at_once}. Lower it, set triples=mine, or build triples "
                "with more --negatives"
            )
        examples.append(Example(query_id, positive_id, tuple(pool), relevant[query_id]))
    return examples


def pair_examples(run: Run, ids: PassageIds, pools: Iterable[tuple[str, ...]]) -> Sequence[Example]:
    """Return an example for every training query and each of its relevant passages.

    Args:
        run: the training queries and the excluded passages.
        ids: the doc_ids of the collection; relevant passages that it lacks are left out.
        pools: doc_ids of each training query's negatives, in the order of the queries.
    """
    rows, barred = zip(run.train, pools, strict=True), run.exclusions.of_query
    return [
        Example(
            row.query_id, doc_id, pool, frozenset((*row.relevant_doc_ids, *barred(row.query_id)))
        )
        for row, pool in counted(rows, "negatives", len(run.train), every=1)
        for doc_id in ids.held(row.relevant_doc_ids)
    ]


def part_folder(work: Path, number: int = 0) -> Path:
    """Return the folder for the triples of a part of a training, in the folder `work`."""
    return work / "parts" / str(number)


class TriplesInParts:
    """The triples of a training, made part by part; most trainings have one part.

    As a sequence, it has `steps` * ``batch_size`` triples, with items as in `TrainingData`. The
    trainer reads one batch ahead: after the last part that exists it gets copies of the last
    triple, which training never uses. With several parts, several GPUs or a teacher, the run's work
    folder keeps the triples for other processes.

    Args:
        run: the training queries and the collection.
        recipe: the recipe; if the model finds negatives, its search finds them.

    Attributes:
        parts: the triples of each part that exists.
        steps: the steps of all parts.

    Raises:
        UsageError: if there are fewer steps than parts.
        UsageError, DataError, IntegrityError: see `make_training_data` and `TrainingData.load`.
    """

    def __init__(self, run: Run, recipe: Recipe) -> None:
        self._run = run
        self._recipe = recipe
        self.parts = [self._part(0, partial(_first_examples, run, recipe))]
        self.steps = recipe.steps_of(self.parts[0].examples)
        if self.steps < recipe.parts:
            raise UsageError(
                f"{self.steps} steps cannot be divided into {recipe.parts} parts; lower "
                "negatives_refreshes, or train for more steps"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """See `TrainingData.columns`."""
        return self.parts[0].columns

    def __len__(self) -> int:
        return self.steps * self._recipe.batch_size

    def __getitem__(self, place: int) -> dict[str, Any]:
        for part in self.parts:
            if place < len(part):
                return part[place]
            place -= len(part)
        return self.parts[-1][-1]

    def facts(self) -> dict[str, object]:
        """Return the number of examples and the digests of triples and teacher, for the sidecar.

        With several parts, ``triples_sha256`` is the SHA-256 of the parts' joined digests.
        """
        digests = [part.digest for part in self.parts]
        facts: dict[str, object] = {
            "examples": self.parts[0].examples,
            "triples_sha256": digests[0],
        }
        if self._recipe.parts > 1:
            digest = hashlib.sha256("".join(digests).encode()).hexdigest()
            facts |= {"triples_sha256": digest, "parts_sha256": digests}
        if self._run.teacher is not None:
            scores = [part.scores_digest for part in self.parts]
            facts["teacher"] = {**self._run.teacher.facts, "scores_sha256": scores}
        return facts

    def find_next(self, load: Callable[[Path], Any], model: Path) -> None:
        """Append the triples of the next part to `parts`, with negatives that the model finds.

        Args:
            load: returns the model in a folder, ready to search.
            model: the folder of the model at the end of the previous part.

        Raises:
            UsageError, DataError, IntegrityError: see the class.
        """
        number = len(self.parts)
        work = self._run.work / f"mining-{number}"
        examples = partial(self._mined_examples, load, model, work)
        with self._run.stage("mining"), progress_line("mine"):
            self.parts.append(self._part(number, examples, self.steps))
        shutil.rmtree(work, ignore_errors=True)

    def _part(
        self, number: int, examples: Callable[[], Sequence[Example]], steps: int | None = None
    ) -> TrainingData:
        """Return the triples of a part; read them if an earlier process kept them."""
        folder = part_folder(self._run.work, number)
        if folder.exists():
            return TrainingData.load(folder)
        part = make_training_data(self._run, self._recipe, number, steps=steps, examples=examples())
        if self._recipe.parts > 1 or self._run.gpus > 1 or self._run.teacher is not None:
            folder.parent.mkdir(exist_ok=True)
            part.save(folder)
        return part

    def _mined_examples(
        self, load: Callable[[Path], Any], model: Path, work: Path
    ) -> Sequence[Example]:
        """Return examples with negatives from the top of the model's rankings of all passages."""
        work.mkdir(exist_ok=True)
        run, recipe = self._run, self._recipe
        # Missing relevant passages were counted when BM25's negatives were made.
        queries = tuple(row._replace(relevant_doc_ids=()) for row in run.train)
        mining_run = replace(run, queries=queries, rows=no_rows, work=work, facts={}, seconds={})
        search: Any = recipe.search.changed(depth=recipe.negatives_depth)
        ids = PassageIds([passage.doc_id for passage in run.passages("")])
        rankings = (ranking for _, ranking in search.rankings(load(model), mining_run))
        count, seed = recipe.negatives_pool, recipe.seed
        barred = run.exclusions.barring(run.train)
        return pair_examples(
            run, ids, ranked_negatives(ids, barred, rankings, count=count, seed=seed)
        )
