"""The command line as a user meets it: the installed console script, in a folder of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from msshift_bench.stats import detectable_rel_loss
from tests.conftest import Build, Command
from tests.support.commands import COMMANDS


@pytest.fixture
def built(build_copy: Build) -> Path:
    return build_copy("mini:500", "topics", "wh-words", "length")


def test_version(script: Command) -> None:
    done = script("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"msshift-bench \d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["verify"],
        ["build", "lenght"],
        ["evaluate", "nowhere", "--format", "json"],
        ["run", "./x", "--set", "kind=bm25"],
        [],
    ],
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
    done = msshift("evaluate", "runs", "--output", "report.json")
    assert done.returncode == 0, done.stderr
    assert "bm25" in done.stdout
    assert json.loads((tmp_path / "report.json").read_text())["runs"][0]["shift"] == "length"
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["build", "--collection", "./nowhere"], 3, "no folder ./nowhere; give a folder"),
        (["build", "--collection", __file__], 3, "test_cli.py is a file; give a folder"),
        (["import", "./nowhere", "--check"], 3, "no folder nowhere; give a checkout"),
        (["build", "lenght"], 2, "unknown shift 'lenght': did you mean 'length'?"),
        (["build", "--rule", "wh-words"], 2, "give SHIFT=RULE, e.g. wh-words=substring"),
        (["build", "--rule", "wh-words=wrd"], 2, "did you mean 'word'?"),
        (["build", "--test-size", "0"], 2, "test-size"),
        (["verify", "nowhere"], 3, "no built data set at nowhere"),
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
        (["bm52"], "unknown system 'bm52': did you mean 'bm25'?"),
        (["bm25", "--shift", "wh-word"], "did you mean 'wh-words'?"),
        (["bm25", "--shift", "resttest"], "unknown shift in msshift 'resttest'"),
        (["bm25", "--held-out", "short"], "not trained"),
        (["bi-encoder", "--shift", "length", "--held-out", "shrt"], "did you mean 'short'?"),
        (
            ["bm25", "--recipe", "mini"],
            "bm25 is not trained by a recipe; leave 'mini' out",
        ),
        (["bm25", "--set", "sede=1", "--set", "seed=3"], "does not have 2 of these fields:\n"),
        (["bm25", "--collection", "mini:600"], "give the collection it was built from"),
    ],
)
def test_bad_baseline_requests(
    msshift: Command, built: Path, arguments: list[str], message: str
) -> None:
    done = msshift("run", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_installed_command_names_a_missing_extra_in_one_sentence(
    script: Command, built: Path, tmp_path: Path
) -> None:
    (tmp_path / "absent").mkdir()
    absent = tmp_path / "absent" / "Stemmer.py"
    absent.write_text("raise ModuleNotFoundError('no Stemmer', name='Stemmer')")
    done = script("run", "bm25", "--shift", "length", PYTHONPATH=str(absent.parent))
    assert done.returncode == 3, done.stderr
    assert "'bm25' extra: pip install 'msshift-bench[bm25]'" in done.stderr
    assert "Traceback" not in done.stderr
