"""Recipes: one TOML file decides how a model is trained and how it searches.

`TrainingSettings` holds the fields that all trainings share, `Recipe` those that all neural systems
share. Each system adds its own in a subclass, and refuses those of the others.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from itertools import takewhile
from operator import methodcaller
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, PrivateAttr

from msshift_bench.checked import parse_toml
from msshift_bench.encoders import DEFAULTS, OF_LOADING, ModelSettings
from msshift_bench.errors import NotFoundError, UsageError, check_name
from msshift_bench.settings import Table, later, refusal

RANDOM = "random"
"""As `Recipe.encoder`: random weights, of the shape in the table ``[random]``. As
`Recipe.negatives`: passages drawn from the whole collection."""

BM25 = "bm25"
"""As `Recipe.negatives`: passages that BM25 ranks high. As `Recipe.teacher`: BM25's scores."""

MINED = "mined"
"""As `Recipe.negatives`: passages that the model itself ranks high, once it was warmed up."""

MARGIN_MSE = "margin-mse"
"""As `Recipe.teacher_loss`: the mean squared error of the margins between passages."""

KL = "kl"
"""As `Recipe.teacher_loss`: the divergence of the distributions over a query's passages."""

_KEYS = {
    "similarity": "normalize",
    "normalize": "normalize",
    "dtype": "search_precision",
    "batch_size": "search.batch_size",
    "query_length": "query_length",
    "passage_length": "passage_length",
}
"""Settings of models -> the key of recipes for the same."""

BelowOne = Annotated[float, Field(ge=0, lt=1)]
"""A number from 0 to 1, without 1."""


def multiple(table: Table, larger: str, smaller: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong if one field of a table is no multiple of another."""
    value, part = getattr(table, larger), getattr(table, smaller)
    if value % part:
        yield larger, f"{value} is no multiple of {smaller} {part}"


class RandomEncoder(Table):
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

    layers: PositiveInt
    hidden: PositiveInt
    heads: PositiveInt
    inner: PositiveInt
    vocabulary: int = Field(ge=100)
    dropout: BelowOne
    initial: NonNegativeFloat = 0.02
    matching: bool = False

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with several fields together."""
        yield from multiple(self, "hidden", "heads")


class EarlyStopping(Table):
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

    every: PositiveInt
    queries: PositiveInt
    depth: PositiveInt
    patience: NonNegativeInt


class SearchSettings(Table):
    """How a model searches the passages.

    Attributes:
        depth: passages per ranking.
        batch_size: texts encoded together; bi-encoders take at most 16 at once on a processor.
    """

    depth: PositiveInt = 1000
    batch_size: PositiveInt = 64


class TrainingSettings(Table):
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
            With a table ``[validation]`` each validation has a checkpoint, and there are no others.
        passage_length: most tokens of a passage, special tokens included.
        random: the shape of an encoder that begins with random weights.
    """

    name: ClassVar[str]
    """The system's name, with which the names of its recipes begin."""

    model_type: ClassVar[str] = ""
    """The name of the model's class in sentence-transformers, with which those of its trainer and
    arguments begin; "" for a model of transformers."""

    _file: RecipeFile | None = PrivateAttr(default=None)

    batch_size: int = Field(ge=2)
    accumulate: PositiveInt
    steps: PositiveInt | None = None
    epochs: PositiveInt | None = None
    learning_rate: NonNegativeFloat
    warmup_steps: NonNegativeInt
    schedule: Literal["constant", "linear", "cosine"]
    weight_decay: NonNegativeFloat
    adam_beta1: BelowOne
    adam_beta2: BelowOne
    adam_epsilon: NonNegativeFloat
    max_gradient_norm: NonNegativeFloat
    seed: int = Field(ge=0, lt=2**32)
    precision: Literal["fp32", "bf16", "fp16"]
    checkpoint_every: PositiveInt
    passage_length: int = Field(ge=3)
    random: RandomEncoder | None = None

    @property
    def file(self) -> RecipeFile | None:
        """The file that the fields were read from, if any; some may be replaced since."""
        return self._file

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with several fields together."""
        if (self.steps is None) == (self.epochs is None):
            yield "steps", "the recipe says how long to train by either steps or epochs"
        yield from multiple(self, "batch_size", "accumulate")

    def changed(self, **values: Any) -> Self:
        """Return the settings with other values; steps take the place of epochs, and these theirs.

        Raises:
            UsageError: naming each field whose value cannot be.
        """
        for name, other in (("steps", "epochs"), ("epochs", "steps")):
            if values.get(name) is not None:
                values = {other: None, **values}
        return super().changed(**values)

    def steps_of(self, examples: int) -> int:
        """Return the optimizer steps of a training.

        Args:
            examples: how many there are.
        """
        if self.epochs is None:
            assert self.steps is not None
            return self.steps
        return max(1, math.ceil(self.epochs * examples / self.batch_size))


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
        model: settings of the model: the prompts, with which it is trained and searches, the
            dimensions that the search keeps, and how the encoder is loaded.
        search: how the model searches the passages.
        search_precision: of the weights that encode the texts of a search: ``fp32``, or ``bf16``,
            which halves the time on GPUs and on processors with AMX. Vectors are compared in 32
            bits.
        validation: early stopping; without it training keeps the last weights.
    """

    encoder: str
    query_length: int = Field(ge=3)
    negatives: Literal["bm25", "random", "mined"]
    negatives_per_query: PositiveInt
    negatives_pool: PositiveInt
    negatives_depth: PositiveInt | None = None
    negatives_refreshes: PositiveInt = later(1)
    teacher: str | None = later(None)
    teacher_loss: Literal["margin-mse", "kl"] = later(MARGIN_MSE)
    teacher_scale: NonNegativeFloat = later(1.0)
    judgement_weight: NonNegativeFloat = later(0.0)
    model: ModelSettings = later(DEFAULTS)
    search: SearchSettings
    search_precision: Literal["fp32", "bf16"] = "fp32"
    validation: EarlyStopping | None = None

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with several fields together."""
        yield from super().rules()
        yield from multiple(self, "negatives_pool", "negatives_per_query")
        if self.negatives != RANDOM and self.negatives_depth is None:
            yield (
                "negatives",
                f"{self.negatives!r} needs negatives_depth, how far down the ranking they are "
                "drawn from, e.g. negatives_depth = 200",
            )
        if (self.encoder == RANDOM) == (self.random is None):
            yield (
                "encoder",
                f"it is {self.encoder!r}, and a table [{RANDOM}] goes with encoder = {RANDOM!r} "
                "and with no other",
            )
        if self.teacher is None and self.judgement_weight:
            yield (
                "judgement_weight",
                f"it is {self.judgement_weight:g} and there is no teacher; judgements alone have "
                "no weight",
            )
        refused = self.refused_settings()
        if self.random:
            loading = f'encoder = "{RANDOM}" loads no weights; remove it'
            refused |= {f"model.{name}": loading for name in OF_LOADING}
        for name in (f"model.{name}" for name in self.model.given()):
            if name in refused:
                yield name, f"{self.name} does not take it here: {refused[name]}"

    @classmethod
    def refused_settings(cls) -> dict[str, str]:
        """Return ``model.<setting>`` that this system's recipes refuse -> the reason."""
        reasons = {
            **{
                name: f"it is a setting of {of}"
                for name, of in ModelSettings.lacked_by(cls).items()
            },
            **{
                name: f"use {key}, a key of the recipe"
                for name, key in _KEYS.items()
                if key.partition(".")[0] in cls.model_fields
            },
            "device": "a training takes the GPU that torch finds; remove it",
        }
        return {f"model.{name}": reason for name, reason in reasons.items()}

    @classmethod
    def defaults(cls, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield the fields and their defaults, without settings of models that are refused."""
        refused = cls.refused_settings()
        yield from (field for field in super().defaults(prefix) if field[0] not in refused)

    @classmethod
    def check_names(cls, changes: Iterable[str], hint_for: Callable[[str], str]) -> None:
        """Check that there are the fields; `rules` refuses settings of models with a reason."""
        refused = cls.refused_settings()
        super().check_names((name for name in changes if name not in refused), hint_for)

    @property
    def parts(self) -> int:
        """The parts of a training that differ in where their negatives come from."""
        return 1 + self.negatives_refreshes if self.negatives == MINED else 1

    def part(self, number: int, steps: int) -> tuple[int, int]:
        """Return how many steps are done before a part of a training, and after it.

        Args:
            number: the part, from 0 on; all have as many steps, but for one more or less.
            steps: those of the whole training.
        """
        return steps * number // self.parts, steps * (number + 1) // self.parts

    def changed(self, **values: Any) -> Self:
        """Return the recipe with other values; another encoder has no need of ``[random]``."""
        if values.get("encoder", self.encoder) != self.encoder:
            values = {"random": None, **values}
        return super().changed(**values)


_R = TypeVar("_R", bound=TrainingSettings)

_END = ".toml"

RECIPES_VARIABLE = "MSSHIFT_RECIPES"
"""The environment variable that names a folder of recipes, which are found before the packaged."""


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """A recipe's file.

    Attributes:
        name: its name for `msshift run --recipe`, e.g. ``paper``.
        source: its file, as the user named it, or ``<system>-<name>.toml`` in the package or in
            the folder of `RECIPES_VARIABLE`.
        text: its content, TOML.
    """

    name: str
    source: str
    text: str

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file: 64 hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def about(self) -> str:
        """Its purpose: the comment on top up to its first colon; "" if there is none."""
        lines = takewhile(methodcaller("startswith", "#"), self.text.splitlines())
        return " ".join(line.removeprefix("#").strip() for line in lines).partition(":")[0]


def recipe_files() -> Mapping[str, RecipeFile]:
    """Return the recipes that have a name, by ``<system>-<name>``, sorted.

    The folder that `RECIPES_VARIABLE` names comes before the recipes of the package.

    Raises:
        NotFoundError: if the variable names no folder.
        UsageError: if a file of that folder is not UTF-8.
    """
    packaged = Path(str(files("msshift_bench.baselines"))) / "recipes"
    recipes = {
        path.stem: replace(_read_file(path), source=path.name) for path in packaged.glob(f"*{_END}")
    }
    if named := os.environ.get(RECIPES_VARIABLE):
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise NotFoundError(f"no folder {folder} of recipes, which {RECIPES_VARIABLE} names")
        recipes |= {path.stem: _read_file(path) for path in sorted(folder.glob(f"*{_END}"))}
    return dict(sorted(recipes.items()))


def _read_file(path: Path) -> RecipeFile:
    try:
        return RecipeFile(path.stem, str(path), path.read_bytes().decode())
    except FileNotFoundError:
        raise NotFoundError(f"no recipe {path}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: {error}") from None


def read_recipe(kind: type[_R], recipe: str | Path) -> _R:
    """Return a recipe by its name, or one from a file.

    Args:
        kind: the system's class of recipes.
        recipe: a name such as ``mini``, or the path of a file that ends in ``.toml``.

    Raises:
        UnknownNameError: if the system has no recipe of that name.
        NotFoundError: if there is no such file.
        UsageError: if it is not UTF-8 or not TOML, or a key is unknown, missing, of the wrong type
            or out of range; the message names every such key with its file and line.
    """
    if str(recipe).endswith(_END):
        file = _read_file(Path(recipe).expanduser())
    else:
        named = {
            full.removeprefix(f"{kind.name}-"): replace(file, name=str(recipe))
            for full, file in recipe_files().items()
            if full.startswith(f"{kind.name}-")
        }
        check_name(f"recipe of {kind.name}", str(recipe), named)
        file = named[str(recipe)]
    checked = parse_toml(file.text.encode(), kind, file.source, partial(refusal, file.source))
    checked._file = file
    return checked
