"""The parts of an entry in ir_datasets: queries, judgements, triples, passages and a page."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
from ir_datasets.util import use_docstore

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
from msshift_bench.plumbing import cache_root, replace_folder
from msshift_bench.records import Row
from msshift_bench.shifts import DATASET_NAME, TRIPLES, has_triples, parse_config

_MS_MARCO = "msmarco-passage"


class IrdsEntry(ir_datasets.Dataset):  # type: ignore[misc]
    """An entry, with counts in the form of ir_datasets' own metadata file."""

    def metadata(self) -> Mapping[str, object]:
        """Return kind of entity (``queries``, ``qrels``, ...) -> its counts."""
        kinds = [kind.value for kind in EntityType if self.has(kind)]
        return {kind: getattr(self, f"{kind}_metadata")() for kind in kinds}


def entries_of(dataset: Dataset, collection: str | Path | None) -> dict[str, IrdsEntry]:
    """Return id -> entry of every split of queries, in the order of the manifest.

    Triples are in the entry of their training queries.

    Args:
        dataset: the data set.
        collection: the collection of the passages; see `register`.
    """
    docs = _find_docs(dataset, collection)
    configs = dataset.manifest.configs
    entries = {}
    for config, splits in configs.items():
        for split in splits if not has_triples(config) else ():
            queries = SplitQueries(dataset, config, split)
            parts = [docs, queries, SplitQrels(dataset, config, split)]
            if split == "train" and f"{config}{TRIPLES}" in configs:
                parts.append(SplitTriples(dataset, config, split))
            entries[queries.dataset_id()] = IrdsEntry(*parts)
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
    """A query with its group and split, in the entry of all queries of a shift."""

    query_id: str
    text: str
    group: str
    split: str

    def default_text(self) -> str:
        """Return the text to search with."""
        return self.text


# ir_datasets' exporters need types in annotations, not strings.
ShiftQuery.__annotations__.update(dict.fromkeys(ShiftQuery._fields, str))


class _OfSplit:
    """One split of a built data set, for one entry.

    Args:
        dataset: the data set.
        config: the config's name.
        split: the split's name.
    """

    def __init__(self, dataset: Dataset, config: str, split: str) -> None:
        self._dataset, self._config, self._split = dataset, config, split
        self._shift, self._held_out = parse_config(config, dataset.shifts)

    def dataset_id(self) -> str:
        """Return the entry's id, e.g. ``msshift/length/short/test``."""
        place = (self._held_out, self._split) if self._held_out else ()
        return "/".join((DATASET_NAME, self._shift.name, *place))

    def rows(self) -> Iterator[tuple[Row, str]]:
        """Yield ``(row, split)``, checked against the manifest, every query once.

        In the official edition a query may be in the test sets of two groups. The entry of all
        queries then contains it with the first group.
        """
        table = self._dataset.table(self._config, self._split)
        all_queries = self._held_out is None
        splits = table["split"].to_pylist() if all_queries else repeat(self._split, len(table))
        previous = None
        for row, split in zip(rows_of(table), splits, strict=True):
            if row.query_id != previous:
                yield row, split
            previous = row.query_id

    def documentation(self) -> Mapping[str, object]:
        """Return the entry's documentation for ir_datasets' pages: key -> text or HTML."""
        manifest = self._dataset.manifest
        papers = cited([self._shift.name])
        return {
            "pretty_name": f"MS-Shift: {self.dataset_id().removeprefix('msshift/')}",
            "desc": (
                f"<p>\n{escape(self._sentence())}\n</p>\n"
                f"<ul>\n  <li>Documents: passages of <kbd>{escape(manifest.collection['name'])}"
                "</kbd>, not part of the data set</li>\n"
                f"  <li>Queries: {escape(self._shift.description)}</li>\n"
                f"  <li>Edition {escape(manifest.edition)}, data version "
                f"{escape(manifest.data_version)}, content "
                f"<kbd>{escape(manifest.content_digest)}</kbd></li>\n</ul>"
            ),
            "official_measures": ["RR@10"],
            "bibtex_ids": list(papers),
            "bibtex": "\n".join(papers.values()),
        }

    def _sentence(self) -> str:
        group, title = self._held_out, f"{self._shift.title} ({self._shift.name})"
        if group is None:
            return f"{title}: all queries of the shift, each with its group and its split."
        described = self._dataset.manifest.describe_groups(self._shift.name)[group]
        held_out = f"{group} ({described})"
        if self._shift.by_size:
            train = f", {group}: {described}."
            test = f": the test queries, for a model that was trained on the {group} set."
        else:
            train = f": the training queries of all groups but {held_out}."
            test = f": the test queries of {held_out}, which is held out of training."
        validation = f", {held_out} held out: the queries that no shift trains or tests on."
        return title + {"train": train, "test": test, "validation": validation}[self._split]


class SplitQueries(_OfSplit, BaseQueries):  # type: ignore[misc]
    """The queries of a split, or all queries of a shift as `ShiftQuery`."""

    def queries_iter(self) -> Iterator[GenericQuery | ShiftQuery]:
        """Yield every query once.

        Raises:
            NotFoundError: if the data set holds no texts.
        """
        if not self._dataset.manifest.texts:
            raise NotFoundError(
                f"{self._dataset.folder} holds ids only, no texts of queries; "
                f"run 'msshift import {self._dataset.folder}' to restore them"
            )
        if self._held_out:
            return (GenericQuery(row.query_id, row.text) for row, _ in self.rows())
        return (ShiftQuery(*row[:3], split) for row, split in self.rows())

    def queries_cls(self) -> type[GenericQuery | ShiftQuery]:
        """Return the class of the queries."""
        return GenericQuery if self._held_out else ShiftQuery

    def queries_lang(self) -> str:
        """Return ``en`` (ISO 639-1), also for queries in another language."""
        return "en"

    def queries_count(self) -> int:
        """Return the number of queries."""
        if self._held_out:
            return self._dataset.manifest.configs[self._config][self._split].rows
        return sum(1 for _ in self.rows())

    def queries_metadata(self) -> Mapping[str, object]:
        """Return ``count``, the number of queries."""
        return {"count": self.queries_count()}

    def queries_store(self) -> Docstore:
        """Return a store of the queries by id, for ``ir_datasets lookup --qid``.

        It omits unknown ids.
        """
        return _QueryStore(self)


class _QueryStore(Docstore):  # type: ignore[misc]
    def __init__(self, queries: SplitQueries) -> None:
        super().__init__(queries.queries_cls(), "query_id")
        self._queries = queries.queries_dict()

    def get_many_iter(self, query_ids: Iterable[str]) -> Iterator[GenericQuery | ShiftQuery]:
        return (self._queries[query_id] for query_id in query_ids if query_id in self._queries)


class SplitQrels(_OfSplit, BaseQrels):  # type: ignore[misc]
    """The judgements of relevant passages of a split's queries."""

    def qrels_iter(self) -> Iterator[TrecQrel]:
        """Yield every judgement with a relevance of at least 1."""
        for row, _ in self.rows():
            for doc_id, relevance in row.relevant.items():
                yield TrecQrel(row.query_id, doc_id, relevance, "0")

    def qrels_cls(self) -> Any:
        """Return the class of the judgements."""
        return TrecQrel

    def qrels_defs(self) -> Mapping[int, str]:
        """Return level of relevance -> meaning, for the levels in the split."""
        where = "in the collection that the data set was built from"
        levels = self._levels()
        if list(levels) == [1]:
            return {1: f"Judged relevant {where}"}
        return {level: f"Judged relevant, at level {level}, {where}" for level in levels}

    def qrels_count(self) -> int:
        """Return the number of judgements."""
        return sum(self._levels().values())

    def qrels_metadata(self) -> Mapping[str, object]:
        """Return ``count``, the number of judgements, and ``fields``, the counts by relevance."""
        levels = {str(level): count for level, count in self._levels().items()}
        counts = {"relevance": {"counts_by_value": levels}}
        return {"count": sum(levels.values()), "fields": counts}

    def _levels(self) -> dict[int, int]:
        """Return level of relevance -> number of judgements, levels ascending."""
        counts = Counter(level for row, _ in self.rows() for level in row.relevances)
        return dict(sorted(counts.items()))


class SplitTriples(_OfSplit, BaseDocPairs):  # type: ignore[misc]
    """The training triples of a split."""

    def docpairs_iter(self) -> Iterator[GenericDocPair]:
        """Yield every triple: ``doc_id_a`` is relevant, ``doc_id_b`` is the negative."""
        return map(GenericDocPair._make, self._dataset.triples(f"{self._config}{TRIPLES}"))

    def docpairs_count(self) -> int:
        """Return the number of triples."""
        return self._dataset.manifest.configs[f"{self._config}{TRIPLES}"]["train"].rows

    def docpairs_metadata(self) -> Mapping[str, object]:
        """Return ``count``, the number of triples."""
        return {"count": self.docpairs_count()}


class DelegatedDocs:
    """The passages of another data set in ir_datasets.

    Args:
        dataset: the built data set.
        collection: the collection of the passages, an id of ir_datasets.
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
        """Check that the given collection has the passages of the data set's collection.

        Raises:
            UsageError: if it has other passages.
        """
        manifest = self._built.manifest
        name = manifest.collection["name"]
        is_id = manifest.collection["layout"] == self._given.layout
        # The released ids are MS MARCO's, whatever the source of the queries' texts.
        accepted = {name} if is_id else {_MS_MARCO} if manifest.edition != "rebuilt" else set()
        if any(
            known == self._given.name
            or ir_datasets.load(known).docs_handler() is self._dataset.docs_handler()
            for known in accepted
        ):
            return
        if is_id:
            raise UsageError(
                f"{self._built.folder} was built from {name!r}, but {self._given.name!r} has other "
                f"passages; give {name!r}"
            )
        self._built.check_built_from(self._given)


class LocalDocs(BaseDocs):  # type: ignore[misc]
    """The passages of `mini` or of a folder.

    Args:
        dataset: the built data set.
        collection: the collection of the passages; `None` if the user gave none.
    """

    def __init__(self, dataset: Dataset, collection: Collection | None) -> None:
        self._dataset = dataset
        self._given = collection

    @cached_property
    def _collection(self) -> Collection:
        if self._given is None:
            built_from = self._dataset.manifest.collection
            raise NotFoundError(
                f"{self._dataset.folder} does not contain the passages of its collection, "
                f"{built_from['name']!r}; give their folder with MSSHIFT_COLLECTION=FOLDER, "
                "'msshift irds --collection FOLDER ...' or register(collection=FOLDER)"
            )
        self._dataset.check_built_from(self._given)
        return self._given

    def _passages(self) -> Iterator[GenericDoc]:
        return (GenericDoc(*passage) for passage in self._collection.passages())

    @use_docstore  # type: ignore[untyped-decorator]
    def docs_iter(self) -> Iterator[GenericDoc]:
        """Yield the passages in the order of the collection; slices are read from the store.

        Raises:
            NotFoundError: if no collection is given.
            UsageError: if the collection has other passages than the data set's collection.
        """
        return self._passages()

    def docs_store(
        self, field: str = "doc_id", options: Any = DEFAULT_DOCSTORE_OPTIONS
    ) -> PickleLz4FullStore:
        """Return the store of passages by id; it is written to disk at its first use.

        Raises:
            NotFoundError: if no collection is given.
            UsageError: if the collection has other passages than the data set's collection.
        """
        return _PassageStore(
            str(cache_root() / "passages" / _identity(self._collection)),
            init_iter_fn=self._passages,
            data_cls=GenericDoc,
            lookup_field=field,
            index_fields=["doc_id"],
            options=options,
        )

    def docs_count(self) -> int:
        """Return the number of passages, counted once; NotFoundError without a collection."""
        return self._count

    @cached_property
    def _count(self) -> int:
        store = self.docs_store()
        return store.count() if store.built() else sum(1 for _ in self._passages())

    def docs_lang(self) -> str:
        """Return ``en`` (ISO 639-1), also for passages in another language."""
        return "en"

    def docs_metadata(self) -> Mapping[str, object]:
        """Return ``count``, the number of passages; `{}` if no collection is given."""
        return {} if self._given is None else {"count": self.docs_count()}


class _PassageStore(PickleLz4FullStore):  # type: ignore[misc]
    """A store that appears only when complete; in its base class, two processes could fill it."""

    def build(self) -> None:
        if self.built():
            return
        with replace_folder(Path(self.path)) as partial:
            PickleLz4FullStore(
                str(partial), self.init_iter_fn, self._doc_cls, self._id_field, ["doc_id"]
            ).build()
        self.lookup.close()

    def get_many_iter(self, keys: Iterable[str]) -> Iterator[GenericDoc]:
        # ir_datasets' index truncates a key to the length of its longest key, and so may find a
        # passage with another id.
        wanted = set(keys)
        return (doc for doc in super().get_many_iter(wanted) if doc.doc_id in wanted)


def _identity(collection: Collection) -> str:
    """Return a name that changes with the collection's file, or else with the package's version."""
    file: Path | None = getattr(collection, "collection_file", None)
    facts: tuple[object, ...] = (collection.name, __version__)
    if file is not None:
        stat = file.stat()
        facts = (file.resolve(), stat.st_size, stat.st_mtime_ns)
    return hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:32]
