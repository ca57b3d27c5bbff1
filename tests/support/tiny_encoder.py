"""A small untrained BERT whose tokens are whole words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["make_tiny_encoder"]

_SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}


def make_tiny_encoder(
    folder: Path, texts: Iterable[str], *, length: int, layers: int = 2, hidden: int = 64
) -> None:
    """Write a model and its tokenizer as transformers does; always the same for the same texts.

    Args:
        folder: where to.
        texts: whose words are the vocabulary.
        length: most tokens of a text.
        layers: transformer layers.
        hidden: size of the hidden states.
    """
    import tokenizers
    import torch
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = sorted({word for text in texts for word in re.findall(r"\w+", text.lower())})
    vocabulary = {word: number for number, word in enumerate([*_SPECIAL.values(), *words])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=length, **_SPECIAL)
    torch.manual_seed(1)
    model = BertModel(
        BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=2 * hidden,
            max_position_embeddings=length,
        ),
        add_pooling_layer=False,
    )
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
