from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from msshift_bench.baselines.recipe import RandomEncoder, Recipe, load_recipe, recipe_names
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError

Write = Callable[..., Path]

GOOD = """
encoder = "some/encoder"
pooling = "cls"
normalize = false
query_length = 32
passage_length = 128
batch_size = 8
steps = 10
learning_rate = 1e-3
warmup_steps = 0
schedule = "linear"
weight_decay = 0
loss_scale = 1
negatives = 1
negatives_depth = 100
seed = 3
precision = "fp32"
checkpoint_every = 5
depth = 100
encode_batch_size = 16
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


@pytest.mark.parametrize("name", recipe_names("bi-encoder"))
def test_the_recipes_that_come_along_load(name: str) -> None:
    recipe = load_recipe("bi-encoder", name)
    assert json.loads(json.dumps(recipe.parameters())) == recipe.parameters()


def test_mini_and_pool_come_along() -> None:
    assert {"mini", "pool"} <= set(recipe_names("bi-encoder"))
    assert recipe_names("no-such-system") == ()


@pytest.mark.parametrize("kind", [Recipe, RandomEncoder])
def test_every_field_is_documented(kind: type) -> None:
    documented = {line.split(":")[0].strip() for line in (kind.__doc__ or "").split("\n")}
    assert {item.name for item in fields(kind)} <= documented


def test_whole_numbers_do_for_floats(write: Write) -> None:
    recipe = load_recipe("bi-encoder", write())
    assert (recipe.weight_decay, recipe.loss_scale, recipe.seed) == (0.0, 1.0, 3)
    assert isinstance(recipe.loss_scale, float)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stpes": "10"}, "unknown key of the recipe 'stpes': did you mean 'steps'"),
        ({"steps": None, "depth": None}, "the recipe lacks steps, depth"),
        ({"steps": '"many"'}, "steps is 'many'; it must be of type int"),
        ({"steps": "10.5"}, "steps is 10.5; it must be of type int"),
        ({"steps": "true"}, "steps is True; it must be of type int"),
        ({"normalize": "1"}, "normalize is 1; it must be of type bool"),
        ({"learning_rate": '"1e-3"'}, "learning_rate is '1e-3'; it must be of type float"),
        ({"learning_rate": "nan"}, "learning_rate is nan; it must be 0 or more"),
        ({"batch_size": "1"}, "batch_size is 1; it must be 2 or more"),
        ({"negatives": "0"}, "negatives is 0; it must be 1 or more"),
        ({"seed": "-1"}, "seed is -1; it must be 0 or more"),
        ({"pooling": '"max"'}, "unknown pooling 'max'"),
        ({"schedule": '"liner"'}, "unknown schedule 'liner': did you mean 'linear'"),
        ({"precision": '"fp8"'}, "unknown precision 'fp8'"),
        ({"encoder": '"random"'}, r"a table \[random\] goes with encoder = 'random'"),
        ({"random": "3"}, "random is 3; it must be a table"),
        ({"random": "{layers = 1}"}, r"the \[random\] lacks hidden, heads, inner, vocabulary"),
        (
            {
                "encoder": '"random"',
                "random": "{layers=1, hidden=10, heads=3, inner=4, vocabulary=500, dropout=0}",
            },
            "hidden is 10, which is no multiple of heads 3",
        ),
        (
            {
                "encoder": '"random"',
                "random": "{layers=1, hidden=8, heads=2, inner=4, vocabulary=500, dropout=1}",
            },
            "dropout is 1.0; it must be below 1",
        ),
    ],
)
def test_what_is_wrong_is_named_with_the_file(
    write: Write, changes: dict[str, str | None], message: str
) -> None:
    path = write(**changes)
    with pytest.raises(UsageError, match=rf"mine\.toml: .*{message}"):
        load_recipe("bi-encoder", path)


def test_files_that_are_no_recipe(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no recipe .*none\.toml"):
        load_recipe("bi-encoder", tmp_path / "none.toml")
    path = tmp_path / "bad.toml"
    path.write_text("steps = = 3")
    with pytest.raises(UsageError, match=r"bad\.toml is not TOML: .*line 1"):
        load_recipe("bi-encoder", path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"bad\.toml is not UTF-8"):
        load_recipe("bi-encoder", path)


def test_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="recipe of bi-encoder 'mni': did you mean 'mini'"):
        load_recipe("bi-encoder", "mni")


def test_what_the_command_line_replaces() -> None:
    mini = load_recipe("bi-encoder", "mini")
    assert mini.changed() == mini
    assert mini.changed(encoder="random") == mini
    changed = mini.changed(encoder="some/encoder", seed=0, depth=7)
    assert (changed.encoder, changed.random, changed.seed, changed.depth) == (
        "some/encoder", None, 0, 7,
    )  # fmt: skip
    assert changed.steps == mini.steps
    with pytest.raises(UsageError, match=r"table \[random\] goes with"):
        load_recipe("bi-encoder", "pool").changed(encoder="random")
