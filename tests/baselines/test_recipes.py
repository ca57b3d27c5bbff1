"""Recipes: those that come along, what a file of one's own may say, and how it is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import RecipeFile, find_systems, open_system, recipe_files
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError
from tests.support.tiny_recipes import NEURAL, tiny_recipe

Load = Callable[..., Any]

SYSTEMS = [*NEURAL, "monot5", "knrm", "duet", "pacrr"]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(system: str = "bi-encoder", **changes: Any) -> Any:
        """Open a system with the tiny recipe in a file, some of its keys changed or left out."""
        (tmp_path / "mine.toml").write_text(tiny_recipe(system, **changes))
        return open_system(system, tmp_path / "mine.toml")

    return load


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_recipes_that_come_along_load(system: str) -> None:
    names = [name.removeprefix(f"{system}-") for name in recipe_files() if name.startswith(system)]
    of_all = {"mini", "pool", "paper", "zhan"} if system in NEURAL else {"mini"}
    assert of_all <= {*names}
    for name in names:
        recipe: Any = open_system(system, name)
        assert type(recipe) is find_systems()[system]
        parameters = recipe.parameters()
        assert json.loads(json.dumps(parameters)) == parameters
        # What decides a run, and whether another process may go on with it, is in its parameters.
        optimizer = {"adam_beta1", "adam_beta2", "adam_epsilon", "max_gradient_norm"}
        assert optimizer <= parameters.keys()


@pytest.mark.parametrize("system", ["splade", "monobert"])
def test_the_lexical_prior_is_all_that_no_prior_lacks(system: str) -> None:
    mini, without = (open_system(system, name).parameters() for name in ("mini", "mini-no-prior"))
    assert mini["random"].pop("matching") is True
    assert without["random"].pop("matching") is False
    assert without == mini


@pytest.mark.parametrize("system", NEURAL)
def test_the_recipes_of_zhan(system: str) -> None:
    """CIKM 2022, section 5.1.2."""
    recipe: Any = open_system(system, "zhan")
    assert (recipe.encoder, recipe.epochs) == ("google-bert/bert-base-uncased", 50)
    assert recipe.validation is None
    if system == "bi-encoder":
        assert (recipe.negatives, recipe.batch_size) == ("random", 1024)
        assert recipe.batch_size * recipe.negatives_per_query // recipe.accumulate == 1024
    elif system == "monobert":
        assert (recipe.loss, recipe.search.depth) == ("softmax", 1000)


FOREIGN = {"pooling": "cls", "query_flops": 0.1, "dimensions": 8, "loss": "binary"}


@pytest.mark.parametrize("system", NEURAL)
def test_fields_of_other_systems_are_refused(system: str, load: Load) -> None:
    foreign = {name for name in FOREIGN if name not in find_systems()[system].model_fields}
    assert len(foreign) == 3
    for name in foreign:
        with pytest.raises(UsageError, match=f"{name}: there is no such field"):
            load(system, **{name: FOREIGN[name]})


def test_whole_numbers_do_for_floats(load: Load) -> None:
    recipe = load(weight_decay=0, loss_scale=1, seed=3)
    assert (recipe.weight_decay, recipe.loss_scale, recipe.seed) == (0.0, 1.0, 3)
    assert isinstance(recipe.loss_scale, float)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": None}, "batch_size: is missing"),
        ({"steps": None}, "how long to train by either steps or epochs"),
        ({"steps": None, "epochs": 0}, "epochs: Input should be greater than 0"),
        ({"negatives": 7}, "unknown name 7 .one of: bm25, random, mined"),
        ({"negatives": "randon"}, "negatives: unknown name 'randon'; did you mean 'random'"),
        ({"negatives_depth": None}, "negatives: 'bm25' needs negatives_depth, how far down"),
        ({"teacher": 7}, "teacher: expected a text, found a number"),
        ({"teacher_loss": "mse"}, "teacher_loss: unknown name 'mse' .one of: margin-mse, kl"),
        ({"negatives_refreshes": 0}, "negatives_refreshes: Input should be greater than 0"),
        ({"steps": "many"}, "steps: expected a whole number, found a text"),
        ({"steps": 10.5}, "steps: expected a whole number, found 10.5"),
        ({"steps": True}, "steps: expected a whole number, found true or false"),
        ({"normalize": 1}, "normalize: expected true or false, found a number"),
        ({"learning_rate": "1e-3"}, "learning_rate: expected a number, found a text"),
        ({"negatives_per_query": 0}, "negatives_per_query: Input should be greater than 0"),
        ({"seed": -1}, "seed: Input should be greater than or equal to 0"),
        ({"seed": 2**32}, "seed: Input should be less than 4294967296"),
        ({"adam_beta1": 1.0}, "adam_beta1: Input should be less than 1"),
        ({"adam_beta2": -0.1}, "adam_beta2: Input should be greater than or equal to 0"),
        ({"max_gradient_norm": -1}, "max_gradient_norm: Input should be greater than or equal"),
        ({"pooling": "max"}, "pooling: unknown name 'max'"),
        ({"precision": "fp8"}, "precision: unknown name 'fp8'"),
        ({"random": None}, r"a table \[random\] goes with encoder = 'random'"),
        ({"random": 3}, "random: expected a table, found a number"),
        ({"random": {"hidden": 10, "heads": 3}}, "random.hidden: 10 is no multiple of heads 3"),
        ({"random": {"dropout": 1}}, "random.dropout: Input should be less than 1"),
        ({"search": {"index_parameters": "nprobe=3"}}, "it is of an index; exact search knows no"),
        ({"search": {"candidates": 1}}, "search.candidates: there is no such"),
    ],
)
def test_what_is_wrong_is_named_with_the_file(
    load: Load, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=rf"mine\.toml(:\d+:|:)? (?s:.*){message}"):
        load(**changes)


@pytest.mark.parametrize(
    ("system", "changes", "message"),
    [
        ("duet", {"pooled": 39}, "pooled: it is 39; at most 38 runs of 3 words are in .* = 40"),
        ("pacrr", {"kept": 41}, "kept: it is 41; .* no more than passage_length = 40 values"),
        ("monot5", {"random": {"matching": True}}, "random: matching is true; .* a T5 does not"),
    ],
)
def test_what_a_reranker_s_shape_does_not_allow_is_refused(
    load: Load, system: str, changes: dict[str, Any], message: str
) -> None:
    assert load(system)
    with pytest.raises(UsageError, match=rf"mine\.toml(:\d+)?: {message}"):
        load(system, **changes)


def test_a_recipe_is_about_what_its_first_lines_say_up_to_a_colon() -> None:
    for text, about in (
        ("# A small one,\n# for tests: quick.\nsteps = 3\n", "A small one, for tests"),
        ("# Only comments", "Only comments"),
        ("steps = 3\n# too late\n", ""),
    ):
        assert RecipeFile("mine", "mine.toml", text).about == about


WRONG: dict[str, Any] = {
    "stpes": 10, "schedule": "liner", "seed": None, "batch_size": 1, "adam_beta1": 1.5,
    "search": {"depth": 0, "color": 3}, "validation": {"every": -1, "queries": True},
}  # fmt: skip
BROKEN = {"negatives_pool": 3, "negatives_per_query": 2, "accumulate": 3, "epochs": 1}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            WRONG,
            [
                ("batch_size", "batch_size: Input should be greater than or equal to 2 (found 1)"),
                ("schedule", "schedule: unknown name 'liner'; did you mean 'linear'? (one of: con"),
                ("search", "search.color: there is no such field (one of: depth, batch_size, ind"),
                ("search", "search.depth: Input should be greater than 0"),
                ("stpes", "stpes: there is no such field; did you mean 'steps'?"),
                ("validation", "validation.every: Input should be greater than 0"),
                ("validation", "validation.queries: expected a whole number, found true or false"),
                ("validation", "validation.depth: is missing"),
                ("validation", "validation.patience: is missing"),
                ("", "seed: is missing"),
                ("adam_beta1", "adam_beta1: Input should be less than 1"),
            ],
        ),
        (
            BROKEN,
            [
                ("steps", "steps: the recipe says how long"),
                ("batch_size", "batch_size: 8 is no multiple of accumulate 3"),
                ("negatives_pool", "negatives_pool: 3 is no multiple of negatives_per_query 2"),
            ],
        ),
    ],
)
def test_all_that_is_wrong_is_said_at_once_with_its_line(
    load: Load, tmp_path: Path, changes: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    path = tmp_path / "mine.toml"
    with pytest.raises(UsageError) as caught:
        load(**changes)
    lines = {line.split(" = ")[0]: n for n, line in enumerate(path.read_text().splitlines(), 1)}
    head, *messages = str(caught.value).splitlines()
    assert head == f"{path} holds {len(expected)} errors:"
    for key, message in expected:
        where = f":{lines[key]}" if key else ""
        assert any(line.startswith(f"  {path}{where}: {message}") for line in messages), message
    assert len(messages) == len(expected)


def test_epochs_are_steps_of_what_there_is(load: Load) -> None:
    recipe = load(steps=None, epochs=3)
    assert [recipe.steps_of(examples) for examples in (1, 8, 9, 80)] == [1, 3, 4, 30]
    assert load().steps_of(1_000_000) == 7


def test_what_recipes_had_not_at_first_leaves_their_digests_as_they_were(load: Load) -> None:
    later = {"negatives_refreshes", "teacher", "teacher_loss", "teacher_scale", "judgement_weight"}
    plain = load().parameters()
    assert not later & plain.keys()
    assert load(teacher_loss="margin-mse").digest() == load().digest()
    taught = load(teacher="bm25", teacher_scale=2).parameters()
    assert taught == {**plain, "teacher": "bm25", "teacher_scale": 2.0}


def test_random_negatives_need_no_depth(load: Load) -> None:
    recipe = load(negatives="random", negatives_depth=None)
    assert (recipe.negatives, recipe.negatives_depth) == ("random", None)


def test_files_that_are_no_recipe(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    with pytest.raises(NotFoundError, match=r"no recipe .*bad\.toml"):
        open_system("bi-encoder", path)
    for content, said in ((b"steps = = 3", r":1: Invalid value"), (b"\xff\xfe", " is not UTF-8")):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=rf"bad\.toml{said}"):
            open_system("bi-encoder", path)
    with pytest.raises(UnknownNameError, match="recipe of bi-encoder 'mni': did you mean 'mini'"):
        open_system("bi-encoder", "mni")


def test_what_set_replaces_is_checked_like_a_file() -> None:
    def mini(changes: dict[str, Any]) -> Any:
        return open_system("bi-encoder", "mini", changes)

    plain = mini({})
    assert mini({"encoder": "random"}) == plain
    changed = mini({"encoder": "some/model", "seed": 0, "precision": "bf16", "search.depth": 7})
    values = (changed.encoder, changed.random, changed.seed, changed.search.depth)
    assert values == ("some/model", None, 0, 7)
    assert (changed.steps, changed.precision) == (plain.steps, "bf16")
    assert changed.search.batch_size == plain.search.batch_size
    epochs = mini({"epochs": 2})
    assert (epochs.steps, epochs.epochs) == (None, 2)
    with pytest.raises(UsageError, match=r"table \[random\] goes with"):
        open_system("bi-encoder", "pool", {"encoder": "random"})
    for changes, said in (
        ({"learning_rate": math.nan}, "the recipe: learning_rate: Input should be a finite number"),
        ({"search.depth": 0}, r"the recipe: search.depth: Input should"),
        ({"depth": 7}, "'depth': did you mean 'search"),
        ({"depth": 7, "sede": 1}, "does not have 2 of these fields:"),
    ):
        with pytest.raises(UsageError, match=said):
            mini(changes)
