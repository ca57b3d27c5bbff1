"""The model of a pre-training: an encoder with the losses of its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msshift_bench.baselines.pretraining_recipe import PretrainingRecipe, SpanContrast
from msshift_bench.encoders import SAFETENSORS, only_safetensors
from msshift_bench.errors import require

__all__ = ["load_learner", "save_encoder"]

_WHAT = "pre-training"


def load_learner(folder: Path, recipe: PretrainingRecipe) -> Any:
    """Return the encoder of a folder as a module of torch whose output is the recipe's loss.

    Args:
        folder: the encoder: a BERT with the head of a masked language model.
        recipe: the tasks, and the seed of Condenser's head.
    """
    torch = require("torch", "neural", _WHAT)
    base: Any = require("transformers", "neural", _WHAT).BertForMaskedLM
    functional = torch.nn.functional

    class Learner(base):  # type: ignore[misc]
        """The encoder while it learns."""

        # Otherwise the trainer would count the tokens of every part, and scale the loss by them.
        accepts_loss_kwargs = False

        def add_pair_head(self) -> None:
            torch.manual_seed(recipe.seed)
            self.pair = torch.nn.Linear(self.config.hidden_size, 1)

        def add_late_head(self, layers: int) -> None:
            config = self.config
            torch.manual_seed(recipe.seed)
            self.late = torch.nn.TransformerEncoder(
                torch.nn.TransformerEncoderLayer(
                    config.hidden_size,
                    config.num_attention_heads,
                    config.intermediate_size,
                    config.hidden_dropout_prob,
                    activation="gelu",
                    batch_first=True,
                ),
                layers,
                enable_nested_tensor=False,
            )

        def forward(
            self,
            masked_ids: Any = None,
            masked_attention: Any = None,
            masked_types: Any = None,
            same: Any = None,
            places: Any = None,
            targets: Any = None,
            short_ids: Any = None,
            short_attention: Any = None,
            long_ids: Any = None,
            long_attention: Any = None,
        ) -> dict[str, Any]:
            loss = 0.0
            if recipe.masked_words is not None:
                output = self.bert(
                    masked_ids,
                    masked_attention,
                    masked_types,
                    output_hidden_states=recipe.late_head is not None,
                )
                loss += self.naming_loss(output, masked_attention, places, targets)
                if same is not None:
                    told = self.pair(output.last_hidden_state[:, 0])[:, 0]
                    loss += recipe.masked_words.pairs * (
                        functional.binary_cross_entropy_with_logits(told, same)
                    )
            if recipe.spans is not None:
                short = self.bert(short_ids, short_attention).last_hidden_state
                long = self.bert(long_ids, long_attention).last_hidden_state
                loss += span_loss(short, short_attention, long, long_attention, recipe.spans)
            return {"loss": loss}

        def naming_loss(self, output: Any, attention: Any, places: Any, targets: Any) -> Any:
            """Return the cross-entropy of the masked word pieces; no other is given logits."""
            rows, columns = places.unbind(1)

            def name(states: Any) -> Any:
                return functional.cross_entropy(self.cls(states[rows, columns]), targets)

            assert recipe.masked_words is not None
            loss = recipe.masked_words.weight * name(output.last_hidden_state)
            if recipe.late_head is not None:
                middle = output.hidden_states[self.config.num_hidden_layers // 2]
                states = torch.cat([output.last_hidden_state[:, :1], middle[:, 1:]], dim=1)
                late = self.late(states, src_key_padding_mask=attention == 0)
                loss = loss + recipe.late_head.weight * name(late)
            return loss

    with only_safetensors(folder):
        learner = Learner.from_pretrained(folder, **SAFETENSORS)
    if recipe.masked_words is not None and recipe.masked_words.pairs:
        learner.add_pair_head()
    if recipe.late_head is not None:
        learner.add_late_head(recipe.late_head.layers)
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
    torch = require("torch", "neural", _WHAT)
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
    functional = require("torch", "neural", _WHAT).nn.functional
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
    base = require("transformers", "neural", _WHAT).BertForMaskedLM
    encoder = base(learner.config)
    weights = learner.state_dict()
    encoder.load_state_dict({name: weights[name] for name in encoder.state_dict()})
    encoder.save_pretrained(folder)
    return encoder
