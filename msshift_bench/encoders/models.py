"""Models that turn the texts of queries into vectors: find, identify, load and run them.

sentence-transformers loads them all: a model that it saved as that model is, any other encoder as a
transformer with a pooling behind it. An encoder always gets `ROWS` texts at once, all of the same
number of tokens. Matrix products of one shape add in one order, so a text's vector depends neither
on the texts beside it nor on the number of threads: `msshift_bench.encoders.embeddings` forms such
batches.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.arrays import Ints, Vectors
from msshift_bench.data import ask_only_if_it_answers, sha256_of
from msshift_bench.encoders.loading import (
    check_weights,
    load_model,
    load_transformer,
    load_weights,
    loading_errors,
)
from msshift_bench.encoders.model_settings import DEFAULTS, ModelSettings
from msshift_bench.encoders.term_vectors import PARAMETERS
from msshift_bench.errors import (
    DataError,
    MissingExtraError,
    NotFoundError,
    UsageError,
    check_name,
    require,
)
from msshift_bench.libraries import sentence_transformers, torch, transformers
from msshift_bench.plumbing import sha256_of_parts, silence_libraries

TERMS = "terms"
"""The encoder that needs no model; see `msshift_bench.encoders.term_vectors`."""

ROWS = 32
"""Texts in every batch."""

OWN = "own"
"""The pooling of a model that sentence-transformers saved: as the model itself encodes queries."""

_DEFAULT = "distilbert-base-uncased"
"""The paper's encoder: DistilBERT, not fine-tuned (section 3.1, footnote 4)."""

_POOLINGS = ("cls", "mean", OWN)
_LIBRARIES = ("torch", "transformers", "tokenizers", "sentence-transformers")
_WHAT = "an encoder of queries"

_MODULES = "modules.json"
"""The file in which sentence-transformers lists the parts of a model."""

_DENSE = "SentenceTransformer"
"""The kind of models that give dense vectors, one per text; older ones do not say theirs."""

_WEIGHTS = "model*.safetensors*"
_TOKENIZER = ("tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json", "*.model")

_INSTEAD = {
    "document_prompt": "every text is a query here: use query_prompt",
    "similarity": "use normalize=true to compare by the cosine",
    "batch_size": f"an encoder always gets {ROWS} texts together: remove it",
    "device": "encoders run on the CPU, for the same vectors everywhere: remove it",
    "query_length": "in Python, use EncoderSpec(max_length=...)",
    "passage_length": "in Python, use EncoderSpec(max_length=...)",
}
"""The settings of models that encoders of queries do not have, and what to use instead."""


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """An encoder and how it is used.

    Attributes:
        name: an id of the Hugging Face Hub, a local folder, or `TERMS`, which needs no model and
            ignores the other attributes but `words`; "" for the collection's default.
        pooling: ``"cls"``, the first token's vector, ``"mean"``, the mean over all tokens, or
            `OWN`, the vector that a model of sentence-transformers gives a query by itself; it cuts
            off texts by itself, too, and its folder must be such a model's.
        max_length: tokens after which a text is cut off, special tokens included.
        settings: how the model is loaded, and what else decides its vectors: ``query_prompt``,
            ``truncate_dim``, ``dtype``, ``normalize``, ``revision``, ``model_kwargs`` and
            ``trust_remote_code`` of `ModelSettings`.
        words: how `TERMS` divides texts into words (`WORDS`); models have tokenizers instead.

    Raises:
        UnknownNameError: for another pooling.
        UsageError: if there is no room for a token between the special ones, or a setting is not
            for encoders of queries.

    Examples:
        >>> settings = ModelSettings(query_prompt="query: ", truncate_dim=64)
        >>> EncoderSpec("intfloat/e5-small-v2", "mean", settings=settings).parameters()["settings"]
        {'query_prompt': 'query: ', 'truncate_dim': 64}
    """

    name: str
    pooling: str = "cls"
    max_length: int = 64
    settings: ModelSettings = DEFAULTS
    words: str = "whitespace"

    def __post_init__(self) -> None:
        check_name("pooling", self.pooling, _POOLINGS)
        if self.max_length < 3:
            raise UsageError(f"a text has at least 3 tokens, not max_length={self.max_length}")
        for name in self.settings.given():
            value = getattr(self.settings, name)
            if self.name == TERMS:
                raise UsageError(f"{name} is {value!r}, and {TERMS!r} has no model: remove {name}")
            if name in _INSTEAD:
                raise UsageError(f"{name} is {value!r}; {_INSTEAD[name]}")

    def parameters(self) -> dict[str, Any]:
        """Return all attributes as JSON values; the settings only if one is given."""
        settings = self.settings.parameters()
        return {
            "name": self.name,
            "pooling": self.pooling,
            "max_length": self.max_length,
            **({"settings": settings} if settings else {}),
        }


@dataclass(frozen=True, slots=True)
class EncoderSource:
    """An encoder that was found.

    Attributes:
        folder: its files; `None` for `TERMS`.
        sha256: digest of the names and bytes of its configuration, weights and tokenizer; or of the
            name and parameters of `TERMS`.
        libraries: the libraries that decide its vectors' last bits, with their versions.
    """

    folder: Path | None
    sha256: str
    libraries: dict[str, str]


@dataclass(frozen=True, slots=True)
class Encoder:
    """An encoder, ready to work.

    Attributes:
        tokenise: returns the token ids of each text, special tokens included.
        encode: returns vectors, shape (`ROWS`, dimensions), for token ids, (`ROWS`, tokens).
    """

    tokenise: Callable[[Sequence[str]], list[list[int]]]
    encode: Callable[[Ints], Vectors]


def choose_encoder(
    encoder: str | EncoderSpec | None,
    layout: str = "",
    *,
    pooling: str | None = None,
    words: str = "whitespace",
) -> EncoderSpec:
    """Return the encoder that was named, or else the default.

    Args:
        encoder: the encoder or its name, if the user gave one.
        layout: the layout of the collection: ``generated`` has `TERMS` as its default, so that it
            needs no model; the others have the paper's DistilBERT.
        pooling: the pooling of an encoder that was given by name; ``cls`` by default.
        words: how `TERMS` divides texts, if not by white space.
    """
    spec = (
        encoder
        if isinstance(encoder, EncoderSpec)
        else EncoderSpec(encoder or "", pooling or "cls")
    )
    return replace(
        spec,
        name=spec.name or (TERMS if layout == "generated" else _DEFAULT),
        words=spec.words if words == "whitespace" else words,
    )


def find_encoder(spec: EncoderSpec) -> EncoderSource:
    """Find an encoder's files, on the Hub if needed, and identify it; no model is loaded.

    Raises:
        NotFoundError: if it is not there and cannot be downloaded.
        DataError: if its weights are pickles.
        MissingExtraError: if the libraries are not installed.
    """
    if spec.name == TERMS:
        parameters = json.dumps([TERMS, PARAMETERS]).encode()
        return EncoderSource(None, hashlib.sha256(parameters).hexdigest(), {})
    own = spec.pooling == OWN
    try:
        libraries = {library: version(library) for library in _LIBRARIES}
    except PackageNotFoundError as error:
        raise MissingExtraError("neural", _WHAT) from error
    folder = Path(spec.name) if Path(spec.name).is_dir() else _download(spec)
    files = _files(folder)
    if spec.settings.trust_remote_code:
        files += sorted(folder.rglob("*.py"))
    if own:
        if not (folder / _MODULES).is_file():
            raise NotFoundError(
                f"{folder} holds no {_MODULES}: it is no model of sentence-transformers, which the "
                f"pooling {OWN!r} needs; give one, or choose another pooling"
            )
        # Parts behind the transformer, such as a dense layer, have weights in folders of their own.
        files += sorted([*folder.rglob("*.json"), *folder.glob("*/**/*.safetensors")])
    lines = (f"{path.relative_to(folder)} {sha256_of(path)}\n".encode() for path in files)
    return EncoderSource(folder, sha256_of_parts(lines), libraries)


def _files(folder: Path) -> list[Path]:
    """Return the files that an encoder is made of, in a fixed order."""
    config = [folder / "config.json"]
    check_weights(folder)
    weights = sorted(folder.glob(_WEIGHTS))
    tokenizer = sorted({path for name in _TOKENIZER for path in folder.glob(name)})
    for what, files in (
        ("config.json", config),
        ("weights as safetensors", weights),
        ("tokenizer", tokenizer),
    ):
        if not all(path.is_file() for path in files) or not files:
            raise NotFoundError(
                f"{folder} holds no {what}: give a folder as save_pretrained() of transformers "
                f"writes it, with both the model and the tokenizer"
            )
    return [*config, *weights, *tokenizer]


def _download(spec: EncoderSpec) -> Path:
    """Return the folder of an encoder of the Hub, downloaded unless it is at hand."""
    hub, name = require("huggingface_hub", "neural", _WHAT), spec.name
    ask_only_if_it_answers(name, _WHAT)
    parts = ["*.json", "*/*.safetensors"] if spec.pooling == OWN else ["config.json"]
    if spec.settings.trust_remote_code:
        parts.append("*.py")
    try:
        patterns, revision = [*parts, _WEIGHTS, *_TOKENIZER], spec.settings.revision
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        raise NotFoundError(
            f"no encoder {name!r}: there is no such folder, and the Hugging Face Hub could not "
            f"give it ({str(error).strip().partition(chr(10))[0]}); check the name, download it "
            f"where there is a network and give its folder, or take the one that needs no model: "
            f"--encoder {TERMS} (in Python, encoder={TERMS!r})"
        ) from error


def load_encoder(spec: EncoderSpec, source: EncoderSource) -> Encoder:
    """Load an encoder that is not `TERMS`, for the CPU.

    The vectors of a model of sentence-transformers are scaled to length 1 if it compares them by
    the cosine, so that dot products are its scores.

    Raises:
        UsageError: if the model cannot be loaded, has no fast tokenizer, is no encoder, reads fewer
            tokens than `spec` says, or does not give one dense vector per text.
        DataError: if the files do not hold all weights.
    """
    settings, own = spec.settings, spec.pooling == OWN
    with silence_libraries(transformers), _in_one_sentence(spec.name):
        if own:
            _check_kind(spec, source)
            model = load_model(_DENSE, str(source.folder), settings, device="cpu")
        else:
            model = sentence_transformers.SentenceTransformer(
                modules=_parts(spec, source), device="cpu", local_files_only=True
            )
            model.max_seq_length = spec.max_length
    settings.set_up(model)
    normalised = settings.normalize or (own and model.similarity_fn_name == "cosine")
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
            encoded = model.eval()(features, task="query")
        vectors: Vectors = encoded["sentence_embedding"].float().numpy()[:, : model.truncate_dim]
        if normalised:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        return vectors

    return Encoder(tokenise, encode)


def _parts(spec: EncoderSpec, source: EncoderSource) -> list[Any]:
    """Return an encoder of transformers and its pooling, as modules of sentence-transformers."""
    # Without its weights: sentence-transformers would fill in those that are missing in silence.
    bare, loading = load_weights(
        transformers.AutoModel,
        str(source.folder),
        spec.settings,
        device_map="meta",
        output_loading_info=True,
    )
    if bare.config.is_encoder_decoder:
        raise UsageError(f"{spec.name} is an encoder with a decoder; only encoders can be used")
    # The pooler is never used: [CLS] is taken before it.
    missing = sorted(key for key in loading["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise DataError(f"{spec.name} lacks weights of its own model, {missing[0]} for one")
    transformer = load_transformer(
        str(source.folder), spec.settings, model_kwargs={"dtype": torch.float32}
    )
    tokenizer, config = transformer.tokenizer, bare.config
    if not tokenizer.is_fast:
        raise UsageError(f"{spec.name} has no fast tokenizer (tokenizer.json)")
    most = min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", math.inf))
    if spec.max_length > most:
        raise UsageError(
            f"{spec.name} reads at most {most} tokens, not {spec.max_length}: give a smaller "
            f"max_length"
        )
    return [
        transformer,
        sentence_transformers.sentence_transformer.modules.Pooling(
            transformer.get_embedding_dimension(), spec.pooling
        ),
    ]


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


@contextmanager
def _in_one_sentence(name: str) -> Iterator[None]:
    """Say in one sentence what libraries raise where files are cut off or do not fit together.

    Raises:
        UsageError: if the model cannot be loaded.
    """
    try:
        yield
    except loading_errors() as error:
        first = str(error).strip().partition("\n")[0]
        raise UsageError(f"{name} cannot be loaded: {first}") from error
