"""The passages of a data set, which come from another data set or a collection."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import ir_datasets
from ir_datasets.formats import BaseDocs, GenericDoc
from ir_datasets.indices import DEFAULT_DOCSTORE_OPTIONS, PickleLz4FullStore
from ir_datasets.util import use_docstore

from msshift_bench._version import __version__
from msshift_bench.data import Collection, Dataset
from msshift_bench.errors import NotFoundError, UsageError
from msshift_bench.plumbing import cache_folder, replace_folder

__all__ = ["DelegatedDocs", "LocalDocs"]

_MS_MARCO = "msmarco-passage"


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
    facts: Sequence[object] = (collection.name, __version__)
    if file is not None:
        stat = file.stat()
        facts = (file.resolve(), stat.st_size, stat.st_mtime_ns)
    return hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:32]
