"""Embedding queries, with the same bytes in every run, and without doing work twice.

Every batch holds `ROWS` rows, all of the same number of tokens, so that nothing is padded. As the
shapes are fixed, a text's vector depends on the text alone, not on other texts, their order or the
number of threads (docs/data.md, "Topics"). Rounding lengths up to a multiple of 4 would fix the
shapes, too, but costs a sixth more tokens on MS MARCO's queries. Instead the last batch of every
length is filled, which matters only for few texts. Batches are kept in shards, so that the next
process continues after a kill.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from msshift_bench.arrays import Ints, Vectors
from msshift_bench.data import QueryColumns
from msshift_bench.encoders.sentence_models import load_sentence_model
from msshift_bench.encoders.term_vectors import PARAMETERS, term_vectors
from msshift_bench.encoders.text_encoders import (
    OWN,
    ROWS,
    TERMS,
    Encoder,
    EncoderSource,
    EncoderSpec,
    find_encoder,
    load_encoder,
)
from msshift_bench.errors import DataError, IntegrityError, UsageError
from msshift_bench.plumbing import (
    Progress,
    cache_folder,
    hold_folder,
    silent,
    write_array,
    write_atomically,
    write_json,
)
from msshift_bench.shards import Inputs, Shard, ShardStore, map_shards

__all__ = ["EmbeddingTask", "Embeddings", "embed_queries", "embedding_digest"]

_SHARD_BATCHES = 512
"""Batches kept together: 16,384 rows, 50 MB with 768 dimensions."""

_BLOCK = 16_384
"""Rows that are tokenised, copied or digested at once."""

_BATCHES_VERSION = 1
"""The version of the way in which batches are formed; a part of a cache's identity."""

_Part = tuple[Ints, Vectors]
"""Some of the distinct texts, by place, and their vectors in this order, mapped from a file."""


class _Tokens(NamedTuple):
    """The token ids of texts, one after the other, and the offset of each text's first."""

    flat: Ints
    starts: Ints
    lengths: Ints


class _Batch(NamedTuple):
    """At most `ROWS` texts, by place, and how many tokens each of them has."""

    texts: Ints
    length: int


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The vectors of queries.

    Attributes:
        query_ids: ascending.
        vectors: shape (queries, dimensions), 32-bit floats, mapped from the cache: read-only.
        sha256: `embedding_digest` of the two.
        facts: the encoder and what else made them, for a manifest; JSON values.
    """

    query_ids: tuple[str, ...]
    vectors: Vectors
    sha256: str
    facts: dict[str, object]


def embed_queries(
    queries: QueryColumns,
    spec: EncoderSpec,
    *,
    cache: Path | None = None,
    progress: Progress = silent,
) -> Embeddings:
    """Return a vector for every query, and cache it.

    The same queries under the same ids, with the same encoder and versions of its libraries, come
    from the cache without loading a model. Queries of the same text get the same vector.

    Args:
        queries: the queries, in any order.
        spec: the encoder.
        cache: the folder of the cache; ``cache_folder("embeddings")`` by default.
        progress: called with the stages ``tokenise``, ``embed`` (texts, equal ones counted once)
            and ``arrange`` (queries).

    Raises:
        DataError: if there are no queries, one has no token or gets no finite vector, or the
            encoder lacks weights.
        IntegrityError: if the cache was damaged.
        NotFoundError: if there is no such encoder.
        MissingExtraError: if its libraries are not installed.
        UsageError: if it cannot be used with `spec`, or another process embeds the same queries.
    """
    if not len(queries):
        raise DataError("there are no queries to embed")
    rows = sorted(zip(queries.ids, queries.texts, strict=True))
    query_ids = tuple(query_id for query_id, _ in rows)
    texts, places = _distinct([text for _, text in rows])
    root = cache_folder("embeddings") if cache is None else cache
    source = find_encoder(spec)
    folder = root / _identity(rows, spec, source)
    final, complete = folder / "vectors.npy", folder / "digest.json"
    if not complete.exists():
        with hold_folder(folder):
            # another process may have completed it between the two
            if not complete.exists():
                if spec.name == TERMS:
                    parts = _embed_terms(texts, folder / "shards", progress)
                else:
                    encoder = _open_encoder(spec, source, root / "onnx")
                    parts = _embed(texts, spec, source, encoder, folder / "shards", progress)
                _arrange(places, parts, final, progress)
                write_json(complete, embedding_digest(query_ids, np.load(final, mmap_mode="r")))
    # also the leftovers of a process that was killed just before
    shutil.rmtree(folder / "shards", ignore_errors=True)
    vectors: Vectors = np.load(final, mmap_mode="r")
    sha256 = embedding_digest(query_ids, vectors)
    try:
        recorded = json.loads(complete.read_bytes())
    except ValueError:
        recorded = None
    if sha256 != recorded:
        raise IntegrityError(f"{final} was damaged after it was written: delete {folder}")
    facts = {
        **_identifying_facts(spec, source),
        "dimensions": vectors.shape[1],
        "queries": len(query_ids),
        "distinct_texts": len(texts),
        "sha256": sha256,
    }
    return Embeddings(query_ids, vectors, sha256, facts)


def embedding_digest(query_ids: Sequence[str], vectors: Vectors) -> str:
    """Return the SHA-256 of query_ids and vectors: 64 hexadecimal digits.

    It covers the ids as a JSON array, a line break, and the vectors as little-endian 32-bit floats,
    row by row.
    """
    digest = hashlib.sha256(_compact(list(query_ids)) + b"\n")
    for start in range(0, len(vectors), _BLOCK):
        digest.update(vectors[start : start + _BLOCK].astype("<f4").tobytes())
    return digest.hexdigest()


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _distinct(texts: Sequence[str]) -> tuple[list[str], Ints]:
    """Return the distinct texts, sorted, and the place of each text among them."""
    distinct = sorted(set(texts))
    place_of = {text: place for place, text in enumerate(distinct)}
    return distinct, np.array([place_of[text] for text in texts], dtype=np.int64)


def _identifying_facts(spec: EncoderSpec, source: EncoderSource) -> dict[str, object]:
    """Return the facts that decide a text's vector, without names of this machine's folders."""
    if spec.name == TERMS:
        return {"encoder": TERMS, "encoder_sha256": source.sha256, "parameters": PARAMETERS}
    return {
        "encoder": Path(spec.name).name if Path(spec.name).is_dir() else spec.name,
        "encoder_sha256": source.sha256,
        "pooling": spec.pooling,
        "backend": spec.backend,
        **({} if spec.pooling == OWN else {"max_length": spec.max_length}),
        "libraries": source.libraries,
    }


def _identity(rows: Sequence[tuple[str, str]], spec: EncoderSpec, source: EncoderSource) -> str:
    """Return the digest of everything that decides the vectors and their order."""
    facts = {**_identifying_facts(spec, source), "encoder": None, "batches": _BATCHES_VERSION}
    digest = hashlib.sha256(_compact(facts))
    for row in rows:
        digest.update(b"\n" + _compact(row))
    return digest.hexdigest()


def _embed_terms(texts: Sequence[str], folder: Path, progress: Progress) -> list[_Part]:
    progress("embed", 0, len(texts))
    path = folder / "00000.npy"
    write_array(path, term_vectors(texts))
    progress("embed", len(texts), len(texts))
    return [(np.arange(len(texts)), np.load(path, mmap_mode="r"))]


def _open_encoder(spec: EncoderSpec, source: EncoderSource, cache: Path) -> Encoder:
    if spec.pooling == OWN:
        return load_sentence_model(spec, source)
    return load_encoder(spec, source, cache)


class EmbeddingTask:
    """Batches of token ids to their vectors: the task of `embed_queries`, on any machine.

    Args:
        common: ``spec``, the fields of an `EncoderSpec`, and ``encoder``, its name or folder;
            ``sha256`` and ``libraries`` as its `EncoderSource` must have them.
        encoder: the encoder, if it is at hand.

    Raises:
        NotFoundError: if there is no such encoder on this machine.
        MissingExtraError: if its libraries are not installed.
        UsageError: if it, or its libraries, are not those that the shards were cut for.
    """

    def __init__(self, common: Inputs, encoder: Encoder | None = None) -> None:
        if encoder is None:
            spec = EncoderSpec(**{**common["spec"], "name": common["encoder"]})
            source = find_encoder(spec)
            if source.sha256 != common["sha256"] or source.libraries != common["libraries"]:
                raise UsageError(
                    f"this machine has another encoder {spec.name}, or other versions of its "
                    f"libraries, than the shards were cut for ({common['libraries']}): install "
                    "the same on all machines"
                )
            encoder = _open_encoder(spec, source, cache_folder("embeddings") / "onnx")
        self._encoder = encoder

    def __call__(self, inputs: Inputs, advance: Callable[[int], None]) -> Vectors:
        """Return the vectors of a shard's texts.

        Args:
            inputs: ``tokens``, the token ids of the texts, one text after the other; for each
                batch ``texts``, how many texts it has, and ``lengths``, how many tokens each of
                them has.
            advance: called with the texts that are done.
        """
        blocks, start, done = [], 0, 0
        for texts, length in zip(inputs["texts"], inputs["lengths"], strict=True):
            end = start + texts * length
            ids = inputs["tokens"][start:end].reshape(texts, length)
            # The rows that a batch lacks repeat its last text.
            filled = np.pad(ids, ((0, ROWS - texts), (0, 0)), mode="edge")
            blocks.append(self._encoder.encode(filled)[:texts])
            start, done = end, done + texts
            advance(done)
        return np.concatenate(blocks)


def _embed(
    texts: Sequence[str],
    spec: EncoderSpec,
    source: EncoderSource,
    encoder: Encoder,
    folder: Path,
    progress: Progress,
) -> list[_Part]:
    """Embed texts batch by batch; existing shards are kept."""
    tokens = _tokenise(texts, encoder, progress)
    batches = _batches(tokens)
    shards = [
        batches[start : start + _SHARD_BATCHES] for start in range(0, len(batches), _SHARD_BATCHES)
    ]
    common = {
        "spec": {**asdict(spec), "name": ""},
        "sha256": source.sha256,
        "libraries": source.libraries,
    }
    folder_or_id = str(Path(spec.name).absolute()) if Path(spec.name).is_dir() else spec.name
    found = map_shards(
        EmbeddingTask,
        common,
        (_shard(shard, tokens) for shard in shards),
        folder,
        places={"encoder": folder_or_id},
        ready=lambda: EmbeddingTask(common, encoder),
        stage="embed",
        total=len(texts),
        progress=progress,
    )
    parts: list[_Part] = []
    for shard, (store, name) in zip(shards, found, strict=True):
        members = np.concatenate([batch.texts for batch in shard])
        parts.append((members, _checked(store, name, members, texts, spec)))
    return parts


def _shard(batches: Sequence[_Batch], tokens: _Tokens) -> Shard:
    """Return the token ids of some batches."""
    ids = [
        tokens.flat[tokens.starts[batch.texts, None] + np.arange(batch.length)].ravel()
        for batch in batches
    ]
    sizes = [len(batch.texts) for batch in batches]
    lengths = [batch.length for batch in batches]
    return Shard({"tokens": np.concatenate(ids), "texts": sizes, "lengths": lengths}, sum(sizes))


def _checked(
    store: ShardStore, name: str, members: Ints, texts: Sequence[str], spec: EncoderSpec
) -> Vectors:
    """Return the vectors of a shard, once they are known to be finite."""
    vectors: Vectors = store.load(name)
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        store.remove(name)
        first = int(members[np.flatnonzero(~finite)[0]])
        raise DataError(f"{spec.name} gives {texts[first]!r} a vector that is not finite")
    return vectors


def _tokenise(texts: Sequence[str], encoder: Encoder, progress: Progress) -> _Tokens:
    blocks: list[Ints] = []
    lengths: list[int] = []
    for start in range(0, len(texts), _BLOCK):
        ids = encoder.tokenise(texts[start : start + _BLOCK])
        lengths += map(len, ids)
        blocks.append(np.fromiter(chain.from_iterable(ids), np.int64))
        progress("tokenise", len(lengths), len(texts))
    if 0 in lengths:
        raise DataError(f"the tokenizer finds no token in {texts[lengths.index(0)]!r}")
    starts = np.cumsum([0, *lengths])
    return _Tokens(np.concatenate(blocks), starts[:-1], np.array(lengths))


def _batches(tokens: _Tokens) -> list[_Batch]:
    """Return batches of texts of the same length, shortest first; within a length by text."""
    batches = []
    for length in np.unique(tokens.lengths).tolist():
        members = np.flatnonzero(tokens.lengths == length)
        batches += [
            _Batch(members[start : start + ROWS], length) for start in range(0, len(members), ROWS)
        ]
    return batches


def _arrange(
    places: Ints,
    parts: Sequence[_Part],
    final: Path,
    progress: Progress,
) -> None:
    """Write the vectors in the order of the queries.

    Args:
        places: the place of each query's text among the distinct ones.
        parts: the distinct texts' vectors.
        final: the file to write.
        progress: called with ``(stage, done, total)``.
    """
    shards = [vectors for _, vectors in parts]
    shard_of = np.empty(sum(len(members) for members, _ in parts), dtype=np.int64)
    row_of = np.empty_like(shard_of)
    for number, (members, _) in enumerate(parts):
        shard_of[members] = number
        row_of[members] = np.arange(len(members))
    shape = (len(places), shards[0].shape[1])
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    with write_atomically(final) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(places), _BLOCK):
            block = places[start : start + _BLOCK]
            vectors = np.empty((len(block), shape[1]), dtype="<f4")
            for number in np.unique(shard_of[block]).tolist():
                wanted = shard_of[block] == number
                vectors[wanted] = shards[number][row_of[block[wanted]]]
            file.write(vectors.tobytes())
            progress("arrange", start + len(block), len(places))
