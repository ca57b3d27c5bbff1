from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.tiny_recipes import tiny_recipe
from msshift_bench.baselines.architecture import Architecture
from msshift_bench.baselines.biencoder import BiEncoder, BiEncoderRecipe
from msshift_bench.baselines.colbert import ColBert, ColBertRecipe, ColBertSearch
from msshift_bench.baselines.monobert import MonoBert, MonoBertRecipe
from msshift_bench.baselines.recipe import EarlyStopping, RandomEncoder, SearchSettings
from msshift_bench.baselines.recipe_files import (
    RecipeFile,
    load_recipe,
    parse_recipe,
    recipe_names,
)
from msshift_bench.baselines.registry import ARCHITECTURES
from msshift_bench.baselines.splade import Splade, SpladeRecipe
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError

Write = Callable[..., Path]

SYSTEMS: list[Architecture[Any]] = [BiEncoder(), Splade(), ColBert(), MonoBert()]
RECIPES = [
    pytest.param(system, name, id=f"{system.name}-{name}")
    for system in SYSTEMS
    for name in recipe_names(system.name)
]

GOOD = """
encoder = "some/encoder"
pooling = "cls"
normalize = false
query_length = 32
passage_length = 128
batch_size = 8
accumulate = 2
steps = 10
learning_rate = 1e-3
warmup_steps = 0
schedule = "linear"
weight_decay = 0
adam_beta1 = 0.9
adam_beta2 = 0.999
adam_epsilon = 1e-8
max_gradient_norm = 1
loss_scale = 1
negatives = "bm25"
negatives_per_query = 1
negatives_pool = 4
negatives_depth = 100
seed = 3
precision = "fp32"
checkpoint_every = 5
search = {depth = 100, batch_size = 16}
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(**changes: str | None) -> Path:
        """Write the good recipe with some lines changed, added or (`None`) left out."""
        lines = dict(line.split(" = ", 1) for line in GOOD.split("\n") if line)
        lines.update({key: value for key, value in changes.items() if value is not None})
        for key in [key for key, value in changes.items() if value is None]:
            del lines[key]
        path = tmp_path / "mine.toml"
        path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        return path

    return write


def load(path: str | Path) -> BiEncoderRecipe:
    return load_recipe(BiEncoderRecipe, "bi-encoder", path)


@pytest.mark.parametrize(("system", "name"), RECIPES)
def test_the_recipes_that_come_along_load(system: Architecture[Any], name: str) -> None:
    recipe = load_recipe(system.recipe_type, system.name, name)
    assert type(recipe) is system.recipe_type
    assert json.loads(json.dumps(recipe.parameters())) == recipe.parameters()
    # What decides a run, and whether another process may go on with it, is in its parameters.
    optimizer = {"adam_beta1", "adam_beta2", "adam_epsilon", "max_gradient_norm"}
    assert optimizer <= recipe.parameters().keys()


@pytest.mark.parametrize("system", [Splade(), MonoBert()], ids=["splade", "monobert"])
def test_the_lexical_prior_is_all_that_no_prior_lacks(system: Architecture[Any]) -> None:
    mini, without = (
        load_recipe(system.recipe_type, system.name, name).parameters()
        for name in ("mini", "mini-no-prior")
    )
    assert mini["random"].pop("matching") is True
    assert without["random"].pop("matching") is False
    assert without == mini


def test_every_system_has_its_recipes() -> None:
    for system in SYSTEMS:
        assert {"mini", "pool", "paper", "zhan"} <= set(recipe_names(system.name))
    assert recipe_names("no-such-system") == ()


KINDS = [
    BiEncoderRecipe, SpladeRecipe, ColBertRecipe, MonoBertRecipe, SearchSettings, ColBertSearch,
    RandomEncoder, EarlyStopping,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_documented(kind: type) -> None:
    text = "\n".join(base.__doc__ or "" for base in kind.__mro__)
    documented = {line.split(":")[0].strip() for line in text.split("\n")}
    assert {item.name for item in fields(kind)} <= documented


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_fields_of_other_systems_are_refused(system: Architecture[Any], tmp_path: Path) -> None:
    foreign = {
        "pooling": '"cls"', "query_flops": "0.1", "dimensions": "8", "loss": '"binary"',
    }  # fmt: skip
    own = {item.name for item in fields(system.recipe_type)}
    good = (files("msshift_bench.baselines") / "recipes" / f"{system.name}-mini.toml").read_text()
    assert len(foreign.keys() - own) == 3
    for name in foreign.keys() - own:
        path = tmp_path / "mine.toml"
        path.write_text(f"{name} = {foreign[name]}\n{good}")
        with pytest.raises(UsageError, match=f"unknown key of the recipe '{name}'"):
            load_recipe(system.recipe_type, system.name, path)


def test_whole_numbers_do_for_floats(write: Write) -> None:
    recipe = load(write())
    assert (recipe.weight_decay, recipe.loss_scale, recipe.seed) == (0.0, 1.0, 3)
    assert isinstance(recipe.loss_scale, float)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stpes": "10"}, "unknown key of the recipe 'stpes': did you mean 'steps'"),
        ({"batch_size": None, "seed": None}, "the recipe lacks batch_size, seed"),
        ({"steps": None}, "how long to train by either steps or epochs"),
        ({"epochs": "3"}, "how long to train by either steps or epochs"),
        ({"steps": None, "epochs": "0"}, "epochs is 0; it must be 1 or more"),
        ({"negatives": "7"}, 'write negatives = "bm25" and negatives_per_query = 7'),
        ({"negatives": '"randon"'}, "unknown negatives 'randon': did you mean 'random'"),
        ({"negatives_depth": None}, "negatives is 'bm25'; say with negatives_depth how far down"),
        ({"negatives": '"minde"'}, "unknown negatives 'minde': did you mean 'mined'"),
        ({"teacher": "7"}, "teacher is 7; it must be of type str"),
        ({"teacher_loss": '"mse"'}, "unknown teacher_loss 'mse': valid are margin-mse, kl"),
        ({"negatives_refreshes": "0"}, "negatives_refreshes is 0; it must be 1 or more"),
        ({"steps": '"many"'}, "steps is 'many'; it must be of type int"),
        ({"steps": "10.5"}, "steps is 10.5; it must be of type int"),
        ({"steps": "true"}, "steps is True; it must be of type int"),
        ({"normalize": "1"}, "normalize is 1; it must be of type bool"),
        ({"learning_rate": '"1e-3"'}, "learning_rate is '1e-3'; it must be of type float"),
        ({"learning_rate": "nan"}, "learning_rate is nan; it must be 0 or more"),
        ({"batch_size": "1"}, "batch_size is 1; it must be 2 or more"),
        ({"negatives_per_query": "0"}, "negatives_per_query is 0; it must be 1 or more"),
        ({"seed": "-1"}, "seed is -1; it must be 0 or more"),
        ({"adam_epsilon": None}, "the recipe lacks adam_epsilon"),
        ({"adam_beta1": "1.0"}, "adam_beta1 is 1.0; it must be below 1"),
        ({"seed": "4294967296"}, "seed is 4294967296; it must be 4294967295 or less"),
        ({"adam_beta2": "-0.1"}, "adam_beta2 is -0.1; it must be 0 or more"),
        ({"max_gradient_norm": "-1"}, "max_gradient_norm is -1.0; it must be 0 or more"),
        ({"pooling": '"max"'}, "unknown pooling 'max'"),
        ({"schedule": '"liner"'}, "unknown schedule 'liner': did you mean 'linear'"),
        ({"precision": '"fp8"'}, "unknown precision 'fp8'"),
        ({"encoder": '"random"'}, r"a table \[random\] goes with encoder = 'random'"),
        ({"random": "3"}, "random is 3; it must be a table"),
        ({"random": "{layers = 1}"}, r"the \[random\] lacks hidden, heads, inner, vocabulary"),
        ({"search": "{depth = 0, batch_size = 1}"}, "depth is 0; it must be 1 or more"),
        (
            {"search": '{depth = 5, batch_size = 1, approximate = "ivf", storage = "float16"}'},
            "storage = 'float16' is of exact search; approximate search knows none",
        ),
        ({"search": "{depth = 5, candidates = 1}"}, r"key of the \[search\] 'candidates'"),
        ({"validation": "{every = 10}"}, r"the \[validation\] lacks queries, depth, patience"),
        ({"accumulate": "3"}, "batch_size is 8, which is no multiple of accumulate 3"),
        (
            {"negatives_per_query": "3"},
            "negatives_pool is 4, which is no multiple of negat",
        ),
        (
            {
                "encoder": '"random"',
                "random": "{layers=1, initial=1, matching=true, "
                "hidden=10, heads=3, inner=4, vocabulary=500, dropout=0}",
            },
            "hidden is 10, which is no multiple of heads 3",
        ),
        (
            {
                "encoder": '"random"',
                "random": "{layers=1, initial=1, matching=true, "
                "hidden=8, heads=2, inner=4, vocabulary=500, dropout=1}",
            },
            "dropout is 1.0; it must be below 1",
        ),
    ],
)
def test_what_is_wrong_is_named_with_the_file(
    write: Write, changes: dict[str, str | None], message: str
) -> None:
    path = write(**changes)
    with pytest.raises(UsageError, match=rf"mine\.toml(:\d+)?: .*{message}"):
        load(path)


@pytest.mark.parametrize(
    ("system", "changes", "message"),
    [
        ("duet", {"pooled": 39}, "pooled is 39; at most 38 runs of 3 words .* passage_length = 40"),
        ("pacrr", {"kept": 41}, "kept is 41; .* no more than passage_length = 40 values"),
        ("monot5", {"random": {"matching": True}}, "matching is true; .* a T5 does not have"),
    ],
)
def test_what_a_reranker_s_shape_does_not_allow_is_refused(
    system: str, changes: dict[str, Any], message: str
) -> None:
    kind = ARCHITECTURES[system].recipe_type
    assert parse_recipe(kind, RecipeFile("tiny", "tiny.toml", tiny_recipe(system)))
    with pytest.raises(UsageError, match=rf"tiny\.toml(:\d+)?: {message}"):
        parse_recipe(kind, RecipeFile("tiny", "tiny.toml", tiny_recipe(system, **changes)))


def test_a_recipe_is_about_what_its_first_lines_say_up_to_a_colon() -> None:
    for text, about in (
        ("# A small one,\n# for tests: quick.\nsteps = 3\n", "A small one, for tests"),
        ("# Only comments", "Only comments"),
        ("steps = 3\n# too late\n", ""),
    ):
        assert RecipeFile("mine", "mine.toml", text).about == about


def test_all_that_is_wrong_is_said_at_once(write: Write) -> None:
    """Each with its line; rules on several fields as well, where each of the fields is right."""
    path = write(
        stpes="10", schedule='"liner"', seed=None, batch_size="1", negatives_per_query="3",
        adam_beta1="1.5", search="{depth = 0, batch_size = 1, color = 3}",
    )  # fmt: skip
    with path.open("a") as appending:
        appending.write("[validation]\nevery = -1\nqueries = true\n")
    with pytest.raises(UsageError) as caught:
        load(path)
    lines = {line.split(" = ")[0]: n for n, line in enumerate(path.read_text().splitlines(), 1)}
    head, *said = str(caught.value).splitlines()
    assert head == f"{path} holds 11 errors:"
    expected = [
        ("batch_size", "batch_size is 1; it must be 2 or more"),
        ("schedule", "unknown schedule 'liner': did you mean 'linear'? valid are constant, linear"),
        ("search", "unknown key of the [search] 'color'"),
        ("search", "depth is 0; it must be 1 or more"),
        ("stpes", "unknown key of the recipe 'stpes': did you mean 'steps'?"),
        ("every", "every is -1; it must be 1 or more"),
        ("queries", "queries is True; it must be of type int"),
        ("[validation]", "the [validation] lacks depth, patience"),
        ("", "the recipe lacks seed"),
        ("negatives_pool", "negatives_pool is 4, which is no multiple of negatives_per_query 3"),
        ("adam_beta1", "adam_beta1 is 1.5; it must be below 1"),
    ]
    for key, message in expected:
        where = f":{lines[key]}" if key else ""
        assert any(line.startswith(f"  {path}{where}: {message}") for line in said), message
    assert len(said) == len(expected)


def test_a_recipe_made_in_python_says_all_at_once_too() -> None:
    with pytest.raises(UsageError, match=r"layers is 0; it must .*; hidden is 5, which is no mult"):
        RandomEncoder(layers=0, hidden=5, heads=2, inner=4, vocabulary=500, dropout=0)


def test_epochs_are_steps_of_what_there_is(write: Write) -> None:
    recipe = load(write(steps=None, epochs="3"))
    assert [recipe.steps_of(examples) for examples in (1, 8, 9, 80)] == [1, 3, 4, 30]
    assert load(write()).steps_of(1_000_000) == 10


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_the_recipes_of_zhan(system: Architecture[Any]) -> None:
    """CIKM 2022, section 5.1.2."""
    recipe = load_recipe(system.recipe_type, system.name, "zhan")
    assert (recipe.encoder, recipe.epochs) == ("google-bert/bert-base-uncased", 50)
    assert recipe.validation is None
    if system.name == "bi-encoder":
        assert (recipe.negatives, recipe.batch_size) == ("random", 1024)
        assert recipe.batch_size * recipe.negatives_per_query // recipe.accumulate == 1024
    elif system.name == "monobert":
        assert (recipe.loss, recipe.search.depth) == ("softmax", 1000)


def test_what_recipes_had_not_at_first_leaves_their_digests_as_they_were(write: Write) -> None:
    plain = load(write()).parameters()
    assert (
        not {"negatives_refreshes", "teacher", "teacher_loss", "teacher_scale", "judgement_weight"}
        & plain.keys()
    )
    assert load(write(teacher_loss='"margin-mse"')).digest() == load(write()).digest()
    taught = load(write(teacher='"bm25"', teacher_scale="2")).parameters()
    assert taught == {**plain, "teacher": "bm25", "teacher_scale": 2.0}


def test_random_negatives_need_no_depth(write: Write) -> None:
    recipe = load(write(negatives='"random"', negatives_depth=None))
    assert (recipe.negatives, recipe.negatives_depth) == ("random", None)


def test_files_that_are_no_recipe(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no recipe .*none\.toml"):
        load(tmp_path / "none.toml")
    path = tmp_path / "bad.toml"
    path.write_text("steps = = 3")
    with pytest.raises(UsageError, match=r"bad\.toml is not TOML: .*line 1"):
        load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"bad\.toml is not UTF-8"):
        load(path)


def test_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="recipe of bi-encoder 'mni': did you mean 'mini'"):
        load("mni")


def test_what_the_command_line_replaces() -> None:
    mini = load("mini")
    assert mini.changed() == mini
    assert mini.changed(encoder="random") == mini
    changed = mini.changed(encoder="some/encoder", seed=0, precision="bf16", depth=7)
    assert (changed.encoder, changed.random, changed.seed, changed.search.depth) == (
        "some/encoder", None, 0, 7,
    )  # fmt: skip
    assert (changed.steps, changed.precision) == (mini.steps, "bf16")
    with pytest.raises(UsageError, match=r"table \[random\] goes with"):
        load("pool").changed(encoder="random")
