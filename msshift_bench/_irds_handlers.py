"""What ir_datasets asks of a data set: handlers of docs, queries, qrels, docpairs and metadata.

This module imports ir_datasets and is imported by `msshift_bench.irds` alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

from ir_datasets import EntityType
from ir_datasets.formats import (
    BaseDocs,
    BaseQrels,
    BaseQueries,
    GenericDoc,
    GenericQuery,
    TrecQrel,
)
from ir_datasets.indices import DEFAULT_DOCSTORE_OPTIONS, Docstore, PickleLz4FullStore
from ir_datasets.util import use_docstore

from msshift_bench import __version__
from msshift_bench.cache import cache_folder
from msshift_bench.collection import Collection
from msshift_bench.dataset import load_dataset
from msshift_bench.digests import ContentDigest
from msshift_bench.errors import NotFoundError, UsageError
from msshift_bench.files import replace_folder
from msshift_bench.manifest import Manifest
from msshift_bench.records import Row
from msshift_bench.shifts import Shift

__all__ = [
    "DelegatedDocs",
    "Documentation",
    "LocalDocs",
    "Metadata",
    "Qrels",
    "Queries",
    "ShiftQuery",
    "Split",
]

_LANGUAGE = "en"

_MS_SHIFT = {
    "Lupart2023MsShift": """\
@inproceedings{Lupart2023MsShift,
  title={MS-Shift: An Analysis of MS MARCO Distribution Shifts on Neural Retrieval},
  author={Simon Lupart and Thibault Formal and St{\\'e}phane Clinchant},
  booktitle={ECIR},
  year={2023},
  note={arXiv:2205.02870}
}"""
}
_RESTTEST = {
    "Zhan2022Extrapolation": """\
@inproceedings{Zhan2022Extrapolation,
  title={Evaluating Interpolation and Extrapolation Performance of Neural Retrieval Models},
  author={Jingtao Zhan and Xiaohui Xie and Jiaxin Mao and Yiqun Liu and Jiafeng Guo and Min Zhang
    and Shaoping Ma},
  booktitle={CIKM},
  year={2022}
}"""
}


class ShiftQuery(NamedTuple):
    """A query of a whole shift."""

    query_id: str
    text: str
    group: str
    split: str

    def default_text(self) -> str:
        """Return what to search for."""
        return self.text


@dataclass(frozen=True, slots=True)
class Split:
    """One split of a built data set: what one entry gives.

    Attributes:
        folder: the data set.
        manifest: its manifest.
        shift: the shift.
        group: the group held out; `None` for the whole shift.
        config: the config's name.
        name: the split's name.
    """

    folder: Path
    manifest: Manifest
    shift: Shift
    group: str | None
    config: str
    name: str

    @property
    def dataset_id(self) -> str:
        """The slash id, e.g. ``msshift/length/short/test``."""
        parts = ("msshift", self.shift.name, *((self.group, self.name) if self.group else ()))
        return "/".join(parts)

    def rows(self) -> Iterator[tuple[Row, str]]:
        """Yield ``(row, split)``, checked against the manifest, every query once.

        In the official test sets a query may stand in two groups; the whole shift gives it with
        the first of them.
        """
        rows = load_dataset(self.folder, self.config, split=self.name)
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
        return self.manifest.configs[self.config][self.name].rows


class Queries(BaseQueries):  # type: ignore[misc]
    """The queries of a split; those of a whole shift with their group and split."""

    def __init__(self, split: Split) -> None:
        self._split = split

    def queries_iter(self) -> Iterator[GenericQuery | ShiftQuery]:
        """Yield every query once.

        Raises:
            NotFoundError: if the data set holds no texts.
        """
        if not self._split.manifest.texts:
            raise NotFoundError(
                f"{self._split.folder} holds ids only, no texts of queries; "
                "'msshift hydrate' puts them back"
            )
        if self._split.group:
            return (GenericQuery(row.query_id, row.text) for row, _ in self._split.rows())
        return (ShiftQuery(*row[:3], split) for row, split in self._split.rows())

    def queries_cls(self) -> type[GenericQuery | ShiftQuery]:
        """Return the class of the queries."""
        return GenericQuery if self._split.group else ShiftQuery

    def queries_lang(self) -> str:
        """Return the language, by ISO 639-1."""
        return _LANGUAGE

    def queries_count(self) -> int:
        """Return the number of queries."""
        return self._split.count()

    def queries_store(self) -> Docstore:
        """Return a store of the queries, for ``ir_datasets lookup --qid``."""
        return _QueryStore(self)


class _QueryStore(Docstore):  # type: ignore[misc]
    def __init__(self, queries: Queries) -> None:
        super().__init__(queries.queries_cls(), "query_id")
        self._queries = {query.query_id: query for query in queries.queries_iter()}

    def get_many_iter(self, query_ids: Iterable[str]) -> Iterator[GenericQuery | ShiftQuery]:
        return (self._queries[query_id] for query_id in query_ids if query_id in self._queries)


class Qrels(BaseQrels):  # type: ignore[misc]
    """The relevant passages of a split's queries."""

    def __init__(self, split: Split) -> None:
        self._split = split

    def qrels_iter(self) -> Iterator[TrecQrel]:
        """Yield every judgement."""
        for row, _ in self._split.rows():
            for doc_id in row.relevant_doc_ids:
                yield TrecQrel(row.query_id, doc_id, 1, "0")

    def qrels_cls(self) -> Any:
        """Return the class of the judgements."""
        return TrecQrel

    def qrels_defs(self) -> Mapping[int, str]:
        """Return what the levels of relevance mean."""
        return {1: "Judged relevant in the collection that the data set was built from"}

    def qrels_count(self) -> int:
        """Return the number of judgements."""
        return sum(len(row.relevant_doc_ids) for row, _ in self._split.rows())


class DelegatedDocs:
    """The passages of another data set of ir_datasets."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def docs_handler(self) -> DelegatedDocs:
        """Return this handler, which all entries share."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("docs_"):
            return getattr(self._dataset, name)
        raise AttributeError(name)


class LocalDocs(BaseDocs):  # type: ignore[misc]
    """The passages of the generated collection or of a folder.

    Args:
        folder: the data set.
        manifest: its manifest.
        collection: where the passages are; `None` if nobody said.
    """

    def __init__(self, folder: Path, manifest: Manifest, collection: Collection | None) -> None:
        self._folder = folder
        self._manifest = manifest
        self._given = collection

    @cached_property
    def _collection(self) -> Collection:
        built_from = self._manifest.collection
        what = f"{self._folder} was built from the collection {built_from['name']!r}"
        if self._given is None:
            raise NotFoundError(
                f"{what}, whose passages are no part of it; say where they are: "
                "MSSHIFT_COLLECTION=FOLDER, 'msshift irds --collection FOLDER ...' or "
                "register(collection=FOLDER)"
            )
        expected = built_from.get("queries", {}).get("sha256")
        found = ContentDigest.of(self._given.queries).hexdigest()
        if expected not in (None, found):
            raise UsageError(
                f"{what} with the queries {expected[:12]}, and {self._given.name!r} holds the "
                f"queries {found[:12]}; give the collection it was built from"
            )
        return self._given

    def _passages(self) -> Iterator[GenericDoc]:
        return (GenericDoc(*passage) for passage in self._collection.passages())

    @use_docstore  # type: ignore[untyped-decorator]
    def docs_iter(self) -> Iterator[GenericDoc]:
        """Yield the passages in the order of the collection; slices are taken from the store.

        Raises:
            NotFoundError: if nobody said where the passages are.
            UsageError: if they are another collection's.
        """
        return self._passages()

    def docs_store(
        self, field: str = "doc_id", options: Any = DEFAULT_DOCSTORE_OPTIONS
    ) -> PickleLz4FullStore:
        """Return the store that looks passages up; it is built on disk when it is first used.

        Raises:
            NotFoundError: if nobody said where the passages are.
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
        return _LANGUAGE

    def docs_metadata(self) -> Mapping[str, object]:
        """Return what there is to know of the passages, without failing where they are not."""
        return {} if self._given is None else {"count": self.docs_count()}


class _PassageStore(PickleLz4FullStore):  # type: ignore[misc]
    """A store that is either whole or not there: ir_datasets' own, two processes fill twice."""

    def build(self) -> None:
        if self.built():
            return
        with replace_folder(Path(self.path)) as partial:
            PickleLz4FullStore(
                str(partial), self.init_iter_fn, self._doc_cls, self._id_field, ["doc_id"]
            ).build()
        self.lookup.close()

    def get_many_iter(self, keys: Iterable[str]) -> Iterator[GenericDoc]:
        # ir_datasets' index cuts a key off where its longest ends, and finds another passage.
        wanted = set(keys)
        return (doc for doc in super().get_many_iter(wanted) if doc.doc_id in wanted)


def _identity(collection: Collection) -> str:
    """Return a name that another collection, or the same after a change, does not share."""
    file: Path | None = getattr(collection, "collection_file", None)
    facts: Sequence[object] = (collection.name, __version__)
    if file is not None:
        stat = file.stat()
        facts = (file.resolve(), stat.st_size, stat.st_mtime_ns)
    return hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Metadata:
    """Counts, as ir_datasets' own file of metadata has them for its data sets."""

    queries: Queries
    qrels: Qrels
    docs: LocalDocs | DelegatedDocs

    def get_metadata(self, dataset_id: str, entity_type: EntityType | str) -> Mapping[str, object]:
        """Return what there is to know of one kind of thing."""
        del dataset_id
        match EntityType(entity_type):
            case EntityType.queries:
                return {"count": self.queries.queries_count()}
            case EntityType.qrels:
                count = self.qrels.qrels_count()
                return {"count": count, "fields": {"relevance": {"counts_by_value": {"1": count}}}}
            case EntityType.docs:
                found: Mapping[str, object] = self.docs.docs_metadata()
                return found
        return {}


@dataclass(frozen=True, slots=True)
class Documentation:
    """What ir_datasets' pages say of a data set, in their form: a few keys and HTML."""

    split: Split

    def documentation(self) -> Mapping[str, object]:
        """Return the page of one entry."""
        split, manifest = self.split, self.split.manifest
        collection = manifest.collection
        cited = _RESTTEST if split.shift.name == "resttest" else _MS_SHIFT
        return {
            "pretty_name": f"MS-Shift: {split.dataset_id.removeprefix('msshift/')}",
            "desc": (
                f"<p>\n{escape(_sentence(split))}\n</p>\n"
                f"<ul>\n  <li>Documents: passages of <kbd>{escape(collection['name'])}</kbd>, not "
                "part of the data set</li>\n"
                f"  <li>Queries: {escape(split.shift.description)}</li>\n"
                f"  <li>Edition {escape(manifest.edition)}, data version "
                f"{escape(manifest.data_version)}, content "
                f"<kbd>{escape(manifest.content_digest)}</kbd></li>\n</ul>"
            ),
            "official_measures": ["RR@10"],
            "bibtex_ids": list(cited),
            "bibtex": "\n".join(cited.values()),
        }


def _sentence(split: Split) -> str:
    about = f"{split.shift.title} ({split.shift.name})"
    if split.group is None:
        return f"{about}: all queries of the shift, each with its group and its split."
    held_out = f"{split.group} ({split.shift.groups[split.group]})"
    match split.name:
        case "train":
            return f"{about}: the training queries of all groups but {held_out}."
        case "test":
            return f"{about}: the test queries of {held_out}, which is held out of training."
        case _:
            return f"{about}, {held_out} held out: the queries that no shift trains or tests on."
