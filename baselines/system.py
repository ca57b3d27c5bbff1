"""The interface of baselines: parameters that decide the rankings, and how to make them."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from msshift_bench.baselines.estimates import Estimate
from msshift_bench.baselines.shift_data import GivenTriples, ReleasedTriples, ShiftData
from msshift_bench.data import Collection, ContentDigest, is_double_encoded
from msshift_bench.plumbing import Progress, counted, silent
from msshift_bench.records import Passage, Row
from msshift_bench.shifts import Shift

if TYPE_CHECKING:
    from msshift_bench.baselines.lessons import Teacher
    from msshift_bench.search import PassageIds, Ranking

__all__ = ["MODEL", "TRAINING_FACTS", "RunFacts", "System", "Task", "stream_passages"]

_logger = logging.getLogger(__name__)

MODEL = "model"
"""The folder of a trained model, in the folder of a run's unfinished work."""

TRAINING_FACTS = "training.json"
"""The file of facts about a complete training, in the folder of its model."""


@dataclass(slots=True)
class RunFacts:
    """Facts recorded while a run is made, for its sidecar.

    Attributes:
        facts: subject -> facts that are the same whenever the run is made again; JSON values, most
            of them objects.
        seconds: stage -> seconds in this process, which differ each time.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def stream_passages(
    collection: Collection, facts: dict[str, Any], progress: Progress, stage: str = "passages"
) -> Iterator[Passage]:
    """Yield a collection's passages, and record their number and digest at the end.

    Args:
        collection: the collection.
        facts: gets ``passages``.
        progress: called with ``(stage, done, total)``.
        stage: what progress calls it.
    """
    digest = ContentDigest()
    double_encoded = 0
    for passage in counted(collection.passages(), progress, stage, _rows_of(facts)):
        digest.add(passage)
        double_encoded += is_double_encoded(passage.text)
        yield passage
    facts["passages"] = {
        "rows": digest.rows,
        "sha256": digest.hexdigest(),
        "double_encoded": double_encoded,
    }


def _rows_of(facts: Mapping[str, Any]) -> int:
    """Return the number of passages; 0 until they were streamed once."""
    known: dict[str, int] = facts.get("passages", {})
    return known.get("rows", 0)


@dataclass(frozen=True, slots=True)
class Task:
    """One run file to make.

    Attributes:
        name: what messages call it, e.g. ``bi-encoder without short of length``.
        shift: the shift.
        held_out: the group that the model must not have seen; `None` if it is not trained.
        collection: the collection to search.
        queries: the test queries of all groups, each once, sorted by query_id.
        train: the training queries, none of the held-out group; empty if `held_out` is `None`, or
            the system does not train.
        validation: the validation queries; empty if `held_out` is `None`.
        triples: the data set's triples to train on, as `System.choose_triples` chose; `None` if the
            model is not trained, or the system makes its own triples.
        work: an existing folder for work that a later process may continue.
        record: the facts for the sidecar.
        progress: called with ``(stage, done, total)``.
        teacher: who scores the triples, as `System.choose_teacher` chose; `None` if the model
            learns from judgements.
        test_set: the extra test set that the queries are of; "" for those of the shift.
    """

    name: str
    shift: Shift
    held_out: str | None
    collection: Collection
    queries: tuple[Row, ...]
    train: tuple[Row, ...]
    validation: tuple[Row, ...]
    triples: GivenTriples | None
    work: Path
    record: RunFacts
    progress: Progress
    teacher: Teacher | None = None
    test_set: str = ""

    @property
    def passage_count(self) -> int:
        """The number of passages; 0 until they were streamed once."""
        return _rows_of(self.record.facts)

    def passages(self, stage: str = "passages") -> Iterator[Passage]:
        """Stream the passages, and record their number and digest at the end.

        Args:
            stage: what progress calls it; ``""`` for no progress.
        """
        told = self.progress if stage else silent
        return stream_passages(self.collection, self.record.facts, told, stage)

    def texts(self, rows: Mapping[str, int]) -> pa.Array:
        """Return the texts of some passages of the collection, as an Arrow array of strings.

        Args:
            rows: doc_id -> the place of its text, from 0 on without a gap.
        """
        texts: list[str | None] = [None] * len(rows)
        for passage in self.passages():
            row = rows.get(passage.doc_id)
            if row is not None:
                texts[row] = passage.text
        return pa.array(texts, pa.large_string())

    def ranked(self, rankings: Iterable[Ranking], ids: PassageIds) -> Iterator[tuple[str, Ranking]]:
        """Pair the test queries with their rankings, and record the time of the search.

        Args:
            rankings: one for each of the test queries, in their order.
            ids: the ids of the searched passages.
        """
        self.count_missing(ids)
        told = f"search {self.test_set}".rstrip()
        with self.record.stage("search"):
            for done, (row, ranking) in enumerate(zip(self.queries, rankings, strict=True), 1):
                yield row.query_id, ranking
                self.progress(told, done, len(self.queries))

    def count_missing(self, ids: PassageIds) -> None:
        """Record relevant passages that the collection lacks, and warn of them."""
        missing: dict[str, object] = {}
        # What is said of the training queries is said with the shift's own test queries.
        train = () if self.test_set else self.train
        for what, rows in (("test", self.queries), ("train", train)):
            if not rows:
                continue
            relevant = sorted({doc_id for row in rows for doc_id in row.relevant_doc_ids})
            missing[what] = count = ids.rows(relevant).count(None)
            if count:
                _logger.warning(
                    "%d of %d passages relevant to the %s queries of %s are not in %s",
                    count,
                    len(relevant),
                    what,
                    self.test_set or self.shift.name,
                    self.collection.name,
                )
        self.record.facts["relevant_not_in_collection"] = missing


class System(ABC):
    """A baseline with its parameters chosen.

    Attributes:
        name: the system's name, and the name of its folder in a run set.
        per_group: whether a model is trained for every held-out group.
        trains: whether `rankings` trains on the task's training queries; a system that was trained
            elsewhere gets none.
        keeps_models: whether a trained model is a folder that can be kept beside its run.
    """

    name: str
    per_group: ClassVar[bool]
    trains: ClassVar[bool] = True
    keeps_models: ClassVar[bool] = True

    @property
    @abstractmethod
    def tag(self) -> str:
        """The run tag; if it does not begin with `name`, the name is put before it."""

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, object]:
        """All parameters that decide the rankings; JSON values."""

    @property
    def encoder(self) -> Mapping[str, object] | None:
        """What the encoder that the model starts from has seen; `None` if nothing is recorded."""
        return None

    def estimate(self, passages: int, queries: int, training: int) -> Estimate | None:
        """Return what one run takes; `None` if it cannot be estimated.

        Args:
            passages: passages of the collection.
            queries: test queries.
            training: training queries.
        """
        del passages, queries, training
        return None

    def choose_triples(self, data: ShiftData, held_out: str | None) -> ReleasedTriples | None:
        """Return the data set's triples to train on; `None` to train on none of them.

        Args:
            data: the shift's part of the data set.
            held_out: the group that the model must not see; `None` if it is not trained.

        Raises:
            NotFoundError: if the system must train on triples that the data set lacks.
        """
        del data, held_out
        return None

    def choose_teacher(self, data: ShiftData, held_out: str | None) -> Teacher | None:
        """Return who scores the triples of a model that learns a teacher's scores.

        Args:
            data: the shift's part of the data set.
            held_out: the group that the model must not see; `None` if it is not trained.

        Raises:
            NotFoundError: if there is no such teacher.
            UsageError: if it must not teach this model, which would learn of the group by it.
        """
        del data, held_out
        return None

    def hardware(self) -> Mapping[str, object]:
        """Return the hardware that the system uses beyond processors; JSON values."""
        return {}

    def check(self, work: Path) -> None:
        """Check, before anything is written, that this machine has what the rankings need.

        Args:
            work: the folder of the run's unfinished work.

        Raises:
            MissingError: saying what is missing, and what to do.
        """
        del work

    def follow(self, work: Path, is_over: Callable[[], bool]) -> None:
        """Help the first of several processes to make one run; see `processes`.

        Args:
            work: the folder of the run's unfinished work.
            is_over: returns whether the run is complete.
        """
        del work, is_over

    @abstractmethod
    def rankings(self, task: Task) -> Iterable[tuple[str, Ranking]]:
        """Train and encode what is needed, then yield a ranking for each of the task's queries."""
