from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.rerankers.reranker import MonoBert
from msshift_bench.baselines.retrievers.biencoder import BiEncoder
from msshift_bench.baselines.retrievers.colbert import ColBert, ColBertSearch
from msshift_bench.baselines.retrievers.splade import Splade
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.systems.recipe import (
    EarlyStopping,
    RandomEncoder,
    RecipeFile,
    SearchSettings,
    Table,
    parse_recipe,
    read_changes,
    recipe_names,
)
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError
from tests.support.tiny_recipes import tiny_recipe

Write = Callable[..., Path]

SYSTEMS: list[type[Neural]] = [BiEncoder, Splade, ColBert, MonoBert]
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


def load(path: str | Path) -> BiEncoder:
    return open_system("bi-encoder", path)


@pytest.mark.parametrize(("system", "name"), RECIPES)
def test_the_recipes_that_come_along_load(system: type[Neural], name: str) -> None:
    recipe = open_system(system.name, name)
    assert type(recipe) is system
    assert json.loads(json.dumps(recipe.parameters())) == recipe.parameters()
    # What decides a run, and whether another process may go on with it, is in its parameters.
    optimizer = {"adam_beta1", "adam_beta2", "adam_epsilon", "max_gradient_norm"}
    assert optimizer <= recipe.parameters().keys()


@pytest.mark.parametrize("system", [Splade, MonoBert], ids=["splade", "monobert"])
def test_the_lexical_prior_is_all_that_no_prior_lacks(system: type[Neural]) -> None:
    mini, without = (
        open_system(system.name, name).parameters() for name in ("mini", "mini-no-prior")
    )
    assert mini["random"].pop("matching") is True
    assert without["random"].pop("matching") is False
    assert without == mini


def test_every_system_has_its_recipes() -> None:
    for system in SYSTEMS:
        assert {"mini", "pool", "paper", "zhan"} <= set(recipe_names(system.name))
    assert recipe_names("no-such-system") == ()


KINDS = [
    BiEncoder, Splade, ColBert, MonoBert, SearchSettings, ColBertSearch,
    RandomEncoder, EarlyStopping,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_documented(kind: type[Table]) -> None:
    text = "\n".join(base.__doc__ or "" for base in kind.__mro__)
    documented = {line.split(":")[0].strip() for line in text.split("\n")}
    assert {*kind.model_fields} <= documented


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_fields_of_other_systems_are_refused(system: type[Neural], tmp_path: Path) -> None:
    foreign = {
        "pooling": '"cls"', "query_flops": "0.1", "dimensions": "8", "loss": '"binary"',
    }  # fmt: skip
    own = {*system.model_fields}
    good = (files("msshift_bench.baselines") / "recipes" / f"{system.name}-mini.toml").read_text()
    assert len(foreign.keys() - own) == 3
    for name in foreign.keys() - own:
        path = tmp_path / "mine.toml"
        path.write_text(f"{name} = {foreign[name]}\n{good}")
        with pytest.raises(UsageError, match=f"{name}: there is no such field"):
            open_system(system.name, path)


def test_whole_numbers_do_for_floats(write: Write) -> None:
    recipe = load(write())
    assert (recipe.weight_decay, recipe.loss_scale, recipe.seed) == (0.0, 1.0, 3)
    assert isinstance(recipe.loss_scale, float)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stpes": "10"}, "stpes: there is no such field; did you mean 'steps'"),
        ({"batch_size": None}, "batch_size: is missing"),
        ({"steps": None}, "how long to train by either steps or epochs"),
        ({"epochs": "3"}, "how long to train by either steps or epochs"),
        ({"steps": None, "epochs": "0"}, "epochs: Input should be greater than 0"),
        ({"negatives": "7"}, "unknown name 7 .one of: bm25, random, mined"),
        ({"negatives": '"randon"'}, "negatives: unknown name 'randon'; did you mean 'random'"),
        ({"negatives_depth": None}, "negatives: 'bm25' needs negatives_depth, how far down"),
        ({"negatives": '"minde"'}, "negatives: unknown name 'minde'; did you mean 'mined'"),
        ({"teacher": "7"}, "teacher: expected a text, found a number"),
        ({"teacher_loss": '"mse"'}, "teacher_loss: unknown name 'mse' .one of: margin-mse, kl"),
        ({"negatives_refreshes": "0"}, "negatives_refreshes: Input should be greater than 0"),
        ({"steps": '"many"'}, "steps: expected a whole number, found a text"),
        ({"steps": "10.5"}, "steps: expected a whole number, found 10.5"),
        ({"steps": "true"}, "steps: expected a whole number, found true or false"),
        ({"normalize": "1"}, "normalize: expected true or false, found a number"),
        ({"learning_rate": '"1e-3"'}, "learning_rate: expected a number, found a text"),
        ({"learning_rate": "nan"}, "learning_rate: Input should be a finite number"),
        ({"batch_size": "1"}, "batch_size: Input should be greater than or equal to 2"),
        ({"negatives_per_query": "0"}, "negatives_per_query: Input should be greater than 0"),
        ({"seed": "-1"}, "seed: Input should be greater than or equal to 0"),
        ({"adam_epsilon": None}, "adam_epsilon: is missing"),
        ({"adam_beta1": "1.0"}, "adam_beta1: Input should be less than 1"),
        ({"seed": "4294967296"}, "seed: Input should be less than 4294967296"),
        ({"adam_beta2": "-0.1"}, "adam_beta2: Input should be greater than or equal to 0"),
        ({"max_gradient_norm": "-1"}, "max_gradient_norm: Input should be greater than or equal"),
        ({"pooling": '"max"'}, "pooling: unknown name 'max'"),
        ({"schedule": '"liner"'}, "schedule: unknown name 'liner'; did you mean 'linear'"),
        ({"precision": '"fp8"'}, "precision: unknown name 'fp8'"),
        ({"encoder": '"random"'}, r"a table \[random\] goes with encoder = 'random'"),
        ({"random": "3"}, "random: expected a table, found a number"),
        ({"random": "{layers = 1}"}, r"holds 5 errors:\n.*:26: random.hidden: is missing"),
        ({"search": "{depth = 0, batch_size = 1}"}, "search.depth: Input should be greater than 0"),
        (
            {"search": '{depth = 5, batch_size = 1, index_parameters = "nprobe=3"}'},
            "search.index_parameters: it is of an index; exact search knows none",
        ),
        (
            {"search": "{depth = 5, candidates = 1}"},
            "search.candidates: there is no such",
        ),
        ({"validation": "{every = 10}"}, r"holds 3 errors:\n.*:26: validation.queries: is missing"),
        ({"accumulate": "3"}, "batch_size: 8 is no multiple of accumulate 3"),
        (
            {"negatives_per_query": "3"},
            "negatives_pool: 4 is no multiple of negatives_per_query 3",
        ),
        (
            {
                "encoder": '"random"',
                "random": "{layers=1, initial=1, matching=true, "
                "hidden=10, heads=3, inner=4, vocabulary=500, dropout=0}",
            },
            "random.hidden: 10 is no multiple of heads 3",
        ),
        (
            {
                "encoder": '"random"',
                "random": "{layers=1, initial=1, matching=true, "
                "hidden=8, heads=2, inner=4, vocabulary=500, dropout=1}",
            },
            "random.dropout: Input should be less than 1",
        ),
    ],
)
def test_what_is_wrong_is_named_with_the_file(
    write: Write, changes: dict[str, str | None], message: str
) -> None:
    path = write(**changes)
    with pytest.raises(UsageError, match=rf"mine\.toml(:\d+:|:)? (?s:.*){message}"):
        load(path)


@pytest.mark.parametrize(
    ("system", "changes", "message"),
    [
        (
            "duet",
            {"pooled": 39},
            "pooled: it is 39; at most 38 runs of 3 words are in .* = 40",
        ),
        ("pacrr", {"kept": 41}, "kept: it is 41; .* no more than passage_length = 40 values"),
        (
            "monot5",
            {"random": {"matching": True}},
            "random: matching is true; .* a T5 does not",
        ),
    ],
)
def test_what_a_reranker_s_shape_does_not_allow_is_refused(
    system: str, changes: dict[str, Any], message: str
) -> None:
    kind = neural_systems()[system]
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
    path = write(
        stpes="10", schedule='"liner"', seed=None, batch_size="1", adam_beta1="1.5",
        search="{depth = 0, batch_size = 1, color = 3}",
    )  # fmt: skip
    with path.open("a") as appending:
        appending.write("[validation]\nevery = -1\nqueries = true\n")
    with pytest.raises(UsageError) as caught:
        load(path)
    lines = {line.split(" = ")[0]: n for n, line in enumerate(path.read_text().splitlines(), 1)}
    head, *messages = str(caught.value).splitlines()
    assert head == f"{path} holds 11 errors:"
    expected = [
        ("batch_size", "batch_size: Input should be greater than or equal to 2 (found 1)"),
        ("schedule", "schedule: unknown name 'liner'; did you mean 'linear'? (one of: constant, l"),
        ("search", "search.color: there is no such field (one of: depth, batch_size, index,"),
        ("search", "search.depth: Input should be greater than 0"),
        ("stpes", "stpes: there is no such field; did you mean 'steps'?"),
        ("every", "validation.every: Input should be greater than 0"),
        ("queries", "validation.queries: expected a whole number, found true or false"),
        ("[validation]", "validation.depth: is missing"),
        ("[validation]", "validation.patience: is missing"),
        ("", "seed: is missing"),
        ("adam_beta1", "adam_beta1: Input should be less than 1"),
    ]
    for key, message in expected:
        where = f":{lines[key]}" if key else ""
        assert any(line.startswith(f"  {path}{where}: {message}") for line in messages), message
    assert len(messages) == len(expected)


def test_all_rules_that_are_broken_are_said_at_once(write: Write) -> None:
    path = write(negatives_pool="3", negatives_per_query="2", accumulate="3", epochs="1")
    with pytest.raises(UsageError, match="holds 3 errors") as caught:
        load(path)
    for message in (
        "8: steps: the recipe says how long",
        "6: batch_size: 8 is no multiple of accumulate 3",
        "20: negatives_pool: 3 is no multiple of negatives_per_query 2",
    ):
        assert f"{path}:{message}" in str(caught.value)


def test_what_is_changed_is_checked() -> None:
    with pytest.raises(UsageError, match=r"the recipe: search.depth: Input should"):
        load("mini").with_changes({"search.depth": 0})
    with pytest.raises(UsageError, match="the recipe: stpes: there is no such field; did you mean"):
        load("mini").changed(stpes=3)


def test_epochs_are_steps_of_what_there_is(write: Write) -> None:
    recipe = load(write(steps=None, epochs="3"))
    assert [recipe.steps_of(examples) for examples in (1, 8, 9, 80)] == [1, 3, 4, 30]
    assert load(write()).steps_of(1_000_000) == 10


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_the_recipes_of_zhan(system: type[Neural]) -> None:
    """CIKM 2022, section 5.1.2."""
    recipe = open_system(system.name, "zhan")
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
    with pytest.raises(UsageError, match=r"bad\.toml:1: Invalid value"):
        load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"bad\.toml is not UTF-8"):
        load(path)


def test_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="recipe of bi-encoder 'mni': did you mean 'mini'"):
        load("mni")


def test_what_set_replaces() -> None:
    mini = load("mini")
    assert mini.with_changes({}) == mini
    assert mini.with_changes({"encoder": "random"}) == mini
    values = {"encoder": "some/encoder", "seed": 0, "precision": "bf16", "search.depth": 7}
    changed = mini.with_changes(values)
    assert (changed.encoder, changed.random, changed.seed, changed.search.depth) == (
        "some/encoder", None, 0, 7,
    )  # fmt: skip
    assert (changed.steps, changed.precision) == (mini.steps, "bf16")
    assert changed.search.batch_size == mini.search.batch_size
    epochs = mini.with_changes({"epochs": 2})
    assert (epochs.steps, epochs.epochs) == (None, 2)
    with pytest.raises(UsageError, match=r"table \[random\] goes with"):
        load("pool").with_changes({"encoder": "random"})
    with pytest.raises(UnknownNameError, match="'depth': did you mean 'search"):
        mini.with_changes({"depth": 7})
    with pytest.raises(UsageError, match="does not have 2 of these fields:"):
        mini.with_changes({"depth": 7, "sede": 1})


def test_values_are_read_as_toml_and_what_is_none_as_a_text() -> None:
    settings = ["seed=3", "k1 = 0.9", "a.b=true", "c=[1, 2]", "d=some/model", 'e="3"', "f=x=y"]
    assert read_changes(settings) == {
        "seed": 3, "k1": 0.9, "a.b": True, "c": [1, 2], "d": "some/model", "e": "3", "f": "x=y",
    }  # fmt: skip
    for wrong, message in (
        (["seed"], "--set is 'seed'; give KEY=VALUE"),
        (["=3"], "--set is '=3'"),
        (["seed="], "--set is 'seed='"),
        (["seed=1", "seed=2"], "--set names seed twice"),
    ):
        with pytest.raises(UsageError, match=message):
            read_changes(wrong)
