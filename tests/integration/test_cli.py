"""The command line as a user meets it: builds, baselines, recipes and published topics."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from importlib.resources import files
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from msshift_bench.baselines import find_systems, open_system, recipe_files
from msshift_bench.data.collection import open_collection
from msshift_bench.stats import detectable_rel_loss
from tests.conftest import REPOSITORY, Build, Command, WriteFolder
from tests.support.commands import COMMANDS
from tests.support.tsv_files import qrel_lines


@pytest.fixture
def built(build_copy: Build) -> Path:
    return build_copy("mini:500", "topics", "wh-words", "length")


def test_the_console_script_ends_with_the_exit_codes_of_the_command_line(script: Command) -> None:
    done = script("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"msshift-bench \d+\.\d+\.\d+\n", done.stdout)
    shown = script("--help").stdout
    assert set(re.findall(r"^│ ([a-z]+) ", shown, re.MULTILINE)) == {words[0] for words in COMMANDS}
    done = script("build", "lenght")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown shift 'lenght': did you mean 'length'?")


def test_build_writes_its_manifest_and_ends_with_what_the_groups_can_show(
    msshift: Command, tmp_path: Path
) -> None:
    build = ("build", "length", "--collection", "mini:500", "--out", "deep/er/data")
    done = msshift(*build)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^  (short|long) .* (\d+) +\d+ +([\d.]+%)", done.stdout, re.MULTILINE)
    assert {group: found for group, _, found in rows} == {
        group: f"{detectable_rel_loss(int(test)):.1%}" for group, test, _ in rows
    }
    assert len(rows) == 2
    assert "(it needs 456 test queries): length short, long" in done.stdout
    manifest = json.loads(msshift(*build, "--format", "json").stdout)
    assert manifest["content_digest"][:12] in done.stderr
    assert set(manifest["configs"]) == {"length", "length-short", "length-long"}
    assert (tmp_path / "deep/er/data/length-short/test.parquet").is_file()


def test_baseline_and_evaluate(msshift: Command, built: Path, tmp_path: Path) -> None:
    done = msshift("run", "bm25", "--shift", "length", "--out", "runs")
    assert (done.returncode, done.stdout) == (0, "runs/bm25/length.run.gz\n"), done.stderr
    sidecar = json.loads((tmp_path / "runs" / "bm25" / "length.run.json").read_text())
    assert sidecar["system"] == "bm25"
    done = msshift("evaluate", "runs", "--output", "report.parquet")
    assert done.returncode == 0, done.stderr
    assert "bm25" in done.stdout
    assert set(pq.read_table(tmp_path / "report.parquet")["system"].to_pylist()) == {"bm25"}
    assert "\x1b" not in done.stdout + done.stderr


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


def test_a_printed_recipe_is_the_file_and_its_copy_has_the_same_digest(
    msshift: Command, tmp_path: Path
) -> None:
    done = msshift("list", "splade-paper")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (RECIPES / "splade-paper.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(msshift("list", "bi-encoder-mini").stdout)
    mine = open_system("bi-encoder", tmp_path / "mine.toml")
    assert mine.digest() == open_system("bi-encoder", "mini").digest()


@pytest.mark.extended
def test_the_three_levels_of_an_unchanged_data_set(msshift: Command, built: Path) -> None:
    done = msshift("verify", "--topics", "replay")
    assert done.returncode == 0, done.stderr
    assert "replayed/msshift: the same rows as msshift (content " in done.stdout
    done = msshift("verify", "--topics", "embed")
    assert done.returncode == 0, done.stderr
    assert "encoder: the same; embeddings: the same\n750 of 750 queries are" in done.stdout
    done = msshift("verify", "--topics", "retrain", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["identical"], found["same_bytes"], found["regrouped"]) == (True, True, 0.0)


def test_texts_that_have_changed_are_found(
    msshift: Command, build_copy: Build, tsv_folder: WriteFolder
) -> None:
    build_copy("mini:500", "topics", "length")
    source = open_collection("mini:500")
    changed = tsv_folder(
        "changed",
        queries="".join(f"{i}\t{text[::-1]}\n" for i, text in source.queries.items()),
        qrels="".join(qrel_lines(source.qrels)),
    )
    done = msshift("verify", "--topics", "embed", "--collection", changed)
    assert done.returncode == 1
    assert "differ from the topics of this encoder" in done.stderr
    done = msshift("verify", "--topics", "replay", "--collection", changed)
    assert done.returncode == 1
    assert "replayed/msshift differs from msshift in topics/queries" in done.stderr
    done = msshift("verify", "--topics", "retrain", "--collection", changed)
    assert done.returncode == 0
    assert "change their topic" in done.stdout
    assert "'--topics replay' needs no embeddings" in done.stderr


@pytest.mark.parametrize("level", ["replay", "embed", "retrain"])
def test_a_missing_data_set_and_missing_clusters_are_refused(
    msshift: Command, build_copy: Build, level: str
) -> None:
    done = msshift("verify", "--topics", level)
    assert done.returncode == 3
    assert "no built data set at msshift" in done.stderr
    build_copy("mini:500", "length")
    done = msshift("verify", "--topics", level)
    assert done.returncode == 1
    assert "with clusters of queries" in done.stderr


MEASURES_PAGE = (REPOSITORY / "docs" / "measures.md").read_text(encoding="utf-8")


def test_its_commands_print_what_it_shows(msshift: Command, tmp_path: Path) -> None:
    qrels, run, shown = re.findall(r"```text\n(.*?)```", MEASURES_PAGE, re.DOTALL)
    (tmp_path / "graded.txt").write_text(qrels)
    (tmp_path / "graded.run").write_text(run)
    (block,) = re.findall(r"```console\n(.*?)```", MEASURES_PAGE, re.DOTALL)
    printed: list[str] = []
    for line in block.splitlines():
        program, *arguments = shlex.split(line.removeprefix("$ "))
        assert program == "msshift"
        done = msshift(*arguments)
        assert done.returncode == 0, done.stderr
        printed += [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert [line for line in printed if line in shown.splitlines()] == shown.splitlines()
