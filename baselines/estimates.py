"""Estimates of the time and disk that a training and a search take.

They assume that texts are as long as the recipe allows, and that a model reaches a fixed share of
the speed at which this machine multiplies matrices. Reading and starting come on top, and for small
models most of a step. They tell minutes from days, no more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msshift_bench.baselines.backbones import not_loaded
from msshift_bench.baselines.recipe import Recipe
from msshift_bench.data import ask_only_if_it_answers
from msshift_bench.errors import require

__all__ = [
    "EncoderShape",
    "Estimate",
    "PlannedRun",
    "Work",
    "encoder_shape",
    "load_config",
    "measure_speed",
]

_EFFICIENCY = 0.3
"""The share of a matrix product's speed that training and encoding reach."""

_COPIES = 11
"""Copies of the weights on disk at once: three checkpoints, each with the optimizer's two moments,
the best and the final ones."""


@dataclass(frozen=True, slots=True)
class EncoderShape:
    """The shape of a transformer.

    Attributes:
        layers: transformer layers.
        hidden: size of the hidden states.
        inner: size of the feed-forward layers.
        vocabulary: word pieces.
    """

    layers: int
    hidden: int
    inner: int
    vocabulary: int

    @property
    def layer_weights(self) -> int:
        """The weights of all layers, without the embeddings."""
        return self.layers * (4 * self.hidden**2 + 2 * self.hidden * self.inner)

    @property
    def bytes(self) -> int:
        """The bytes of all weights, in 32 bits."""
        return 4 * (self.layer_weights + self.vocabulary * self.hidden)


@dataclass(frozen=True, slots=True)
class Work:
    """The work that a system does for one run, if all texts are as long as the recipe allows.

    Attributes:
        training: floating-point operations of all steps.
        searching: floating-point operations of encoding and searching.
        index_bytes: bytes stored for the passages.
    """

    training: float
    searching: float
    index_bytes: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one run takes.

    Attributes:
        steps: optimizer steps, at most.
        seconds: estimated time on this machine; `None` if the encoder's shape is not known.
        bytes: estimated disk space while it is made; `None` if the encoder's shape is not known.
    """

    steps: int
    seconds: float | None = None
    bytes: int | None = None

    @classmethod
    def of(cls, steps: int, work: Work, shape: EncoderShape, speed: float) -> Estimate:
        """Return the estimate for some work at a speed in operations per second."""
        seconds = (work.training + work.searching) / (speed * _EFFICIENCY)
        return cls(steps, seconds, work.index_bytes + _COPIES * shape.bytes)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run file that would be made.

    Attributes:
        run: the file.
        state: ``complete``, ``begun`` or ``new``; ``running`` if another process makes it now.
        estimate: what it takes; `None` if the system cannot estimate it.
        lacks: what this machine lacks to make it, as a sentence; `None` if it lacks nothing.
    """

    run: Path
    state: str
    estimate: Estimate | None
    lacks: str | None = None


def encoder_shape(recipe: Recipe) -> EncoderShape:
    """Return the shape of a recipe's encoder.

    Raises:
        NotFoundError: if there is no such encoder, or the Hub cannot be reached.
    """
    if recipe.random is not None:
        shape = recipe.random
        return EncoderShape(shape.layers, shape.hidden, shape.inner, shape.vocabulary)
    config = load_config(recipe.encoder)
    inner = getattr(config, "intermediate_size", None) or getattr(config, "hidden_dim", None)
    hidden = int(config.hidden_size)
    return EncoderShape(
        int(config.num_hidden_layers), hidden, int(inner or 4 * hidden), int(config.vocab_size)
    )


def load_config(encoder: str) -> Any:
    """Return the configuration of an encoder, which is small beside its weights.

    Raises:
        NotFoundError: if there is no such encoder, or the Hub cannot be reached.
    """
    config_class = require("transformers", "neural", "an encoder").AutoConfig
    ask_only_if_it_answers(encoder, "an encoder")
    try:
        return config_class.from_pretrained(encoder)
    except (OSError, ValueError) as error:
        raise not_loaded("encoder", encoder, error) from error


def measure_speed() -> float:
    """Return how many floating-point operations per second a product of matrices reaches here."""
    torch = require("torch", "neural", "the plan")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    left = torch.rand(1024, 1024, device=device)
    best = 0.0
    for _ in range(4):
        start = time.perf_counter()
        # Reading one number waits until a GPU has finished.
        float((left @ left)[0, 0])
        best = max(best, 2 * 1024**3 / (time.perf_counter() - start))
    return best
