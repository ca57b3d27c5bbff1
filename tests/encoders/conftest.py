"""Encoders that know nothing: a BERT, and a model of sentence-transformers on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.mini import generator as mini
from tests.support.tiny_encoder import make_tiny_encoder

LENGTH = 24
"""The most tokens that the encoders read."""

QUERIES = dict(mini.queries(200))
"""What the words of the encoders come from."""


@pytest.fixture(scope="session")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of ``bert``, and of a model on it that compares by ``dot``."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    folder = tmp_path_factory.mktemp("encoders")
    make_tiny_encoder(folder / "bert", QUERIES.values(), length=LENGTH)
    parts = [Transformer(str(folder / "bert"), max_seq_length=LENGTH), Pooling(64, "mean")]
    model = SentenceTransformer(modules=parts, device="cpu", similarity_fn_name="dot")
    model.save_pretrained(str(folder / "dot"), create_model_card=False)
    return folder
