"""Encoders of queries: find, identify, load and run them.

sentence-transformers loads all encoders: its own models as they were saved, other encoders as a
transformer followed by a pooling. An encoder always gets `ROWS` texts in a batch, all of the same
number of tokens; see `msshift_bench.encoders.embeddings`. Matrix products of one shape are summed
in one order.
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
from msshift_bench.data import sha256_of, use_cache_if_offline
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
"""The pooling with which a model that sentence-transformers saved encodes queries itself."""

_DEFAULT = "distilbert-base-uncased"
"""The paper's encoder: DistilBERT, not fine-tuned (section 3.1, footnote 4)."""

_POOLINGS = ("cls", "mean", OWN)
_LIBRARIES = ("torch", "transformers", "tokenizers", "sentence-transformers")
_WHAT = "an encoder of queries"

_MODULES = "modules.json"
"""The file in which sentence-transformers lists the parts of a model."""

_DENSE = "SentenceTransformer"
"""The `model_type` of models that return one dense vector per text; older models name none."""

_WEIGHTS = "model*.safetensors*"
_TOKENIZER = ("tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json", "*.model")

_INSTEAD = {
    "document_prompt": "an encoder of queries reads queries only: use query_prompt",
    "similarity": "use normalize=true to compare by the cosine",
    "batch_size": f"an encoder always gets {ROWS} texts together: remove it",
    "device": "encoders run on the CPU, for the same vectors everywhere: remove it",
    "query_length": "in Python, use EncoderSpec(max_length=...)",
    "passage_length": "in Python, use EncoderSpec(max_length=...)",
}
"""Each setting of models that encoders of queries lack -> the fix for the message."""


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """An encoder and how it is used.

    Attributes:
        name: an id of the Hugging Face Hub, a local folder, or `TERMS`; "" for the collection's
            default. `TERMS` needs no model; of the other attributes it uses only `words`.
        pooling: ``"cls"``, the first token's vector; ``"mean"``, the mean over all tokens; or
            `OWN`, the vector of a query by a model of sentence-transformers. With `OWN`, the model
            ignores `max_length`, and cuts off texts by its own length.
        max_length: most tokens of a text, special tokens included, at least 3; longer texts are cut
            off.
        settings: ``query_prompt``, ``truncate_dim``, ``dtype``, ``normalize``, ``revision``,
            ``model_kwargs`` and ``trust_remote_code`` of `ModelSettings`.
        words: how `TERMS` divides texts into words (`WORDS`); models have tokenizers instead.

    Raises:
        UnknownNameError: if the pooling is unknown.
        UsageError: if `max_length` is below 3, or a setting is not for encoders of queries.

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
            raise UsageError(f"max_length must be at least 3 tokens, got {self.max_length}")
        for name in self.settings.given():
            value = getattr(self.settings, name)
            if self.name == TERMS:
                raise UsageError(f"{name} is {value!r}, and {TERMS!r} has no model: remove {name}")
            if name in _INSTEAD:
                raise UsageError(f"{name} is {value!r}; {_INSTEAD[name]}")

    def parameters(self) -> dict[str, Any]:
        """Return the attributes but `words` as JSON values; the settings only if one is given."""
        settings = self.settings.parameters()
        return {
            "name": self.name,
            "pooling": self.pooling,
            "max_length": self.max_length,
            **({"settings": settings} if settings else {}),
        }


@dataclass(frozen=True, slots=True)
class EncoderSource:
    """The files and the identity of an encoder.

    Attributes:
        folder: the folder of its files; `None` for `TERMS`.
        sha256: the digest of the names and bytes of its files; for `TERMS`, of its name and
            parameters.
        libraries: library -> version, for the libraries that determine the last bits of vectors.
    """

    folder: Path | None
    sha256: str
    libraries: dict[str, str]


@dataclass(frozen=True, slots=True)
class Encoder:
    """A loaded encoder.

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
    """Return the encoder that the user chose, or the default.

    Args:
        encoder: the encoder, its name, or `None` for the default.
        layout: the layout of the collection. The default for ``generated`` is `TERMS`, which needs
            no model; for the others, the paper's DistilBERT.
        pooling: the pooling of an encoder that is given by name or by default; ``cls`` if `None`.
        words: how `TERMS` divides texts (`WORDS`); ``whitespace`` leaves an `EncoderSpec` as it is.

    Raises:
        UnknownNameError: if the pooling is unknown.
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
    """Return an encoder's folder, digest and libraries; download it if needed, load no model.

    Raises:
        NotFoundError: if the encoder does not exist or cannot be downloaded, or lacks a file.
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
                f"{folder} has no {_MODULES}, which sentence-transformers writes and pooling "
                f"{OWN!r} needs: give a model of sentence-transformers, or choose another pooling"
            )
        # Parts after the transformer, e.g. a dense layer, have their weights in subfolders.
        files += sorted([*folder.rglob("*.json"), *folder.glob("*/**/*.safetensors")])
    lines = (f"{path.relative_to(folder)} {sha256_of(path)}\n".encode() for path in files)
    return EncoderSource(folder, sha256_of_parts(lines), libraries)


def _files(folder: Path) -> list[Path]:
    """Return the files of an encoder's configuration, weights and tokenizer, in a fixed order.

    A kind without files is a NotFoundError; weights as pickles are a DataError.
    """
    config = [folder / "config.json"]
    check_weights(folder)
    weights = sorted(folder.glob(_WEIGHTS))
    tokenizer = sorted({path for name in _TOKENIZER for path in folder.glob(name)})
    for part, files in (
        ("config.json", config),
        ("weights as safetensors", weights),
        ("tokenizer", tokenizer),
    ):
        if not all(path.is_file() for path in files) or not files:
            raise NotFoundError(
                f"{folder} has no {part}: give a folder that save_pretrained() of transformers "
                f"wrote, with both the model and the tokenizer"
            )
    return [*config, *weights, *tokenizer]


def _download(spec: EncoderSpec) -> Path:
    """Return the folder of an encoder of the Hub; download it unless it is in the cache."""
    hub, name = require("huggingface_hub", "neural", _WHAT), spec.name
    use_cache_if_offline(name, _WHAT)
    parts = ["*.json", "*/*.safetensors"] if spec.pooling == OWN else ["config.json"]
    if spec.settings.trust_remote_code:
        parts.append("*.py")
    try:
        patterns, revision = [*parts, _WEIGHTS, *_TOKENIZER], spec.settings.revision
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        raise NotFoundError(
            f"no encoder {name!r}: there is no such folder, and the Hugging Face Hub did not "
            f"provide it ({str(error).strip().partition(chr(10))[0]}). Check the name, give a "
            f"folder that you downloaded elsewhere, or use an encoder that needs no model: "
            f"--encoder {TERMS} (in Python, encoder={TERMS!r})"
        ) from error


def load_encoder(spec: EncoderSpec, source: EncoderSource) -> Encoder:
    """Return an encoder other than `TERMS`, loaded on the CPU.

    With pooling `OWN`, if the model's similarity is the cosine, vectors are scaled to length 1.
    Their dot products are then the model's scores.

    Raises:
        UsageError: if the model cannot be loaded, or has a decoder or no fast tokenizer. Also if it
            reads fewer tokens than `spec.max_length`, or does not return one dense vector per text.
            Also if a setting cannot be applied.
        DataError: if the files lack weights.
    """
    settings, own = spec.settings, spec.pooling == OWN
    with silence_libraries(transformers), _one_error(spec.name):
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
    # On "meta", no weights are read: sentence-transformers would not report missing weights.
    bare, loading = load_weights(
        transformers.AutoModel,
        str(source.folder),
        spec.settings,
        device_map="meta",
        output_loading_info=True,
    )
    if bare.config.is_encoder_decoder:
        raise UsageError(f"{spec.name} has a decoder: give a model that is an encoder only")
    # The pooler is never used: the pooling reads the states before it.
    missing = sorted(key for key in loading["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise DataError(
            f"{spec.name} lacks {len(missing)} weights of its architecture, e.g. {missing[0]}: "
            "give a complete model"
        )
    transformer = load_transformer(
        str(source.folder), spec.settings, model_kwargs={"dtype": torch.float32}
    )
    tokenizer, config = transformer.tokenizer, bare.config
    if not tokenizer.is_fast:
        raise UsageError(
            f"{spec.name} has no fast tokenizer: add its file tokenizer.json, or give another model"
        )
    most = min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", math.inf))
    if spec.max_length > most:
        raise UsageError(
            f"max_length must be at most {most}, the tokens that {spec.name} reads, got "
            f"{spec.max_length}"
        )
    return [
        transformer,
        sentence_transformers.sentence_transformer.modules.Pooling(
            transformer.get_embedding_dimension(), spec.pooling
        ),
    ]


def _check_kind(spec: EncoderSpec, source: EncoderSource) -> None:
    """Check that a model of sentence-transformers returns one dense vector per text."""
    assert source.folder is not None
    settings = source.folder / "config_sentence_transformers.json"
    kind = _DENSE
    if settings.is_file():
        kind = json.loads(settings.read_bytes()).get("model_type", _DENSE)
    if kind != _DENSE:
        raise UsageError(
            f"{spec.name} is a {kind}, which does not return one dense vector per query: give a "
            f"bi-encoder ({_DENSE})"
        )


@contextmanager
def _one_error(name: str) -> Iterator[None]:
    """Raise a UsageError with the first line of a library's error if a model cannot be loaded."""
    try:
        yield
    except loading_errors() as error:
        first_line = str(error).strip().partition("\n")[0]
        raise UsageError(f"{name} cannot be loaded: {first_line}") from error
