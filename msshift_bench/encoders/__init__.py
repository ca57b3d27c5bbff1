"""Encoders, which turn the texts of queries into vectors, and the cache of what they made.

`embed_queries` returns the vectors of queries under an `EncoderSpec`: a model of the Hugging Face
Hub, a folder, or term vectors, which need no model; `sign_vectors` are the random vectors of words,
`incidence` says which text has which. `only_safetensors` keeps libraries from loading weights in
any other form, and `loading_errors` are what they raise. The room may use `data`, `engine`,
`libraries`, `plumbing`, `arrays`, `sampling` and `errors`.
"""

from msshift_bench.encoders.embeddings import Embeddings, embed_queries
from msshift_bench.encoders.models import (
    OWN,
    SAFETENSORS,
    TERMS,
    EncoderSpec,
    choose_encoder,
    loading_errors,
    only_safetensors,
)
from msshift_bench.encoders.term_vectors import DIMENSIONS, incidence, sign_vectors

__all__ = [
    "DIMENSIONS",
    "Embeddings",
    "EncoderSpec",
    "OWN",
    "SAFETENSORS",
    "TERMS",
    "choose_encoder",
    "embed_queries",
    "incidence",
    "loading_errors",
    "only_safetensors",
    "sign_vectors",
]
