"""The batches of a pre-training, and its losses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import pytest

from msshift_bench import libraries
from msshift_bench.baselines import pretrain_encoder
from msshift_bench.baselines.pretraining_tasks import (
    MaskedPassages,
    PassagePieces,
    PretrainingRecipe,
    late_interaction,
    load_learner,
    span_loss,
)
from msshift_bench.baselines.systems.recipe import read_recipe, recipe_files
from msshift_bench.baselines.training.backbones import make_random_encoder
from msshift_bench.errors import DataError, UnknownNameError, UsageError
from msshift_bench.mini.generator import passages
from tests.baselines.conftest import Make, Values
from tests.support.tiny_recipes import tiny_pretraining

pytestmark = pytest.mark.neural

TEXTS = [passage.text for passage in passages(60)]
SHAPE = {"dropout": 0, "layers": 2}
SPANS = {"short_most": 6, "long_least": 8, "long_most": 20}


def make_recipe(**changes: Any) -> PretrainingRecipe:
    """Return the tiny recipe without a late head, unless it is named."""
    with NamedTemporaryFile("w", suffix=".toml") as file:
        changes = {"random": SHAPE, "spans": SPANS, "late_head": None, **changes}
        Path(file.name).write_text(tiny_pretraining(**changes))
        return read_recipe(PretrainingRecipe, file.name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder with random weights."""
    folder = tmp_path_factory.mktemp("encoder") / "begin"
    make_random_encoder(folder, make_recipe().random, TEXTS, length=40, seed=0)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return libraries.transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def make_items(tokenizer: Any) -> Make:
    pieces = PassagePieces(TEXTS, tokenizer, 40, len(TEXTS))

    def make(**changed: Any) -> MaskedPassages:
        values = {"masked_words": {"share": 0.3}, "seed": 7, "steps": 75, "batch_size": 2}
        return MaskedPassages(pieces, tokenizer, make_recipe().changed(**{**values, **changed}))

    return make


def is_in(span: list[int], pieces: Any) -> bool:
    everywhere = np.lib.stride_tricks.sliding_window_view(pieces, len(span))
    return bool((everywhere == span).all(1).any())


def test_a_round_has_every_passage_once_in_another_order(make_items: Make) -> None:
    items = make_items()
    rounds = [[items[place][0].tobytes() for place in range(n, n + 60)] for n in (0, 60)]
    assert sorted(rounds[0]) == sorted(rounds[1])
    assert rounds[0] != rounds[1]
    other = make_items(seed=8)
    assert [other[place][0].tobytes() for place in range(60)] != rounds[0]


@pytest.mark.parametrize(("share", "tolerance"), [(0.01, 0.1), (0.3, 0.03), (0.9, 0.03)])
def test_whole_words_are_masked_most_hidden_some_replaced_or_kept(
    make_items: Make, tokenizer: Any, share: float, tolerance: float
) -> None:
    items, fates, count = make_items(), np.zeros(3), 0
    for place in range(150):
        pieces, generator = items[place]
        read, chosen = items.mask_words(pieces, share, generator)
        assert chosen.any()
        assert (read[~chosen] == pieces[~chosen]).all()
        names = tokenizer.convert_ids_to_tokens(pieces.tolist())
        for before, here, name in zip(chosen[:-1], chosen[1:], names[1:], strict=True):
            assert before == here or not name.startswith("##")
        masked, kept = read == tokenizer.mask_token_id, read == pieces
        fates += [(chosen & masked).sum(), (chosen & kept).sum(), (chosen & ~masked & ~kept).sum()]
        count += len(pieces)
    assert fates.sum() / count == pytest.approx(share, abs=tolerance)
    assert fates / fates.sum() == pytest.approx([0.8, 0.1, 0.1], abs=tolerance)


def test_spans_are_parts_of_their_passage(make_items: Make) -> None:
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
            assert is_in(span, pieces)


def test_pairs_look_like_the_tokenizer_s(make_items: Make, tokenizer: Any) -> None:
    items = make_items(masked_words={"share": 0.3, "pairs": 2.0})
    taken = [items[place] for place in range(40)]
    batch = items.collate(taken)
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    pair = tokenizer("a wine", "the lake and the wine")
    end = pair["input_ids"].index(sep)
    assert (pair["input_ids"][0], pair["input_ids"][-1]) == (cls, sep)
    assert pair["token_type_ids"] == [int(n > end) for n in range(len(pair["input_ids"]))]
    ids = batch["masked_ids"].clone()
    ids[batch["places"].unbind(1)] = batch["targets"]
    same = [bool(one) for one in batch["same"]]
    assert 10 < sum(same) < 30
    rows = zip(ids.tolist(), batch["masked_types"], batch["masked_attention"], strict=True)
    for place, (row, types, attention) in enumerate(rows):
        end, middle = int(attention.sum()), row.index(sep)
        assert (row[0], row[end - 1]) == (cls, sep)
        first, second, rest = middle + 1, end - middle - 1, len(row) - end
        assert types.tolist() == [0] * first + [1] * second + [0] * rest
        short, long = row[1:middle], row[middle + 1 : end - 1]
        assert 2 <= len(short) <= 6
        assert len(long) <= 20
        assert is_in(short, taken[place][0])
        assert is_in(long, taken[place if same[place] else (place + 1) % 40][0])


def test_texts_without_words_are_left_out(tokenizer: Any) -> None:
    (pieces,) = PassagePieces(["", "wine", " "], tokenizer, 40, 3)
    assert tokenizer.decode(pieces).replace(" ", "").replace("##", "") == "wine"
    with pytest.raises(DataError, match="no passage"):
        PassagePieces(["", " "], tokenizer, 40, 2)


def loss_of_spans(learner: Any, batch: Any, recipe: Any) -> Any:
    given: list[Any] = []
    for kind in ("short", "long"):
        attention = batch[f"{kind}_attention"]
        given += [learner.bert(batch[f"{kind}_ids"], attention).last_hidden_state, attention]
    return span_loss(*given, recipe.spans)


def loss_of_pairs(learner: Any, batch: Any, recipe: PretrainingRecipe) -> Any:
    """Return what words, pairs and spans cost together, pairs twice."""
    asked = (batch[f"masked_{part}"] for part in ("ids", "attention", "types"))
    states = learner.bert(*asked).last_hidden_state
    told = libraries.torch.sigmoid(learner.pair(states[:, 0])[:, 0])
    right = libraries.torch.where(batch["same"] == 1, told, 1 - told)
    words = learner.cls(states[batch["places"].unbind(1)])
    naming = libraries.torch.nn.functional.cross_entropy(words, batch["targets"])
    return naming - 2 * right.log().mean() + loss_of_spans(learner, batch, recipe)


def loss_of_the_library(learner: Any, batch: Any, recipe: PretrainingRecipe) -> Any:
    """Return twice the loss of transformers' model of masked words."""
    labels = libraries.torch.full_like(batch["masked_ids"], -100)
    labels[batch["places"].unbind(1)] = batch["targets"]
    model = libraries.transformers.BertForMaskedLM.from_pretrained(learner.name_or_path)
    return 2 * model(batch["masked_ids"], batch["masked_attention"], labels=labels).loss


def loss_of_late_words(learner: Any, batch: Any, _recipe: PretrainingRecipe) -> Any:
    """Return what words cost that are named from the last layer's first state, and the middle."""
    ids, attention = batch["masked_ids"], batch["masked_attention"]
    _, middle, last = learner.bert(ids, attention, output_hidden_states=True).hidden_states
    joined = libraries.torch.cat([last[:, :1], middle[:, 1:]], dim=1)
    late = learner.late(joined, src_key_padding_mask=attention == 0)
    words = learner.cls(late[batch["places"].unbind(1)])
    return libraries.torch.nn.functional.cross_entropy(words, batch["targets"])


LATE = {"masked_words": {"share": 0.3, "weight": 0.0}, "late_head": {"layers": 1}, "spans": None}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"masked_words": {"share": 0.3, "weight": 2.0}, "spans": None}, loss_of_the_library),
        ({"masked_words": None}, loss_of_spans),
        ({"masked_words": {"share": 0.3, "pairs": 2.0}}, loss_of_pairs),
        (LATE, loss_of_late_words),
    ],
    ids=["words", "spans", "pairs", "late"],
)
def test_the_loss_is_that_of_its_tasks(
    changes: Values, expected: Callable[..., Any], folder: Path, make_items: Make
) -> None:
    recipe = make_recipe(**changes)
    items = make_items(masked_words=recipe.masked_words, spans=recipe.spans)
    batch = items.collate([items[place] for place in range(8)])
    learner = load_learner(folder, recipe).eval()
    learner.name_or_path = folder
    with libraries.torch.no_grad():
        loss = float(learner(**batch)["loss"])
        assert loss == pytest.approx(float(expected(learner, batch, recipe)), rel=1e-5)
    assert loss > 0


def test_similarities_of_spans_by_hand() -> None:
    libraries.torch.manual_seed(0)
    short, long = libraries.torch.randn(3, 4, 5), libraries.torch.randn(3, 6, 5)
    short_attention = libraries.torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])
    long_attention = libraries.torch.tensor([[1] * 6, [1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]])

    def unit(vectors: Any) -> Any:
        return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)

    def texts(states: Any, attention: Any) -> list[Any]:
        return [row[read == 1].numpy() for row, read in zip(states, attention, strict=True)]

    queries, answers = texts(short, short_attention), texts(long, long_attention)
    tokens = [[(unit(q) @ unit(a).T).max(1).mean() for a in answers] for q in queries]
    found = late_interaction(short, short_attention, long, long_attention)
    assert found.numpy() == pytest.approx(np.array(tokens), abs=1e-5)

    means = [[unit(q.mean(0)) @ unit(a.mean(0)) for a in answers] for q in queries]
    firsts = [[unit(q[0]) @ unit(a[0]) for a in answers] for q in queries]

    def cross_entropy(similarities: list[list[float]]) -> float:
        scaled = 10 * np.array(similarities)
        return float(np.mean(np.log(np.exp(scaled).sum(1)) - np.diag(scaled)))

    parts = [cross_entropy(similarities) for similarities in (means, firsts, tokens)]
    for weights in ((0.5, 2.0, 3.0), (0.0, 2.0, 0.0)):
        shares = dict(zip(("mean", "first", "tokens"), weights, strict=True))
        recipe: Any = make_recipe(spans={**SPANS, **shares})
        loss = span_loss(short, short_attention, long, long_attention, recipe.spans)
        assert float(loss) == pytest.approx(np.dot(weights, parts), rel=1e-4)


@pytest.mark.parametrize("name", [name for name in recipe_files() if name.startswith("pretrain")])
def test_packaged_recipes_load(name: str) -> None:
    assert read_recipe(PretrainingRecipe, name.removeprefix("pretrain-")).random


PAIRS = {"share": 0.2, "pairs": 1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masked_words": None, "spans": None, "late_head": None}, "no task"),
        ({"random": None}, "random: is missing"),
        ({"random": {"matching": True}}, "matching is for encoders without"),
        ({"masked_words": None}, r"late_head: it needs \[masked_words\]"),
        ({"spans": {"long_most": 39}}, "long_most 39 .*passage_length 40"),
        ({"masked_words": PAIRS, "spans": None}, r"needs a table \[spans\]"),
        ({"masked_words": PAIRS}, "short_most 8, long_most 30 .*three special tokens.* 40"),
        ({"spans": {"short_most": 1}}, "spans.short_least: must be at most short_most 1, got 2"),
        ({"spans": {"mean": 0, "tokens": 0}}, r"\[spans\] needs a factor above 0"),
        ({"masked_words": {"share": 1}}, "masked_words.share: Input should be less than 1"),
        ({"precision": "fp8"}, "precision: unknown name 'fp8'; did you mean 'fp32'"),
    ],
)
def test_recipes_that_are_refused(changes: Values, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(tiny_pretraining(**changes))
    with pytest.raises(UsageError, match=message):
        pretrain_encoder("mini:60", tmp_path / "mine.toml", out=tmp_path / "encoder")
    with pytest.raises(UnknownNameError, match=r"field of pretrain 'stpes'.*steps"):
        pretrain_encoder("mini:60", out=tmp_path / "encoder", changes={"stpes": 3})
    assert not (tmp_path / "encoder").exists()
