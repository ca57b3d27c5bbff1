"""Encoders, which turn the texts of queries into vectors, and the cache of what they made.

`embed_queries` returns the vectors of queries under an `EncoderSpec`: a model of the Hugging Face
Hub, a folder, or term vectors, which need no model; `sign_vectors` are the random vectors of words,
`incidence` says which text has which. `load_model`, `load_transformer` and `load_weights` are the
only functions that load models, by their `ModelSettings` and as safetensors; `loading_errors` are
what libraries raise there. The room may use `data`, `engine`, `libraries`, `plumbing`, `arrays`,
`sampling`, `settings` and `errors`.
"""

from msshift_bench.encoders.embeddings import Embeddings, embed_queries
from msshift_bench.encoders.loading import (
    load_model,
    load_transformer,
    load_weights,
    loading_errors,
    only_safetensors,
)
from msshift_bench.encoders.model_settings import DEFAULTS, OF_LOADING, SIMILARITIES, ModelSettings
from msshift_bench.encoders.models import OWN, TERMS, EncoderSpec, choose_encoder
from msshift_bench.encoders.term_vectors import DIMENSIONS, incidence, sign_vectors

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
    "incidence",
    "load_model",
    "load_transformer",
    "load_weights",
    "loading_errors",
    "only_safetensors",
    "sign_vectors",
]
