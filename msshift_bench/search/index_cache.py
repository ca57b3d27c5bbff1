"""BM25 indexes in the cache: made once for a collection and parameters, then opened."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from msshift_bench.errors import UsageError
from msshift_bench.plumbing import cache_folder, replace_folder
from msshift_bench.records import Passage
from msshift_bench.search.bm25 import Bm25, Bm25Parameters, CollectionTerms
from msshift_bench.search.vocabulary import stemmer_version

__all__ = ["KEEP_FROM", "kept_index"]

_logger = logging.getLogger(__name__)

KEEP_FROM = 20_000
"""Passages from which on an index is kept; it takes two seconds to index as many."""

_FORMAT = "msshift BM25 index 1"
"""The version of the files and of the way from text to weights: one more for every change."""


def kept_index(
    stream: Callable[[str], Iterable[Passage]],
    digest: Callable[[], str],
    parameters: Bm25Parameters | None = None,
    *,
    cache: Path | None = None,
) -> Bm25:
    """Open the index of a collection, or make and keep it; rankings are the same bits either way.

    Collections of fewer than `KEEP_FROM` passages, and indexes of rank_bm25, are not kept. Another
    collection, other parameters, another version of the stemmer and another version of the files
    are another index. If it cannot be kept, a warning says why.

    Args:
        stream: streams the collection, and is called with what that is for: ``index``, or ``read``
            to learn the digest only.
        digest: the digest of the passages, which does not depend on their order; "" as long as it
            is not known. It must be known after they were streamed.
        parameters: the parameters of the ranking; all but the depth tell indexes apart.
        cache: the folder of the indexes; ``cache_folder("indexes")`` by default.

    Raises:
        DataError: if no passage holds a word.
        IntegrityError: if the kept index was damaged.
        MissingExtraError: if the engine is not installed.
    """
    chosen = parameters or Bm25Parameters()
    if chosen.engine == "rank_bm25":
        return Bm25(stream("index"), chosen)
    root = cache_folder("indexes") if cache is None else cache
    what = {**asdict(chosen), "stemmed_by": stemmer_version(chosen.stemmer), "format": _FORMAT}
    del what["depth"], what["engine"]
    kind = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
    if not digest() and any(root.glob(f"{kind}-*")):
        deque(stream("read"), maxlen=0)
    if digest() and (folder := _folder(root, kind, digest())).is_dir():
        return Bm25.stored(folder, {**what, "passages": digest()}, chosen)
    terms = CollectionTerms(stream("index"), [chosen])
    if len(terms.ids) < KEEP_FROM:
        return Bm25.of_terms(terms, chosen)
    folder, what["passages"] = _folder(root, kind, digest()), digest()
    try:
        with replace_folder(folder) as new:
            terms.store(new, what, chosen)
    except (OSError, UsageError) as error:
        _logger.warning("the BM25 index is not kept in %s: %s", folder, error)
        return Bm25.of_terms(terms, chosen)
    return Bm25.stored(folder, what, chosen)


def _folder(root: Path, kind: str, digest: str) -> Path:
    return root / f"{kind}-{digest[:32]}"
