"""Encoders from which models start: made with random weights, or loaded."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.systems.finding import loading_error
from msshift_bench.baselines.systems.recipe import RandomEncoder, Recipe
from msshift_bench.baselines.systems.sidecars import read_json
from msshift_bench.data import sha256_of, use_cache_if_offline
from msshift_bench.encoders import (
    DEFAULTS,
    ModelSettings,
    load_transformer,
    loading_errors,
    only_safetensors,
)
from msshift_bench.errors import DataError, UsageError, check_installed, quoted, require
from msshift_bench.libraries import tokenizers, torch, transformers
from msshift_bench.plumbing import replace_folder, silence_libraries

_WHAT = "a neural system"

PRETRAINING = "pretraining.json"
"""The file in an encoder's folder that records its pre-training and the passages it has seen."""

WEIGHTS = "model.safetensors"

_MODULES = ("faiss", "datasets", "torch", "accelerate", "sentence_transformers")

_POSITIONS = 0.2
"""The factor of the initial position embeddings with the lexical prior."""

_SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def require_libraries(what: str) -> None:
    """Check that the neural libraries are installed, without importing them.

    Args:
        what: the feature that needs them, for the message.

    Raises:
        MissingExtraError: if a library is not installed.
    """
    # torch reads this when it is first imported: idle threads sleep instead of spinning. With
    # other work on the same processors, spinning makes training five times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for module in _MODULES:
        check_installed(module, "neural", what)


def quiet_libraries() -> AbstractContextManager[None]:
    """Return a context that hides the progress bars and messages of the neural libraries."""
    return silence_libraries(
        *(require(name, "neural", _WHAT) for name in ("datasets", "transformers"))
    )


def make_random_encoder(
    folder: Path, shape: RandomEncoder, texts: Iterable[str], *, length: int, seed: int
) -> None:
    """Write an untrained BERT with a masked language model's head and a WordPiece tokenizer.

    Args:
        folder: the folder to write; it appears only when it is complete.
        shape: the encoder's shape.
        texts: the texts from which the vocabulary is learnt.
        length: most tokens of an input.
        seed: the seed of the initial weights.
    """
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=learn_word_pieces(texts, shape.vocabulary),
        model_max_length=length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **_SPECIAL,
    )
    torch.manual_seed(seed)
    model = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            intermediate_size=shape.inner,
            max_position_embeddings=length,
            hidden_dropout_prob=shape.dropout,
            attention_probs_dropout_prob=shape.dropout,
            initializer_range=shape.initial,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    if shape.matching:
        _begin_with_equal_tokens(model)
    with replace_folder(folder) as partial:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)


def _begin_with_equal_tokens(model: Any) -> None:
    """Change BERT's initial weights: equal tokens attend to each other and predict themselves."""
    with torch.no_grad():
        model.bert.embeddings.position_embeddings.weight.mul_(_POSITIONS)
        for layer in model.bert.encoder.layer:
            layer.attention.self.key.weight.copy_(layer.attention.self.query.weight)
        torch.nn.init.eye_(model.cls.predictions.transform.dense.weight)


def learn_word_pieces(texts: Iterable[str], size: int) -> Any:
    """Return BERT's WordPiece tokenizer of the library ``tokenizers``, with a learnt vocabulary.

    Args:
        texts: the texts from which the vocabulary is learnt.
        size: most word pieces, special tokens included.
    """
    normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    counts = Counter(word for text in texts for word in normalizer.normalize_str(text).split())
    special = list(_SPECIAL.values())
    # The trainer numbers the pieces "##a", "##b", ... in an order that differs between processes,
    # and breaks ties between merges by these numbers. As special tokens they get fixed numbers.
    # The returned tokenizer is made from the vocabulary alone.
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
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    return tokenizer


@contextmanager
def loading(what: str, where: str | Path) -> Iterator[None]:
    """Return a context that reads safetensors only and replaces libraries' errors of loading.

    Args:
        what: ``encoder`` or ``model``.
        where: the folder, or the id of the Hugging Face Hub.

    Raises:
        NotFoundError: if there is no such encoder or model, or it cannot be loaded.
        DataError: if its weights are pickles.
    """
    try:
        with only_safetensors(where):
            yield
    except loading_errors() as error:
        raise loading_error(what, where, error) from error


def load_backbone(recipe: Recipe, encoder: str | Path, **options: Any) -> Any:
    """Return an encoder's transformer as a module of sentence-transformers.

    Args:
        recipe: the recipe, for its seed and settings of models.
        encoder: a folder, or an id of the Hugging Face Hub.
        **options: options of sentence-transformers' module ``Transformer``.

    Raises:
        NotFoundError: if there is no such encoder, or it cannot be loaded.
        DataError: if its weights are pickles.
    """
    # Weights that the encoder lacks, e.g. a new head's, are random.
    torch.manual_seed(recipe.seed)
    with loading("encoder", encoder):
        return load_transformer(encoder, recipe.model, **options)


def weights_digest(model: Any) -> str:
    """Return the SHA-256 of a torch model's weights and their names: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        # A quantized layer has a tuple of its weights and their type.
        for tensor in filter(torch.is_tensor, value if isinstance(value, tuple) else [value]):
            values = (tensor.dequantize() if tensor.is_quantized else tensor.detach()).cpu()
            digest.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
            # numpy lacks bfloat16, so that the bytes are read.
            digest.update(values.flatten().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def check_finite_weights(model: Any, name: str) -> None:
    """Check that a trained model's weights are finite: otherwise it would rank nothing.

    Args:
        model: the model.
        name: the model's name in messages.

    Raises:
        DataError: if a weight is not finite.
    """
    if not all(torch.isfinite(weights).all() for weights in model.parameters()):
        raise DataError(
            f"the weights of {name} are no longer finite; try a lower learning_rate, or "
            "precision fp32"
        )


def check_finite(finite: npt.NDArray[np.bool_], texts: Sequence[str]) -> None:
    """Check that all vectors are finite: a search would leave out texts with other vectors.

    Args:
        finite: whether the vector of each text is finite, shape (texts,).
        texts: the texts.

    Raises:
        DataError: if a vector is not finite; the message has the first such text.
    """
    if not finite.all():
        raise DataError(
            f"the model gives {quoted(texts[int(np.argmin(finite))])} a vector that is not finite; "
            "train the model again with a lower learning rate, or load it in 32 bits"
        )


def check_finite_parts(
    finite: npt.NDArray[np.bool_], counts: npt.NDArray[np.integer[Any]], texts: Sequence[str]
) -> None:
    """Check that all values are finite, as `check_finite` does for one vector per text.

    Args:
        finite: whether each value is finite, shape (values,), ordered by text.
        counts: the number of values of each text, shape (texts,).
        texts: the texts.

    Raises:
        DataError: if a value is not finite; the message has the first such text.
    """
    owners = np.repeat(np.arange(len(texts)), counts)
    check_finite(np.bincount(owners[~finite], minlength=len(texts)) == 0, texts)


def load_config(encoder: str, settings: ModelSettings = DEFAULTS) -> Any:
    """Return the configuration of an encoder, without loading its weights.

    Args:
        encoder: a folder, or an id of the Hugging Face Hub.
        settings: the settings; only ``revision`` and ``trust_remote_code`` are used.

    Raises:
        NotFoundError: if there is no such encoder, or the Hub cannot be reached.
    """
    use_cache_if_offline(encoder, "an encoder")
    try:
        return transformers.AutoConfig.from_pretrained(encoder, **settings.of_hub())
    except (OSError, ValueError) as error:
        raise loading_error("encoder", encoder, error) from error


def describe_encoder(encoder: str | Path) -> dict[str, object] | None:
    """Return the record of an encoder's pre-training, for the sidecar of a run that starts from it.

    Args:
        encoder: a folder or an id of the Hugging Face Hub.

    Returns:
        ``weights_sha256``; ``seen``, a description of the texts; and ``passages_sha256``. `None` if
        `pretrain_encoder` did not make the encoder.

    Raises:
        UsageError: if its weights are missing or changed after the pre-training.
    """
    facts = Path(encoder).expanduser() / PRETRAINING
    if not facts.is_file():
        return None
    recorded = read_json(facts)
    check_pretrained(facts.parent, recorded)
    return {
        "weights_sha256": recorded["weights_sha256"],
        "seen": recorded["seen"],
        "passages_sha256": recorded["passages"]["sha256"],
    }


def check_pretrained(folder: Path, recorded: Mapping[str, object]) -> None:
    """Check that an encoder's file of weights has the SHA-256 in its record.

    Args:
        folder: the encoder's folder.
        recorded: the content of its file `PRETRAINING`.

    Raises:
        UsageError: if the file is missing or differs.
    """
    weights = folder / WEIGHTS
    if not weights.is_file() or sha256_of(weights) != recorded.get("file_sha256"):
        raise UsageError(
            f"{weights} is missing, or differs from its SHA-256 in {PRETRAINING}; remove {folder}, "
            "and pre-train the encoder again"
        )
