"""``1_0`` and digits of other scripts are refused wherever a number is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from msshift_bench.annotation import read_annotations
from msshift_bench.checked import Checked, read_rows
from msshift_bench.cli import app
from msshift_bench.cli.options import whole_numbers
from msshift_bench.data import open_collection
from msshift_bench.errors import (
    CollectionError,
    MsShiftError,
    SubmissionError,
    UnknownNameError,
    UsageError,
)
from msshift_bench.evaluation import parse_measure
from msshift_bench.runs import read_qrels, read_run
from tests.support.commands import COMMANDS
from tests.support.lanes import with_first

ODD = ("1_0", "\u0661\u0660", "\uff11\uff10")
"""Ten with an underscore, in Arabic digits, and in full-width ones."""


NUMERIC = [
    (words, option.opts[0])
    for words, command in COMMANDS.items()
    for option in command.params
    if option.metavar in ("N", "X", "DAYS")
]


def test_there_are_options_of_numbers() -> None:
    assert (("annotate",), "--per-test") in NUMERIC
    assert (("agree",), "--precision") in NUMERIC


@pytest.mark.parametrize("odd", with_first(ODD, ODD[:1]))
def test_options(odd: str) -> None:
    for words, option in NUMERIC:
        done = CliRunner().invoke(app, [*words, option, odd])
        assert done.exit_code != 0
        assert f"{option} is {odd!r}" in done.output + str(done.exception)


@pytest.mark.parametrize("odd", ODD)
def test_lists_of_numbers(odd: str) -> None:
    with pytest.raises(UsageError, match="--seeds is"):
        whole_numbers("--seeds", f"1,{odd}")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["RR@{}", "R(rel={})@10", "AP(rel={})"])
def test_measures(odd: str, name: str) -> None:
    with pytest.raises((UnknownNameError, UsageError)):
        parse_measure(name.format(odd))


@pytest.mark.parametrize("odd", ODD)
def test_collections(odd: str) -> None:
    with pytest.raises(MsShiftError):
        open_collection(f"mini:{odd}")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("line", ["q Q0 d {} 1.0 t", "q Q0 d 1 {} t", "q\td\t{}"])
def test_runs(tmp_path: Path, line: str, odd: str) -> None:
    (tmp_path / "a.run").write_text(line.format(odd) + "\n", encoding="utf-8")
    with pytest.raises(MsShiftError):
        read_run(tmp_path / "a.run")


@pytest.mark.parametrize("odd", ODD)
def test_qrels(tmp_path: Path, odd: str) -> None:
    (tmp_path / "qrels").write_text(f"q 0 d {odd}\n", encoding="utf-8")
    with pytest.raises(CollectionError):
        read_qrels(tmp_path / "qrels")


class _Row(Checked):
    whole: int
    number: float
    name: str


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("row", ["{},1.5,a_1", "1,{},a_1"])
def test_tables_of_an_entry(tmp_path: Path, row: str, odd: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"whole,number,name\n1,1.5,a_1\n{row.format(odd)}\n", encoding="utf-8")
    with pytest.raises(SubmissionError, match=r"a.csv:3: (whole|number).*\[wrong-type\]"):
        read_rows(path, _Row, SubmissionError, "these rows are wrong:")
    path.write_text("whole,number,name\n1,1.5,a_1\n", encoding="utf-8")
    assert read_rows(path, _Row, SubmissionError, "these rows are wrong:")


@pytest.mark.parametrize("odd", ["0_1", "\u0660", "\uff10.\uff15"])
def test_cosines_of_a_sheet(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "a.csv"
    header = "test_id,test_text,train_id,train_text,cosine,annotator,label"
    path.write_text(f"{header}\n1,a,2,b,{odd},me,identical\n", encoding="utf-8")
    with pytest.raises(CollectionError, match="not-a-number"):
        read_annotations([path])
