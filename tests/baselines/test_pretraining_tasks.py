"""What an encoder meets in its pre-training, and the losses that it learns from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from msshift_bench.baselines.pretraining_tasks import (
    LateHead,
    MaskedPassages,
    MaskedWords,
    PassagePieces,
    PretrainingRecipe,
    SpanContrast,
    late_interaction,
    load_learner,
    span_loss,
)
from msshift_bench.baselines.systems.recipe import (
    RandomEncoder,
    find_recipe,
    parse_recipe,
    recipe_names,
)
from msshift_bench.baselines.training.backbones import make_random_encoder
from msshift_bench.errors import DataError, UsageError
from msshift_bench.mini.generator import passages

pytestmark = pytest.mark.neural

SHAPE = RandomEncoder(layers=2, hidden=16, heads=2, inner=32, vocabulary=500, dropout=0)

GOOD: dict[str, Any] = {
    "passage_length": 40,
    "batch_size": 8,
    "accumulate": 1,
    "steps": 5,
    "learning_rate": 1e-3,
    "warmup_steps": 1,
    "schedule": "linear",
    "weight_decay": 0.0,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "max_gradient_norm": 1.0,
    "seed": 3,
    "precision": "fp32",
    "checkpoint_every": 5,
    "random": SHAPE,
}

SPANS: dict[str, Any] = {
    "short_least": 2,
    "short_most": 6,
    "long_least": 8,
    "long_most": 20,
    "mean": 1.0,
    "loss_scale": 10.0,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder with random weights."""
    folder = tmp_path_factory.mktemp("encoder") / "begin"
    texts = (passage.text for passage in passages(60))
    make_random_encoder(folder, SHAPE, texts, length=40, seed=0)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def make_items(tokenizer: Any) -> Callable[..., MaskedPassages]:
    texts = [passage.text for passage in passages(60)]

    def make(**changed: Any) -> MaskedPassages:
        options: dict[str, Any] = {
            "count": 150,
            "seed": 7,
            "masked_words": MaskedWords(share=0.3),
            "spans": SpanContrast(**SPANS),
            **changed,
        }
        return MaskedPassages(PassagePieces(texts, tokenizer, 40, len(texts)), tokenizer, **options)

    return make


@pytest.fixture(scope="module")
def items(make_items: Callable[..., MaskedPassages]) -> MaskedPassages:
    return make_items()


def test_every_passage_comes_once_per_round_and_in_another_order(
    make_items: Callable[..., MaskedPassages],
) -> None:
    items = make_items()
    rounds = [[items[place][0].tobytes() for place in range(n, n + 60)] for n in (0, 60)]
    assert sorted(rounds[0]) == sorted(rounds[1])
    assert rounds[0] != rounds[1]
    assert [pieces.tobytes() for pieces, _ in map(make_items(seed=8).__getitem__, range(60))] != (
        rounds[0]
    )


def test_an_item_depends_on_its_place_alone(make_items: Callable[..., MaskedPassages]) -> None:
    forward, backward = make_items(), make_items()
    for place in range(149, -1, -30):
        backward.collate([backward[place]])
    for place in (29, 59, 149):
        first, second = (one.collate([one[place]]) for one in (forward, backward))
        assert first.keys() == second.keys()
        assert all(bool((first[key] == second[key]).all()) for key in first)


@given(seed=st.integers(0, 10_000), place=st.integers(0, 149), share=st.floats(0.01, 0.99))
def test_whole_words_are_masked_and_at_least_one(
    items: MaskedPassages, tokenizer: Any, seed: int, place: int, share: float
) -> None:
    pieces, _ = items[place]
    read, chosen = items.mask_words(pieces, share, np.random.default_rng(seed))
    assert chosen.any()
    assert (read[~chosen] == pieces[~chosen]).all()
    names = tokenizer.convert_ids_to_tokens(pieces.tolist())
    for before, here, name in zip(chosen[:-1], chosen[1:], names[1:], strict=True):
        assert before == here or not name.startswith("##")


def test_masked_pieces_are_mostly_hidden_and_some_replaced_or_kept(
    make_items: Callable[..., MaskedPassages], tokenizer: Any
) -> None:
    items = make_items()
    fates = np.zeros(3)
    pieces_read = pieces_met = 0
    for place in range(150):
        pieces, generator = items[place]
        read, chosen = items.mask_words(pieces, 0.3, generator)
        pieces_met += len(pieces)
        pieces_read += int(chosen.sum())
        masked, kept = read == tokenizer.mask_token_id, read == pieces
        fates += [(chosen & masked).sum(), (chosen & kept).sum(), (chosen & ~masked & ~kept).sum()]
    assert pieces_read / pieces_met == pytest.approx(0.3, abs=0.03)
    assert fates / fates.sum() == pytest.approx([0.8, 0.1, 0.1], abs=0.03)


def test_spans_are_parts_of_their_passage(make_items: Callable[..., MaskedPassages]) -> None:
    items = make_items(masked_words=None)
    taken = [items[place] for place in range(40)]
    batch = items.collate(taken)
    assert set(batch) == {"short_ids", "short_attention", "long_ids", "long_attention"}
    for kind, least, most in (("short", 2, 6), ("long", 8, 20)):
        lengths = batch[f"{kind}_attention"].sum(1) - 2
        assert int(lengths.max()) <= most
        for (pieces, _), row, length in zip(taken, batch[f"{kind}_ids"], lengths, strict=True):
            span = row[1 : 1 + int(length)].tolist()
            assert min(least, len(pieces)) <= len(span)
            everywhere = np.lib.stride_tricks.sliding_window_view(pieces, len(span))
            assert (everywhere == span).all(1).any()


def test_a_pair_of_texts_is_put_together_as_bert_does(tokenizer: Any) -> None:
    query, passage = "a wine", "the lake and the wine"
    pair = tokenizer(query, passage)
    first, second = (
        tokenizer(text, add_special_tokens=False).input_ids for text in (query, passage)
    )
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert pair["input_ids"] == [cls, *first, sep, *second, sep]
    assert pair["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_pairs_are_of_one_passage_or_two_and_look_like_the_tokenizer_s(
    folder: Path, make_items: Callable[..., MaskedPassages], tokenizer: Any
) -> None:
    import torch

    masked = MaskedWords(share=0.3, pairs=2.0)
    items = make_items(masked_words=masked)
    taken = [items[place] for place in range(40)]
    batch = items.collate(taken)
    ids = batch["masked_ids"].clone()
    ids[batch["places"].unbind(1)] = batch["targets"]

    def is_in(span: list[int], pieces: Any) -> bool:
        return bool(
            (np.lib.stride_tricks.sliding_window_view(pieces, len(span)) == span).all(1).any()
        )

    found = []
    for place, (row, types, attention) in enumerate(
        zip(ids.tolist(), batch["masked_types"], batch["masked_attention"], strict=True)
    ):
        end = int(attention.sum())
        middle = row.index(tokenizer.sep_token_id)
        assert (row[0], row[end - 1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
        assert types.tolist() == [0] * (middle + 1) + [1] * (end - middle - 1) + [0] * (
            len(row) - end
        )
        short, long = row[1:middle], row[middle + 1 : end - 1]
        assert 2 <= len(short) <= 6
        assert len(long) <= 20
        assert is_in(short, taken[place][0])
        same = bool(batch["same"][place])
        assert is_in(long, taken[place if same else (place + 1) % 40][0])
        found.append(same)
    assert 10 < sum(found) < 30

    recipe = PretrainingRecipe(**GOOD, masked_words=masked, spans=SpanContrast(**SPANS))
    learner = load_learner(folder, recipe)
    with torch.no_grad():
        states = learner.bert(
            batch["masked_ids"], batch["masked_attention"], batch["masked_types"]
        ).last_hidden_state
        told = torch.sigmoid(learner.pair(states[:, 0])[:, 0])
        right = torch.where(batch["same"] == 1, told, 1 - told)
        rows, columns = batch["places"].unbind(1)
        naming = torch.nn.functional.cross_entropy(
            learner.cls(states[rows, columns]), batch["targets"]
        )
        short = learner.bert(batch["short_ids"], batch["short_attention"]).last_hidden_state
        long = learner.bert(batch["long_ids"], batch["long_attention"]).last_hidden_state
        spans = span_loss(
            short, batch["short_attention"], long, batch["long_attention"], SpanContrast(**SPANS)
        )
        loss = learner(**batch)["loss"]
    expected = naming - 2 * right.log().mean() + spans
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)


def test_texts_without_words_are_left_out(tokenizer: Any) -> None:
    kept = PassagePieces(["", "wine", " "], tokenizer, 40, 3)
    assert len(kept) == 1
    assert tokenizer.decode(kept[0]).replace(" ", "").replace("##", "") == "wine"
    with pytest.raises(DataError, match="no passage"):
        PassagePieces(["", " "], tokenizer, 40, 2)


def test_masked_words_have_the_loss_of_the_library(
    folder: Path, make_items: Callable[..., MaskedPassages]
) -> None:
    import torch
    from transformers import BertForMaskedLM

    recipe = PretrainingRecipe(**GOOD, masked_words=MaskedWords(share=0.3, weight=2.0))
    items = make_items(spans=None)
    batch = items.collate([items[place] for place in range(8)])
    labels = torch.full_like(batch["masked_ids"], -100)
    labels[batch["places"].unbind(1)] = batch["targets"]
    with torch.no_grad():
        found = load_learner(folder, recipe)(**batch)["loss"]
        model = BertForMaskedLM.from_pretrained(folder)
        expected = model(batch["masked_ids"], batch["masked_attention"], labels=labels).loss
    assert float(found) == pytest.approx(2 * float(expected), rel=1e-5)


def test_the_late_head_reads_the_first_token_of_the_last_layer_and_the_others_of_the_middle(
    folder: Path, make_items: Callable[..., MaskedPassages]
) -> None:
    import torch

    masked = MaskedWords(share=0.3, weight=0.0)
    recipe = PretrainingRecipe(**GOOD, masked_words=masked, late_head=LateHead(layers=1))
    items = make_items(spans=None)
    batch = items.collate([items[place] for place in range(4)])
    learner = load_learner(folder, recipe).eval()
    seen: list[Any] = []
    learner.late.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        loss = learner(**batch)["loss"]
        states = learner.bert(
            batch["masked_ids"], batch["masked_attention"], output_hidden_states=True
        ).hidden_states
        late = learner.late(seen[0], src_key_padding_mask=batch["masked_attention"] == 0)
        rows, columns = batch["places"].unbind(1)
        expected = torch.nn.functional.cross_entropy(
            learner.cls(late[rows, columns]), batch["targets"]
        )
    assert torch.equal(seen[0][:, 0], states[-1][:, 0])
    assert torch.equal(seen[0][:, 1:], states[1][:, 1:])
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)


def test_similarities_of_spans_by_hand() -> None:
    import torch

    torch.manual_seed(0)
    short, long = torch.randn(3, 4, 5), torch.randn(3, 6, 5)
    short_attention = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])
    long_attention = torch.tensor([[1] * 6, [1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]])

    def cosine(one: Any, other: Any) -> float:
        return float(torch.nn.functional.cosine_similarity(one, other, dim=0))

    def texts(states: Any, attention: Any) -> list[list[Any]]:
        kept = zip(states, attention, strict=True)
        return [[state for state, keep in zip(*row, strict=True) if keep] for row in kept]

    queries, answers = texts(short, short_attention), texts(long, long_attention)
    tokens = [
        [float(np.mean([max(cosine(t, u) for u in answer) for t in query])) for answer in answers]
        for query in queries
    ]
    found = late_interaction(short, short_attention, long, long_attention)
    assert found.numpy() == pytest.approx(np.array(tokens), abs=1e-5)

    means = [[cosine(sum(q) / len(q), sum(a) / len(a)) for a in answers] for q in queries]
    firsts = [[cosine(q[0], a[0]) for a in answers] for q in queries]

    def cross_entropy(similarities: list[list[float]]) -> float:
        scaled = 10 * np.array(similarities)
        return float(np.mean(np.log(np.exp(scaled).sum(1)) - np.diag(scaled)))

    parts = [cross_entropy(similarities) for similarities in (means, firsts, tokens)]
    for weights in ((0.5, 2.0, 3.0), (0.0, 2.0, 0.0)):
        shares = dict(zip(("mean", "first", "tokens"), weights, strict=True))
        chosen = SpanContrast(**{**SPANS, **shares})
        loss = span_loss(short, short_attention, long, long_attention, chosen)
        assert float(loss) == pytest.approx(np.dot(weights, parts), rel=1e-4)


def test_an_encoder_that_learns_from_spans_alone_has_their_loss(
    folder: Path, make_items: Callable[..., MaskedPassages]
) -> None:
    import torch

    spans = SpanContrast(**SPANS)
    items = make_items(masked_words=None)
    batch = items.collate([items[place] for place in range(4)])
    learner = load_learner(folder, PretrainingRecipe(**GOOD, spans=spans)).eval()
    with torch.no_grad():
        found = learner(**batch)["loss"]
        short, long = (
            learner.bert(batch[f"{kind}_ids"], batch[f"{kind}_attention"]).last_hidden_state
            for kind in ("short", "long")
        )
        attentions = batch["short_attention"], batch["long_attention"]
        expected = span_loss(short, attentions[0], long, attentions[1], spans)
    assert float(found) == pytest.approx(float(expected), rel=1e-5)
    assert float(found) > 0


@pytest.mark.parametrize("name", recipe_names("pretrain"))
def test_the_recipes_that_come_along_load(name: str) -> None:
    assert parse_recipe(PretrainingRecipe, find_recipe("pretrain", name)).random


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "no task"),
        ({"random": None, "spans": SPANS}, "random: expected a table|random: must not be empty"),
        (
            {"random": {**dict(SHAPE), "matching": True}},
            "matching is for encoders without",
        ),
        ({"late_head": {"layers": 1}, "spans": SPANS}, r"late_head: it needs \[masked_words\]"),
        ({"spans": {**SPANS, "long_most": 39}}, "long_most is 39.*passage_length 40"),
        ({"masked_words": {"share": 0.2, "pairs": 1.0}}, r"needs \[spans\]"),
        (
            {"masked_words": {"share": 0.2, "pairs": 1.0}, "spans": {**SPANS, "long_most": 32}},
            "short_most is 6 and long_most 32.*three special tokens.*passage_length 40",
        ),
        ({"spans": {**SPANS, "short_most": 1}}, "spans.short_least: 2 is more than short_most"),
        ({"spans": {**SPANS, "mean": 0}}, r"\[spans\] compares nothing"),
        ({"masked_words": {"share": 1}}, "masked_words.share: Input should be less than 1"),
    ],
)
def test_recipes_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    good = PretrainingRecipe(**GOOD, spans=SpanContrast(**SPANS))
    with pytest.raises(UsageError, match=message):
        good.changed(**{"spans": None, **changes})
