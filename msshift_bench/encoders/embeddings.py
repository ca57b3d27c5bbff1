"""Compute and cache the vectors of queries, with the same bytes in every process.

Every batch holds `ROWS` rows, all of the same number of tokens, so that nothing is padded. The
shapes are therefore fixed, and a text's vector depends on the text alone: not on other texts,
their order or the number of threads (docs/data.md, "Topics"). The last batch of every length is
filled with copies of its last text. Texts are embedded in blocks, shortest first. Finished blocks
are kept on disk, so that after a kill the next process continues.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from msshift_bench.arrays import Ints, Vectors
from msshift_bench.encoders.models import (
    OWN,
    ROWS,
    TERMS,
    Encoder,
    EncoderSource,
    EncoderSpec,
    choose_encoder,
    find_encoder,
    load_encoder,
)
from msshift_bench.encoders.term_vectors import PARAMETERS, term_vectors
from msshift_bench.engine import KeptArray, engine_in_use
from msshift_bench.errors import DataError, IntegrityError, UsageError
from msshift_bench.plumbing import (
    cache_root,
    counted_parts,
    lock_folder,
    report_progress,
    sha256_of_parts,
    slices,
    write_atomically,
    write_json,
)
from msshift_bench.words import divide, words_fact

_BLOCK = 2_048
"""Texts of one block, whose vectors are kept together: 6 MB with 768 dimensions."""

_ROWS = 16_384
"""Most rows that are tokenised, copied or digested at once."""

_BATCHES_VERSION = 1
"""Version of the rule that forms batches; part of the name of a cache folder."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The vectors of queries.

    Attributes:
        query_ids: the ids of the queries, ascending.
        vectors: shape (queries, dimensions), rows in the order of `query_ids`; 32-bit floats,
            mapped from the cache: read-only.
        sha256: `embedding_digest` of `query_ids` and `vectors`.
        facts: the encoder, its settings, and the number of queries, for a manifest; JSON values.
    """

    query_ids: tuple[str, ...]
    vectors: Vectors
    sha256: str
    facts: dict[str, object]

    @property
    def encoder_facts(self) -> dict[str, object]:
        """The facts about the encoder and its use, without the facts about the texts."""
        text_facts = ("queries", "distinct_texts", "sha256")
        return {name: fact for name, fact in self.facts.items() if name not in text_facts}


def embed_queries(
    queries: Mapping[str, str], spec: EncoderSpec, *, cache: Path | None = None
) -> Embeddings:
    """Return a vector for every query, and cache all vectors.

    No model is loaded if the cache has the vectors: for the same queries, ids, encoder and versions
    of libraries. Queries of equal text get equal vectors.

    Args:
        queries: query_id -> text, in any order.
        spec: the encoder.
        cache: the folder of the cache; ``embeddings`` in `cache_root` by default.

    Raises:
        DataError: if there are no queries, a query has no token or no finite vector, or the
            encoder lacks weights.
        IntegrityError: if the cache was damaged.
        NotFoundError: if there is no such encoder.
        MissingExtraError: if the encoder's libraries are not installed.
        UsageError: if the encoder cannot be used with `spec`, or another process embeds the same
            queries.
    """
    if not len(queries):
        raise DataError("there are no queries to embed")
    rows = sorted(queries.items())
    query_ids = tuple(query_id for query_id, _ in rows)
    spec = choose_encoder(spec)
    texts, places = _distinct([text for _, text in rows])
    root = cache_root() / "embeddings" if cache is None else cache
    source = find_encoder(spec)
    folder = root / _identity(rows, spec, source)
    final, complete = folder / "vectors.npy", folder / "digest.json"
    if not complete.exists():
        with lock_folder(folder):
            # Another process may have written the vectors before this one got the lock.
            if not complete.exists():
                _write_vectors(texts, places, spec, source, folder / "blocks", final)
                write_json(complete, embedding_digest(query_ids, np.load(final, mmap_mode="r")))
    # A process that was killed after its last write leaves blocks, too.
    shutil.rmtree(folder / "blocks", ignore_errors=True)
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

    Its input is the ids as a JSON array, a line break, and the rows of vectors as little-endian
    32-bit floats.
    """
    rows = (vectors[part].astype("<f4").tobytes() for part in slices(len(vectors), _ROWS))
    return sha256_of_parts(chain([_compact(list(query_ids)) + b"\n"], rows))


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _distinct(texts: Sequence[str]) -> tuple[list[str], Ints]:
    """Return the distinct texts, sorted, and the index of each text among them."""
    distinct = sorted(set(texts))
    place_of = {text: place for place, text in enumerate(distinct)}
    return distinct, np.array([place_of[text] for text in texts], dtype=np.int64)


def _identifying_facts(spec: EncoderSpec, source: EncoderSource) -> dict[str, object]:
    """Return the facts that determine a text's vector, without paths of this machine."""
    if spec.name == TERMS:
        return {
            "encoder": TERMS,
            "encoder_sha256": source.sha256,
            "parameters": {**PARAMETERS, **words_fact(spec.words)},
        }
    left_out = ("name", "max_length") if spec.pooling == OWN else ("name",)
    return {
        "encoder": Path(spec.name).name if Path(spec.name).is_dir() else spec.name,
        "encoder_sha256": source.sha256,
        **{name: value for name, value in spec.parameters().items() if name not in left_out},
        "libraries": source.libraries,
    }


def _identity(rows: Sequence[tuple[str, str]], spec: EncoderSpec, source: EncoderSource) -> str:
    """Return the SHA-256 of the rows and the facts that determine the vectors and their order."""
    facts = {**_identifying_facts(spec, source), "encoder": None, "batches": _BATCHES_VERSION}
    return sha256_of_parts(chain([_compact(facts)], (b"\n" + _compact(row) for row in rows)))


def _write_vectors(
    texts: Sequence[str],
    places: Ints,
    spec: EncoderSpec,
    source: EncoderSource,
    blocks_folder: Path,
    final: Path,
) -> None:
    """Embed `texts`, and write one vector per query; `places` has each query's index in `texts`."""
    if spec.name == TERMS:
        report_progress("embed", 0, len(texts))
        vectors = term_vectors([divide(text, spec.words) for text in texts])
        report_progress("embed", len(texts), len(texts))
        order = np.arange(len(texts))
        blocks = [vectors[part] for part in slices(len(texts), _BLOCK)]
    else:
        order, blocks = _embed(texts, spec, source, load_encoder(spec, source), blocks_folder)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    _arrange(place[places], blocks, final)


@dataclass(frozen=True, slots=True)
class _VectorBlock:
    """Some texts, shortest first, with the encoder and settings that determine their vectors.

    Attributes:
        spec: the settings of the encoder, without its name.
        sha256: see `EncoderSource`.
        libraries: see `EncoderSource`; sorted.
        tokens: the token ids of the texts, one text after the other.
        lengths: the number of tokens of each text, ascending.
        encoder: the encoder, if this process encodes the block; `None` on a cluster.
        address: the Hub id or the folder from which a cluster's machines load the encoder.
    """

    spec: EncoderSpec
    sha256: str
    libraries: tuple[tuple[str, str], ...]
    tokens: Ints
    lengths: Ints
    encoder: Encoder | None = field(compare=False)
    address: str = field(compare=False)


def _encode(block: _VectorBlock) -> Vectors:
    """Return the vectors of a block's texts, shape (texts, dimensions)."""
    encoder = block.encoder
    if encoder is None:
        spec = replace(block.spec, name=block.address)
        encoder = _named_encoder(spec, block.sha256, block.libraries)
    start, vectors = 0, []
    for length, count in zip(*np.unique(block.lengths, return_counts=True), strict=True):
        end = start + length * count
        ids = block.tokens[start:end].reshape(count, length)
        for part in slices(count, ROWS):
            # Copies of the last text fill up the batch.
            size = part.stop - part.start
            filled = np.pad(ids[part], ((0, ROWS - size), (0, 0)), mode="edge")
            vectors.append(encoder.encode(filled)[:size])
        start = end
    return np.concatenate(vectors)


@lru_cache(maxsize=1)
def _named_encoder(
    spec: EncoderSpec, sha256: str, libraries: tuple[tuple[str, str], ...]
) -> Encoder:
    """Return an encoder on a cluster's machine; each process loads it once for all its blocks.

    Raises:
        NotFoundError: if there is no such encoder on this machine.
        MissingExtraError: if its libraries are not installed.
        UsageError: if the encoder or its libraries differ from the machine that made the tasks.
    """
    source = find_encoder(spec)
    if source.sha256 != sha256 or source.libraries != dict(libraries):
        raise UsageError(
            f"the encoder {spec.name} or its libraries on this machine differ from the machine "
            f"that made the tasks ({dict(libraries)}): install the same on all machines"
        )
    return load_encoder(spec, source)


def _embed(
    texts: Sequence[str], spec: EncoderSpec, source: EncoderSource, encoder: Encoder, folder: Path
) -> tuple[Ints, list[Vectors]]:
    """Return the vectors of texts, in blocks; blocks that exist on disk are read.

    Returns:
        The indices of the texts, shortest text first, and the vectors of each block of them.
    """
    engine = engine_in_use()
    flat, starts, lengths = _tokenise(texts, encoder)
    order = np.argsort(lengths, kind="stable")
    parts = [order[part] for part in slices(len(order), _BLOCK)]
    address = str(Path(spec.name).absolute()) if Path(spec.name).is_dir() else spec.name

    def blocks() -> Iterator[_VectorBlock]:
        for part in parts:
            spans = zip(starts[part], lengths[part], strict=True)
            yield _VectorBlock(
                spec=replace(spec, name=""),
                sha256=source.sha256,
                libraries=tuple(sorted(source.libraries.items())),
                tokens=np.concatenate([flat[start : start + size] for start, size in spans]),
                lengths=lengths[part],
                encoder=encoder if engine.address is None else None,
                address=address,
            )

    kept = engine.keep(_encode, blocks(), folder)
    blocks_done = zip(counted_parts(parts, "embed", len(texts)), kept, strict=True)
    return order, [_finite_vectors(block, part, texts, spec) for part, block in blocks_done]


def _finite_vectors(
    block: KeptArray, members: Ints, texts: Sequence[str], spec: EncoderSpec
) -> Vectors:
    """Return the vectors of a block.

    Raises:
        DataError: if a value is not finite; the block is then removed from disk.
    """
    vectors: Vectors = block.load()
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        block.remove()
        first = int(members[np.flatnonzero(~finite)[0]])
        raise DataError(
            f"{spec.name} gives the text {texts[first]!r} a vector that is not finite: remove the "
            "query, or use another encoder"
        )
    return vectors


def _tokenise(texts: Sequence[str], encoder: Encoder) -> tuple[Ints, Ints, Ints]:
    """Return the joined token ids of all texts, each text's first index, and its length.

    A text without tokens is a DataError.
    """
    blocks: list[Ints] = []
    lengths: list[int] = []
    for start in range(0, len(texts), _ROWS):
        ids = encoder.tokenise(texts[start : start + _ROWS])
        lengths += map(len, ids)
        blocks.append(np.fromiter(chain.from_iterable(ids), np.int64))
        report_progress("tokenise", len(lengths), len(texts))
    if 0 in lengths:
        raise DataError(
            f"the tokenizer finds no token in the text {texts[lengths.index(0)]!r}: remove the "
            "query, or use another encoder"
        )
    return np.concatenate(blocks), np.cumsum([0, *lengths])[:-1], np.array(lengths)


def _arrange(places: Ints, blocks: Sequence[Vectors], final: Path) -> None:
    """Write the vectors in the order of the queries.

    Args:
        places: the row of each query's text, counted over all blocks.
        blocks: the vectors of each block; each block but the last has `_BLOCK` rows.
        final: the file to write.
    """
    shape = (len(places), blocks[0].shape[1])
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    with write_atomically(final) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in slices(len(places), _ROWS):
            numbers, rows = np.divmod(places[part], _BLOCK)
            vectors = np.empty((len(rows), shape[1]), dtype="<f4")
            for number in np.unique(numbers).tolist():
                wanted = numbers == number
                vectors[wanted] = blocks[number][rows[wanted]]
            file.write(vectors.tobytes())
            report_progress("arrange", part.stop, len(places))
