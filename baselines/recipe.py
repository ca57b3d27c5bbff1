"""Recipes: everything that decides how a model is trained and searched with, in one TOML file.

`Recipe` holds what all neural systems share. Each system adds its own fields in a subclass, and
refuses those of the others.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from types import NoneType
from typing import Any, Self, get_args, get_type_hints

from msshift_bench.errors import UnknownNameError, UsageError

__all__ = [
    "BM25",
    "RANDOM",
    "EarlyStopping",
    "RandomEncoder",
    "Recipe",
    "SearchSettings",
    "at_least",
    "check_fields",
    "checked",
    "make_recipe",
    "one_of",
]

RANDOM = "random"
"""The encoder that is built from nothing, whose shape is the table ``[random]``, and the negatives
that are drawn from the whole collection."""

BM25 = "bm25"
"""The negatives that BM25 ranks high."""


def at_least(lowest: float, default: Any = MISSING) -> Any:
    """Declare a finite number that is not below `lowest`."""
    return field(default=default, metadata={"at_least": lowest})


def one_of(*valid: str, default: Any = MISSING) -> Any:
    """Declare a name that is one of `valid`."""
    return field(default=default, metadata={"one_of": valid})


def checked(check: Callable[[object], None]) -> Any:
    """Declare a value of which `check` says everything, its type included."""
    return field(metadata={"check": check})


def check_fields(table: Any) -> None:
    """Check a table's fields against what they are declared to be.

    Raises:
        UsageError: naming the field, its value and what it may be.
    """
    for item in fields(table):
        value = getattr(table, item.name)
        if value is None:
            continue
        if "check" in item.metadata:
            item.metadata["check"](value)
        valid = item.metadata.get("one_of")
        if valid is not None and value not in valid:
            raise UnknownNameError(item.name, value, valid)
        lowest = item.metadata.get("at_least")
        if lowest is not None and not (math.isfinite(value) and value >= lowest):
            raise UsageError(f"{item.name} is {value}; it must be {lowest} or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomEncoder:
    """The shape of a BERT that is trained from random initialisation.

    Attributes:
        layers: transformer layers.
        hidden: size of the hidden states; a multiple of `heads`.
        heads: attention heads.
        inner: size of the feed-forward layers.
        vocabulary: most word pieces; they are learnt from the collection's passages.
        dropout: probability, 0 or more and below 1, on hidden states and attention.
        initial: standard deviation of the initial weights; BERT's is 0.02, which is small for a
            model of few dimensions that has no pre-training to grow them.
        matching: whether the model begins with an eye for equal tokens: keys are made like
            queries, positions count little, and the masked language model's head names the token
            that it reads. Pre-trained models have learnt this, and others come to it, but not in a
            training of seconds.
    """

    layers: int = at_least(1)
    hidden: int = at_least(1)
    heads: int = at_least(1)
    inner: int = at_least(1)
    vocabulary: int = at_least(100)
    dropout: float = at_least(0)
    initial: float = at_least(0, default=0.02)
    matching: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.hidden % self.heads:
            raise UsageError(f"hidden is {self.hidden}, which is no multiple of heads {self.heads}")
        if self.dropout >= 1:
            raise UsageError(f"dropout is {self.dropout}; it must be below 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStopping:
    """Early stopping by approximate retrieval (Hofstaetter et al., SIGIR 2021, section 4.2).

    The model ranks a fixed set of candidates for the validation queries: the first passages of
    BM25 and the relevant ones. Of all validations, the weights with the highest MRR@10 are kept.

    Attributes:
        every: steps between validations.
        queries: most validation queries; which ones follows from their ids.
        depth: how far down BM25's ranking the candidates reach.
        patience: validations in a row without a better one after which training ends; 0 for never.
    """

    every: int = at_least(1)
    queries: int = at_least(1)
    depth: int = at_least(1)
    patience: int = at_least(0)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How passages are searched with a model.

    Attributes:
        depth: passages per ranking.
        batch_size: texts encoded together.
    """

    depth: int = at_least(1)
    batch_size: int = at_least(1)

    def __post_init__(self) -> None:
        check_fields(self)


def _check_negatives(value: object) -> None:
    if type(value) is int:
        raise UsageError(
            f"negatives is {value}; it says where they come from now: write "
            f'negatives = "{BM25}" and negatives_per_query = {value}'
        )
    if value not in (BM25, RANDOM):
        raise UnknownNameError("negatives", str(value), (BM25, RANDOM))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a model is trained, and how passages are searched with it: what all systems share.

    Attributes:
        encoder: a folder or an id of the Hugging Face Hub, or ``random``.
        query_length: most tokens of a query, special tokens included.
        passage_length: most tokens of a passage, special tokens included.
        batch_size: queries per step, however many processors they are spread over.
        accumulate: parts in which a batch goes through the model one after the other, to save
            memory; in-batch negatives are shared within a part. A divisor of `batch_size`.
        steps: optimizer steps. Either these or `epochs` are given.
        epochs: how often every pair of a training query and a relevant passage is met; the steps
            follow from how many there are.
        learning_rate: at its highest; the optimizer is AdamW.
        warmup_steps: steps in which the learning rate rises from 0.
        schedule: how it goes on from there: ``constant``, ``linear`` or ``cosine`` to 0.
        weight_decay: of AdamW, not applied to biases and layer norms.
        adam_beta1: how slowly AdamW's mean of the gradients follows them; below 1.
        adam_beta2: how slowly AdamW's mean of their squares follows them; below 1.
        adam_epsilon: what AdamW adds to the root that it divides by.
        max_gradient_norm: a gradient that is longer is shortened to it; 0 for any length.
        negatives: where passages come from that a query is not to find: ``bm25``, which ranks them
            high, or ``random``, from the whole collection; never a relevant one.
        negatives_per_query: such passages per query and step.
        negatives_pool: such passages drawn per query; each time that a query is met it takes the
            next `negatives_per_query` of them. A multiple of `negatives_per_query`.
        negatives_depth: how far down BM25's ranking they are drawn from, if and only if `negatives`
            is ``bm25``.
        seed: of the initial weights, the dropout, the order of the queries and their negatives.
        precision: of training: ``fp32``, or on a GPU ``bf16`` or ``fp16``.
        checkpoint_every: steps between checkpoints, from which a killed training goes on.
        search: how passages are searched.
        validation: early stopping; without it the last weights are kept.
        random: the shape of the encoder, if and only if that is ``random``.
    """

    encoder: str
    query_length: int = at_least(3)
    passage_length: int = at_least(3)
    batch_size: int = at_least(2)
    accumulate: int = at_least(1)
    steps: int | None = at_least(1, default=None)
    epochs: int | None = at_least(1, default=None)
    learning_rate: float = at_least(0)
    warmup_steps: int = at_least(0)
    schedule: str = one_of("constant", "linear", "cosine")
    weight_decay: float = at_least(0)
    adam_beta1: float = at_least(0)
    adam_beta2: float = at_least(0)
    adam_epsilon: float = at_least(0)
    max_gradient_norm: float = at_least(0)
    negatives: str = checked(_check_negatives)
    negatives_per_query: int = at_least(1)
    negatives_pool: int = at_least(1)
    negatives_depth: int | None = at_least(1, default=None)
    seed: int = at_least(0)
    precision: str = one_of("fp32", "bf16", "fp16")
    checkpoint_every: int = at_least(1)
    search: SearchSettings
    validation: EarlyStopping | None = None
    random: RandomEncoder | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if (self.steps is None) == (self.epochs is None):
            raise UsageError("the recipe says how long to train by either steps or epochs")
        if (self.negatives == BM25) != (self.negatives_depth is not None):
            raise UsageError(
                f"negatives is {self.negatives!r}; negatives_depth goes with negatives = "
                f"{BM25!r} and with no other"
            )
        wholes = (("batch_size", "accumulate"), ("negatives_pool", "negatives_per_query"))
        for whole, part in wholes:
            if getattr(self, whole) % getattr(self, part):
                raise UsageError(
                    f"{whole} is {getattr(self, whole)}, which is no multiple of "
                    f"{part} {getattr(self, part)}"
                )
        for beta in ("adam_beta1", "adam_beta2"):
            if getattr(self, beta) >= 1:
                raise UsageError(f"{beta} is {getattr(self, beta)}; it must be below 1")
        if (self.encoder == RANDOM) != (self.random is not None):
            raise UsageError(
                f"the encoder is {self.encoder!r}; a table [{RANDOM}] goes with "
                f"encoder = {RANDOM!r} and with no other"
            )

    def parameters(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self)

    def digest(self) -> str:
        """Return the SHA-256 of all fields, as JSON with sorted keys: 64 hexadecimal digits."""
        text = json.dumps(self.parameters(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def steps_of(self, examples: int) -> int:
        """Return the optimizer steps of a training.

        Args:
            examples: pairs of a training query and a relevant passage.
        """
        if self.epochs is None:
            assert self.steps is not None
            return self.steps
        return max(1, math.ceil(self.epochs * examples / self.batch_size))

    def changed(
        self,
        *,
        encoder: str | None = None,
        seed: int | None = None,
        precision: str | None = None,
        depth: int | None = None,
    ) -> Self:
        """Return the recipe with what the command line replaces; `None` replaces nothing."""
        recipe = self
        if seed is not None:
            recipe = replace(recipe, seed=seed)
        if precision is not None:
            recipe = replace(recipe, precision=precision)
        if depth is not None:
            recipe = replace(recipe, search=replace(recipe.search, depth=depth))
        if encoder is not None and encoder != recipe.encoder:
            recipe = replace(recipe, encoder=encoder, random=None)
        return recipe


def make_recipe(kind: type, values: Mapping[str, Any], what: str) -> Any:
    """Return the dataclass of a recipe, or of a table of one, with its values.

    Args:
        kind: the class.
        values: what TOML holds.
        what: what messages call it, e.g. ``recipe`` or ``[search]``.

    Raises:
        UsageError: naming a key that is unknown, missing, of the wrong type or out of range.
    """
    wanted = {item.name: item for item in fields(kind)}
    hints = get_type_hints(kind)
    typed = {}
    for name, value in values.items():
        if name not in wanted:
            raise UnknownNameError(f"key of the {what}", name, wanted)
        own = "check" in wanted[name].metadata
        typed[name] = value if own else _typed(name, value, hints[name])
    missing = [
        name for name, item in wanted.items() if name not in values and item.default is MISSING
    ]
    if missing:
        raise UsageError(f"the {what} lacks {', '.join(missing)}")
    return kind(**typed)


def _typed(name: str, value: Any, hint: Any) -> Any:
    """Return the value; a whole number becomes a float, and a table its class, where wanted."""
    (expected,) = [part for part in get_args(hint) or (hint,) if part is not NoneType]
    if is_dataclass(expected) and isinstance(expected, type):
        if not isinstance(value, dict):
            raise UsageError(f"{name} is {value!r}; it must be a table")
        return make_recipe(expected, value, f"[{name}]")
    if expected is float and type(value) is int:
        return float(value)
    if type(value) is not expected:
        raise UsageError(f"{name} is {value!r}; it must be of type {expected.__name__}")
    return value
