"""The command line as a user meets it: the installed console script, in a folder of its own."""

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


def test_version(script: Command) -> None:
    done = script("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"msshift-bench \d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["build", "lenght"], ["evaluate", "nowhere", "--format", "json"], []],
    ids=" ".join,
)
def test_a_forked_command_does_what_the_console_script_does(
    msshift: Command, script: Command, built: Path, arguments: list[str]
) -> None:
    forked, installed = msshift(*arguments), script(*arguments)
    assert (forked.returncode, forked.stdout) == (installed.returncode, installed.stdout)
    assert forked.stderr == installed.stderr


def test_help_lists_the_commands(script: Command) -> None:
    shown = script("--help").stdout
    assert set(re.findall(r"^│ ([a-z]+) ", shown, re.MULTILINE)) == {words[0] for words in COMMANDS}


def test_build_says_what_it_wrote(msshift: Command, tmp_path: Path) -> None:
    done = msshift(
        "build", "length", "--collection", "mini:500", "--out", "deep/er/data", "--format", "json"
    )
    assert done.returncode == 0
    manifest = json.loads(done.stdout)
    assert manifest["content_digest"][:12] in done.stderr
    assert set(manifest["configs"]) == {"length", "length-short", "length-long"}
    assert (tmp_path / "deep" / "er" / "data" / "length-short" / "test.parquet").is_file()


def test_build_ends_with_what_the_groups_can_show(msshift: Command) -> None:
    done = msshift("build", "length", "--collection", "mini:500")
    rows = re.findall(r"^  (short|long) .* (\d+) +\d+ +([\d.]+%)", done.stdout, re.MULTILINE)
    assert {group: found for group, _, found in rows} == {
        group: f"{detectable_rel_loss(int(test)):.1%}" for group, test, _ in rows
    }
    assert len(rows) == 2
    assert "detects: the smallest Rel Loss that a two-sided test at 5% finds in 80% of cases." in (
        done.stdout
    )
    assert "(that takes 456 test queries): length short, long" in done.stdout


def test_baseline_and_evaluate(
    msshift: Command, script: Command, built: Path, tmp_path: Path
) -> None:
    done = script("run", "bm25", "--shift", "length", "--out", "runs")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "runs/bm25/length.run.gz\n"
    sidecar = json.loads((tmp_path / "runs" / "bm25" / "length.run.json").read_text())
    assert sidecar["system"] == "bm25"
    done = msshift("evaluate", "runs", "--output", "report.parquet")
    assert done.returncode == 0, done.stderr
    assert "bm25" in done.stdout
    assert set(pq.read_table(tmp_path / "report.parquet")["system"].to_pylist()) == {"bm25"}
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["build", "--collection", "./nowhere"], 3, "no folder ./nowhere; give a folder"),
        (["build", "--collection", __file__], 3, "test_cli.py is a file; give a folder"),
        (["import", "./nowhere", "--check"], 3, "no folder nowhere; give a checkout"),
        (["build", "lenght"], 2, "unknown shift 'lenght': did you mean 'length'?"),
        (["build", "--rule", "wh-words"], 2, "give SHIFT=RULE, e.g. wh-words=substring"),
        (
            ["build", "--collection", "mini:300", "--rule", "wh-words=wrd"],
            2,
            "did you mean 'word'?",
        ),
        (["build", "--test-size", "0"], 2, "test-size"),
        (["evaluate", "nowhere"], 3, "no folder nowhere"),
        (["evaluate", ".", "--measures", "MRR"], 2, "holds no run set"),
        (["evaluate", ".", "--measures", "RRR@10"], 2, "unknown measure 'RRR@10'"),
        (["evaluate", ".", "--format", "word"], 2, "unknown format 'word'"),
        (["evaluate", ".", "--ties", "trek"], 2, "did you mean 'trec'?"),
        (["run", "bm25"], 3, "no built data set at msshift"),
        (["no-such-command"], 2, "No such command"),
    ],
)
def test_bad_requests(msshift: Command, arguments: list[str], code: int, message: str) -> None:
    done = msshift(*arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bm25", "--recipe", "mini"], "bm25 is not trained by a recipe; leave 'mini' out"),
        (["bm25", "--set", "sede=1", "--set", "seed=3"], "does not have 2 of these fields:\n"),
    ],
)
def test_bad_baseline_requests(
    msshift: Command, built: Path, arguments: list[str], message: str
) -> None:
    done = msshift("run", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


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


def test_the_three_levels_of_an_unchanged_data_set(msshift: Command, built: Path) -> None:
    done = msshift("verify", "--topics", "replay")
    assert done.returncode == 0, done.stderr
    assert "replayed/msshift: the same rows as msshift (content " in done.stdout
    done = msshift("verify", "--topics", "embed")
    assert done.returncode == 0, done.stderr
    assert "encoder: the same; embeddings: the same\n750 of 750 queries fall" in done.stdout
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
    assert "are not what this encoder gives" in done.stderr
    done = msshift("verify", "--topics", "replay", "--collection", changed)
    assert done.returncode == 1
    assert "replayed/msshift differs from msshift in topics/queries" in done.stderr
    done = msshift("verify", "--topics", "retrain", "--collection", changed)
    assert done.returncode == 0
    assert "change their topic" in done.stdout
    assert "'--topics replay' gives the same" in done.stderr


@pytest.mark.parametrize("level", ["replay", "embed", "retrain"])
def test_what_is_missing_is_said(msshift: Command, build_copy: Build, level: str) -> None:
    done = msshift("verify", "--topics", level)
    assert done.returncode == 3
    assert "no built data set at msshift" in done.stderr
    build_copy("mini:500", "length")
    done = msshift("verify", "--topics", level)
    assert done.returncode == 1
    assert "publishes no clusters" in done.stderr


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
