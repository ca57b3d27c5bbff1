"""Recipes of pre-training: which tasks teach an encoder a collection's passages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from msshift_bench.baselines.recipe import RANDOM, RandomEncoder, TrainingSettings
from msshift_bench.baselines.recipe_fields import Rule, at_least, check_fields

__all__ = ["LateHead", "MaskedWords", "PretrainingRecipe", "SpanContrast"]


def _check_share(share: float) -> str | None:
    return None if 0 < share < 1 else f"share is {share}; it must be above 0 and below 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedWords:
    """The masked language model with whole words (Devlin et al., NAACL 2019, section 3.1).

    Of the chosen word pieces 80% are masked, 10% are replaced by random ones, and 10% stay.

    Attributes:
        share: the probability that a word is chosen; above 0 and below 1.
        weight: the factor of its loss.
        pairs: the factor of the loss of telling, from the first token, whether two texts are from
            one passage, as BERT tells whether sentences follow each other. Above 0, words are not
            masked in passages but in pairs of spans, of the lengths in ``[spans]``; half of the
            pairs are from one passage. Rerankers start from it: no other task shows the encoder two
            texts.
    """

    share: float = at_least(0)
    weight: float = at_least(0, default=1.0)
    pairs: float = at_least(0, default=0.0)

    rules: ClassVar[tuple[Rule, ...]] = (Rule(("share",), _check_share),)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateHead:
    """The head of Condenser (Gao and Callan, EMNLP 2021, section 3): it is dropped afterwards.

    It names the masked words from the last layer's first token and the middle layer's other tokens,
    so that the first token must hold what the passage says.

    Attributes:
        layers: transformer layers of the head.
        weight: the factor of its loss.
    """

    layers: int = at_least(1)
    weight: float = at_least(0, default=1.0)

    def __post_init__(self) -> None:
        check_fields(self)


def _is_range(least: str, most: str) -> Rule:
    def problem(lower: int, upper: int) -> str | None:
        return f"{least} is {lower}, which is more than {most} {upper}" if lower > upper else None

    return Rule((least, most), problem)


def _check_factors(mean: float, first: float, tokens: float) -> str | None:
    if mean or first or tokens:
        return None
    return "[spans] compares nothing; give mean, first or tokens a factor above 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanContrast:
    """Two spans of a passage attract each other, those of a batch's others repel each other.

    Spans are drawn independently and may overlap (Izacard et al., TMLR 2022, section 3.1); as in
    coCondenser (Gao and Callan, ACL 2022, section 3.2) the loss is the cross-entropy over the spans
    of the same part of a batch. Each similarity has a loss of its own, so that no architecture is
    favoured by how the other one compares texts.

    Attributes:
        short_least: fewest word pieces of the span that stands for a query.
        short_most: most word pieces of that span.
        long_least: fewest word pieces of the span that stands for a passage; the whole passage, if
            it has fewer.
        long_most: most word pieces of that span; special tokens come on top.
        mean: the factor of the loss by the cosine of mean token states, as bi-encoders compare.
        first: the factor of the loss by the cosine of the first token's states.
        tokens: the factor of the loss by the mean of each token's highest cosine, as ColBERT does.
        loss_scale: factor of the similarities in the softmax (the inverse of the temperature).
    """

    short_least: int = at_least(1)
    short_most: int = at_least(1)
    long_least: int = at_least(1)
    long_most: int = at_least(1)
    mean: float = at_least(0, default=0.0)
    first: float = at_least(0, default=0.0)
    tokens: float = at_least(0, default=0.0)
    loss_scale: float = at_least(0)

    rules: ClassVar[tuple[Rule, ...]] = (
        _is_range("short_least", "short_most"),
        _is_range("long_least", "long_most"),
        Rule(("mean", "first", "tokens"), _check_factors),
    )

    def __post_init__(self) -> None:
        check_fields(self)


def _check_encoder(random: RandomEncoder | None) -> str | None:
    if random is None:
        return f"the recipe lacks the table [{RANDOM}], the encoder's shape"
    if random.matching:
        return "matching is for encoders without pre-training; leave it out"
    return None


def _check_tasks(masked_words: MaskedWords | None, spans: SpanContrast | None) -> str | None:
    if masked_words is None and spans is None:
        return "the recipe has no task; it needs [masked_words] or [spans]"
    return None


def _check_late_head(
    late_head: LateHead | None, masked_words: MaskedWords | None, random: RandomEncoder | None
) -> str | None:
    if late_head and (masked_words is None or (random is not None and random.layers < 2)):
        return "[late_head] needs [masked_words], and two layers or more in [random]"
    return None


def _check_pairs(
    masked_words: MaskedWords | None, spans: SpanContrast | None, length: int
) -> str | None:
    if masked_words is None or not masked_words.pairs:
        return None
    if spans is None:
        return "pairs in [masked_words] needs [spans], which says how long the spans are"
    if spans.short_most + spans.long_most + 3 > length:
        return (
            f"short_most is {spans.short_most} and long_most {spans.long_most}, which as a pair, "
            f"with three special tokens, is more than passage_length {length}"
        )
    return None


def _check_spans(spans: SpanContrast | None, length: int) -> str | None:
    if spans is not None and spans.long_most + 2 > length:
        return (
            f"long_most is {spans.long_most}, which with two special tokens is more than "
            f"passage_length {length}"
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PretrainingRecipe(TrainingSettings):
    """How an encoder is trained from random weights on a collection's passages alone.

    Attributes:
        masked_words: the masked language model; without it the head of the encoder stays random,
            from which SPLADE starts.
        late_head: Condenser's head; only with `masked_words`.
        spans: the contrast of spans.
    """

    masked_words: MaskedWords | None = None
    late_head: LateHead | None = None
    spans: SpanContrast | None = None

    rules: ClassVar[tuple[Rule, ...]] = (
        *TrainingSettings.rules,
        Rule((RANDOM,), _check_encoder),
        Rule(("masked_words", "spans"), _check_tasks),
        Rule(("late_head", "masked_words", RANDOM), _check_late_head),
        Rule(("spans", "passage_length"), _check_spans),
        Rule(("masked_words", "spans", "passage_length"), _check_pairs),
    )
