"""What an entry in ir_datasets consists of: queries, judgements, triples, passages and a page."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import ir_datasets
from ir_datasets import EntityType
from ir_datasets.formats import (
    BaseDocPairs,
    BaseDocs,
    BaseQrels,
    BaseQueries,
    GenericDoc,
    GenericDocPair,
    GenericQuery,
    TrecQrel,
)
from ir_datasets.indices import DEFAULT_DOCSTORE_OPTIONS, Docstore, PickleLz4FullStore
from ir_datasets.util import MetadataComponent, use_docstore

from msshift_bench._version import __version__
from msshift_bench.data import (
    COLLECTION_VARIABLE,
    Collection,
    Dataset,
    cited,
    open_collection,
    rows_of,
)
from msshift_bench.errors import NotFoundError, UsageError
from msshift_bench.plumbing import cache_folder, replace_folder
from msshift_bench.records import Row
from msshift_bench.shifts import DATASET_NAME, TRIPLES, Shift, holds_triples, parse_config

__all__ = ["entries_of"]

_MS_MARCO = "msmarco-passage"


def entries_of(dataset: Dataset, collection: str | Path | None) -> dict[str, ir_datasets.Dataset]:
    """Return the entry of every split: id -> entry, in the order of the manifest.

    Args:
        dataset: the data set.
        collection: the collection of the passages; see `register`.
    """
    docs = _find_docs(dataset, collection)
    entries = {}
    for config, splits in dataset.manifest.configs.items():
        for name in splits if not holds_triples(config) else ():
            split = Split(dataset, config, name, *parse_config(config))
            parts = [docs, SplitQueries(split), SplitQrels(split)]
            if split.name == "train" and split.triples in dataset.manifest.configs:
                parts.append(SplitTriples(split))
            entry = ir_datasets.Dataset(*parts, split)
            metadata = MetadataComponent(split.dataset_id, entry, SplitMetadata(entry))
            entries[split.dataset_id] = ir_datasets.Dataset(metadata, entry)
    return entries


def _find_docs(dataset: Dataset, collection: str | Path | None) -> LocalDocs | DelegatedDocs:
    built_from = dataset.manifest.collection
    if collection is None and built_from["layout"] in ("generated", "ir_datasets"):
        collection = built_from["name"]
    source = collection or os.environ.get(COLLECTION_VARIABLE)
    opened = open_collection(source) if source else None
    if opened is not None and opened.layout == "ir_datasets":
        return DelegatedDocs(dataset, opened)
    return LocalDocs(dataset, opened)


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
        config: the config's name.
        name: the split's name.
        shift: the shift.
        group: the group held out; `None` for the whole shift.
    """

    dataset: Dataset
    config: str
    name: str
    shift: Shift
    group: str | None

    @property
    def dataset_id(self) -> str:
        """The slash id, e.g. ``msshift/length/short/test``."""
        parts = (DATASET_NAME, self.shift.name, *((self.group, self.name) if self.group else ()))
        return "/".join(parts)

    @property
    def triples(self) -> str:
        """The config that its training triples have, if the data set holds any."""
        return f"{self.config}{TRIPLES}"

    def rows(self) -> Iterator[tuple[Row, str]]:
        """Yield ``(row, split)``, checked against the manifest, every query once.

        In the official test sets a query may stand in two groups; in the whole shift it has the
        first of them.
        """
        table = self.dataset.table(self.config, self.name)
        is_whole = self.group is None
        splits = table["split"].to_pylist() if is_whole else repeat(self.name, len(table))
        previous = None
        for row, split in zip(rows_of(table), splits, strict=True):
            if row.query_id != previous:
                yield row, split
            previous = row.query_id

    def documentation(self) -> Mapping[str, object]:
        """Return the text on ir_datasets' pages for the entry: a few keys and HTML."""
        manifest = self.dataset.manifest
        papers = cited([self.shift.name])
        return {
            "pretty_name": f"MS-Shift: {self.dataset_id.removeprefix('msshift/')}",
            "desc": (
                f"<p>\n{escape(self._sentence())}\n</p>\n"
                f"<ul>\n  <li>Documents: passages of <kbd>{escape(manifest.collection['name'])}"
                "</kbd>, not part of the data set</li>\n"
                f"  <li>Queries: {escape(self.shift.description)}</li>\n"
                f"  <li>Edition {escape(manifest.edition)}, data version "
                f"{escape(manifest.data_version)}, content "
                f"<kbd>{escape(manifest.content_digest)}</kbd></li>\n</ul>"
            ),
            "official_measures": ["RR@10"],
            "bibtex_ids": list(papers),
            "bibtex": "\n".join(papers.values()),
        }

    def _sentence(self) -> str:
        about = f"{self.shift.title} ({self.shift.name})"
        if self.group is None:
            return f"{about}: all queries of the shift, each with its group and its split."
        described = self.dataset.manifest.describe_groups(self.shift.name)[self.group]
        held_out = f"{self.group} ({described})"
        if self.name == "validation":
            return f"{about}, {held_out} held out: the queries that no shift trains or tests on."
        if self.shift.by_size and self.name == "train":
            return f"{about}, {self.group}: {described}."
        if self.shift.by_size:
            trained = f"for a model that was trained on the {self.group} set"
            return f"{about}: the test queries, {trained}."
        if self.name == "train":
            return f"{about}: the training queries of all groups but {held_out}."
        return f"{about}: the test queries of {held_out}, which is held out of training."


class _OfSplit:
    def __init__(self, split: Split) -> None:
        self._split = split


class SplitQueries(_OfSplit, BaseQueries):  # type: ignore[misc]
    """The queries of a split; those of a whole shift with their group and split."""

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
        split = self._split
        if split.group:
            return split.dataset.manifest.configs[split.config][split.name].rows
        return sum(1 for _ in split.rows())

    def queries_store(self) -> Docstore:
        """Return a store of the queries, for ``ir_datasets lookup --qid``."""
        return _QueryStore(self)


class _QueryStore(Docstore):  # type: ignore[misc]
    def __init__(self, queries: SplitQueries) -> None:
        super().__init__(queries.queries_cls(), "query_id")
        self._queries = queries.queries_dict()

    def get_many_iter(self, query_ids: Iterable[str]) -> Iterator[GenericQuery | ShiftQuery]:
        return (self._queries[query_id] for query_id in query_ids if query_id in self._queries)


class SplitQrels(_OfSplit, BaseQrels):  # type: ignore[misc]
    """The relevant passages of a split's queries."""

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


class SplitTriples(_OfSplit, BaseDocPairs):  # type: ignore[misc]
    """The training triples of a split."""

    def docpairs_iter(self) -> Iterator[GenericDocPair]:
        """Yield every triple: ``doc_id_a`` is relevant, ``doc_id_b`` is the negative."""
        return map(GenericDocPair._make, self._split.dataset.triples(self._split.triples))

    def docpairs_count(self) -> int:
        """Return the number of triples."""
        return self._split.dataset.manifest.configs[self._split.triples]["train"].rows


@dataclass(frozen=True, slots=True)
class SplitMetadata:
    """Counts, as in ir_datasets' own metadata file."""

    entry: ir_datasets.Dataset

    def get_metadata(self, dataset_id: str, entity_type: EntityType | str) -> Mapping[str, object]:
        """Return the counts of one kind of entity, e.g. queries."""
        del dataset_id
        kind = EntityType(entity_type)
        if not self.entry.has(kind):
            return {}
        if kind is EntityType.docs:
            of_docs: Mapping[str, object] = self.entry.docs_metadata()
            return of_docs
        counted = {"count": getattr(self.entry, f"{kind.value}_count")()}
        if kind is not EntityType.qrels:
            return counted
        levels = {str(level): count for level, count in self.entry.levels().items()}
        return {**counted, "fields": {"relevance": {"counts_by_value": levels}}}


class DelegatedDocs:
    """The passages of another data set of ir_datasets.

    Args:
        dataset: the data set.
        collection: the collection that holds the passages, an id of ir_datasets.
    """

    def __init__(self, dataset: Dataset, collection: Collection) -> None:
        self._built = dataset
        self._given = collection
        self._dataset = ir_datasets.load(collection.name)

    def docs_handler(self) -> DelegatedDocs:
        """Return this handler, which all entries share."""
        return self

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("docs_"):
            raise AttributeError(name)
        if name in ("docs_iter", "docs_store", "docs_count", "docs_metadata"):
            self._check()
        return getattr(self._dataset, name)

    def _check(self) -> None:
        """Check that these are the passages of the collection that the data set was built from.

        Raises:
            UsageError: if they are another's.
        """
        manifest = self._built.manifest
        name = manifest.collection["name"]
        is_id = manifest.collection["layout"] == self._given.layout
        # The released ids are MS MARCO's, wherever the texts of the queries came from.
        held = {name} if is_id else {_MS_MARCO} if manifest.edition != "rebuilt" else set()
        if any(
            known == self._given.name
            or ir_datasets.load(known).docs_handler() is self._dataset.docs_handler()
            for known in held
        ):
            return
        if is_id:
            raise UsageError(
                f"{self._built.folder} was built from {name!r}, and {self._given.name!r} has other "
                "passages; give the collection it was built from"
            )
        self._built.check_built_from(self._given)


class LocalDocs(BaseDocs):  # type: ignore[misc]
    """The passages of the generated collection or of a folder.

    Args:
        dataset: the data set.
        collection: the collection that holds the passages; `None` if it is not named.
    """

    def __init__(self, dataset: Dataset, collection: Collection | None) -> None:
        self._dataset = dataset
        self._given = collection

    @cached_property
    def _collection(self) -> Collection:
        if self._given is None:
            built_from = self._dataset.manifest.collection
            raise NotFoundError(
                f"{self._dataset.folder} was built from the collection {built_from['name']!r}, "
                "whose passages are no part of it; say where they are: MSSHIFT_COLLECTION=FOLDER, "
                "'msshift irds --collection FOLDER ...' or register(collection=FOLDER)"
            )
        self._dataset.check_built_from(self._given)
        return self._given

    def _passages(self) -> Iterator[GenericDoc]:
        return (GenericDoc(*passage) for passage in self._collection.passages())

    @use_docstore  # type: ignore[untyped-decorator]
    def docs_iter(self) -> Iterator[GenericDoc]:
        """Yield the passages in the order of the collection; slices come from the store.

        Raises:
            NotFoundError: if no collection is named.
            UsageError: if they are another collection's.
        """
        return self._passages()

    def docs_store(
        self, field: str = "doc_id", options: Any = DEFAULT_DOCSTORE_OPTIONS
    ) -> PickleLz4FullStore:
        """Return the store that looks passages up; it is built on disk when it is first used.

        Raises:
            NotFoundError: if no collection is named.
            UsageError: if they are another collection's.
        """
        return _PassageStore(
            str(cache_folder("passages") / _identity(self._collection)),
            init_iter_fn=self._passages,
            data_cls=GenericDoc,
            lookup_field=field,
            index_fields=["doc_id"],
            options=options,
        )

    @cached_property
    def _count(self) -> int:
        store = self.docs_store()
        return store.count() if store.built() else sum(1 for _ in self._passages())

    def docs_count(self) -> int:
        """Return the number of passages, counted once."""
        return self._count

    def docs_lang(self) -> str:
        """Return the language, by ISO 639-1."""
        return "en"

    def docs_metadata(self) -> Mapping[str, object]:
        """Return counts of the passages; without passages it does not fail."""
        return {} if self._given is None else {"count": self.docs_count()}


class _PassageStore(PickleLz4FullStore):  # type: ignore[misc]
    """A store that is whole or not there; two processes would fill ir_datasets' own twice."""

    def build(self) -> None:
        if self.built():
            return
        with replace_folder(Path(self.path)) as partial:
            PickleLz4FullStore(
                str(partial), self.init_iter_fn, self._doc_cls, self._id_field, ["doc_id"]
            ).build()
        self.lookup.close()

    def get_many_iter(self, keys: Iterable[str]) -> Iterator[GenericDoc]:
        # ir_datasets' index cuts a key to the length of its longest, and finds another passage.
        wanted = set(keys)
        return (doc for doc in super().get_many_iter(wanted) if doc.doc_id in wanted)


def _identity(collection: Collection) -> str:
    """Return a name that is unique to this collection in its present state."""
    file: Path | None = getattr(collection, "collection_file", None)
    facts: tuple[object, ...] = (collection.name, __version__)
    if file is not None:
        stat = file.stat()
        facts = (file.resolve(), stat.st_size, stat.st_mtime_ns)
    return hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:32]
