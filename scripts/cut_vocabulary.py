#!/usr/bin/env python
"""Cut a BERT's vocabulary to the word pieces that a collection uses most.

scripts/cut_vocabulary.py ENCODER COLLECTION OUT SIZE

SPLADE's cost is the vocabulary's: docs/experiments.md says where this was used.
"""

import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertTokenizerFast

from msshift_bench import open_collection


def main() -> None:
    """Write the encoder with fewer word pieces into a new folder."""
    encoder, collection, out, size = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = AutoModelForMaskedLM.from_pretrained(encoder)
    texts = [passage.text for passage in open_collection(collection).passages()]
    used = Counter(chain.from_iterable(tokenizer(texts, add_special_tokens=False).input_ids))
    pieces = {row: piece for piece, row in tokenizer.get_vocab().items()}
    # Single characters stay, so that every word can still be spelt.
    spelling = {
        row
        for row, piece in pieces.items()
        if len(piece.removeprefix("##")) == 1 and piece.isascii()
    }
    always = spelling | set(tokenizer.all_special_ids)
    frequent = [row for row, _ in used.most_common() if row not in always]
    kept = sorted(always | set(frequent[: size - len(always)]))

    rows = torch.tensor(kept)
    weights = model.get_input_embeddings().weight.data[rows].clone()
    bias = model.cls.predictions.bias.data[rows].clone()
    model.resize_token_embeddings(len(kept), mean_resizing=False)
    model.get_input_embeddings().weight.data.copy_(weights)
    model.cls.predictions.decoder.weight.data.copy_(weights)
    model.cls.predictions.bias.data.copy_(bias)
    model.config.pad_token_id = kept.index(tokenizer.pad_token_id)

    out.mkdir(parents=True)
    vocabulary = out / "vocab.txt"
    vocabulary.write_text("".join(f"{pieces[row]}\n" for row in kept), encoding="utf-8")
    model.save_pretrained(out)
    BertTokenizerFast(str(vocabulary)).save_pretrained(out)
    part = sum(used[row] for row in kept) / used.total()
    print(f"{len(kept)} word pieces, {part:.1%} of the collection's tokens")


if __name__ == "__main__":
    main()
