"""Recipes of pre-training: which tasks teach an encoder a collection's passages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field, NonNegativeFloat, PositiveInt

from msshift_bench.baselines.systems.recipe import RANDOM, RandomEncoder, Table, TrainingSettings

__all__ = ["LateHead", "MaskedWords", "PretrainingRecipe", "SpanContrast"]


class MaskedWords(Table):
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

    share: float = Field(gt=0, lt=1)
    weight: NonNegativeFloat = 1.0
    pairs: NonNegativeFloat = 0.0


class LateHead(Table):
    """The head of Condenser (Gao and Callan, EMNLP 2021, section 3): it is dropped afterwards.

    It names the masked words from the last layer's first token and the middle layer's other tokens,
    so that the first token must hold what the passage says.

    Attributes:
        layers: transformer layers of the head.
        weight: the factor of its loss.
    """

    layers: PositiveInt
    weight: NonNegativeFloat = 1.0


class SpanContrast(Table):
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

    short_least: PositiveInt
    short_most: PositiveInt
    long_least: PositiveInt
    long_most: PositiveInt
    mean: NonNegativeFloat = 0.0
    first: NonNegativeFloat = 0.0
    tokens: NonNegativeFloat = 0.0
    loss_scale: NonNegativeFloat

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with several fields together."""
        for least, most in (("short_least", "short_most"), ("long_least", "long_most")):
            lower, upper = getattr(self, least), getattr(self, most)
            if lower > upper:
                yield least, f"{lower} is more than {most} {upper}"
        if not (self.mean or self.first or self.tokens):
            yield "mean", "[spans] compares nothing; give mean, first or tokens a factor above 0"


class PretrainingRecipe(TrainingSettings):
    """How an encoder is trained from random weights on a collection's passages alone.

    Attributes:
        masked_words: the masked language model; without it the head of the encoder stays random,
            from which SPLADE starts.
        late_head: Condenser's head; only with `masked_words`.
        spans: the contrast of spans.
    """

    name: ClassVar[str] = "pretrain"

    random: RandomEncoder
    masked_words: MaskedWords | None = None
    late_head: LateHead | None = None
    spans: SpanContrast | None = None

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with several fields together."""
        yield from super().rules()
        words, spans, length = self.masked_words, self.spans, self.passage_length
        if self.random.matching:
            yield RANDOM, "matching is for encoders without pre-training; leave it out"
        if words is None and spans is None:
            yield "masked_words", "the recipe has no task; it needs [masked_words] or [spans]"
        if self.late_head and (words is None or self.random.layers < 2):
            yield "late_head", "it needs [masked_words], and two layers or more in [random]"
        if spans and spans.long_most + 2 > length:
            yield (
                "spans",
                f"long_most is {spans.long_most}, which with two special tokens is more than "
                f"passage_length {length}",
            )
        if words and words.pairs:
            yield from self._rules_of_pairs(spans)

    def _rules_of_pairs(self, spans: SpanContrast | None) -> Iterator[tuple[str, str]]:
        if spans is None:
            yield "masked_words", "pairs needs [spans], which says how long the spans are"
        elif spans.short_most + spans.long_most + 3 > self.passage_length:
            yield (
                "masked_words",
                f"short_most is {spans.short_most} and long_most {spans.long_most}, which as a "
                f"pair, with three special tokens, is more than passage_length "
                f"{self.passage_length}",
            )
