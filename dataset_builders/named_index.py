"""BM25's index of a collection that another process has named, for tasks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msshift_bench.data import Collection, ContentDigest, open_collection
from msshift_bench.errors import UsageError
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters, kept_index, stemmer_version

__all__ = ["named_index", "shared_address"]


def shared_address(collection: Collection) -> str:
    """Return by what other processes find a collection.

    Raises:
        UsageError: if they would not find it.
    """
    if collection.address is None:
        raise UsageError(
            "the machines of a cluster cannot read a collection that has no path and no name: "
            "leave --ray out"
        )
    return collection.address


# A process opens an index once for all its tasks.
@lru_cache(maxsize=1)
def named_index(address: str, passages: str, parameters: Bm25Parameters, stemmed_by: str) -> Bm25:
    """Return the index of a collection, kept in this machine's cache.

    Args:
        address: what `shared_address` returned.
        passages: the digest of its passages.
        parameters: the parameters of the ranking.
        stemmed_by: what `stemmer_version` returned where the tasks come from.

    Raises:
        NotFoundError: if this machine does not find the collection.
        UsageError: if it finds other passages there, or has another version of the stemmer.
    """
    installed = stemmer_version(parameters.stemmer)
    if installed != stemmed_by:
        raise UsageError(
            f"this machine has {installed}, and the tasks come from one with {stemmed_by}: install "
            "the same version on all machines"
        )
    collection = open_collection(address)
    found = [passages]

    def stream(stage: str) -> Iterator[Passage]:
        del stage
        digest = ContentDigest()
        for passage in collection.passages():
            digest.add(passage)
            yield passage
        found[:] = [digest.hexdigest()]

    index = kept_index(stream, lambda: found[0], parameters)
    if found != [passages]:
        raise UsageError(
            f"the collection {address} has other passages on this machine: copy the same files to "
            "all machines"
        )
    return index
