"""The recipe and the tasks of a pre-training: masked words, contrasted spans, and their losses.

The seed and an item's index determine all random choices for it, so training can continue at any
step. The model is an encoder whose output is the sum of its tasks' losses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, NonNegativeFloat, PositiveInt

from msshift_bench.baselines.systems.recipe import RANDOM, RandomEncoder, TrainingSettings
from msshift_bench.encoders import load_weights
from msshift_bench.errors import DataError
from msshift_bench.libraries import torch, transformers
from msshift_bench.plumbing import batches, counted_parts
from msshift_bench.settings import Table


class MaskedWords(Table):
    """Masked language model that masks all pieces of a word (Devlin et al., NAACL 2019, 3.1).

    Of the chosen word pieces 80% are masked, 10% are replaced by random ones, and 10% are kept.

    Attributes:
        share: the probability that a word is chosen; above 0 and below 1.
        weight: the factor of this task's loss.
        pairs: the factor of the loss of a second task: to predict from the first token whether two
            texts are from one passage, like BERT's next-sentence prediction. Above 0, words are
            masked in pairs of spans, of the lengths in ``[spans]``, and not in passages. Half of
            the pairs are from one passage. Use it for rerankers: no other task gives the encoder
            two texts.
    """

    share: float = Field(gt=0, lt=1)
    weight: NonNegativeFloat = 1.0
    pairs: NonNegativeFloat = 0.0


class LateHead(Table):
    """The head of Condenser (Gao and Callan, EMNLP 2021, section 3); removed after pre-training.

    It predicts the masked words from the last layer's first token and the middle layer's other
    tokens. So the first token must represent the content of the passage.

    Attributes:
        layers: transformer layers of the head.
        weight: the factor of the head's loss.
    """

    layers: PositiveInt
    weight: NonNegativeFloat = 1.0


class SpanContrast(Table):
    """Contrastive task: two spans of one passage are positives, spans of other passages negatives.

    Spans are drawn independently and may overlap (Izacard et al., TMLR 2022, section 3.1). As in
    coCondenser (Gao and Callan, ACL 2022, section 3.2), the loss is the cross-entropy over the
    spans of the same part of a batch. Each similarity has its own loss, so that no architecture has
    an advantage.

    Attributes:
        short_least: fewest word pieces of the short span, which represents a query.
        short_most: most word pieces of the short span.
        long_least: fewest word pieces of the long span, which represents a passage; a shorter
            passage is used completely.
        long_most: most word pieces of the long span, without the special tokens.
        mean: the factor of the loss by the cosine of mean token states, the similarity of
            bi-encoders.
        first: the factor of the loss by the cosine of the first token's states.
        tokens: the factor of the loss by the mean of each token's highest cosine, the similarity
            of ColBERT.
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
        """Yield (field, problem) for each rule between fields that is broken."""
        for least, most in (("short_least", "short_most"), ("long_least", "long_most")):
            lower, upper = getattr(self, least), getattr(self, most)
            if lower > upper:
                yield least, f"must be at most {most} {upper}, got {lower}"
        if not (self.mean or self.first or self.tokens):
            yield "mean", "[spans] needs a factor above 0 for mean, first or tokens"


class PretrainingRecipe(TrainingSettings):
    """How an encoder is trained from random weights on a collection's passages.

    Attributes:
        masked_words: the masked language model; without it the encoder's head, which SPLADE uses,
            keeps random weights.
        late_head: Condenser's head; only with `masked_words`.
        spans: the contrastive task.
    """

    name: ClassVar[str] = "pretrain"

    random: RandomEncoder
    masked_words: MaskedWords | None = None
    late_head: LateHead | None = None
    spans: SpanContrast | None = None

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield (field, problem) for each rule between fields that is broken."""
        yield from super().rules()
        words, spans, length = self.masked_words, self.spans, self.passage_length
        if self.random.matching:
            yield RANDOM, "matching is for encoders without pre-training; remove it"
        if words is None and spans is None:
            yield "masked_words", "the recipe has no task; it needs [masked_words] or [spans]"
        if self.late_head and (words is None or self.random.layers < 2):
            yield "late_head", "it needs [masked_words], and two layers or more in [random]"
        if spans and spans.long_most + 2 > length:
            yield (
                "spans",
                f"long_most {spans.long_most} and two special tokens are more than "
                f"passage_length {length}; give a smaller long_most",
            )
        pairs = words is not None and words.pairs > 0
        if pairs and spans is None:
            yield "masked_words", "pairs needs a table [spans] with the lengths of spans"
        if pairs and spans and spans.short_most + spans.long_most + 3 > length:
            yield (
                "masked_words",
                f"short_most {spans.short_most}, long_most {spans.long_most} and the three special "
                f"tokens of a pair are more than passage_length {length}; give smaller spans",
            )


Pieces = npt.NDArray[np.int32]
"""The word pieces of a text, without special tokens."""

_TOKENIZER_BATCH = 1000
"""Passages per call of the tokenizer."""

_MASKED, _REPLACED = 0.8, 0.1
"""The shares of the chosen word pieces that are masked and replaced."""


class PassagePieces:
    """The passages of a collection as word pieces, in order; passages without a word are skipped.

    Args:
        texts: the passages' texts.
        tokenizer: a tokenizer of transformers, with a fast backend.
        length: most word pieces of a passage, two special tokens included; the rest is cut off.
        total: the number of passages, for the progress.

    Raises:
        DataError: if no passage has a word.
    """

    def __init__(self, texts: Iterable[str], tokenizer: Any, length: int, total: int) -> None:
        most = length - 2
        rows: list[Pieces] = []
        for part in counted_parts(batches(texts, _TOKENIZER_BATCH), "tokenize", total):
            encoded = tokenizer(part, add_special_tokens=False, verbose=False)["input_ids"]
            rows += [np.array(pieces[:most], dtype=np.int32) for pieces in encoded if pieces]
        if not rows:
            raise DataError("no passage of the collection has a word; give another collection")
        self._pieces: Pieces = np.concatenate(rows)
        self._ends = np.cumsum([len(pieces) for pieces in rows])

    @property
    def pieces(self) -> int:
        """The number of word pieces of all passages, without the pieces cut off."""
        return len(self._pieces)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: int) -> Pieces:
        return self._pieces[int(self._ends[row - 1]) if row else 0 : int(self._ends[row])]


class MaskedPassages:
    """The items of a pre-training in random order: each passage once per round.

    Args:
        passages: the passages.
        tokenizer: the passages' tokenizer.
        recipe: the number of items and the tasks; its seed determines the order, the masks and the
            spans.
    """

    def __init__(self, passages: PassagePieces, tokenizer: Any, recipe: PretrainingRecipe) -> None:
        self._passages = passages
        self._recipe = recipe
        self._first, self._last = tokenizer.cls_token_id, tokenizer.sep_token_id
        self._padding, self._mask = tokenizer.pad_token_id, tokenizer.mask_token_id
        vocabulary = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        self._continues = np.array([piece.startswith("##") for piece in vocabulary])
        special = set(tokenizer.all_special_ids)
        self._ordinary = np.array([i for i in range(len(tokenizer)) if i not in special])
        self._order = lru_cache(maxsize=2)(self._make_order)

    def __len__(self) -> int:
        return self._recipe.steps_of(len(self._passages)) * self._recipe.batch_size

    def __getitem__(self, place: int) -> tuple[Pieces, np.random.Generator]:
        """Return the word pieces of the item with index `place`, and its random generator."""
        turn, row = divmod(place, len(self._passages))
        pieces = self._passages[int(self._order(turn)[row])]
        return pieces, np.random.default_rng([self._recipe.seed, 1, place])

    def _make_order(self, turn: int) -> npt.NDArray[np.int64]:
        return np.random.default_rng([self._recipe.seed, 0, turn]).permutation(len(self._passages))

    def collate(self, items: Sequence[tuple[Pieces, np.random.Generator]]) -> dict[str, Any]:
        """Return the tensors of a batch, the arguments of the model's `forward`."""
        batch: dict[str, Any] = {}
        if self._recipe.masked_words is not None:
            batch.update(self._masked(items, self._recipe.masked_words))
        if self._recipe.spans is not None:
            spans = self._recipe.spans
            for kind, least, most in (
                ("short", spans.short_least, spans.short_most),
                ("long", spans.long_least, spans.long_most),
            ):
                drawn = [_draw_span(pieces, least, most, generator) for pieces, generator in items]
                batch.update(self._padded(kind, drawn))
        return batch

    def _masked(
        self, items: Sequence[tuple[Pieces, np.random.Generator]], task: MaskedWords
    ) -> dict[str, Any]:
        """Return the tensors of the masked texts, and the original word pieces as targets.

        ``places`` has the row and column of each target.
        """
        batch: dict[str, Any] = {}
        texts = [pieces for pieces, _ in items]
        firsts = [0] * len(items)
        if task.pairs:
            pairs = [self._draw_pair(items, place) for place in range(len(items))]
            texts = [np.concatenate([short, long]) for short, long, _ in pairs]
            firsts = [len(short) for short, _, _ in pairs]
            batch["same"] = torch.tensor([float(same) for _, _, same in pairs])
        masked = [
            self.mask_words(text, task.share, generator)
            for text, (_, generator) in zip(texts, items, strict=True)
        ]
        rows = [masked_text for masked_text, _ in masked]
        if task.pairs:
            rows = [
                np.insert(row, first, self._last) for row, first in zip(rows, firsts, strict=True)
            ]
        batch.update(self._padded("masked", rows))
        if task.pairs:
            # BERT's token types: 0 up to the special token between the texts, 1 after it.
            second = np.arange(batch["masked_ids"].shape[1]) > np.array(firsts)[:, None] + 1
            batch["masked_types"] = (
                torch.from_numpy(second.astype(np.int64)) * batch["masked_attention"]
            )
        # A special token precedes the text, and in a pair another one separates the texts.
        places = [
            (row, place + 1 + (task.pairs > 0 and place >= first))
            for row, ((_, chosen), first) in enumerate(zip(masked, firsts, strict=True))
            for place in np.flatnonzero(chosen).tolist()
        ]
        batch["places"] = torch.tensor(places, dtype=torch.int64).reshape(-1, 2)
        targets = [text[chosen] for text, (_, chosen) in zip(texts, masked, strict=True)]
        batch["targets"] = torch.from_numpy(np.concatenate(targets).astype(np.int64))
        return batch

    def _draw_pair(
        self, items: Sequence[tuple[Pieces, np.random.Generator]], place: int
    ) -> tuple[Pieces, Pieces, bool]:
        """Return a short and a long span, and whether both are from item `place` of `items`.

        If not, the long span is from the next item.
        """
        assert self._recipe.spans is not None
        spans, (pieces, generator) = self._recipe.spans, items[place]
        same = len(items) == 1 or bool(generator.random() < 0.5)
        other = pieces if same else items[(place + 1) % len(items)][0]
        short = _draw_span(pieces, spans.short_least, spans.short_most, generator)
        return short, _draw_span(other, spans.long_least, spans.long_most, generator), same

    def mask_words(
        self, pieces: Pieces, share: float, generator: np.random.Generator
    ) -> tuple[Pieces, npt.NDArray[np.bool_]]:
        """Return a text with chosen words masked, replaced or kept, and which pieces were chosen.

        Args:
            pieces: the text's word pieces, shape (pieces,), at least one.
            share: the probability that a word is chosen; at least one word is chosen.
            generator: the source of the random choices.

        Returns:
            The word pieces with masks and replacements, and a Boolean array of the same shape:
            `True` for each piece to predict.
        """
        words = np.cumsum(~self._continues[pieces])
        words -= words[0]
        chosen_words = generator.random(words[-1] + 1) < share
        if not chosen_words.any():
            chosen_words[generator.integers(len(chosen_words))] = True
        chosen = chosen_words[words]
        draw = generator.random(len(pieces))
        masked = pieces.copy()
        masked[chosen & (draw < _MASKED)] = self._mask
        replaced = chosen & (draw >= _MASKED) & (draw < _MASKED + _REPLACED)
        masked[replaced] = generator.choice(self._ordinary, replaced.sum())
        return masked, chosen

    def _padded(self, kind: str, rows: Sequence[Pieces]) -> dict[str, Any]:
        """Return ``<kind>_ids`` and ``<kind>_attention`` of texts, special tokens added to each."""
        longest = max(len(row) for row in rows) + 2
        ids = np.full((len(rows), longest), self._padding, dtype=np.int64)
        attention = np.zeros((len(rows), longest), dtype=np.int64)
        for line, row in enumerate(rows):
            end = len(row) + 2
            ids[line, 0], ids[line, 1 : end - 1], ids[line, end - 1] = self._first, row, self._last
            attention[line, :end] = 1
        return {
            f"{kind}_ids": torch.from_numpy(ids),
            f"{kind}_attention": torch.from_numpy(attention),
        }


def _draw_span(pieces: Pieces, least: int, most: int, generator: np.random.Generator) -> Pieces:
    length = min(int(generator.integers(least, most + 1)), len(pieces))
    start = int(generator.integers(len(pieces) - length + 1))
    return pieces[start : start + length]


def load_learner(folder: Path, recipe: PretrainingRecipe) -> Any:
    """Return the encoder in a folder as a torch module whose output is the recipe's loss.

    Args:
        folder: the folder of a BERT with the head of a masked language model.
        recipe: the tasks, and the seed of the weights that the tasks add.
    """
    functional = torch.nn.functional

    class Learner(transformers.BertForMaskedLM):  # type: ignore[misc]
        # If true, the trainer would count the tokens of each part, and scale the loss by them.
        accepts_loss_kwargs = False

        def forward(self, **batch: Any) -> dict[str, Any]:
            """Return ``{"loss": loss}`` for a batch of `MaskedPassages.collate`."""
            loss = 0.0
            if recipe.masked_words is not None:
                output = self.bert(
                    batch["masked_ids"],
                    batch["masked_attention"],
                    batch.get("masked_types"),
                    output_hidden_states=recipe.late_head is not None,
                )
                loss += self.masked_words_loss(output, batch)
                if "same" in batch:
                    logits = self.pair(output.last_hidden_state[:, 0])[:, 0]
                    loss += recipe.masked_words.pairs * (
                        functional.binary_cross_entropy_with_logits(logits, batch["same"])
                    )
            if recipe.spans is not None:
                short, long = (
                    self.bert(batch[f"{kind}_ids"], batch[f"{kind}_attention"]).last_hidden_state
                    for kind in ("short", "long")
                )
                loss += span_loss(
                    short, batch["short_attention"], long, batch["long_attention"], recipe.spans
                )
            return {"loss": loss}

        def masked_words_loss(self, output: Any, batch: Mapping[str, Any]) -> Any:
            """Return the loss of the masked word pieces; logits are computed for these only."""
            rows, columns = batch["places"].unbind(1)

            def cross_entropy(states: Any) -> Any:
                return functional.cross_entropy(self.cls(states[rows, columns]), batch["targets"])

            assert recipe.masked_words is not None
            loss = recipe.masked_words.weight * cross_entropy(output.last_hidden_state)
            if recipe.late_head is not None:
                middle = output.hidden_states[self.config.num_hidden_layers // 2]
                states = torch.cat([output.last_hidden_state[:, :1], middle[:, 1:]], dim=1)
                late = self.late(states, src_key_padding_mask=batch["masked_attention"] == 0)
                loss = loss + recipe.late_head.weight * cross_entropy(late)
            return loss

    learner = load_weights(Learner, folder)
    config = learner.config
    if recipe.masked_words is not None and recipe.masked_words.pairs:
        torch.manual_seed(recipe.seed)
        learner.pair = torch.nn.Linear(config.hidden_size, 1)
    if recipe.late_head is not None:
        torch.manual_seed(recipe.seed)
        layer = torch.nn.TransformerEncoderLayer(
            config.hidden_size,
            config.num_attention_heads,
            config.intermediate_size,
            config.hidden_dropout_prob,
            activation="gelu",
            batch_first=True,
        )
        learner.late = torch.nn.TransformerEncoder(
            layer, recipe.late_head.layers, enable_nested_tensor=False
        )
    return learner


def span_loss(
    short: Any, short_attention: Any, long: Any, long_attention: Any, spans: SpanContrast
) -> Any:
    """Return the weighted sum of the contrastive losses of a batch of spans, a scalar tensor.

    Args:
        short: token states of the short spans, shape (spans, tokens, dimensions).
        short_attention: 1 for a token and 0 for padding, shape (spans, tokens).
        long: token states of the long spans, shape (spans, tokens, dimensions). The short and the
            long span of a row are from one passage.
        long_attention: see `short_attention`.
        spans: the factors of the losses.
    """
    functional = torch.nn.functional
    positives = torch.arange(len(short), device=short.device)

    def contrast(similarities: Any) -> Any:
        return functional.cross_entropy(similarities * spans.loss_scale, positives)

    def cosines(left: Any, right: Any) -> Any:
        return functional.normalize(left, dim=-1) @ functional.normalize(right, dim=-1).T

    def mean(states: Any, attention: Any) -> Any:
        weights = attention[..., None].to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)

    loss = short.new_zeros(())
    if spans.mean:
        loss = loss + spans.mean * contrast(
            cosines(mean(short, short_attention), mean(long, long_attention))
        )
    if spans.first:
        loss = loss + spans.first * contrast(cosines(short[:, 0], long[:, 0]))
    if spans.tokens:
        loss = loss + spans.tokens * contrast(
            late_interaction(short, short_attention, long, long_attention)
        )
    return loss


def late_interaction(short: Any, short_attention: Any, long: Any, long_attention: Any) -> Any:
    """Return ColBERT's similarities, from -1 to 1, of shape (short spans, long spans).

    A similarity is the mean, over the short span's tokens, of the highest cosine with a token of
    the long span. For the arguments see `span_loss`.
    """
    functional = torch.nn.functional
    left, right = functional.normalize(short, dim=-1), functional.normalize(long, dim=-1)
    cosines = left.flatten(0, 1) @ right.flatten(0, 1).T
    cosines = cosines.view(*short.shape[:2], *long.shape[:2])
    # A cosine is at least -1, so padding never has the highest value.
    cosines = cosines.masked_fill(long_attention[None, None] == 0, -2.0)
    weights = short_attention[..., None].to(cosines.dtype)
    return (cosines.amax(3) * weights).sum(1) / weights.sum(1)


def save_encoder(learner: Any, folder: Path) -> Any:
    """Write the trained encoder without the heads of the tasks, and return it.

    The head of the masked language model is kept.

    Args:
        learner: the model of `load_learner`, after the training.
        folder: an existing folder.
    """
    encoder = transformers.BertForMaskedLM(learner.config)
    weights = learner.state_dict()
    encoder.load_state_dict({name: weights[name] for name in encoder.state_dict()})
    encoder.save_pretrained(folder)
    return encoder
