"""``msshift.toml``: which values commands take from it, and what they report of it."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.cli import app, config_file
from msshift_bench.data import load_dataset, open_dataset, open_source
from msshift_bench.errors import NotFoundError, UsageError
from tests.conftest import REPOSITORY, Build, Command, WriteFolder
from tests.support.commands import COMMANDS
from tests.support.documents import run_blocks
from tests.support.fabricated import write_run, write_runs
from tests.support.tiny_recipes import tiny_recipe


@pytest.fixture
def built(build_once: Build) -> Path:
    return build_once("mini:500", "wh-words", "length")


@pytest.fixture
def work(built: Path, tmp_path: Path) -> Path:
    """A folder with a data set that no default leads to, and run sets."""
    shutil.copytree(built, tmp_path / "kept" / "data")
    write_runs(tmp_path / "runs" / "a", built)
    return tmp_path


def say(work: Path, text: str, folder: str = "") -> None:
    (work / folder / "msshift.toml").write_text(text)


def test_the_data_set_comes_from_the_file_and_stderr_names_it_once(
    msshift: Command, work: Path
) -> None:
    assert msshift("verify").returncode == 3
    say(work, 'data = "kept/data"\nshifts = ["length"]\n')
    done = msshift("verify")
    assert (done.returncode, done.stdout) == (0, "")
    lines = done.stderr.splitlines()
    assert lines[0] == "from msshift.toml: data"
    assert lines[1].startswith(f"checking {work}/kept/data: wh-words, length of mini:500, ")
    done = msshift("evaluate", "runs")
    assert done.stderr.count("msshift.toml") == 1
    assert "from msshift.toml: data, shifts" in done.stderr
    assert "Query length" in done.stdout
    assert "Question words" not in done.stdout
    rows = load_dataset(work / "kept" / "data", "length-short", split="test")
    write_run(work / "my.run", [(row.query_id, list(row.relevant_doc_ids)) for row in rows])
    done = msshift("score", "my.run", "--test", "length-short")
    assert (done.returncode, "from msshift.toml: data\n" in done.stderr) == (0, True)


def test_options_win_then_variables_then_the_file(msshift: Command, work: Path) -> None:
    say(work, 'data = "nowhere"\nshifts = ["wh-words"]\n')
    assert "no built data set at" in msshift("verify").stderr
    done = msshift("evaluate", "runs", "--data", "kept/data", "--shift", "length")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Question words" not in done.stdout
    assert "msshift.toml" not in msshift("verify", MSSHIFT_HOME="kept/data").stderr
    assert msshift("verify", "kept/data").returncode == 0


def test_a_collection_is_a_folder_beside_the_file(
    msshift: Command, tsv_folder: WriteFolder, tmp_path: Path
) -> None:
    queries = "".join(f"q{i}\twhat is number {'x ' * (i % 4)}{i}\n" for i in range(40))
    tsv_folder("toy", queries=queries, qrels="".join(f"q{i} 0 d1 1\n" for i in range(40)))
    say(tmp_path, 'collection = "toy"\nshifts = ["length"]\n')
    done = msshift("build", "--ids-only")
    assert done.returncode == 0, done.stderr
    assert "from msshift.toml: shifts, collection" in done.stderr
    manifest = json.loads((tmp_path / "msshift" / "manifest.json").read_text())
    assert manifest["collection"]["name"] == "toy"
    assert list(manifest["shifts"]) == ["length"]
    (tmp_path / "msshift.toml").unlink()
    # The build noted the folder in the cache.
    missing = msshift("import", "msshift", MSSHIFT_CACHE="empty")
    assert missing.returncode == 2
    assert "with --collection (in Python, collection) or MSSHIFT_COLLECTION" in missing.stderr
    say(tmp_path, 'collection = "toy"')
    assert "msshift has its texts" in msshift("import", "msshift").stderr


@pytest.mark.extended
def test_commands_find_the_collection_that_the_build_read(
    msshift: Command, tsv_folder: WriteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MSSHIFT_COLLECTION", raising=False)
    monkeypatch.setenv("MSSHIFT_CACHE", "cache")
    queries = "".join(f"q{i}\twhich passage {'x ' * (i % 4)}{i}\n" for i in range(40))
    toy = tsv_folder("toy", queries=queries, qrels="".join(f"q{i} 0 d1 1\n" for i in range(40)))
    export = "export length-short-triples triples.tsv --text"
    for command in (
        "build length --collection toy --licence cc-by-4.0",
        "triples --negatives 1",
        export,
        "run bm25 --out runs",
    ):
        done = msshift(*command.split())
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "triples.tsv").read_text("utf-8").splitlines()[0].count("\t") == 2
    over = msshift(*export.replace("triples.tsv", "toy/queries.tsv").split())
    assert (over.returncode, "is an input and would be" in over.stderr) == (2, True)
    toy.rename(tmp_path / "moved")
    for command in (export, "triples --negatives 2", "run bm25 --out runs"):
        gone = msshift(*command.split())
        assert gone.returncode == 2
        assert f"msshift was built from 'toy', but its folder {toy} no longer exists" in gone.stderr
        assert msshift(*command.split(), "--collection", "moved").returncode == 0


def test_a_generated_collection_ignores_the_setting_of_another(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSSHIFT_COLLECTION", "./nowhere")
    assert open_source(open_dataset(built), None).name == "mini:500"
    with pytest.raises(NotFoundError, match=r"no folder \./nowhere"):
        open_source(open_dataset(built), "./nowhere")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("mini:700", "mini:700"),
        ("mini", "mini"),
        ("./mini", "{folder}/mini"),
        ("msmarco-passage/train", "msmarco-passage/train"),
        ("./gone", "{folder}/gone"),
        ("there", "{folder}/there"),
        ("/abs/olute", "/abs/olute"),
    ],
)
def test_only_a_folder_becomes_a_path(tmp_path: Path, written: str, value: str) -> None:
    for name in ("there", "mini"):
        (tmp_path / name).mkdir()
    say(tmp_path, f'collection = "{written}"')
    found, _ = config_file.read_config(tmp_path / "msshift.toml")["collection"]
    assert found == value.format(folder=tmp_path)


def test_the_cache_comes_from_the_file(msshift: Command, work: Path) -> None:
    (work / "cache" / "data").mkdir(parents=True)
    (work / "kept" / "data").rename(work / "cache" / "data" / "msshift")
    say(work, 'cache = "cache"\n')
    done = msshift("evaluate", "runs", MSSHIFT_CACHE="")
    assert done.returncode == 0, done.stderr
    assert "from msshift.toml: cache\n" in done.stderr
    by_file = msshift("doctor", MSSHIFT_CACHE="").stdout
    (work / "msshift.toml").unlink()
    by_variable = msshift("doctor", MSSHIFT_CACHE=str(work / "cache")).stdout
    for printed in (by_file, by_variable):
        assert f" MB in {work}/cache" in printed
        assert f"data: {work}/cache/data/msshift: verified" in printed
    assert msshift("verify", MSSHIFT_CACHE=str(work / "other")).returncode == 3


def test_settings_of_the_file_end_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = {"MSSHIFT_CACHE": str(tmp_path / "cache"), "MSSHIFT_COLLECTION": "mini:300"}
    for name in expected:
        monkeypatch.delenv(name, raising=False)
    say(tmp_path, 'cache = "cache"\ncollection = "mini:300"\n')

    def look(_: Path) -> None:
        raise UsageError(str({name: os.environ[name] for name in expected}))

    monkeypatch.setattr("msshift_bench.data.dataset.read_manifest", look)
    with pytest.raises(UsageError, match=re.escape(str(expected))):
        app(["triples"], standalone_mode=False)
    assert expected.keys().isdisjoint(os.environ)


WRONG = """\
colection = "x"
cache = 3

shifts = ["length", "lenght"]
words = "character"
[data]
"""


def test_each_error_of_the_file_names_its_line(msshift: Command, work: Path) -> None:
    say(work, WRONG)
    done = msshift("verify", "kept/data")
    assert (done.returncode, done.stdout) == (2, "")
    for line, wrong in (
        (1, "colection: there is no such field; did you mean 'collection'?"),
        (2, "cache: expected a text, found a number"),
        (4, "shifts[1]: unknown shift 'lenght'; did you mean 'length'?"),
        (5, "words: unknown words 'character'; did you mean 'characters'?"),
        (6, "data: expected a text, found a table"),
    ):
        assert f"msshift.toml:{line}: {wrong}" in done.stderr
    assert "valid keys are data, collection, cache, recipes, shifts, words" in done.stderr
    for arguments in (["verify", "--help"], ["--version"]):
        done = msshift(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), "a broken file spoils no help"
    say(work, 'data = "x"\nshifts = = 3\n')
    assert "msshift.toml:2: Invalid value" in msshift("verify").stderr


def test_the_file_is_looked_for_up_to_the_home(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = work / "home" / "project" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    monkeypatch.setenv("HOME", str(work / "home"))
    say(work, 'data = "above"')
    assert config_file.find_config() is None
    say(work, 'data = "here"', "home")
    place = work / "home" / "msshift.toml"
    assert config_file.find_config() == {"data": (str(work / "home" / "here"), f"{place}:1")}
    monkeypatch.setenv("HOME", str(work / "elsewhere"))
    (work / "home" / "msshift.toml").unlink()
    assert config_file.find_config() == {"data": (str(work / "above"), f"{work}/msshift.toml:1")}


def test_a_variable_names_the_file(msshift: Command, work: Path) -> None:
    say(work, 'data = "nowhere"')
    say(work, 'data = "data"', "kept")
    done = msshift("verify", MSSHIFT_CONFIG="kept/msshift.toml")
    assert (done.returncode, done.stderr.splitlines()[0]) == (0, "from kept/msshift.toml: data")
    done = msshift("verify", MSSHIFT_CONFIG="gone.toml")
    assert done.returncode == 3
    assert "no file gone.toml, the value of MSSHIFT_CONFIG" in done.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_that_takes_such_an_option_honours_it(words: tuple[str, ...]) -> None:
    command: Any = COMMANDS[words]
    same = ("data", "collection", "shifts", "words")
    named = {**dict(zip(same, same, strict=True)), "shift": "shifts"}
    # The demo generates what it needs, and brings its own data set.
    expected = {} if words == ("demo",) else named
    for parameter in command.params:
        built = "A built data set" in (parameter.help or "")
        key = "data" if built else expected.get(parameter.name, "")
        assert config_file.key_of(parameter) == key, parameter.name


@pytest.mark.extended
def test_the_page_runs(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
    ran = run_blocks(page, tmp_path)
    assert ["msshift", "list"] in ran
    written = page.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "msshift.toml").write_text(written)
    read = config_file.read_config(tmp_path / "msshift.toml")
    assert list(read) == ["data", "collection", "cache", "recipes", "shifts", "words"]


def test_a_folder_of_recipes_comes_before_the_packaged_ones(msshift: Command, work: Path) -> None:
    (work / "mine").mkdir()
    (work / "mine" / "bi-encoder-mini.toml").write_text(tiny_recipe("bi-encoder", steps=4))
    (work / "mine" / "splade-own.toml").write_text(tiny_recipe("splade"))
    say(work, 'recipes = "mine"\n')
    listed = msshift("list", "bi-encoder-mini")
    assert listed.stdout == tiny_recipe("bi-encoder", steps=4)
    assert "from msshift.toml: recipes\n" in listed.stderr
    assert "splade-own" in msshift("list", "splade").stdout
    assert msshift("list", "bi-encoder-paper").stdout.startswith("#")
    assert "from msshift.toml" not in msshift("verify", "kept/data").stderr
    refused = msshift("list", "splade", MSSHIFT_RECIPES="nowhere")
    assert refused.returncode == 3
    assert "MSSHIFT_RECIPES must be an existing folder of recipes, got nowhere" in refused.stderr
