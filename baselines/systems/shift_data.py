"""The input of a run: one shift of a data set, its collection, triples to train on, a teacher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from msshift_bench.data import Collection, Dataset, TripleStream
from msshift_bench.dataset_builders.cut import sample
from msshift_bench.errors import DataError, UsageError
from msshift_bench.records import Row
from msshift_bench.search import Bm25
from msshift_bench.shifts import TRIPLES, Shift, grouped
from msshift_bench.words import words_fact

NOTHING = "nothing"
"""What a model holds out that is trained with all groups."""


@dataclass(frozen=True, slots=True)
class GivenTriples:
    """The training triples that a model is given: those of a data set, or of an experiment.

    Attributes:
        config: what messages call them, e.g. ``length-short-triples``.
        sha256: the digest of the triples, 64 hexadecimal digits; see `Triples.digest`.
        where: the folder that holds them.
        load: returns them as a stream; it raises an `IntegrityError` if a file is missing or is not
            the one that was built.
    """

    config: str
    sha256: str
    where: Path
    load: Callable[[], TripleStream]


@dataclass(frozen=True, slots=True)
class ShiftData:
    """A shift's part of a data set, and the collection that it was built from.

    Attributes:
        shift: the shift.
        dataset: the data set.
        collection: the collection; a data set of ids only gets its queries' texts from it.
        tests: group -> its test queries.
    """

    shift: Shift
    dataset: Dataset
    collection: Collection
    tests: Mapping[str, Sequence[Row]]

    @classmethod
    def read(cls, shift: Shift, dataset: Dataset, collection: Collection) -> ShiftData:
        """Read a shift's test queries, and check that the collection is the data set's.

        Raises:
            UsageError: if it is another, or lacks the texts of a data set of ids.
            UnknownNameError: if the data set does not hold the shift.
        """
        test_sets = dataset.test_sets(shift)
        dataset.check_built_from(collection)
        tests = {group: _with_texts(rows, dataset, collection) for group, rows in test_sets.items()}
        return cls(shift, dataset, collection, tests)

    @property
    def identity(self) -> dict[str, str]:
        """The facts that decide what is trained on and asked, for identities and sidecars.

        ``words`` is one of them if the data set does not divide texts by white space.
        """
        manifest = self.dataset.manifest
        return {
            "shift": self.shift.name,
            "edition": manifest.edition,
            "data_version": manifest.data_version,
            "data_digest": manifest.content_digest,
            "text_variant": self.collection.text_variant,
            **words_fact(self.dataset.words),
        }

    def queries(self) -> tuple[Row, ...]:
        """Return the test queries of all groups, each once, sorted by query_id."""
        queries = {row.query_id: row for rows in self.tests.values() for row in rows}
        return tuple(queries[query_id] for query_id in sorted(queries))

    def split(self, held_out: str | None, name: str) -> tuple[Row, ...]:
        """Return a split of the experiment that holds a group out.

        It is empty if no group is held out. For `NOTHING`, training queries are drawn from all
        groups, as many as the smallest experiment has. The split ``validation`` of an imported
        edition may be empty, too.

        Raises:
            UsageError: if the data set holds no training queries, or ids only and the collection
                lacks the text of one.
        """
        if held_out is None:
            return ()
        if held_out == NOTHING:
            groups = list(self.shift.groups)
            return self._of_all_groups() if name == "train" else self.split(groups[0], name)
        config = f"{self.shift.name}-{held_out}"
        if name not in self.dataset.manifest.configs[config]:
            if name == "validation":
                return ()
            raise UsageError(
                f"{self.dataset.folder} holds no {name} queries of {config}: it was imported "
                "without them; import the release again with its training file and the collection "
                "it refers to"
            )
        return _with_texts(self.dataset.rows(config, name), self.dataset, self.collection)

    def _of_all_groups(self) -> tuple[Row, ...]:
        """Draw training queries of all groups: equal shares, and no test query of the shift.

        A group that has fewer gives all; the larger groups give more instead.
        """
        experiments = [self.split(group, "train") for group in self.shift.groups]
        tested = {row.query_id for row in self.queries()}
        rows = {row.query_id: row for part in experiments for row in part}
        groups = grouped((row.group, query_id) for query_id, row in rows.items())
        left = {group: [q for q in ids if q not in tested] for group, ids in groups.items()}
        seed, size = self.dataset.manifest.parameters.get("seed", 0), min(map(len, experiments))
        chosen: list[str] = []
        for number, group in enumerate(sorted(left, key=lambda group: (len(left[group]), group))):
            share = (size - len(chosen)) // (len(left) - number)
            purpose = f"all/{self.shift.name}/{group}"
            chosen += sample(left[group], share, seed=seed, purpose=purpose)
        return tuple(rows[query_id] for query_id in sorted(chosen))

    def triples(self, held_out: str | None) -> GivenTriples | None:
        """Return the triples of the experiment that holds a group out; `None` if there are none."""
        config = f"{self.shift.name}-{held_out}{TRIPLES}"
        splits = self.dataset.manifest.configs.get(config)
        if not splits:
            return None
        return GivenTriples(
            config,
            splits["train"].digest,
            self.dataset.folder,
            partial(self.dataset.triples, config),
        )

    def check_disjoint(self, train: Sequence[Row], held_out: str | None) -> dict[str, int]:
        """Count the queries and texts that training shares with the held-out group's tests.

        A shift that comes in sizes has one test set for all. A model that holds out nothing shares
        no query with any test set.

        Raises:
            DataError: if it shares a query.
        """
        is_one = held_out is None or self.shift.by_size
        tests = self.queries() if is_one else self.tests[str(held_out)]
        tested = {row.query_id: row.text for row in tests}
        leaked = sum(row.query_id in tested for row in train)
        if leaked:
            raise DataError(
                f"{leaked} training queries of {self.shift.name}-{held_out} are test queries of "
                f"the group that it holds out; the data set in {self.dataset.folder} is wrong"
            )
        texts = frozenset(tested.values())
        return {"leaked": leaked, "equal_texts": sum(row.text in texts for row in train)}


def _with_texts(rows: Sequence[Row], dataset: Dataset, collection: Collection) -> tuple[Row, ...]:
    if dataset.manifest.texts:
        return tuple(rows)
    texts = dict(collection.queries)
    lacking = [row.query_id for row in rows if row.query_id not in texts]
    if lacking:
        # A release of ids that was imported alone does not say which collection is its own.
        raise UsageError(
            f"{dataset.folder} holds ids only, and {collection.name} lacks {len(lacking):,} of "
            f"{len(rows):,} queries, e.g. {lacking[0]!r}; give the collection that they are from"
        )
    return tuple(row._replace(text=texts[row.query_id]) for row in rows)


@dataclass(frozen=True, slots=True)
class ScoringBatch:
    """The queries and passages that a training meets together, and that are to be scored.

    Attributes:
        queries: the queries.
        doc_ids: the passages' ids.
        texts: their texts.
        candidates: for each query, the places of its passages in `doc_ids`, ascending.
    """

    queries: Sequence[Row]
    doc_ids: Sequence[str]
    texts: pa.Array
    candidates: Sequence[npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Teacher:
    """Who scores passages for training queries.

    Attributes:
        facts: what decides the scores, for identities and sidecars; JSON values.
        score: takes a lesson and what returns the collection's BM25 index; returns the scores of
            each query's passages, one query's after the other's. It raises a `DataError` if scores
            are missing.
    """

    facts: Mapping[str, object]
    score: Callable[[ScoringBatch, Callable[[], Bm25]], npt.NDArray[np.float32]]
