"""The tasks of a pre-training, as its recipe names them: masked passages, spans, and their losses.

The seed and an item's place decide all that is drawn for it, so that training can continue at any
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
        pairs = words is not None and words.pairs > 0
        if pairs and spans is None:
            yield "masked_words", "pairs needs [spans], which says how long the spans are"
        if pairs and spans and spans.short_most + spans.long_most + 3 > length:
            yield (
                "masked_words",
                f"short_most is {spans.short_most} and long_most {spans.long_most}, which as a "
                f"pair, with three special tokens, is more than passage_length {length}",
            )


Pieces = npt.NDArray[np.int32]
"""The word pieces of a text, without special tokens."""

_TOGETHER = 1000
"""Passages that are cut into pieces together."""

_MASKED, _REPLACED = 0.8, 0.1
"""The shares of the chosen word pieces that are masked and replaced."""


class PassagePieces:
    """The passages of a collection as word pieces.

    Args:
        texts: the passages' texts.
        tokenizer: a tokenizer of transformers, with a fast backend.
        length: most word pieces of a passage, two special tokens included; the rest is cut off.
        total: how many passages there are, for the progress.

    Raises:
        DataError: if no passage has a word.
    """

    def __init__(self, texts: Iterable[str], tokenizer: Any, length: int, total: int) -> None:
        most = length - 2
        rows: list[Pieces] = []
        for some in counted_parts(batches(texts, _TOGETHER), "tokenize", total):
            encoded = tokenizer(some, add_special_tokens=False, verbose=False)["input_ids"]
            rows += [np.array(pieces[:most], dtype=np.int32) for pieces in encoded if pieces]
        if not rows:
            raise DataError("no passage of the collection has a word to learn from")
        self._pieces: Pieces = np.concatenate(rows)
        self._ends = np.cumsum([len(pieces) for pieces in rows])

    @property
    def pieces(self) -> int:
        """The word pieces of all passages."""
        return len(self._pieces)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: int) -> Pieces:
        return self._pieces[int(self._ends[row - 1]) if row else 0 : int(self._ends[row])]


class MaskedPassages:
    """The items of a pre-training, in its order: every passage once per round.

    Args:
        passages: the passages.
        tokenizer: their tokenizer.
        recipe: how many items there are, how words are masked and spans drawn; its seed decides the
            order, the masks and the spans.
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
        """Return a passage's word pieces, and the generator that decides what is drawn for it."""
        turn, row = divmod(place, len(self._passages))
        pieces = self._passages[int(self._order(turn)[row])]
        return pieces, np.random.default_rng([self._recipe.seed, 1, place])

    def _make_order(self, turn: int) -> npt.NDArray[np.int64]:
        return np.random.default_rng([self._recipe.seed, 0, turn]).permutation(len(self._passages))

    def collate(self, items: Sequence[tuple[Pieces, np.random.Generator]]) -> dict[str, Any]:
        """Return the tensors of some items, as the model's `forward` takes them."""
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
        """Return masked texts, and what their masked word pieces were."""
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
        rows = [read for read, _ in masked]
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
        # A special token stands in front, and in a pair another one between the texts.
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
        """Return a short and a long span, and whether both are from the passage of the item."""
        assert self._recipe.spans is not None
        spans, (pieces, generator) = self._recipe.spans, items[place]
        same = len(items) == 1 or bool(generator.random() < 0.5)
        other = pieces if same else items[(place + 1) % len(items)][0]
        short = _draw_span(pieces, spans.short_least, spans.short_most, generator)
        return short, _draw_span(other, spans.long_least, spans.long_most, generator), same

    def mask_words(
        self, pieces: Pieces, share: float, generator: np.random.Generator
    ) -> tuple[Pieces, npt.NDArray[np.bool_]]:
        """Choose words of a text, and mask, replace or keep their word pieces.

        Args:
            pieces: the text's word pieces.
            share: the probability that a word is chosen; at least one is.
            generator: decides what is chosen.

        Returns:
            The word pieces to read, and for each of the text's whether it is to be named.
        """
        words = np.cumsum(~self._continues[pieces])
        words -= words[0]
        chosen_words = generator.random(words[-1] + 1) < share
        if not chosen_words.any():
            chosen_words[generator.integers(len(chosen_words))] = True
        chosen = chosen_words[words]
        fate = generator.random(len(pieces))
        read = pieces.copy()
        read[chosen & (fate < _MASKED)] = self._mask
        replaced = chosen & (fate >= _MASKED) & (fate < _MASKED + _REPLACED)
        read[replaced] = generator.choice(self._ordinary, replaced.sum())
        return read, chosen

    def _padded(self, kind: str, rows: Sequence[Pieces]) -> dict[str, Any]:
        """Return the ids and the attention mask of texts, with special tokens around each."""
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
    """Return the encoder of a folder as a module of torch whose output is the recipe's loss.

    Args:
        folder: the encoder: a BERT with the head of a masked language model.
        recipe: the tasks, and the seed of Condenser's head.
    """
    functional = torch.nn.functional

    class Learner(transformers.BertForMaskedLM):  # type: ignore[misc]
        """The encoder while it learns."""

        # Otherwise the trainer would count the tokens of every part, and scale the loss by them.
        accepts_loss_kwargs = False

        def forward(self, **batch: Any) -> dict[str, Any]:
            """Return the loss of what `MaskedPassages.collate` returned."""
            loss = 0.0
            if recipe.masked_words is not None:
                output = self.bert(
                    batch["masked_ids"],
                    batch["masked_attention"],
                    batch.get("masked_types"),
                    output_hidden_states=recipe.late_head is not None,
                )
                loss += self.naming_loss(output, batch)
                if "same" in batch:
                    told = self.pair(output.last_hidden_state[:, 0])[:, 0]
                    loss += recipe.masked_words.pairs * (
                        functional.binary_cross_entropy_with_logits(told, batch["same"])
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

        def naming_loss(self, output: Any, batch: Mapping[str, Any]) -> Any:
            """Return the cross-entropy of the masked word pieces; no other is given logits."""
            rows, columns = batch["places"].unbind(1)

            def name(states: Any) -> Any:
                return functional.cross_entropy(self.cls(states[rows, columns]), batch["targets"])

            assert recipe.masked_words is not None
            loss = recipe.masked_words.weight * name(output.last_hidden_state)
            if recipe.late_head is not None:
                middle = output.hidden_states[self.config.num_hidden_layers // 2]
                states = torch.cat([output.last_hidden_state[:, :1], middle[:, 1:]], dim=1)
                late = self.late(states, src_key_padding_mask=batch["masked_attention"] == 0)
                loss = loss + recipe.late_head.weight * name(late)
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
    """Return the losses of the similarities, by their factors, of the spans of a batch.

    Args:
        short: token states of the short spans, shape (spans, tokens, dimensions).
        short_attention: 1 for a token and 0 for padding, shape (spans, tokens).
        long: token states of the long spans, each of the passage of the short one in its row.
        long_attention: likewise.
        spans: the factors.
    """
    functional = torch.nn.functional
    own = torch.arange(len(short), device=short.device)

    def contrast(similarities: Any) -> Any:
        return functional.cross_entropy(similarities * spans.loss_scale, own)

    def cosines(one: Any, other: Any) -> Any:
        return functional.normalize(one, dim=-1) @ functional.normalize(other, dim=-1).T

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
    """Return the mean over a short span's tokens of the highest cosine with a long span's.

    The shape is (short spans, long spans); the arguments are those of `span_loss`.
    """
    functional = torch.nn.functional
    ours, theirs = functional.normalize(short, dim=-1), functional.normalize(long, dim=-1)
    every = ours.flatten(0, 1) @ theirs.flatten(0, 1).T
    every = every.view(*short.shape[:2], *long.shape[:2])
    # Cosines are -1 or more, so that a padding's is never the highest.
    every = every.masked_fill(long_attention[None, None] == 0, -2.0)
    weights = short_attention[..., None].to(every.dtype)
    return (every.amax(3) * weights).sum(1) / weights.sum(1)


def save_encoder(learner: Any, folder: Path) -> Any:
    """Write what was learnt without the tasks' own heads, and return it.

    Args:
        learner: the model, after the training.
        folder: an existing folder.
    """
    encoder = transformers.BertForMaskedLM(learner.config)
    weights = learner.state_dict()
    encoder.load_state_dict({name: weights[name] for name in encoder.state_dict()})
    encoder.save_pretrained(folder)
    return encoder
