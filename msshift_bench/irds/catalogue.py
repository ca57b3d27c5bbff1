"""The queries, judgements and training triples of a split, with ir_datasets' interface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

from ir_datasets import EntityType
from ir_datasets.formats import (
    BaseDocPairs,
    BaseQrels,
    BaseQueries,
    GenericDocPair,
    GenericQuery,
    TrecQrel,
)
from ir_datasets.indices import Docstore

from msshift_bench.data import Dataset
from msshift_bench.errors import NotFoundError
from msshift_bench.irds.docs import DelegatedDocs, LocalDocs
from msshift_bench.records import Row
from msshift_bench.shifts import DATASET_NAME, TRIPLES, Shift

__all__ = ["ShiftQuery", "Split", "SplitMetadata", "SplitQrels", "SplitQueries", "SplitTriples"]


class ShiftQuery(NamedTuple):
    """A query of a whole shift."""

    query_id: str
    text: str
    group: str
    split: str

    def default_text(self) -> str:
        """Return the text to search with."""
        return self.text


# ir_datasets' exporters ask for the types of the fields, not for their names in a string.
ShiftQuery.__annotations__.update(dict.fromkeys(ShiftQuery._fields, str))


@dataclass(frozen=True, slots=True)
class Split:
    """One split of a built data set, the content of one entry.

    Attributes:
        dataset: the data set.
        shift: the shift.
        group: the group held out; `None` for the whole shift.
        config: the config's name.
        name: the split's name.
    """

    dataset: Dataset
    shift: Shift
    group: str | None
    config: str
    name: str

    @property
    def dataset_id(self) -> str:
        """The slash id, e.g. ``msshift/length/short/test``."""
        parts = (DATASET_NAME, self.shift.name, *((self.group, self.name) if self.group else ()))
        return "/".join(parts)

    @property
    def triples(self) -> str:
        """The config of its training triples; "" if the data set holds none."""
        config = f"{self.config}{TRIPLES}"
        return config if self.name == "train" and config in self.dataset.manifest.configs else ""

    def rows(self) -> Iterator[tuple[Row, str]]:
        """Yield ``(row, split)``, checked against the manifest, every query once.

        In the official test sets a query may stand in two groups; in the whole shift it has the
        first of them.
        """
        rows = self.dataset.rows(self.config, self.name)
        whole = self.group is None
        splits = rows.table["split"].to_pylist() if whole else repeat(self.name, len(rows))
        previous = None
        for row, split in zip(rows, splits, strict=True):
            if row.query_id != previous:
                yield row, split
            previous = row.query_id

    def count(self) -> int:
        """Return the number of queries."""
        if self.group is None:
            return sum(1 for _ in self.rows())
        return self.dataset.manifest.configs[self.config][self.name].rows


class SplitQueries(BaseQueries):  # type: ignore[misc]
    """The queries of a split; those of a whole shift with their group and split."""

    def __init__(self, split: Split) -> None:
        self._split = split

    def queries_iter(self) -> Iterator[GenericQuery | ShiftQuery]:
        """Yield every query once.

        Raises:
            NotFoundError: if the data set holds no texts.
        """
        if not self._split.dataset.manifest.texts:
            raise NotFoundError(
                f"{self._split.dataset.folder} holds ids only, no texts of queries; "
                "'msshift import' puts them back"
            )
        if self._split.group:
            return (GenericQuery(row.query_id, row.text) for row, _ in self._split.rows())
        return (ShiftQuery(*row[:3], split) for row, split in self._split.rows())

    def queries_cls(self) -> type[GenericQuery | ShiftQuery]:
        """Return the class of the queries."""
        return GenericQuery if self._split.group else ShiftQuery

    def queries_lang(self) -> str:
        """Return the language, by ISO 639-1."""
        return "en"

    def queries_count(self) -> int:
        """Return the number of queries."""
        return self._split.count()

    def queries_store(self) -> Docstore:
        """Return a store of the queries, for ``ir_datasets lookup --qid``."""
        return _QueryStore(self)


class _QueryStore(Docstore):  # type: ignore[misc]
    def __init__(self, queries: SplitQueries) -> None:
        super().__init__(queries.queries_cls(), "query_id")
        self._queries = {query.query_id: query for query in queries.queries_iter()}

    def get_many_iter(self, query_ids: Iterable[str]) -> Iterator[GenericQuery | ShiftQuery]:
        return (self._queries[query_id] for query_id in query_ids if query_id in self._queries)


class SplitQrels(BaseQrels):  # type: ignore[misc]
    """The relevant passages of a split's queries."""

    def __init__(self, split: Split) -> None:
        self._split = split

    def qrels_iter(self) -> Iterator[TrecQrel]:
        """Yield every judgement."""
        for row, _ in self._split.rows():
            for doc_id, relevance in row.relevant.items():
                yield TrecQrel(row.query_id, doc_id, relevance, "0")

    def qrels_cls(self) -> Any:
        """Return the class of the judgements."""
        return TrecQrel

    def qrels_defs(self) -> Mapping[int, str]:
        """Return level -> meaning, for the split's levels of relevance."""
        where = "in the collection that the data set was built from"
        levels = self.levels()
        if list(levels) == [1]:
            return {1: f"Judged relevant {where}"}
        return {level: f"Judged relevant, at level {level}, {where}" for level in levels}

    def qrels_count(self) -> int:
        """Return the number of judgements."""
        return sum(self.levels().values())

    def levels(self) -> dict[int, int]:
        """Return level of relevance -> number of judgements, levels ascending."""
        counts = Counter(level for row, _ in self._split.rows() for level in row.relevances)
        return dict(sorted(counts.items()))


class SplitTriples(BaseDocPairs):  # type: ignore[misc]
    """The training triples of a split."""

    def __init__(self, split: Split) -> None:
        self._split = split

    def docpairs_iter(self) -> Iterator[GenericDocPair]:
        """Yield every triple: ``doc_id_a`` is relevant, ``doc_id_b`` is the negative."""
        return map(GenericDocPair._make, self._split.dataset.triples(self._split.triples))

    def docpairs_count(self) -> int:
        """Return the number of triples."""
        entries = self._split.dataset.manifest.configs[self._split.triples]
        return sum(entry.rows for entry in entries.values())


@dataclass(frozen=True, slots=True)
class SplitMetadata:
    """Counts, as in ir_datasets' own metadata file."""

    docs: LocalDocs | DelegatedDocs
    queries: SplitQueries
    qrels: SplitQrels
    docpairs: SplitTriples | None

    def get_metadata(self, dataset_id: str, entity_type: EntityType | str) -> Mapping[str, object]:
        """Return the counts of one kind of entity, e.g. queries."""
        del dataset_id
        match EntityType(entity_type):
            case EntityType.queries:
                return {"count": self.queries.queries_count()}
            case EntityType.qrels:
                levels = self.qrels.levels()
                counts = {str(level): count for level, count in levels.items()}
                return {
                    "count": sum(levels.values()),
                    "fields": {"relevance": {"counts_by_value": counts}},
                }
            case EntityType.docs:
                found: Mapping[str, object] = self.docs.docs_metadata()
                return found
            case EntityType.docpairs if self.docpairs:
                return {"count": self.docpairs.docpairs_count()}
        return {}
