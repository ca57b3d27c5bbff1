"""``msshift list NAME``: the recipes that come along, and the fields of systems."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path

from msshift_bench.baselines import find_systems, open_system, recipe_files
from tests.conftest import Command

RECIPES = files("msshift_bench.baselines") / "recipes"


def test_every_recipe_is_listed_with_its_system(msshift: Command) -> None:
    names = {entry.name.removesuffix(".toml") for entry in RECIPES.iterdir()}
    listed = set()
    for system in (*find_systems(), "pretrain"):
        facts = json.loads(msshift("list", system, "--format", "json").stdout)
        table = msshift("list", system).stdout
        for name, said in facts["recipes"].items():
            content = (RECIPES / f"{name}.toml").read_bytes()
            assert said["sha256"] == hashlib.sha256(content).hexdigest()
            assert 20 < len(said["about"]) < 140
            (line,) = [one for one in table.splitlines() if f" {name} " in one]
            assert said["sha256"][:12] in line
            assert said["about"] in line
            listed.add(name)
        if system != "pretrain":
            assert list(facts["fields"]) == [name for name, _ in find_systems()[system].defaults()]
            assert all(f" {field} " in table for field in facts["fields"])
    assert listed == names == set(recipe_files())


def test_a_recipe_is_printed_as_it_stands_and_does_for_a_copy(
    msshift: Command, tmp_path: Path
) -> None:
    done = msshift("list", "splade-paper")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (RECIPES / "splade-paper.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(msshift("list", "bi-encoder-mini").stdout)
    mine = open_system("bi-encoder", tmp_path / "mine.toml")
    assert mine.digest() == open_system("bi-encoder", "mini").digest()


def test_an_unknown_name_is_told_the_nearest(msshift: Command) -> None:
    done = msshift("list", "bi-encoder-papr")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown system or recipe 'bi-encoder-papr': did you mean 'bi-encoder-paper'?" in (
        done.stderr
    )
    assert ", colbert-mini, " in done.stderr
