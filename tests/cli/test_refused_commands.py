"""Arguments that are wrong or contradict each other: an exit code, the wrong value, and a fix.

The first refusal of every command is in tests/integration/test_commands.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from msshift_bench.cli.options import replacements
from msshift_bench.data import open_dataset
from msshift_bench.errors import UsageError
from tests.conftest import Build, Command
from tests.support.fabricated import write_runs


@pytest.fixture(scope="module")
def made(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of two shifts, two systems and a reference, runs, judgements and queries."""
    folder = tmp_path_factory.mktemp("refused")
    data = build_once("mini:300", "length", "wh-words")
    (folder / "msshift").symlink_to(data)
    write_runs(folder / "runs" / "dense", data)
    write_runs(folder / "runs" / "dense", data, "wh-words")
    write_runs(folder / "runs" / "splade", data)
    write_runs(folder / "runs" / "bm25", data, one=True)
    (folder / "empty").mkdir()
    (folder / "qrels.txt").write_text("1 0 a 1\n")
    (folder / "a.run").write_text("1 Q0 a 1 3.0 t\n")
    (folder / "train.tsv").write_text("1\tcheap flights to rome\n")
    return folder


@pytest.fixture
def work(made: Path, tmp_path: Path) -> Path:
    """The test's folder, in which commands run."""
    for path in made.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return tmp_path


QRELS = "score a.run --qrels qrels.txt"
PUBLISHED = "--measures x --bins 9 --split all --models runs --allow partial"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("no-such-command", 2, "No such command"),
        ("build --collection ./nowhere", 3, "no folder ./nowhere; give a folder"),
        (f"build --collection {__file__}", 3, "test_refused_commands.py is a file; give a folder"),
        ("build --rule wh-words", 2, "give SHIFT=RULE, e.g. wh-words=substring"),
        ("build --collection mini:300 --rule wh-words=wrd", 2, "did you mean 'word'?"),
        ("build --test-size 0", 2, "test-size"),
        ("import one two --check", 2, "--check needs one checkout, got 2"),
        ("run bm25 --data nowhere", 3, "no built data set at nowhere"),
        ("run bm25 --recipe mini", 2, "bm25 has no recipe; remove the recipe 'mini'"),
        ("run bm25 --set sede=1 --set seed=3", 2, "2 unknown fields of bm25:\n"),
        ("submit --out entry", 2, "give the folder of a system's run sets and --system FILE"),
        ("evaluate nowhere", 3, "no folder nowhere"),
        ("evaluate empty --measures MRR", 2, "holds no run set"),
        ("evaluate runs --format word", 2, "unknown format 'word'"),
        ("evaluate runs --ties trek", 2, "did you mean 'trec'?"),
        ("evaluate a.run", 2, "'msshift score a.run --test length-short', or --qrels FILE"),
        ("evaluate runs --allow identcal", 2, "did you mean 'identical'? valid are partial, "),
        ("evaluate runs --by lengt-h", 2, "did you mean 'length'"),
        ("evaluate runs --by qrels.txt --delta", 2, "--delta cannot be used with --by; remove"),
        ("evaluate runs --measures RR@10,NumRet", 2, "error: NumRet is a sum over queries, not"),
        ("compare runs --measures RR@10,NumRet", 2, "error: NumRet is a sum over queries, not"),
        ("compare a.run", 2, "and --reference RUN compares it"),
        ("compare runs/bm25", 2, "expected two systems with complete run sets for the same shift"),
        ("compare runs --shift wh-words --reference dense", 2, "wh-words: not compared, because"),
        ("compare runs --format xls", 2, "unknown format 'xls'"),
        ("score a.run", 2, "e.g. length-short, --shift SHIFT, or --qrels FILE"),
        ("score runs --test length-short", 2, "evaluate the folder's run sets: msshift evaluate r"),
        (f"{QRELS} --test length-short", 2, "give only one of them"),
        ("score a.run --check --output x.json", 2, "--output cannot be used with --check; remove"),
        ("score a.run --qrels nowhere.txt", 3, "no qrels file nowhere.txt"),
        ("score a.run --qrels .", 2, "error: . is a folder; give a file\n"),
        ("score nowhere.run --qrels qrels.txt", 3, "there is no file nowhere.run"),
        ("score nowhere.run --check", 3, "there is no file nowhere.run"),
        (f"{QRELS} --correction hulm", 2, "'hulm': did you mean 'holm'?"),
        (f"{QRELS} --format xls", 2, "unknown format 'xls': valid are"),
        (f"{QRELS} --output x.xls", 2, "unknown ending of --output '.xls'"),
        ("analyse", 2, "give folders of run sets, a file of models' scores, or --published"),
        ("analyse runs --published", 2, "give folders of run sets, a file of models'"),
        ("analyse runs --shift topics", 2, "no run set of topics"),
        ("analyse runs --models runs", 2, "option 'models'; leave it out, or add one of"),
        ("analyse runs --output msshift/a.json", 2, "msshift"),
        ("analyse runs --train train.tsv", 2, "--train and --test are the files of training and"),
        ("analyse runs --extrapolate", 2, "--extrapolate is for predictions; add --train and"),
        (f"analyse --published {PUBLISHED}", 2, "--models, --allow cannot be used with --publish"),
        ("analyse train.tsv --shift topics", 2, "--shift cannot be used with an alignment of"),
    ],
)
def test_a_wrong_line_is_refused(
    msshift: Command, work: Path, line: str, code: int, words: str
) -> None:
    done = msshift(*line.split())
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_topics_grow_as_far_as_the_command_asks(msshift: Command, tmp_path: Path) -> None:
    line = "build topics --collection mini:500 --encoder terms --topic-size 40"
    done = msshift(*line.split())
    assert done.returncode == 0, done.stderr
    parameters = open_dataset(tmp_path / "msshift").manifest.shifts["topics"]["parameters"]
    assert parameters["clustering"]["target"] == 40


def test_values_are_read_as_toml_and_what_is_none_as_a_text() -> None:
    settings = ["seed=3", "k1 = 0.9", "a.b=true", "c=[1, 2]", "d=some/model", 'e="3"', "f=x=y"]
    values = {"seed": 3, "k1": 0.9, "a.b": True, "c": [1, 2], "d": "some/model"}
    assert replacements(settings) == {**values, "e": "3", "f": "x=y"}
    for wrong, message in (
        (["seed"], "--set is 'seed'; give KEY=VALUE"),
        (["=3"], "--set is '=3'"),
        (["seed="], "--set is 'seed='"),
        (["seed=1", "seed=2"], "--set names seed twice"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            replacements(wrong)
