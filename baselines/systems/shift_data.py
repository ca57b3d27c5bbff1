"""The input of a run: a shift's part of a data set, the collection, training triples, a teacher."""

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
"""The held-out group's name of a model that is trained with all groups."""


@dataclass(frozen=True, slots=True)
class GivenTriples:
    """The training triples of a data set or of an experiment, which a model is trained on.

    Attributes:
        config: the name of the triples in messages, e.g. ``length-short-triples``.
        sha256: the digest of the triples, 64 hexadecimal digits; see `TripleStream.digest`.
        where: the folder of the triples.
        load: returns the triples as a stream; it raises an `IntegrityError` if a file is missing or
            was changed.
    """

    config: str
    sha256: str
    where: Path
    load: Callable[[], TripleStream]


@dataclass(frozen=True, slots=True)
class ShiftData:
    """A shift's part of a data set, and the collection that the data set was built from.

    Attributes:
        shift: the shift.
        dataset: the data set.
        collection: the collection; it has the texts of the queries if the data set has only ids.
        tests: group -> the test queries of the group; ``test`` -> all for `Shift.by_size`.
    """

    shift: Shift
    dataset: Dataset
    collection: Collection
    tests: Mapping[str, Sequence[Row]]

    @classmethod
    def read(cls, shift: Shift, dataset: Dataset, collection: Collection) -> ShiftData:
        """Return the data of a shift, after a check that the collection is the data set's.

        Raises:
            UsageError: if the collection is another, or lacks texts of a data set that has only
                ids.
            UnknownNameError: if the data set does not contain the shift.
            IntegrityError: if a file of the data set is missing or was changed.
        """
        test_sets = dataset.test_sets(shift)
        dataset.check_built_from(collection)
        tests = {group: _with_texts(rows, dataset, collection) for group, rows in test_sets.items()}
        return cls(shift, dataset, collection, tests)

    @property
    def identity(self) -> dict[str, str]:
        """The facts that determine training and test queries, for run identities and sidecars.

        ``words`` is included if the data set does not divide texts by white space.
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
        """Return the test queries of all groups, each query_id once, sorted by query_id."""
        queries = {row.query_id: row for rows in self.tests.values() for row in rows}
        return tuple(queries[query_id] for query_id in sorted(queries))

    def split(self, held_out: str | None, name: str) -> tuple[Row, ...]:
        """Return the queries of a split of the experiment that holds a group out.

        Args:
            held_out: the group; `None` for no queries. For `NOTHING`, training queries are drawn
                from all groups, as many as the smallest experiment has. The validation queries are
                then the first group's.
            name: ``train`` or ``validation``; ``validation`` may be empty in an imported edition.

        Raises:
            UsageError: if the data set has no training queries, or has only ids and the collection
                lacks the text of a query.
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
                f"{self.dataset.folder} has no {name} queries of {config}: it was imported without "
                "them; import the release again with its training file and its collection"
            )
        return _with_texts(self.dataset.rows(config, name), self.dataset, self.collection)

    def _of_all_groups(self) -> tuple[Row, ...]:
        """Return training queries of all groups in equal shares, without the shift's test queries.

        If a group has fewer queries than its share, all are used, and larger groups give more.
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
        """Return the triples of the experiment that holds a group out; `None` if it has none."""
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
        """Count the queries and texts that training shares with the held-out group's test set.

        If no group is held out, or the groups of the shift are training sets (`Shift.by_size`),
        training is compared with all test queries of the shift.

        Args:
            train: the training queries.
            held_out: the group; `None` for a model that is trained with all groups.

        Returns:
            ``leaked``: the shared queries, always 0; ``equal_texts``: the training queries whose
            text is a test query's.

        Raises:
            DataError: if a training query is a test query.
        """
        against_all = held_out is None or self.shift.by_size
        tests = self.queries() if against_all else self.tests[str(held_out)]
        tested = {row.query_id: row.text for row in tests}
        leaked = sum(row.query_id in tested for row in train)
        if leaked:
            tested_on = self.shift.name if against_all else f"{self.shift.name}-{held_out}"
            raise DataError(
                f"{leaked} training queries are also test queries of {tested_on}; build or import "
                f"the data set {self.dataset.folder} again"
            )
        texts = frozenset(tested.values())
        return {"leaked": leaked, "equal_texts": sum(row.text in texts for row in train)}


def _with_texts(rows: Sequence[Row], dataset: Dataset, collection: Collection) -> tuple[Row, ...]:
    if dataset.manifest.texts:
        return tuple(rows)
    texts = dict(collection.queries)
    lacking = [row.query_id for row in rows if row.query_id not in texts]
    if lacking:
        # A release of ids that was imported without a collection does not contain its name.
        raise UsageError(
            f"{dataset.folder} has only ids, and {collection.name} lacks {len(lacking):,} of "
            f"{len(rows):,} queries, e.g. {lacking[0]!r}; give the collection of these queries"
        )
    return tuple(row._replace(text=texts[row.query_id]) for row in rows)


@dataclass(frozen=True, slots=True)
class ScoringBatch:
    """The queries and passages of a training that a teacher is to score.

    Attributes:
        queries: the queries.
        doc_ids: the passages' ids.
        texts: the passages' texts, in the order of `doc_ids`.
        candidates: for each query, the indices of its passages in `doc_ids`, ascending.
    """

    queries: Sequence[Row]
    doc_ids: Sequence[str]
    texts: pa.Array
    candidates: Sequence[npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Teacher:
    """A system whose scores a model learns from.

    Attributes:
        facts: the facts that determine the scores, for run identities and sidecars; JSON values.
        score: takes a batch and a function that returns the collection's BM25 index; returns the
            scores of each query's candidates in one array, query after query. It raises a
            `DataError` if a score is missing.
    """

    facts: Mapping[str, object]
    score: Callable[[ScoringBatch, Callable[[], Bm25]], npt.NDArray[np.float32]]
