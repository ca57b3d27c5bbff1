"""Every command that a message advises is typed in the folder that the message was printed for."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from msshift_bench.cli import app
from msshift_bench.data import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from tests.conftest import REPOSITORY
from tests.support.command_line import run_msshift
from tests.support.fabricated import write_runs, write_system
from tests.support.tiny_recipes import write_recipes

PACKAGES = ("msshift_bench", "baselines", "leaderboard", "dataset_builders")
GROUPS = {group.name for group in app.registered_groups if group.name}
NAMES = GROUPS | {
    command.name or command.callback.__name__
    for command in app.registered_commands
    if command.callback
}
_HINT = re.compile(rf"msshift (?:{'|'.join(sorted(NAMES))})\b(?:[^'`;,()\n]|,(?=\S))*")


def _messages(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module that are no docstring and no help; ``{}`` stands for a value."""
    passed: set[int] = set()
    for node in ast.walk(tree):
        texts = node.body if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else []
        passed |= {id(text.value) for text in texts if isinstance(text, ast.Expr)}
        if isinstance(node, ast.keyword) and node.arg in ("help", "epilog"):
            passed |= {id(part) for part in ast.walk(node.value)}
    for node in ast.walk(tree):
        if id(node) in passed:
            continue
        if isinstance(node, ast.JoinedStr):
            passed |= {id(part) for part in ast.walk(node)}
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def hints() -> set[str]:
    """Return the commands in the messages of the package's source."""
    found = set()
    for package in PACKAGES:
        for path in sorted((REPOSITORY / package).resolve().rglob("*.py")):
            for text in _messages(ast.parse(path.read_text(encoding="utf-8"))):
                found |= {hint.strip() for hint in _HINT.findall(text)}
    return found


# ---- the folders that messages are printed for ---------------------------------------------------

Words = list[str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a data set and variants of its test queries; it is only read."""
    folder = tmp_path_factory.mktemp("world")
    build_dataset(open_collection("mini:300"), ["length"], folder / "msshift")
    _call(folder, "variants typos --shift length --out typos.tsv")
    return folder


def _call(folder: Path, words: str, code: int = 0) -> str:
    """Type a command that prints a hint; return what it prints."""
    done = run_msshift(shlex.split(words), folder)
    assert done.returncode == code, done.stderr
    return f"{done.stdout}\n{done.stderr}"


def _as_built(folder: Path) -> str:
    return ""


def _complete_runs(folder: Path) -> str:
    write_runs(folder / "runs/bi-encoder", folder / "msshift")
    return ""


def _no_texts(folder: Path) -> str:
    _call(folder, "build length --collection mini:300 --ids-only --overwrite")
    return _call(folder, "similarity --shift length", 3)


def _changed_split(folder: Path) -> str:
    split = min((folder / "msshift").rglob("*.parquet"))
    split.write_bytes(split.read_bytes()[:-9])
    return _call(folder, "doctor msshift", 1)


def _bm25(folder: Path) -> str:
    return _call(folder, "run bm25 --also-test typos=typos.tsv")


def _bm25_without_variants(folder: Path) -> str:
    _call(folder, "run bm25")
    return _call(folder, "evaluate runs --also-test typos=typos.tsv", 3)


def _scored_folder(folder: Path) -> str:
    _complete_runs(folder)
    return _call(folder, "score runs --test length-short", 2)


def _evaluated_file(folder: Path) -> str:
    _complete_runs(folder)
    return _call(folder, "evaluate runs/bi-encoder/length/short.run.gz", 2)


def _without_triples(folder: Path) -> str:
    return _call(folder, "run bi-encoder --set triples=released --dry-run", 3)


def _other_training(folder: Path) -> str:
    for name, text in (("train", "what is one"), ("test", "what is one"), ("other", "it is one")):
        (folder / f"{name}.tsv").write_text(f"{name}\t{text}\n")
    _call(folder, "leakage find --train train.tsv --test test.tsv")
    return _call(folder, "leakage clean --found found --train other.tsv", 1)


def _handed_in(folder: Path) -> str:
    _call(folder, "build length --collection mini --overwrite")
    write_runs(folder / "runs/made-up", folder / "msshift")
    write_system(folder / "system.toml", length="msshift")
    return _call(folder, "submit runs/made-up --system system.toml --out submission")


def _undescribed(folder: Path) -> str:
    write_runs(folder / "runs/made-up", folder / "msshift")
    return _call(folder, "submit runs/made-up --system system.toml --out submission", 3)


def _only_ids(folder: Path) -> str:
    _no_texts(folder)
    return ""


class Row(NamedTuple):
    """A hint.

    Attributes:
        prepare: makes the folder, and returns what a command printed in it.
        instead: a word of the hint that stands for a value -> the value.
        add: words that are typed as well.
        code: the exit code.
    """

    prepare: Callable[[Path], str]
    instead: Mapping[str, str] = {}
    add: str = ""
    code: int = 0


TYPED: Mapping[str, Row] = {
    "msshift build topics --collection {} --out msshift-topics": Row(_as_built, {"{}": "mini:300"}),
    "msshift doctor --prune 0": Row(_as_built),
    "msshift evaluate {}": Row(_scored_folder),
    "msshift evaluate {} --data {}{}": Row(_bm25),
    "msshift evaluate {} {}": Row(_bm25),
    "msshift import DIR --collection C": Row(_only_ids, {"DIR": "msshift", "C": "mini:300"}),
    "msshift import FOLDER": Row(_only_ids, {"FOLDER": "msshift"}),
    "msshift import FOLDER --collection C": Row(_only_ids, {"FOLDER": "msshift", "C": "mini:300"}),
    "msshift import {}": Row(_no_texts),
    "msshift leaderboard check --entries {}/entries --data {} --runs {}/runs": Row(_handed_in),
    "msshift leakage find --train {} --test TEST": Row(_other_training, {"TEST": "test.tsv"}),
    "msshift run ... --also-test {}={}": Row(_bm25_without_variants, {"...": "bm25"}),
    "msshift run bi-encoder": Row(_as_built, add="--dry-run"),
    "msshift run bi-encoder --keep-model --name bi-encoder-kept": Row(
        _complete_runs, add="--dry-run"
    ),
    "msshift run bi-encoder --seeds 1,2,3 --name bi-encoder-seeds": Row(
        _complete_runs, add="--dry-run"
    ),
    "msshift score {} --test length-short": Row(_evaluated_file),
    "msshift submit --template > {}": Row(_undescribed),
    "msshift triples {}": Row(_as_built, {"{}": "msshift"}),
    "msshift triples {} --shift {}": Row(_without_triples),
    "msshift verify {}": Row(_changed_split, code=1),
}
"""The hints with values for the folder that they are printed for."""

NAMED = {
    "msshift agree COPY COPY ...",
    "msshift build",
    "msshift build --licence",
    "msshift build --overwrite",
    "msshift evaluate",
    "msshift evaluate {} --data {} shows intervals",
    "msshift import",
    "msshift install",
    "msshift install ORG/NAME",
    "msshift irds --collection FOLDER ...",
    "msshift leakage clean",
    "msshift leakage find",
    "msshift leakage find --out",
    "msshift report",
    "msshift run",
    "msshift run --gpus",
    "msshift run --keep-model",
    "msshift run SYSTEM --keep-model",
    "msshift run bi-encoder --set encoder={}",
    "msshift score",
    "msshift submit",
    "msshift triples",
}
"""Hints that name a command and options without the values, and those whose tests are elsewhere."""


def test_every_hint_has_a_row() -> None:
    assert hints() == {*TYPED, *NAMED}


@pytest.mark.parametrize("hint", TYPED)
def test_a_hint_works_in_its_folder(hint: str, tmp_path: Path, world: Path) -> None:
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    row = TYPED[hint]
    printed = row.prepare(tmp_path)
    pattern = re.escape(hint).replace(r"\{\}\{\}", "{}").replace(r"\{\}", "{}")
    *values, last = pattern.split("{}")
    pattern = r"[^\s']+".join(values) + r"[^'\n]+" * bool(values) + last
    advised = re.findall(pattern, printed) if printed else [hint]
    words = [
        row.instead.get(word, word) for word in shlex.split(advised[-1].partition(" > ")[0])[1:]
    ]
    done = run_msshift([*words, *row.add.split()], tmp_path)
    assert done.returncode == row.code, done.stderr


@pytest.mark.parametrize("hint", sorted(NAMED))
def test_a_named_command_has_its_options(hint: str, tmp_path: Path) -> None:
    _, command, *words = hint.split()
    words = [command, *words[: command in GROUPS]]
    done = run_msshift([*words, "--help"], tmp_path)
    assert done.returncode == 0
    for option in re.findall(r"--[a-z-]+", hint):
        assert option in done.stdout


# ---- two layouts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dry", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("there", "words"),
    [
        ("length/short.run", "bi-encoder --seeds 3"),
        ("length/seed-3/short.run", "bi-encoder"),
        ("length.run", "bi-encoder"),
        ("length/short.run", "bm25 --name bi-encoder"),
        ("also/typos/length/short.run", "bi-encoder --seeds 3 --also-test typos=typos.tsv"),
    ],
)
def test_a_second_layout_is_refused_before_anything_is_made(
    there: str, words: str, dry: Words, tmp_path: Path, world: Path
) -> None:
    for name in ("msshift", "typos.tsv"):
        (tmp_path / name).symlink_to(world / name)
    run = tmp_path / "runs/bi-encoder" / there
    run.parent.mkdir(parents=True)
    run.write_text("1 Q0 2 1 1 t\n")
    before = sorted(tmp_path.rglob("*"))
    done = run_msshift(["run", *words.split(), *dry], tmp_path)
    assert done.returncode == 2
    assert f"{run.relative_to(tmp_path)} has another layout than runs/bi-encoder" in done.stderr
    assert "choose another --name" in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.neural
@pytest.mark.extended
def test_the_seeds_that_the_report_advises_can_be_evaluated(tmp_path: Path, world: Path) -> None:
    recipes = {"MSSHIFT_RECIPES": str(write_recipes(tmp_path / "recipes"))}
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    (hint,) = (hint for hint in TYPED if "--seeds" in hint)
    for words in ("run bi-encoder", hint.removeprefix("msshift "), "evaluate runs"):
        done = run_msshift(words.split(), tmp_path, recipes)
        assert done.returncode == 0, done.stderr
    assert "3 seeds" in done.stdout
    assert (tmp_path / "runs/bi-encoder-seeds/length/seed-2").is_dir()
