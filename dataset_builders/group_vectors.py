"""Embedding the queries of a collection, for the shifts whose groups rest on embeddings."""

from __future__ import annotations

from msshift_bench.data import Collection, QueryColumns
from msshift_bench.encoders import Embeddings, EncoderSpec, choose_encoder, embed_queries
from msshift_bench.plumbing import Progress, silent

__all__ = ["embed_for_groups"]


def embed_for_groups(
    queries: QueryColumns,
    collection: Collection,
    *,
    encoder: str | None = None,
    pooling: str | None = None,
    backend: str | None = None,
    progress: Progress = silent,
) -> Embeddings:
    """Embed queries, or take cached embeddings.

    Args:
        queries: the queries.
        collection: their collection, which decides the default encoder.
        encoder: an id of the Hugging Face Hub, a folder, or ``terms``; see `choose_encoder`.
        pooling: ``cls``, the default, ``mean``, or ``own``.
        backend: ``torch``, the default, or ``onnx``.
        progress: called with ``(stage, done, total)``.
    """
    name = choose_encoder(encoder, collection.layout)
    spec = EncoderSpec(name, pooling=pooling or "cls", backend=backend or "torch")
    return embed_queries(queries, spec, progress=progress)
