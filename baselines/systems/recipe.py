"""Recipes: a TOML file determines how a model is trained and how it searches.

`TrainingSettings` has the fields of all trainings, and `Recipe` the fields of all neural systems.
Each system adds fields in a subclass; unknown fields are an error.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
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
from msshift_bench.settings import Table, added_field, refusal

RANDOM = "random"
"""As `Recipe.encoder`: random weights, with the shape in the table ``[random]``. As
`Recipe.negatives`: passages drawn from the complete collection."""

BM25 = "bm25"
"""As `Recipe.negatives`: passages that BM25 ranks high. As `Recipe.teacher`: BM25's scores."""

MINED = "mined"
"""As `Recipe.negatives`: passages that the model itself ranks high, after a warm-up with BM25's."""

MARGIN_MSE = "margin-mse"
"""As `Recipe.teacher_loss`: the mean squared error of the margins between passages' scores."""

KL = "kl"
"""As `Recipe.teacher_loss`: the Kullback-Leibler divergence of a query's score distributions."""

_KEYS = {
    "similarity": "normalize",
    "normalize": "normalize",
    "dtype": "search_precision",
    "batch_size": "search.batch_size",
    "query_length": "query_length",
    "passage_length": "passage_length",
}
"""Setting of a model -> the recipe's key for the same setting."""

BelowOne = Annotated[float, Field(ge=0, lt=1)]
"""A number from 0 to 1, without 1."""


def multiple(table: Table, larger: str, smaller: str) -> Iterator[tuple[str, str]]:
    """Yield (field, problem) if the field `larger` of a table is no multiple of `smaller`."""
    value, part = getattr(table, larger), getattr(table, smaller)
    if value % part:
        yield larger, f"must be a multiple of {smaller} {part}, got {value}"


class RandomEncoder(Table):
    """The shape and the initialisation of a BERT that is trained from random weights.

    Attributes:
        layers: transformer layers.
        hidden: size of the hidden states; a multiple of `heads`.
        heads: attention heads.
        inner: size of the feed-forward layers.
        vocabulary: most word pieces, at least 100; they are learnt from the collection's passages.
        dropout: probability, 0 or more and below 1, on hidden states and attention.
        initial: standard deviation of the initial weights. BERT's 0.02 is small for a model of few
            dimensions without pre-training.
        matching: whether the initial weights match equal tokens: keys equal queries, positions
            have little weight, and the masked language model's head predicts the token at its
            position. Pre-trained models have learnt this; a short training cannot learn it.
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
        """Yield (field, problem) for each rule between fields that is broken."""
        yield from multiple(self, "hidden", "heads")


class EarlyStopping(Table):
    """Early stopping by approximate retrieval (Hofstaetter et al., SIGIR 2021, section 4.2).

    The model ranks a fixed set of candidates for the validation queries: BM25's first passages and
    the relevant passages. Training keeps the weights with the highest MRR@10.

    Attributes:
        every: steps between validations.
        queries: most validation queries; they are chosen by their ids.
        depth: how many of BM25's first passages are candidates.
        patience: training ends after this number of validations in a row without a higher MRR@10;
            0 for never.
    """

    every: PositiveInt
    queries: PositiveInt
    depth: PositiveInt
    patience: NonNegativeInt


class SearchSettings(Table):
    """How a model searches the passages.

    Attributes:
        depth: passages per ranking.
        batch_size: texts or pairs encoded together; on a CPU, transformers encode at most 16.
    """

    depth: PositiveInt = 1000
    batch_size: PositiveInt = 64


class TrainingSettings(Table):
    """The fields of all trainings, including the pre-training of an encoder.

    Attributes:
        batch_size: examples per step, for all processes together. An example is a query with its
            passages; in a pre-training it is a passage.
        accumulate: number of parts of a batch, to save memory; a divisor of `batch_size`. The model
            computes one part after the other, and in-batch negatives are shared within a part.
        steps: optimizer steps; give either `steps` or `epochs`.
        epochs: how many times training uses each example; the number of steps follows from it. Each
            pair of a training query and a relevant passage is an example.
        learning_rate: AdamW's highest learning rate.
        warmup_steps: steps in which the learning rate rises from 0.
        schedule: the learning rate after the warm-up: ``constant``, or ``linear`` or ``cosine``
            down to 0.
        weight_decay: AdamW's weight decay; biases and layer norms have none.
        adam_beta1: AdamW's decay rate for its mean of the gradients; below 1.
        adam_beta2: AdamW's decay rate for its mean of the squared gradients; below 1.
        adam_epsilon: the number that AdamW adds to its denominator.
        max_gradient_norm: longer gradients are shortened to this norm; 0 for no limit.
        seed: seed of all random choices: initial weights, dropout, the order of the examples,
            negatives; below 2**32.
        precision: the training's precision: ``fp32``, ``bf16``, or on a GPU ``fp16``. With 16 bits
            the weights are kept in 32 bits (torch's autocast). ``bf16`` is fast on GPUs and on CPUs
            with AMX or AVX512-BF16, and several times slower than ``fp32`` without AVX-512.
        checkpoint_every: steps between checkpoints; a killed training continues from the last one.
            With a table ``[validation]``, checkpoints are written at validations only.
        passage_length: most tokens of a passage, special tokens included.
        random: the shape of an encoder with random initial weights.
    """

    name: ClassVar[str]
    """The system's name, the first part of its recipes' file names."""

    model_type: ClassVar[str] = ""
    """The name of the model's class in sentence-transformers; "" for a model of transformers. The
    names of the classes of its trainer and arguments begin with it."""

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
        """The file that the recipe was read from, or `None`; fields may have changed since."""
        return self._file

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield (field, problem) for each rule between fields that is broken."""
        if (self.steps is None) == (self.epochs is None):
            yield "steps", "a recipe needs either steps or epochs, not both"
        yield from multiple(self, "batch_size", "accumulate")

    def changed(self, **values: Any) -> Self:
        """Return the settings with other values; `steps` replaces `epochs`, and vice versa.

        Raises:
            UsageError: if a value is invalid; the message names each such field.
        """
        for name, other in (("steps", "epochs"), ("epochs", "steps")):
            if values.get(name) is not None:
                values = {other: None, **values}
        return super().changed(**values)

    def steps_of(self, examples: int) -> int:
        """Return the number of optimizer steps of a training, at least 1.

        Args:
            examples: the number of examples; not used if the recipe has `steps`.
        """
        if self.epochs is None:
            assert self.steps is not None
            return self.steps
        return max(1, math.ceil(self.epochs * examples / self.batch_size))


class Recipe(TrainingSettings):
    """How a model is trained and searches: the fields of all systems.

    Attributes:
        encoder: a folder or an id of the Hugging Face Hub, or ``random`` for random weights with
            the shape in the table ``[random]``.
        query_length: most tokens of a query, special tokens included.
        negatives: the source of a query's negatives: ``bm25`` (passages that BM25 ranks high),
            ``random`` (the complete collection), or ``mined`` (passages that the model itself ranks
            high, after a warm-up with BM25's). A relevant passage is never a negative.
        negatives_per_query: negatives per query and step.
        negatives_pool: negatives drawn per query; each time training uses the query, it takes the
            next `negatives_per_query` of them. A multiple of `negatives_per_query`.
        negatives_depth: the rank in BM25's or the model's ranking down to which negatives are
            drawn; not needed for random negatives.
        negatives_refreshes: how many times the model mines its negatives, if they are ``mined``.
            The steps are divided into one more part than this number, all of equal length. The
            first part is the warm-up, and the model searches before each other part.
        teacher: the system whose scores the model learns: ``bm25``, or the folder of a system's run
            set, e.g. ``runs/colbert``. The model then learns from judgements only with
            `judgement_weight`. The teacher's kept models score; without them its runs do, which
            must rank for the training queries. Each teacher must hold out the same group.
        teacher_loss: ``margin-mse`` (Hofstaetter et al., 2020) or ``kl`` (the Kullback-Leibler
            divergence, as in TCT-ColBERT), over the passages of a triple.
        teacher_scale: factor of the teacher's scores; the factor of the model's is `loss_scale`.
        judgement_weight: the weight of the loss by judgements, with in-batch negatives; it is added
            to the loss by the teacher's scores. 0 for none.
        model: settings of the model: the prompts of training and search, the dimensions that the
            search keeps, and how the encoder is loaded.
        search: how the model searches the passages.
        search_precision: precision of the weights that encode texts in a search: ``fp32``, or
            ``bf16``, which halves the time on GPUs and on CPUs with AMX. Vectors are compared in 32
            bits.
        validation: early stopping; without it training keeps the last weights.
    """

    encoder: str
    query_length: int = Field(ge=3)
    negatives: Literal["bm25", "random", "mined"]
    negatives_per_query: PositiveInt
    negatives_pool: PositiveInt
    negatives_depth: PositiveInt | None = None
    negatives_refreshes: PositiveInt = added_field(1)
    teacher: str | None = added_field(None)
    teacher_loss: Literal["margin-mse", "kl"] = added_field(MARGIN_MSE)
    teacher_scale: NonNegativeFloat = added_field(1.0)
    judgement_weight: NonNegativeFloat = added_field(0.0)
    model: ModelSettings = added_field(DEFAULTS)
    search: SearchSettings
    search_precision: Literal["fp32", "bf16"] = "fp32"
    validation: EarlyStopping | None = None

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield (field, problem) for each rule between fields that is broken."""
        yield from super().rules()
        yield from multiple(self, "negatives_pool", "negatives_per_query")
        if self.negatives != RANDOM and self.negatives_depth is None:
            yield (
                "negatives",
                f"{self.negatives!r} needs negatives_depth, the last rank to draw negatives from, "
                "e.g. negatives_depth = 200",
            )
        if (self.encoder == RANDOM) == (self.random is None):
            yield (
                "encoder",
                f"encoder = {RANDOM!r} needs a table [{RANDOM}], and other encoders must not have "
                f"it, got {self.encoder!r}",
            )
        if self.teacher is None and self.judgement_weight:
            yield (
                "judgement_weight",
                f"must be 0 without a teacher, got {self.judgement_weight:g}; remove it, or name "
                "a teacher",
            )
        refused = self.refused_settings()
        if self.random:
            loading = f'encoder = "{RANDOM}" loads no weights; remove it'
            refused |= {f"model.{name}": loading for name in OF_LOADING}
        for name in (f"model.{name}" for name in self.model.given()):
            if name in refused:
                yield name, f"not accepted in a recipe of {self.name}: {refused[name]}"

    @classmethod
    def refused_settings(cls) -> dict[str, str]:
        """Return ``model.<setting>`` that this system's recipes must not have -> the reason."""
        reasons = {
            **{
                name: f"it is a setting of {systems}"
                for name, systems in ModelSettings.lacked_by(cls).items()
            },
            **{
                name: f"use {key}, a key of the recipe"
                for name, key in _KEYS.items()
                if key.partition(".")[0] in cls.model_fields
            },
            "device": "a training uses the GPU that torch finds; remove it",
        }
        return {f"model.{name}": reason for name, reason in reasons.items()}

    @classmethod
    def defaults(cls, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield (field, default) like `Table.defaults`, without settings that recipes refuse."""
        refused = cls.refused_settings()
        yield from (field for field in super().defaults(prefix) if field[0] not in refused)

    @classmethod
    def check_names(cls, changes: Iterable[str], hint_for: Callable[[str], str]) -> None:
        """Check that the fields exist; settings that a recipe must not have are left to `rules`.

        Raises:
            UsageError: if fields do not exist; an UnknownNameError if it is one field.
        """
        refused = cls.refused_settings()
        super().check_names((name for name in changes if name not in refused), hint_for)

    @property
    def parts(self) -> int:
        """The number of parts of a training; each part has other negatives."""
        return 1 + self.negatives_refreshes if self.negatives == MINED else 1

    def part(self, number: int, steps: int) -> tuple[int, int]:
        """Return the numbers of steps done before and after a part of a training.

        Args:
            number: the part, from 0 to `parts` - 1; their lengths differ by at most one step.
            steps: the steps of the complete training.
        """
        return steps * number // self.parts, steps * (number + 1) // self.parts

    def changed(self, **values: Any) -> Self:
        """Return the recipe with other values; another encoder removes the table ``[random]``.

        A given `random` is kept; see also `TrainingSettings.changed`.
        """
        if values.get("encoder", self.encoder) != self.encoder:
            values = {"random": None, **values}
        return super().changed(**values)


_R = TypeVar("_R", bound=TrainingSettings)

_END = ".toml"

RECIPES_VARIABLE = "MSSHIFT_RECIPES"
"""The environment variable with a folder of recipes; they replace packaged ones by name."""


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """The file of a recipe.

    Attributes:
        name: the file name without ``.toml``, e.g. ``splade-paper``. After `read_recipe` by name,
            the name for `msshift run --recipe`, e.g. ``paper``.
        source: the path of the file; for a packaged recipe its file name,
            ``<system>-<name>.toml``.
        text: the content of the file, TOML.
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
        """The recipe's purpose: the first comment up to its first colon or full stop, or ""."""
        lines = takewhile(methodcaller("startswith", "#"), self.text.splitlines())
        comment = " ".join(line.removeprefix("#").strip() for line in lines)
        return re.split(r"(?<!et al)[:.](?: |$)", comment)[0]


def recipe_files() -> Mapping[str, RecipeFile]:
    """Return ``<system>-<name>`` -> the file of a recipe, sorted by this name.

    A recipe in the folder of `RECIPES_VARIABLE` replaces a packaged recipe of the same name.

    Raises:
        NotFoundError: if the folder of the variable does not exist.
        UsageError: if a file in this folder is not UTF-8.
    """
    packaged = Path(str(files("msshift_bench.baselines"))) / "recipes"
    recipes = {
        path.stem: replace(_read_file(path), source=path.name) for path in packaged.glob(f"*{_END}")
    }
    if named := os.environ.get(RECIPES_VARIABLE):
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise NotFoundError(
                f"{RECIPES_VARIABLE} must be an existing folder of recipes, got {folder}"
            )
        recipes |= {path.stem: _read_file(path) for path in sorted(folder.glob(f"*{_END}"))}
    return dict(sorted(recipes.items()))


def _read_file(path: Path) -> RecipeFile:
    try:
        return RecipeFile(path.stem, str(path), path.read_bytes().decode())
    except FileNotFoundError:
        raise NotFoundError(
            f"no recipe {path}: the file does not exist; give an existing file, or the name of "
            "a recipe, e.g. 'mini'"
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} must be UTF-8: {error}") from None


def read_recipe(kind: type[_R], recipe: str | Path) -> _R:
    """Return a recipe, found by its name or read from a file.

    Args:
        kind: the class of the system's recipes.
        recipe: a name such as ``mini``, or the path of a file that ends in ``.toml``.

    Raises:
        UnknownNameError: if the system has no recipe of this name.
        NotFoundError: if the file, or the folder of `RECIPES_VARIABLE`, does not exist.
        UsageError: if the file is not UTF-8 or not TOML, or a key is unknown, missing, of the wrong
            type or out of range; the message names each such key with its file and line.
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
