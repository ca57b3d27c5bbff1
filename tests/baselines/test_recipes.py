"""The packaged recipes, files of recipes, and how they are refused."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import RecipeFile, find_systems, open_system, recipe_files
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError
from tests.baselines.conftest import Make, Values
from tests.support.tiny_recipes import NEURAL

SYSTEMS = [*NEURAL, "monot5", "knrm", "duet", "pacrr"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_packaged_recipes_load(system: str) -> None:
    names = [name.removeprefix(f"{system}-") for name in recipe_files() if name.startswith(system)]
    of_all = {"mini", "pool", "paper", "zhan"} if system in NEURAL else {"mini"}
    assert of_all <= {*names}
    for name in names:
        recipe: Any = open_system(system, name)
        assert type(recipe) is find_systems()[system]
        assert json.loads(json.dumps(recipe.parameters())) == recipe.parameters()


@pytest.mark.parametrize("system", ["splade", "monobert"])
def test_no_prior_differs_in_the_prior_only(system: str) -> None:
    mini, without = (open_system(system, name).parameters() for name in ("mini", "mini-no-prior"))
    assert mini["random"].pop("matching") is True
    assert without["random"].pop("matching") is False
    assert without == mini


@pytest.mark.parametrize("system", NEURAL)
def test_the_recipes_of_zhan(system: str) -> None:
    """CIKM 2022, section 5.1.2."""
    recipe: Any = open_system(system, "zhan")
    start = (recipe.encoder, recipe.epochs, recipe.validation)
    assert start == ("google-bert/bert-base-uncased", 50, None)
    if system == "bi-encoder":
        assert (recipe.negatives, recipe.batch_size) == ("random", 1024)
        assert recipe.batch_size * recipe.negatives_per_query // recipe.accumulate == 1024
    elif system == "monobert":
        assert (recipe.loss, recipe.search.depth) == ("softmax", 1000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": None}, "needs either steps or epochs, not both"),
        ({"steps": None, "epochs": 0}, "epochs: Input should be greater than 0"),
        ({"negatives": 7}, "unknown name 7 .one of: bm25, random, mined"),
        ({"negatives_depth": None}, "negatives: 'bm25' needs negatives_depth, the last rank"),
        ({"teacher_loss": "mse"}, "teacher_loss: unknown name 'mse' .one of: margin-mse, kl"),
        ({"negatives_refreshes": 0}, "negatives_refreshes: Input should be greater than 0"),
        ({"steps": 10.5}, "steps: expected a whole number, found 10.5"),
        ({"normalize": 1}, "normalize: expected true or false, found a number"),
        ({"learning_rate": "1e-3"}, "learning_rate: expected a number, found a text"),
        ({"negatives_per_query": 0}, "negatives_per_query: Input should be greater than 0"),
        ({"seed": -1}, "seed: Input should be greater than or equal to 0"),
        ({"seed": 2**32}, "seed: Input should be less than 4294967296"),
        ({"adam_beta2": -0.1}, "adam_beta2: Input should be greater than or equal to 0"),
        ({"max_gradient_norm": -1}, "max_gradient_norm: Input should be greater than or equal"),
        ({"pooling": "max"}, "pooling: unknown name 'max'"),
        ({"random": {"hidden": 10, "heads": 3}}, "hidden: must be a multiple of heads 3, got 10"),
        ({"random": {"dropout": 1}}, "random.dropout: Input should be less than 1"),
        # Fields of other systems, and what the shape of a reranker does not allow.
        ({"query_flops": 0.1}, "query_flops: there is no such field"),
        ({"system": "splade", "dimensions": 8}, "dimensions: there is no such field"),
        ({"system": "colbert", "loss": "binary"}, "loss: there is no such field"),
        ({"system": "monobert", "pooling": "cls"}, "pooling: there is no such field"),
        ({"system": "duet", "pooled": 39}, "pooled: must be at most 38, .* = 40 words, got 39"),
        ({"system": "pacrr", "kept": 41}, "kept: must be at most passage_length = 40, got 41"),
        ({"system": "monot5", "random": {"matching": True}}, "matching is true; .* a T5 does not"),
    ],
)
def test_an_error_names_the_file_and_the_key(load: Make, changes: Values, message: str) -> None:
    with pytest.raises(UsageError, match=rf"mine\.toml(:\d+:|:)? (?s:.*){message}"):
        load(**changes)


def test_the_title_of_a_recipe_is_its_first_comment_up_to_a_colon() -> None:
    for text, about in (
        ("# A small one,\n# for tests: quick.\nsteps = 3\n", "A small one, for tests"),
        ("# Only comments", "Only comments"),
        ("steps = 3\n# too late\n", ""),
    ):
        assert RecipeFile("mine", "mine.toml", text).about == about


WRONG: dict[str, Any] = {
    "stpes": 10, "schedule": "liner", "seed": None, "batch_size": 1, "adam_beta1": 1.0,
    "search": {"depth": 0, "color": 3}, "validation": {"every": -1, "queries": True},
}  # fmt: skip
OF_WRONG = [
    "batch_size: Input should be greater than or equal to 2 (found 1)",
    "schedule: unknown name 'liner'; did you mean 'linear'? (one of: con",
    "search.color: there is no such field (one of: depth, batch_size, ind",
    "search.depth: Input should be greater than 0",
    "stpes: there is no such field; did you mean 'steps'?",
    "validation.every: Input should be greater than 0",
    "validation.queries: expected a whole number, found true or false",
    "validation.depth: is missing",
    "validation.patience: is missing",
    "seed: is missing",
    "adam_beta1: Input should be less than 1",
]
BROKEN = {"negatives_pool": 3, "negatives_per_query": 2, "accumulate": 3, "epochs": 1}
OF_BROKEN = [
    "steps: a recipe needs either steps or epochs",
    "batch_size: must be a multiple of accumulate 3, got 8",
    "negatives_pool: must be a multiple of negatives_per_query 2, got 3",
]


@pytest.mark.parametrize(("changes", "expected"), [(WRONG, OF_WRONG), (BROKEN, OF_BROKEN)])
def test_all_errors_are_listed_with_their_lines(
    load: Make, changes: Values, expected: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        load(**changes)
    head, *messages = str(caught.value).splitlines()
    path = head.removesuffix(f" contains {len(expected)} errors:")
    lines = [line.partition(" = ")[0] for line in Path(path).read_text().splitlines()]
    assert len(messages) == len(expected)
    for message in expected:
        key = message.partition(":")[0].partition(".")[0]
        where = f":{1 + lines.index(key)}" if key in lines else ""
        assert any(line.startswith(f"  {path}{where}: {message}") for line in messages), message


def test_steps_of_epochs(load: Make) -> None:
    recipe = load(steps=None, epochs=3)
    assert [recipe.steps_of(examples) for examples in (1, 8, 9, 80)] == [1, 3, 4, 30]
    assert load().steps_of(1_000_000) == 7


def test_defaults_of_newer_keys_do_not_change_digests(load: Make) -> None:
    later = {"negatives_refreshes", "teacher", "teacher_loss", "teacher_scale", "judgement_weight"}
    plain = load().parameters()
    assert not later & plain.keys()
    assert load(teacher_loss="margin-mse").digest() == load().digest()
    taught, same = (load(teacher="bm25", teacher_scale=scale) for scale in (2, 2.0))
    assert taught.parameters() == {**plain, "teacher": "bm25", "teacher_scale": 2.0}
    assert taught.digest() == same.digest()


def test_files_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    with pytest.raises(NotFoundError, match=r"no recipe .*bad\.toml"):
        open_system("bi-encoder", path)
    for content, reason in (
        (b"steps = = 3", r":1: Invalid value"),
        (b"\xff\xfe", " must be UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=rf"bad\.toml{reason}"):
            open_system("bi-encoder", path)
    with pytest.raises(UnknownNameError, match="recipe of bi-encoder 'mni': did you mean 'mini'"):
        open_system("bi-encoder", "mni")


def test_changes_are_checked_as_a_file_is() -> None:
    mini: Any = partial(open_system, "bi-encoder", "mini")
    plain = mini()
    assert mini({"encoder": "random"}) == plain
    changed = mini({"encoder": "some/model", "seed": 0, "precision": "bf16", "search.depth": 7})
    values = (changed.encoder, changed.random, changed.seed, changed.search.depth)
    assert values == ("some/model", None, 0, 7)
    assert (changed.steps, changed.precision) == (plain.steps, "bf16")
    assert changed.search.batch_size == plain.search.batch_size
    epochs = mini({"epochs": 2})
    assert (epochs.steps, epochs.epochs) == (None, 2)
    with pytest.raises(UsageError, match=r"needs a table \[random\]"):
        open_system("bi-encoder", "pool", {"encoder": "random"})
    for changes, said in (
        ({"learning_rate": math.nan}, "the recipe: learning_rate: Input should be a finite number"),
        ({"search.depth": 0}, r"the recipe: search.depth: Input should"),
        ({"depth": 7}, "'depth': did you mean 'search"),
        ({"depth": 7, "sede": 1}, "2 unknown fields of "),
    ):
        with pytest.raises(UsageError, match=said):
            mini(changes)
