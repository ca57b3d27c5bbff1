"""``msshift recipes``: listing, reading and copying the recipes that come along."""

from __future__ import annotations

import hashlib
import json
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from msshift_bench.baselines import recipe_files
from msshift_bench.baselines.recipe_files import copy_recipe, load_recipe
from msshift_bench.baselines.registry import ARCHITECTURES
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError
from tests.conftest import Command

RECIPES = files("msshift_bench.baselines") / "recipes"


def test_every_recipe_is_listed(msshift: Command) -> None:
    listed = json.loads(msshift("recipes", "list", "--json").stdout)
    names = [entry.name.removesuffix(".toml") for entry in RECIPES.iterdir()]
    assert list(listed) == sorted(names)
    for name, said in listed.items():
        content = (RECIPES / f"{name}.toml").read_bytes()
        assert said["sha256"] == hashlib.sha256(content).hexdigest()
        assert 20 < len(said["about"]) < 140
        assert any(name.startswith(f"{system}-") for system in (*ARCHITECTURES, "pretrain"))
    table = msshift("recipes", "list").stdout
    for name, said in listed.items():
        (line,) = [one for one in table.splitlines() if f" {name} " in one]
        assert said["sha256"][:12] in line
        assert said["about"] in line


def test_a_recipe_is_shown_as_it_stands(msshift: Command) -> None:
    done = msshift("recipes", "show", "splade-paper")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (RECIPES / "splade-paper.toml").read_text(encoding="utf-8")


def test_unknown_recipes(msshift: Command, tmp_path: Path) -> None:
    for command in ("show", "copy"):
        done = msshift("recipes", command, "bi-encoder-papr")
        assert (done.returncode, done.stdout) == (2, "")
        assert "unknown recipe 'bi-encoder-papr': did you mean 'bi-encoder-paper'?" in done.stderr
        assert ", colbert-mini, " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_copy_is_the_file_and_replaces_nothing(msshift: Command, tmp_path: Path) -> None:
    done = msshift("recipes", "copy", "bi-encoder-mini")
    copied = tmp_path / "bi-encoder-mini.toml"
    assert (done.returncode, done.stdout) == (0, "bi-encoder-mini.toml\n")
    assert done.stderr == (
        "change it, and train by it with: "
        "msshift baseline run bi-encoder --recipe bi-encoder-mini.toml\n"
    )
    assert copied.read_bytes() == (RECIPES / "bi-encoder-mini.toml").read_bytes()
    kind = ARCHITECTURES["bi-encoder"]
    assert load_recipe(kind, "bi-encoder", copied) == load_recipe(kind, "bi-encoder", "mini")

    copied.write_text("mine")
    refused = msshift("recipes", "copy", "bi-encoder-mini")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "error: bi-encoder-mini.toml is there already; give another file, or --overwrite\n"
    )
    assert copied.read_text() == "mine"
    assert msshift("recipes", "copy", "bi-encoder-mini", "--overwrite").returncode == 0
    assert tomllib.loads(copied.read_text())["encoder"] == "random"


def test_a_copy_names_the_command_that_takes_it(msshift: Command) -> None:
    for name in recipe_files():
        done = msshift("recipes", "copy", name)
        assert done.returncode == 0, done.stderr
        system = next((one for one in ARCHITECTURES if name.startswith(f"{one}-")), None)
        command = f"run {system}" if system else "pretrain"
        assert f"msshift baseline {command} --recipe {name}.toml" in done.stderr


def test_where_a_copy_can_go(tmp_path: Path) -> None:
    assert copy_recipe("splade-pool", tmp_path) == tmp_path / "splade-pool.toml"
    assert copy_recipe("splade-pool", str(tmp_path / "mine.toml")).is_file()
    with pytest.raises(UsageError, match=r"mine\.txt does not end in \.toml"):
        copy_recipe("splade-pool", tmp_path / "mine.txt")
    with pytest.raises(NotFoundError):
        copy_recipe("splade-pool", tmp_path / "none" / "mine.toml")
    (tmp_path / "link.toml").symlink_to(tmp_path / "nowhere.toml")
    with pytest.raises(UsageError, match=r"link\.toml is there already"):
        copy_recipe("splade-pool", tmp_path / "link.toml")
    with pytest.raises(UnknownNameError, match="did you mean 'splade-pool'"):
        copy_recipe("splade-pol")
    assert recipe_files()["splade-pool"].text == (tmp_path / "mine.toml").read_text()
