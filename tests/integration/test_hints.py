"""Every command that a message advises is typed in the folder that the message was printed for."""

from __future__ import annotations

import ast
import csv
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from msshift_bench.cli import app
from msshift_bench.data import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from tests.conftest import REPOSITORY
from tests.support.command_line import run_msshift
from tests.support.fabricated import write_runs, write_system
from tests.support.fake_hub import REPO, use_fake_hub
from tests.support.file_bytes import file_bytes
from tests.support.hub_repository import Repository
from tests.support.run_files import queries_of, write_test_set
from tests.support.tiny_encoder import make_tiny_encoder
from tests.support.tiny_recipes import write_recipes
from tests.support.trained import Trained

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


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recipes(tmp_path_factory.mktemp("tiny") / "recipes")


@pytest.fixture(autouse=True)
def _small(recipes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands train as users type them, in a moment."""
    monkeypatch.setenv("MSSHIFT_RECIPES", str(recipes))
    monkeypatch.delenv("MSSHIFT_COLLECTION", raising=False)


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
    return _call(folder, "run bm25 --extra-test typos=typos.tsv")


def _bm25_of_one_group(folder: Path) -> str:
    return _call(folder, "run bm25-tuned --held-out short --extra-test typos=typos.tsv")


def _bm25_without_variants(folder: Path) -> str:
    _call(folder, "run bm25")
    return _call(folder, "evaluate runs --extra-test typos=typos.tsv", 3)


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


def _two_copies(folder: Path) -> str:
    """Write a sheet of pairs and two filled-in copies, which differ on one of three pairs."""
    queries = [f"{n}\t{text} of a tree\n" for n, text in enumerate(("age", "name", "height"))]
    (folder / "train.tsv").write_text("".join(f"train-{query}" for query in queries[:1]))
    (folder / "test.tsv").write_text("".join(f"test-{query}" for query in queries))
    printed = _call(folder, "annotate --train train.tsv --test test.tsv --out sheet.csv")
    with (folder / "sheet.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, points in (("ann", "012"), ("bob", "011")):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            for row, point in zip(rows, points, strict=True):
                writer.writerow({**row, "entity": point, "intent": "1"})
    return printed


def _demo(folder: Path) -> str:
    """Arrange data and runs as the demo does; tests/integration/test_demo.py runs the demo."""
    (folder / "msshift-demo").mkdir()
    shutil.move(folder / "msshift", folder / "msshift-demo")
    write_runs(folder / "msshift-demo/runs/bi-encoder", folder / "msshift-demo/msshift")
    return ""


def _pretrained(folder: Path) -> str:
    return _call(folder, "pretrain --collection mini:300 --out encoder")


def _encoder(folder: Path) -> str:
    make_tiny_encoder(folder / "encoder", open_collection("mini:300").queries.values(), length=128)
    return ""


def _passages_elsewhere(folder: Path) -> str:
    """Build from a folder of 40 passages, each relevant to one query."""
    (folder / "toy").mkdir()
    for name, line in (
        ("collection", "d{n}\tpassage {n}\n"),
        ("queries", "q{n}\twhat is number {more}{n}\n"),
        ("qrels", "q{n} 0 d{n} 1\n"),
    ):
        lines = (line.format(n=n, more="x " * (n % 4)) for n in range(40))
        (folder / f"toy/{name}.tsv").write_text("".join(lines))
    _call(folder, "build length --collection toy --overwrite")
    return _call(folder, "irds lookup msshift/length d7", 3)


class Row(NamedTuple):
    """A hint.

    Attributes:
        hint: the command; ``{}`` stands for a value.
        prepare: makes the folder, and returns what a command printed in it.
        made: a file that the hint makes, or a pattern of its output, with a number where it can.
        instead: words of the hint that stand for values -> the values.
        add: words that are typed as well.
        code: the exit code.
        marks: marks of the test.
    """

    hint: str
    prepare: Callable[[Path], str]
    made: Path | str
    instead: Mapping[str, str] = {}
    add: str = ""
    code: int = 0
    marks: Sequence[pytest.MarkDecorator] = ()


LOSSES = r"Rel Loss +-?\d+\.\d%"
NEW_RUNS = r"new +runs/bi-encoder/length/short.run.gz\nnew +runs/bi-encoder/length/long.run.gz\n"
PUT_BACK = r"msshift has its texts now \(content [0-9a-f]{12}\)"

TYPED = (
    Row(
        "msshift agree COPY COPY ...",
        _two_copies,
        r"ann +bob +3 +0\.500 ",  # Two of three points agree, and one would by chance.
        {"COPY COPY ...": "ann.csv bob.csv"},
    ),
    Row(
        "msshift build topics --collection {} --out msshift-topics",
        _as_built,
        Path("msshift-topics/topics-C4/test.parquet"),
        {"{}": "mini:300"},
    ),
    Row("msshift doctor --prune 0", _as_built, r"ok +data: msshift: "),
    Row("msshift evaluate {}", _scored_folder, LOSSES),
    Row("msshift evaluate {} --data {}{}", _bm25, r"bm25 +\d+\.\d"),
    Row("msshift evaluate {} --data {}{}", _bm25_of_one_group, r"bm25-tuned +too few runs"),
    Row(
        "msshift evaluate {} --data {} shows intervals",
        _demo,
        LOSSES,
        {"{} --data {} shows intervals": "msshift-demo/runs --data msshift-demo/msshift"},
    ),
    Row("msshift evaluate {} --data {} --extra-test {}{}", _bm25, r"bm25 +all +\d+"),
    Row(
        "msshift evaluate {} --data {} --extra-test {}{}",
        _bm25_of_one_group,
        r"bm25-tuned +short +\d+",
    ),
    Row(
        "msshift import DIR --collection C",
        _only_ids,
        PUT_BACK,
        {"DIR": "msshift", "C": "mini:300"},
    ),
    Row("msshift import FOLDER", _only_ids, PUT_BACK, {"FOLDER": "msshift"}),
    Row(
        "msshift import FOLDER --collection C",
        _only_ids,
        PUT_BACK,
        {"FOLDER": "msshift", "C": "mini:300"},
    ),
    Row("msshift import {}", _no_texts, PUT_BACK),
    Row(
        "msshift irds --collection FOLDER ...",
        _passages_elsewhere,
        r"d7\tpassage 7\n",
        {"FOLDER": "toy", "...": "lookup msshift/length d7"},
    ),
    Row(
        "msshift leaderboard check --entries {}/entries --data {} --runs {}/runs",
        _handed_in,
        "its run files give these scores",
    ),
    Row(
        "msshift leakage find --train {} --test TEST",
        _other_training,
        r"any of these +0 ",
        {"TEST": "test.tsv"},
    ),
    Row(
        "msshift run ... --extra-test {}={}",
        _bm25_without_variants,
        Path("runs/bm25/extra/typos/length.run.gz"),
        {"...": "bm25"},
    ),
    Row("msshift run bi-encoder", _as_built, NEW_RUNS, add="--dry-run"),
    Row(
        "msshift run bi-encoder --keep-model --name bi-encoder-kept",
        _complete_runs,
        NEW_RUNS.replace("bi-encoder", "bi-encoder-kept"),
        add="--dry-run",
    ),
    Row(
        "msshift run bi-encoder --set encoder={}",
        _encoder,
        NEW_RUNS,
        {"encoder={}": "encoder=encoder"},
        add="--dry-run",
        marks=[pytest.mark.neural],
    ),
    Row(
        "msshift run bi-encoder --set encoder={}",
        _pretrained,
        Path("runs/bi-encoder/length/long.run.gz"),
        marks=[pytest.mark.neural, pytest.mark.extended],
    ),
    Row("msshift score {} --test length-short", _evaluated_file, r"short\.run\.gz +\d+ .* \d+\.\d"),
    Row("msshift submit --template > {}", _undescribed, r"(?m)^board = "),
    Row(
        "msshift triples {}",
        _as_built,
        Path("msshift/length-short-triples/train-00000-of-00001.parquet"),
        {"{}": "msshift"},
    ),
    Row(
        "msshift triples {} --shift {}",
        _without_triples,
        Path("msshift/length-short-triples/train-00000-of-00001.parquet"),
    ),
    Row("msshift verify {}", _changed_split, r"length", code=1),
)
"""The hints with values for the folder that they are printed for."""

NAMED = {
    "msshift build",
    "msshift build --licence",
    "msshift build --overwrite",
    "msshift evaluate",
    "msshift import",
    "msshift install",
    "msshift leakage clean",
    "msshift leakage find",
    "msshift leakage find --out",
    "msshift report",
    "msshift run",
    "msshift run --gpus",
    "msshift run --keep-model",
    "msshift score",
    "msshift submit",
    "msshift triples",
}
"""Hints that name a command and options without the values."""

OF_THE_HUB = "msshift install ORG/NAME"
OF_TEACHERS = "msshift run SYSTEM --keep-model --name SYSTEM-kept"


@pytest.mark.extended
def test_every_hint_has_a_row() -> None:
    assert hints() == {*(row.hint for row in TYPED), *NAMED, OF_THE_HUB, OF_TEACHERS}


def _typed(row: Row, printed: str) -> Words:
    """Return the words to type: the hint as it was printed, with values for its placeholders."""
    pattern = re.escape(row.hint).replace(r"\{\}\{\}", "{}").replace(r"\{\}", "{}")
    *values, last = pattern.split("{}")
    pattern = r"[^\s']+".join(values) + r"[^'\n]+" * bool(values) + last
    hint = re.findall(pattern, printed)[0] if printed else row.hint
    for words, value in row.instead.items():
        hint = re.sub(rf"(?<!\S){re.escape(words)}(?!\S)", value, hint)
    assert "{}" not in hint
    return [*shlex.split(hint.partition(" > ")[0])[1:], *row.add.split()]


@pytest.mark.every(4)
@pytest.mark.parametrize("row", [pytest.param(row, id=row.hint, marks=row.marks) for row in TYPED])
def test_a_hint_works_in_its_folder(row: Row, tmp_path: Path, world: Path) -> None:
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    words = _typed(row, row.prepare(tmp_path))
    made = tmp_path / row.made if isinstance(row.made, Path) else None
    assert made is None or not made.exists()
    done = run_msshift(words, tmp_path)
    assert done.returncode == row.code, done.stderr
    if made is None:
        assert re.search(str(row.made), f"{done.stdout}\n{done.stderr}"), done.stdout + done.stderr
    else:
        assert made.stat().st_size


@pytest.mark.parametrize("hint", sorted(NAMED))
def test_a_named_command_has_its_options(hint: str, tmp_path: Path) -> None:
    _, command, *words = hint.split()
    words = [command, *words[: command in GROUPS]]
    done = run_msshift([*words, "--help"], tmp_path)
    assert done.returncode == 0
    for option in re.findall(r"--[a-z-]+", hint):
        assert option in done.stdout


@pytest.mark.extended
def test_doctor_advises_an_installation_from_the_hub(
    tmp_path: Path, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasets import config

    monkeypatch.delenv("MSSHIFT_HOME", raising=False)
    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    hub = use_fake_hub(monkeypatch, tmp_path)
    hub.repositories[REPO] = Repository().publish(world / "msshift", "2.0.0")
    assert OF_THE_HUB in _call(tmp_path, "doctor")
    _call(tmp_path, OF_THE_HUB.removeprefix("msshift ").replace("ORG/NAME", REPO))
    assert file_bytes(tmp_path / "cache/data/msshift") == file_bytes(world / "msshift")
    assert OF_THE_HUB not in _call(tmp_path, "doctor")


TEACHER = "run bi-encoder --set teacher=runs/splade"


def _kept(printed: str) -> str:
    """Return the command that a message on a teacher advises, with a system's name."""
    assert printed.endswith(f": {OF_TEACHERS}\n")
    return OF_TEACHERS.removeprefix("msshift ").replace("SYSTEM", "splade")


@pytest.mark.extended
@pytest.mark.neural
def test_a_teacher_without_a_run_of_a_group_is_planned_again(
    tmp_path: Path, world: Path, trained: Callable[[str], Trained]
) -> None:
    (tmp_path / "msshift").symlink_to(world / "msshift")
    shutil.copytree(trained("splade").run_set, tmp_path / "runs/splade")
    advised = _kept(_call(tmp_path, f"{TEACHER} --dry-run", 3))
    planned = _call(tmp_path, f"{advised} --dry-run")
    assert re.findall(r"new +(\S+)", planned) == [
        f"runs/splade-kept/length/{group}.run.gz" for group in ("short", "long")
    ]


@pytest.mark.neural
@pytest.mark.extended
def test_a_teacher_is_trained_next_to_complete_runs(tmp_path: Path, world: Path) -> None:
    (tmp_path / "msshift").symlink_to(world / "msshift")
    _call(tmp_path, "run splade --held-out short")
    before = file_bytes(tmp_path / "runs/splade")
    advised = _kept(_call(tmp_path, TEACHER, 3))
    for _ in range(2):  # The second time, all runs are complete.
        _call(tmp_path, advised)
        for group in ("short", "long"):
            assert any((tmp_path / f"runs/splade-kept/length/{group}.model").iterdir())
    assert file_bytes(tmp_path / "runs/splade") == before
    _call(tmp_path, f"{TEACHER}-kept")
    assert (tmp_path / "runs/bi-encoder/length/long.run.gz").is_file()


def test_hints_with_spaces_and_two_kinds_of_test_sets(tmp_path: Path, world: Path) -> None:
    for name in ("msshift", "typos.tsv"):
        (tmp_path / f"my {name}").symlink_to(world / name)
    row = next(queries_of("length", world / "msshift"))
    write_test_set(tmp_path / "my set", {"q": row.text}, {"q": row.relevant_doc_ids[0]})
    words = "run bm25 --data 'my msshift' --out 'my runs' --extra-test 'typos=my typos.tsv'"
    printed = _call(tmp_path, f"{words} --extra-test 'set=my set'")
    own, typos, of_set = re.findall(r"(?m)with: msshift (evaluate .+)$", printed)
    assert re.search(r"bm25 +\d+\.\d", _call(tmp_path, own))
    for hint in (typos, of_set):
        assert re.search(r"bm25 +all +\d+", _call(tmp_path, hint))
    printed = _call(tmp_path, "score 'my runs' --test length-short --data 'my msshift'", 2)
    (folder,) = re.findall(r"(?m): msshift (evaluate .+)$", printed)
    assert re.search(r"bm25 +\d+\.\d", _call(tmp_path, f"{folder} --data 'my msshift'"))


# ---- two layouts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dry", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("there", "words"),
    [
        ("length/short.run", "bi-encoder --seeds 3"),
        ("length/seed-3/short.run", "bi-encoder"),
        ("length.run", "bi-encoder"),
        ("length/short.run", "bm25 --name bi-encoder"),
        ("extra/typos/length/short.run", "bi-encoder --seeds 3 --extra-test typos=typos.tsv"),
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
