"""Encoders that sentence-transformers saved, which make a query's vector."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from msshift_bench.arrays import Ints, Vectors
from msshift_bench.encoders.safe_weights import SAFETENSORS, only_safetensors, refuse_broken
from msshift_bench.encoders.text_encoders import (
    Encoder,
    EncoderSource,
    EncoderSpec,
)
from msshift_bench.errors import UsageError, require
from msshift_bench.plumbing import quieten

__all__ = ["load_sentence_model"]

_WHAT = "a model of sentence-transformers"

_DENSE = "SentenceTransformer"
"""The kind of models that give dense vectors, one per text; older ones do not say theirs."""


def load_sentence_model(spec: EncoderSpec, source: EncoderSource) -> Encoder:
    """Load a model that gives each text one vector, to encode queries with.

    Vectors are scaled to length 1 if the model compares them by the cosine, so that dot products
    are its scores.

    Raises:
        UsageError: if it cannot be loaded, or does not give one dense vector per text.
    """
    torch = require("torch", "neural", _WHAT)
    model = _open_model(spec, source)
    prompt = model.prompts.get("query") or None

    def preprocess(texts: Sequence[str]) -> Any:
        return model.preprocess(list(texts), prompt=prompt, task="query")

    probe = preprocess(["a query"])
    constant = {name: probe[name] for name in ("prompt_length",) if name in probe}

    def tokenise(texts: Sequence[str]) -> list[list[int]]:
        features = preprocess(texts)
        masks = features["attention_mask"].bool()
        return [ids[mask].tolist() for ids, mask in zip(features["input_ids"], masks, strict=True)]

    def encode(ids: Ints) -> Vectors:
        tokens = torch.from_numpy(ids)
        features = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **constant}
        with torch.inference_mode():
            found = model.eval()(features, task="query")
        vectors: Vectors = found["sentence_embedding"].float().numpy()
        if model.similarity_fn_name == "cosine":
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        return vectors

    return Encoder(tokenise, encode)


def _open_model(spec: EncoderSpec, source: EncoderSource) -> Any:
    """Return a model for the CPU, once it is known to be of the right kind."""
    library = require("sentence_transformers", "neural", _WHAT)
    with quieten(require("transformers", "neural", _WHAT)), refuse_broken(spec.name, _WHAT):
        _check_kind(spec, source)
        with only_safetensors(str(source.folder), _WHAT):
            return library.SentenceTransformer(
                str(source.folder),
                device="cpu",
                local_files_only=True,
                model_kwargs=SAFETENSORS,
            )


def _check_kind(spec: EncoderSpec, source: EncoderSource) -> None:
    """Check that a model is one that gives dense vectors, one per text."""
    assert source.folder is not None
    settings = source.folder / "config_sentence_transformers.json"
    kind = _DENSE
    if settings.is_file():
        kind = json.loads(settings.read_bytes()).get("model_type", _DENSE)
    if kind != _DENSE:
        raise UsageError(
            f"{spec.name} is a {kind}, which does not give a query one dense vector; take the "
            f"model of a bi-encoder ({_DENSE})"
        )
