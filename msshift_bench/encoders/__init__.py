"""Encoders, which compute vectors of query texts, and the cache of these vectors.

`embed_queries` returns the vectors of queries by an `EncoderSpec`: a model of the Hugging Face
Hub, a folder, or term vectors, which need no model. `sign_vectors` returns random vectors of words;
`term_matrix` returns the matrix of texts and their terms. `load_model`, `load_transformer` and
`load_weights` are the only functions that load models. They use `ModelSettings` and read
safetensors only; `loading_errors` returns the errors of libraries that they may raise.
`warn_if_slow` warns of 16 bits on a processor on which they are slow. The room
may use `data`, `engine`, `libraries`, `plumbing`, `arrays`, `sampling`, `settings` and `errors`.
"""

from msshift_bench.encoders.embeddings import Embeddings, embed_queries
from msshift_bench.encoders.loading import (
    load_model,
    load_transformer,
    load_weights,
    loading_errors,
    only_safetensors,
)
from msshift_bench.encoders.model_settings import (
    DEFAULTS,
    OF_LOADING,
    SIMILARITIES,
    ModelSettings,
    warn_if_slow,
)
from msshift_bench.encoders.models import OWN, TERMS, EncoderSpec, choose_encoder
from msshift_bench.encoders.term_vectors import DIMENSIONS, sign_vectors, term_matrix

__all__ = [
    "DEFAULTS",
    "DIMENSIONS",
    "Embeddings",
    "EncoderSpec",
    "ModelSettings",
    "OF_LOADING",
    "OWN",
    "SIMILARITIES",
    "TERMS",
    "choose_encoder",
    "embed_queries",
    "term_matrix",
    "load_model",
    "load_transformer",
    "load_weights",
    "loading_errors",
    "only_safetensors",
    "sign_vectors",
    "warn_if_slow",
]
