"""Encoders: made from nothing or loaded, and passages encoded so that nothing is done twice."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.baselines.recipe import RandomEncoder, Recipe
from msshift_bench.batching import batches
from msshift_bench.errors import NotFoundError, require
from msshift_bench.files import replace_folder, write_atomically
from msshift_bench.progress import Progress
from msshift_bench.records import Passage

__all__ = [
    "encode_passages",
    "load_model",
    "make_random_encoder",
    "new_model",
    "quiet_libraries",
    "weights_digest",
]

_WHAT = "the bi-encoder"

_SHARD = 20_000
"""Passages encoded and kept together: 60 MB of vectors with 768 dimensions."""

_SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep the progress bars and the chatter of the neural libraries away from the terminal."""
    datasets = require("datasets", "neural", _WHAT)
    logging = require("transformers", "neural", _WHAT).utils.logging
    verbosity = logging.get_verbosity()
    bars = datasets.are_progress_bars_disabled(), logging.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if not bars[0]:
            datasets.enable_progress_bars()
        if bars[1]:
            logging.enable_progress_bar()


def make_random_encoder(
    folder: Path, shape: RandomEncoder, texts: Iterable[str], *, length: int, seed: int
) -> None:
    """Write an untrained BERT, with a WordPiece vocabulary learnt from texts.

    Args:
        folder: where to; it appears only when it is complete.
        shape: the encoder's shape.
        texts: what the vocabulary is learnt from.
        length: most tokens of a text.
        seed: of the initial weights.
    """
    torch = require("torch", "neural", _WHAT)
    transformers = require("transformers", "neural", _WHAT)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_learn_word_pieces(texts, shape.vocabulary),
        model_max_length=length,
        **_SPECIAL,
    )
    torch.manual_seed(seed)
    model = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            intermediate_size=shape.inner,
            max_position_embeddings=length,
            hidden_dropout_prob=shape.dropout,
            attention_probs_dropout_prob=shape.dropout,
            pad_token_id=tokenizer.pad_token_id,
        ),
        add_pooling_layer=False,
    )
    with replace_folder(folder) as partial:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)


def _learn_word_pieces(texts: Iterable[str], size: int) -> Any:
    tokenizers = require("tokenizers", "neural", _WHAT)
    normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    counts = Counter(word for text in texts for word in normalizer.normalize_str(text).split())
    special = list(_SPECIAL.values())
    # The trainer numbers the pieces "##a", "##b", ... in an order that differs from process to
    # process, and breaks ties between merges by these numbers. As special tokens they get fixed
    # ones; the tokenizer itself is then made from the vocabulary alone.
    letters = sorted({letter for word in counts for letter in word})
    continuations = [f"##{letter}" for letter in letters]
    learner = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    learner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    learner.train_from_iterator(
        (f"{word} " * count for word, count in sorted(counts.items())),
        tokenizers.trainers.WordPieceTrainer(
            vocab_size=size, special_tokens=[*special, *continuations], show_progress=False
        ),
    )
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(learner.get_vocab(), unk_token="[UNK]")
    )
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    return tokenizer


def new_model(recipe: Recipe, encoder: str | Path) -> Any:
    """Return an untrained bi-encoder: an encoder and the recipe's pooling.

    Args:
        recipe: the recipe.
        encoder: where the encoder is: a folder, or an id of the Hugging Face Hub.

    Raises:
        NotFoundError: if there is no such encoder.
    """
    transformer = require("sentence_transformers", "neural", _WHAT)
    modules = require("sentence_transformers.sentence_transformer.modules", "neural", _WHAT)
    # Weights that the encoder does not bring, such as a pooler that is never used, are drawn.
    require("torch", "neural", _WHAT).manual_seed(recipe.seed)
    try:
        backbone = modules.Transformer(
            str(encoder), query_length=recipe.query_length, document_length=recipe.passage_length
        )
    except (OSError, ValueError) as error:
        first = str(error).strip().partition("\n")[0]
        raise NotFoundError(f"no encoder {encoder}: {first}") from error
    parts = [backbone, modules.Pooling(backbone.get_embedding_dimension(), recipe.pooling)]
    if recipe.normalize:
        parts.append(modules.Normalize())
    return transformer.SentenceTransformer(modules=parts, similarity_fn_name="dot")


def load_model(folder: Path) -> Any:
    """Return a bi-encoder that was saved."""
    library = require("sentence_transformers", "neural", _WHAT)
    return library.SentenceTransformer(str(folder), local_files_only=True)


def weights_digest(model: Any) -> str:
    """Return the SHA-256 of a model's weights: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        digest.update(values.numpy().tobytes())
    return digest.hexdigest()


def encode_passages(
    model: Any, passages: Iterable[Passage], folder: Path, *, batch_size: int, progress: Progress
) -> tuple[list[str], list[Path]]:
    """Encode passages in blocks and keep the vectors; blocks that are there are not made again.

    A block's file bears the digest of its passages in its name, so that it is only ever taken for
    the same passages. It belongs to one model: the folder must not serve another.

    Args:
        model: the bi-encoder.
        passages: the passages; streamed once.
        folder: where the blocks are kept.
        batch_size: passages encoded together.
        progress: told how far things are.

    Returns:
        The doc_ids, and the files that hold their vectors in the same order; each is an array of
        32-bit floats of shape (passages of the block, dimensions).
    """
    doc_ids: list[str] = []
    files: list[Path] = []
    for block in batches(passages, _SHARD):
        digest = hashlib.sha256(repr(block).encode()).hexdigest()
        path = folder / f"{len(files):05d}-{digest[:32]}.npy"
        if not path.exists():
            texts = [passage.text for passage in block]
            vectors = encode(model.encode_document, texts, batch_size)
            with write_atomically(path) as file:
                np.save(file, vectors)
        files.append(path)
        doc_ids.extend(passage.doc_id for passage in block)
        progress("encode", len(doc_ids), 0)
    return doc_ids, files


def encode(method: Any, texts: Sequence[str], batch_size: int) -> np.ndarray[Any, Any]:
    """Return vectors of texts, 32-bit floats of shape (texts, dimensions).

    Args:
        method: ``encode_query`` or ``encode_document`` of a model.
        texts: what to encode.
        batch_size: texts encoded together; they are sorted by length first.
    """
    vectors = method(list(texts), batch_size=batch_size, show_progress_bar=False)
    return np.ascontiguousarray(vectors, dtype=np.float32)
