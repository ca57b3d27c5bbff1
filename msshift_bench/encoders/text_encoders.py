"""Encoders, which turn the texts of queries into vectors: find, identify, load and run them.

An encoder always gets `ROWS` texts at once, all of the same number of tokens. Matrix products of
one shape add in one order, so a text's vector depends neither on the texts beside it nor on the
number of threads: `msshift_bench.encoders.embeddings` forms such batches.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.arrays import Ints, Vectors
from msshift_bench.data import ask_only_if_it_answers, sha256_of
from msshift_bench.encoders.safe_weights import SAFETENSORS, check_weights, refuse_broken
from msshift_bench.encoders.term_vectors import PARAMETERS
from msshift_bench.errors import (
    DataError,
    MissingExtraError,
    NotFoundError,
    UnknownNameError,
    UsageError,
    require,
)
from msshift_bench.plumbing import quieten, thread_count, write_atomically

__all__ = [
    "ROWS",
    "TERMS",
    "Encoder",
    "EncoderSource",
    "EncoderSpec",
    "OWN",
    "choose_encoder",
    "find_encoder",
    "load_encoder",
]

TERMS = "terms"
"""The encoder that needs no model; see `msshift_bench.encoders.term_vectors`."""

ROWS = 32
"""Texts in every batch."""

OWN = "own"
"""The pooling of a model that sentence-transformers saved: as the model itself encodes queries."""

_DEFAULT = "distilbert-base-uncased"
"""The paper's encoder: DistilBERT, not fine-tuned (section 3.1, footnote 4)."""

_POOLINGS = ("cls", "mean", OWN)
_LIBRARIES = {
    "torch": ("torch", "transformers", "tokenizers"),
    "onnx": ("torch", "transformers", "tokenizers", "onnx", "onnxscript", "onnxruntime"),
}
_SENTENCE_LIBRARY = "sentence-transformers"
_EXTRAS = {"torch": "neural", "onnx": "onnx"}
_WHAT = "an encoder of queries"

_SAME = 1e-4
"""How far vectors of an exported model may be from the model's own, relative to the largest
component; it is 1e-6 if the export is right, and 1 if it is not."""

_MODULES = "modules.json"
"""The file in which sentence-transformers lists the parts of a model."""

_WEIGHTS = "model*.safetensors*"
_TOKENIZER = ("tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json", "*.model")


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """An encoder and how it is used.

    Attributes:
        name: an id of the Hugging Face Hub, a local folder, or `TERMS`, which needs no model and
            ignores the other attributes.
        pooling: ``"cls"``, the first token's vector, ``"mean"``, the mean over all tokens, or
            `OWN`, the vector that a model of sentence-transformers gives a query by itself; it cuts
            off texts by itself, too, and its folder must be such a model's.
        backend: ``"torch"``, or ``"onnx"`` for ONNX Runtime. Their vectors differ by noise.
        max_length: tokens after which a text is cut off, special tokens included.

    Raises:
        UnknownNameError: for another pooling or backend.
        UsageError: if there is no room for a token between the special ones, or a model of
            sentence-transformers should run on ONNX Runtime.
    """

    name: str
    pooling: str = "cls"
    backend: str = "torch"
    max_length: int = 64

    def __post_init__(self) -> None:
        if self.pooling not in _POOLINGS:
            raise UnknownNameError("pooling", self.pooling, _POOLINGS)
        if self.backend not in _LIBRARIES:
            raise UnknownNameError("backend", self.backend, _LIBRARIES)
        if self.max_length < 3:
            raise UsageError(f"a text has at least 3 tokens, not max_length={self.max_length}")
        if self.pooling == OWN and self.backend != "torch":
            raise UsageError(f"the pooling {OWN!r} needs the backend 'torch'")


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


def choose_encoder(name: str | None, layout: str) -> str:
    """Return the encoder that was named, or else the default.

    Args:
        name: what the user named.
        layout: the layout of the collection: ``generated`` has `TERMS` as its default, so that it
            needs no model; the others have the paper's DistilBERT.
    """
    return name or (TERMS if layout == "generated" else _DEFAULT)


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
    libraries = _versions(spec.backend, _SENTENCE_LIBRARY if own else None)
    folder = Path(spec.name) if Path(spec.name).is_dir() else _download(spec.name, own=own)
    digest = hashlib.sha256()
    for path in _files(folder):
        digest.update(f"{path.name} {sha256_of(path)}\n".encode())
    if own:
        if not (folder / _MODULES).is_file():
            raise NotFoundError(
                f"{folder} holds no {_MODULES}: it is no model of sentence-transformers, which the "
                f"pooling {OWN!r} needs; give one, or choose another pooling"
            )
        # Parts behind the transformer, such as a dense layer, have weights in folders of their own.
        for path in sorted([*folder.rglob("*.json"), *folder.glob("*/**/*.safetensors")]):
            digest.update(f"{path.relative_to(folder)} {sha256_of(path)}\n".encode())
    return EncoderSource(folder, digest.hexdigest(), libraries)


def _versions(backend: str, further: str | None) -> dict[str, str]:
    try:
        libraries = filter(None, (*_LIBRARIES[backend], further))
        return {library: version(library) for library in libraries}
    except PackageNotFoundError as error:
        raise MissingExtraError(_EXTRAS[backend], _WHAT) from error


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


def _download(name: str, *, own: bool) -> Path:
    """Return the folder of an encoder of the Hub, downloaded unless it is at hand."""
    hub = require("huggingface_hub", "neural", _WHAT)
    ask_only_if_it_answers(name, _WHAT)
    try:
        parts = ["*.json", "*/*.safetensors"] if own else ["config.json"]
        return Path(hub.snapshot_download(name, allow_patterns=[*parts, _WEIGHTS, *_TOKENIZER]))
    except (OSError, ValueError) as error:
        raise NotFoundError(
            f"no encoder {name!r}: there is no such folder, and the Hugging Face Hub could not "
            f"give it ({str(error).strip().partition(chr(10))[0]}); check the name, download it "
            f"where there is a network and give its folder, or take the one that needs no model: "
            f"--encoder {TERMS} (in Python, encoder={TERMS!r})"
        ) from error


def load_encoder(spec: EncoderSpec, source: EncoderSource, cache: Path) -> Encoder:
    """Load a neural encoder.

    Args:
        spec: the encoder; neither `TERMS` nor of the pooling `OWN`.
        source: its files.
        cache: a folder for the model's form for ONNX Runtime.

    Raises:
        UsageError: if the model cannot be loaded, has no fast tokenizer, is no encoder, or reads
            fewer tokens than `spec` says.
        DataError: if the files do not hold all weights.
    """
    transformers = require("transformers", "neural", _WHAT)
    with quieten(transformers):
        with refuse_broken(spec.name, _WHAT):
            tokenizer = transformers.AutoTokenizer.from_pretrained(source.folder)
            model = _load_model(spec, source)
        _check(spec, tokenizer, model.config)
        if spec.backend == "torch":
            encode = _with_torch(model, spec)
        else:
            key = json.dumps([source.sha256, source.libraries, spec.pooling, spec.max_length])
            path = cache / f"{hashlib.sha256(key.encode()).hexdigest()}.onnx"
            if not path.exists():
                _export(model, spec, path)
            encode = _with_onnx(path.read_bytes())

    def tokenise(texts: Sequence[str]) -> list[list[int]]:
        encoded = tokenizer(
            list(texts), truncation=True, max_length=spec.max_length, return_attention_mask=False
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    return Encoder(tokenise, encode)


def _load_model(spec: EncoderSpec, source: EncoderSource) -> Any:
    torch = require("torch", "neural", _WHAT)
    transformers = require("transformers", "neural", _WHAT)
    model, loading = transformers.AutoModel.from_pretrained(
        source.folder, dtype=torch.float32, output_loading_info=True, **SAFETENSORS
    )
    # the pooler is never used: [CLS] is taken before it
    missing = sorted(key for key in loading["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise DataError(f"{spec.name} lacks weights of its own model, {missing[0]} for one")
    return model.eval()


def _check(spec: EncoderSpec, tokenizer: Any, config: Any) -> None:
    if not tokenizer.is_fast:
        raise UsageError(f"{spec.name} has no fast tokenizer (tokenizer.json)")
    if config.is_encoder_decoder:
        raise UsageError(f"{spec.name} is an encoder with a decoder; only encoders can be used")
    most = min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", math.inf))
    if spec.max_length > most:
        raise UsageError(
            f"{spec.name} reads at most {most} tokens, not {spec.max_length}: give a smaller "
            f"max_length"
        )


def _pooled(model: Any, pooling: str) -> Any:
    """Return a module that gives one vector per text."""
    torch = require("torch", "neural", _WHAT)

    class Pooled(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any) -> Any:
            mask = torch.ones_like(ids)
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            return hidden[:, 0] if pooling == "cls" else hidden.mean(1)

    return Pooled().eval()


def _with_torch(model: Any, spec: EncoderSpec) -> Callable[[Ints], Vectors]:
    torch = require("torch", "neural", _WHAT)
    pooled = _pooled(model, spec.pooling)

    def encode(ids: Ints) -> Vectors:
        with torch.inference_mode():
            vectors: Vectors = pooled(torch.from_numpy(ids)).numpy()
        return vectors

    return encode


def _export(model: Any, spec: EncoderSpec, path: Path) -> None:
    """Write a model in ONNX's form, for `ROWS` texts of any number of tokens.

    Raises:
        UsageError: if the exported model gives other vectors.
    """
    torch = require("torch", "neural", _WHAT)
    ids = np.arange(ROWS * min(8, spec.max_length)).reshape(ROWS, -1) % model.config.vocab_size
    with warnings.catch_warnings():
        # the exporter of torch 2.13 calls what torch itself has deprecated
        warnings.filterwarnings("ignore", r".*LeafSpec", FutureWarning)
        program = torch.onnx.export(
            _pooled(model, spec.pooling),
            (torch.from_numpy(ids),),
            input_names=["ids"],
            output_names=["vectors"],
            dynamic_shapes=({1: torch.export.Dim.DYNAMIC},),
            dynamo=True,
            verbose=False,
        )
    exported = program.model_proto.SerializeToString()
    # other, shorter texts, in case the export took a part of the example for a constant
    ids = ids[::-1, 1:].copy()
    vectors = _with_torch(model, spec)(ids)
    difference = float(np.abs(_with_onnx(exported)(ids) - vectors).max())
    if difference > _SAME * float(np.abs(vectors).max()):
        raise UsageError(
            f"{spec.name} is another model after its export to ONNX (vectors differ by "
            f"{difference:.2g}): use the backend 'torch'"
        )
    with write_atomically(path) as file:
        file.write(exported)


def _with_onnx(exported: bytes) -> Callable[[Ints], Vectors]:
    runtime = require("onnxruntime", "onnx", _WHAT)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = thread_count()
    options.log_severity_level = 3
    session = runtime.InferenceSession(exported, options, providers=["CPUExecutionProvider"])

    def encode(ids: Ints) -> Vectors:
        vectors: Vectors = session.run(None, {"ids": ids})[0]
        return vectors

    return encode
