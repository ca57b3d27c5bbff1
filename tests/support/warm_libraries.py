"""Imports what neural models need, and does once what takes long the first time.

Nothing here starts a thread, because processes are forked from the one that imports this.
"""

from __future__ import annotations

import tempfile

import accelerate  # noqa: F401
import datasets  # noqa: F401
import faiss  # noqa: F401
import sentence_transformers  # noqa: F401
from transformers import BertConfig, BertModel

_TINY = {"vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8}

with tempfile.TemporaryDirectory() as _folder:
    BertModel(BertConfig(**_TINY, num_attention_heads=1)).save_pretrained(_folder)
