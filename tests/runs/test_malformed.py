"""The corpus of malformed runs: each file's first finding is the expected one, in its line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.errors import RunError
from msshift_bench.plumbing import MAX_LINE_BYTES
from msshift_bench.runs import CODES, Judgements, judge_run, validate_run

SCRIPT = Path(__file__).parent.parent / "corpus" / "make_malformed.py"


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("make_malformed", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_malformed"] = module
    spec.loader.exec_module(module)
    return module


MAKE = load_script()
CORPUS = MAKE.corpus()
JUDGEMENTS = Judgements.from_qrels(MAKE.QRELS, queries=list(MAKE.QRELS))


@pytest.mark.parametrize("malformed", CORPUS, ids=[malformed.name for malformed in CORPUS])
def test_the_first_finding_is_the_expected_one(malformed: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.run"
    path.write_bytes(malformed.content)
    result = validate_run(path, JUDGEMENTS, tie_policy=malformed.tie_policy)
    found = result.errors if malformed.severity == "error" else result.warnings
    assert found, "nothing was found"
    assert (found[0].code, found[0].line) == (malformed.code, malformed.line)
    assert found[0].severity == malformed.severity
    assert found[0].source == str(path)
    assert found[0].fix
    assert result.ok == (malformed.severity == "warning")
    if result.ok:
        assert judge_run(path, JUDGEMENTS).report.warnings == found
    else:
        with pytest.raises(RunError, match=malformed.code):
            judge_run(path, JUDGEMENTS, tie_policy=malformed.tie_policy)
    with pytest.raises(RunError):
        judge_run(path, JUDGEMENTS, tie_policy=malformed.tie_policy, strict=True)


def test_the_run_that_all_are_made_from_is_flawless(tmp_path: Path) -> None:
    path = tmp_path / "good.run"
    path.write_text(MAKE.GOOD)
    assert judge_run(path, JUDGEMENTS, strict=True).report.lines == 6
    path.write_bytes(MAKE.parquet())
    assert judge_run(path, JUDGEMENTS, strict=True).report.lines == 3


@pytest.mark.parametrize("lines_before", [0, 1, 10_000, 50_000, 90_000, 98_000])
@pytest.mark.parametrize("size", [MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 4 * MAX_LINE_BYTES])
def test_a_line_of_more_than_a_mebibyte_is_no_text_wherever_it_stands(
    lines_before: int, size: int, tmp_path: Path
) -> None:
    before = "".join(f"q{n:08} Q0 d1 1 1.0 t\n" for n in range(lines_before))
    begin, end = "qx Q0 ", " 1 1.0 t"
    line = begin + "d" * (size - len(begin) - len(end)) + end
    path = tmp_path / "long.run"
    for rest in ("\n", "\nqy Q0 d1 1 1.0 t\n", ""):
        path.write_text(before + line + rest)
        found = validate_run(path).errors
        expected = [] if size <= MAX_LINE_BYTES else [("binary-input", lines_before + 1)]
        assert [(one.code, one.line) for one in found] == expected


def test_the_corpus_covers_every_code() -> None:
    assert len(CORPUS) >= 60
    # That a file changes is not to be seen from what it holds.
    assert {malformed.code for malformed in CORPUS} == set(CODES) - {"changed-while-read"}


@pytest.mark.slow
def test_the_script_writes_the_corpus_and_what_to_expect(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], check=True)
    _, *rows = (tmp_path / "expected.tsv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == len(CORPUS)
    for row, malformed in zip(rows, CORPUS, strict=True):
        name, code, line, *_ = row.split("\t")
        assert (code, int(line)) == (malformed.code, malformed.line)
        assert (tmp_path / name).read_bytes() == malformed.content
