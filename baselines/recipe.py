"""Recipes: one TOML file decides how a model is trained and how it searches.

`TrainingSettings` holds the fields that all trainings share, `Recipe` those that all neural systems
share. Each system adds its own in a subclass, and refuses those of the others.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self

from msshift_bench.baselines.recipe_fields import (
    Rule,
    at_least,
    below_one,
    check_fields,
    checked,
    is_multiple,
    one_of,
)
from msshift_bench.errors import UnknownNameError, UsageError

__all__ = [
    "BM25",
    "KL",
    "MARGIN_MSE",
    "MINED",
    "RANDOM",
    "EarlyStopping",
    "RandomEncoder",
    "Recipe",
    "SearchSettings",
    "TrainingSettings",
]

RANDOM = "random"
"""As `Recipe.encoder`: random weights, of the shape in the table ``[random]``. As
`Recipe.negatives`: passages drawn from the whole collection."""

BM25 = "bm25"
"""As `Recipe.negatives`: passages that BM25 ranks high. As `Recipe.teacher`: BM25's scores."""

MINED = "mined"
"""As `Recipe.negatives`: passages that the model itself ranks high, once it was warmed up."""

_LARGEST_SEED = 2**32 - 1

MARGIN_MSE = "margin-mse"
"""As `Recipe.teacher_loss`: the mean squared error of the margins between passages."""

KL = "kl"
"""As `Recipe.teacher_loss`: the divergence of the distributions over a query's passages."""


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
        matching: whether the model starts with a prior for equal tokens: keys are made like
            queries, positions count little, and the masked language model's head names the token
            that it reads. Pre-trained models have learnt this; other models learn it, too, but not
            in a training of seconds.
    """

    layers: int = at_least(1)
    hidden: int = at_least(1)
    heads: int = at_least(1)
    inner: int = at_least(1)
    vocabulary: int = at_least(100)
    dropout: float = at_least(0)
    initial: float = at_least(0, default=0.02)
    matching: bool = False

    rules: ClassVar[tuple[Rule, ...]] = (is_multiple("hidden", "heads"), below_one("dropout"))

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStopping:
    """Early stopping by approximate retrieval (Hofstaetter et al., SIGIR 2021, section 4.2).

    The model ranks a fixed set of candidates for the validation queries: the first passages of
    BM25 and the relevant ones. Training keeps the weights with the highest MRR@10.

    Attributes:
        every: steps between validations.
        queries: most validation queries; their ids decide which ones.
        depth: how far down BM25's ranking the candidates reach.
        patience: training ends after so many validations in a row without a better one; 0 for
            never.
    """

    every: int = at_least(1)
    queries: int = at_least(1)
    depth: int = at_least(1)
    patience: int = at_least(0)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How a model searches the passages.

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
            f"negatives is {value}; it must say where negatives come from: write "
            f'negatives = "{BM25}" and negatives_per_query = {value}'
        )
    if value not in (BM25, RANDOM, MINED):
        raise UnknownNameError("negatives", str(value), (BM25, RANDOM, MINED))


def _check_duration(steps: int | None, epochs: int | None) -> str | None:
    if (steps is None) == (epochs is None):
        return "the recipe says how long to train by either steps or epochs"
    return None


def _check_seed(seed: int) -> str | None:
    if seed <= _LARGEST_SEED:
        return None
    return f"seed is {seed}; it must be {_LARGEST_SEED} or less, the largest that NumPy takes"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """How a training goes: the fields that all trainings share, that of an encoder included.

    Attributes:
        batch_size: examples per step, however many processors they are spread over. An example is a
            query with its passages; in a pre-training it is a passage.
        accumulate: parts that a batch is cut into, to save memory. They go through the model one
            after the other, and in-batch negatives are shared within a part. A divisor of
            `batch_size`.
        steps: optimizer steps; give either these or `epochs`.
        epochs: how often training meets every example, of which each pair of a training query and a
            relevant passage makes one; the steps follow from their number.
        learning_rate: AdamW's highest learning rate.
        warmup_steps: steps in which the learning rate rises from 0.
        schedule: the learning rate after the warm-up: ``constant``, or ``linear`` or ``cosine``
            down to 0.
        weight_decay: AdamW's weight decay; biases and layer norms have none.
        adam_beta1: AdamW's decay rate for its mean of the gradients; below 1.
        adam_beta2: AdamW's decay rate for its mean of the squared gradients; below 1.
        adam_epsilon: the number that AdamW adds to its denominator.
        max_gradient_norm: longer gradients are shortened to this norm; 0 for no limit.
        seed: decides the initial weights, the dropout, the order of the examples and what else is
            drawn, such as negatives; below 2**32.
        precision: the training's precision: ``fp32``, ``bf16``, or on a GPU ``fp16``. In 16 bits
            the weights stay in 32 (torch's autocast). ``bf16`` is fast on GPUs and on processors
            with AMX, and slow on older ones.
        checkpoint_every: steps between checkpoints; a killed training continues from the last one.
        passage_length: most tokens of a passage, special tokens included.
        random: the shape of an encoder that begins with random weights.
    """

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
    seed: int = at_least(0)
    precision: str = one_of("fp32", "bf16", "fp16")
    checkpoint_every: int = at_least(1)
    passage_length: int = at_least(3)
    random: RandomEncoder | None = None

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(("steps", "epochs"), _check_duration),
        Rule(("seed",), _check_seed),
        is_multiple("batch_size", "accumulate"),
        below_one("adam_beta1"),
        below_one("adam_beta2"),
    )

    def __post_init__(self) -> None:
        check_fields(self)

    later: ClassVar[tuple[str, ...]] = ()
    """Fields that recipes did not have at first: see `parameters`."""

    def parameters(self) -> dict[str, Any]:
        """Return all fields as JSON values.

        `later` fields with their defaults are left out, so that what was trained without them still
        is what its recipe makes.
        """
        defaults = {item.name: item.default for item in fields(self) if item.name in self.later}
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in defaults or value != defaults[name]
        }

    def digest(self) -> str:
        """Return the SHA-256 of all fields, as JSON with sorted keys: 64 hexadecimal digits."""
        text = json.dumps(self.parameters(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def steps_of(self, examples: int) -> int:
        """Return the optimizer steps of a training.

        Args:
            examples: how many there are.
        """
        if self.epochs is None:
            assert self.steps is not None
            return self.steps
        return max(1, math.ceil(self.epochs * examples / self.batch_size))


def _check_depth(negatives: str, depth: int | None) -> str | None:
    if negatives == RANDOM or depth is not None:
        return None
    return (
        f"negatives is {negatives!r}; say with negatives_depth how far down the ranking they are "
        "drawn from, e.g. negatives_depth = 200"
    )


def _check_shape(encoder: str, random: RandomEncoder | None) -> str | None:
    if (encoder == RANDOM) == (random is not None):
        return None
    return (
        f"the encoder is {encoder!r}; a table [{RANDOM}] goes with encoder = {RANDOM!r} and with "
        "no other"
    )


def _check_weight(teacher: str | None, weight: float) -> str | None:
    if teacher is not None or not weight:
        return None
    return (
        f"judgement_weight is {weight:g} and there is no teacher; judgements alone have no weight"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe(TrainingSettings):
    """How a model is trained and searches: the fields that all systems share.

    Attributes:
        encoder: a folder or an id of the Hugging Face Hub, or ``random`` for random weights, whose
            shape is then in the table ``[random]``.
        query_length: most tokens of a query, special tokens included.
        negatives: where a query's negatives come from: ``bm25`` (passages that BM25 ranks high),
            ``random`` (the whole collection), or ``mined`` (passages that the model itself ranks
            high, after a warm-up with BM25's); never a relevant passage.
        negatives_per_query: negatives per query and step.
        negatives_pool: negatives drawn per query; each time training meets the query, it takes the
            next `negatives_per_query` of them. A multiple of `negatives_per_query`.
        negatives_depth: how far down the ranking, BM25's or the model's own, negatives are drawn
            from; random negatives do not need it.
        negatives_refreshes: how often the model finds its negatives anew, if they are ``mined``:
            the steps are cut into one part more, all of one length. The first part is the warm-up,
            and the model searches before each of the others.
        teacher: whose scores the model learns instead of telling relevant passages from others, or
            besides (`judgement_weight`): ``bm25``, or the folder of a system's run set, e.g.
            ``runs/colbert``. Its models are used where they were kept, or else its runs, which then
            rank the training queries. Each must hold out the group that is held out here.
        teacher_loss: ``margin-mse`` (Hofstaetter et al., 2020) or ``kl`` (the Kullback-Leibler
            divergence, as in TCT-ColBERT), over the passages of a triple.
        teacher_scale: factor of the teacher's scores; those of the model have `loss_scale`.
        judgement_weight: a model with a teacher learns from the judgements, too, if this is not 0:
            their loss, with the batch's negatives, is added with this weight.
        search: how the model searches the passages.
        search_precision: of the weights that encode the texts of a search: ``fp32``, or ``bf16``,
            which halves the time on GPUs and on processors with AMX. Vectors are compared in 32
            bits.
        validation: early stopping; without it training keeps the last weights.
    """

    encoder: str
    query_length: int = at_least(3)
    negatives: str = checked(_check_negatives)
    negatives_per_query: int = at_least(1)
    negatives_pool: int = at_least(1)
    negatives_depth: int | None = at_least(1, default=None)
    negatives_refreshes: int = at_least(1, default=1)
    teacher: str | None = None
    teacher_loss: str = one_of(MARGIN_MSE, KL, default=MARGIN_MSE)
    teacher_scale: float = at_least(0, default=1.0)
    judgement_weight: float = at_least(0, default=0.0)
    search: SearchSettings
    search_precision: str = one_of("fp32", "bf16", default="fp32")
    validation: EarlyStopping | None = None

    rules: ClassVar[tuple[Rule, ...]] = (
        *TrainingSettings.rules,
        Rule(("negatives", "negatives_depth"), _check_depth),
        is_multiple("negatives_pool", "negatives_per_query"),
        Rule(("encoder", RANDOM), _check_shape),
        Rule(("teacher", "judgement_weight"), _check_weight),
    )
    later: ClassVar[tuple[str, ...]] = (
        "negatives_refreshes",
        "teacher",
        "teacher_loss",
        "teacher_scale",
        "judgement_weight",
    )

    @property
    def parts(self) -> int:
        """The parts of a training that differ in where their negatives come from."""
        return 1 + self.negatives_refreshes if self.negatives == MINED else 1

    def changed(
        self,
        *,
        encoder: str | None = None,
        seed: int | None = None,
        precision: str | None = None,
        depth: int | None = None,
    ) -> Self:
        """Return the recipe with these values in place of its own; `None` keeps its own."""
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
