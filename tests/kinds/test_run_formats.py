"""Every run format: the same scores, what is recognised, and what is refused where."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd
import pyarrow as pa
import pytest

import msshift_bench as ms
from msshift_bench.cli.options import completing
from msshift_bench.errors import RunError, UsageError
from msshift_bench.evaluation import Settings
from msshift_bench.libraries import Library
from msshift_bench.runs import CODES, RUN_FORMATS, run_sources
from tests.conftest import REPOSITORY, Command
from tests.runs.conftest import codes
from tests.support.compressing import COMPRESSORS
from tests.support.run_formats import WRITERS, Rankings, Rows, parquet, rows_of

ranx: Any = Library("ranx", "")

RUN: Rankings = {
    "q1": {"d1": 12.5, "d2": 0.30000001192092896, "d10": -1.75, "d4": -3e-05},
    "q2": {"d7": 3.5, "d1": 2.25},
    "3": {"d5": 7.0, "d9": 6.0, "d8": 2.5},
}
RUN = {query: dict(sorted(docs.items(), key=lambda one: -one[1])) for query, docs in RUN.items()}
"""Without ties, each query's documents in the order of their scores."""

QRELS = {"q1": {"d2": 1, "d4": 2}, "q2": {"d1": 1}, "3": {"d5": 1, "d8": 2}, "4": {"d1": 1}}
MEASURES = "RR@10 nDCG@10 AP R@2"

FILES = {
    (name, end): compress
    for name in RUN_FORMATS
    for end, compress in {"": bytes, **COMPRESSORS}.items()
    if end in ("", "gz") or name in ("json", "colbert")
}
"""Format and compression -> a function that compresses."""


def scores(run: Any, **options: Any) -> list[tuple[str, str, float]]:
    """Return our scores of each query and measure."""
    (of_run,) = ms.score_runs([run], QRELS, Settings(MEASURES, **options)).scores
    (scored,) = of_run.runs.values()
    return [
        (query, measure, float(value))
        for measure, values in scored.scores.items()
        for query, value in zip(QRELS, values.tolist(), strict=True)
    ]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a file and returns its path."""

    def write_file(content: bytes | str, name: str = "a.run") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


Write = Callable[..., Path]


# The same ranking.


def test_every_format_has_a_writer() -> None:
    assert WRITERS.keys() == RUN_FORMATS.keys() == DAMAGED.keys()


def test_choices_are_the_rows_of_the_table(msshift: Command, write: Write) -> None:
    assert completing("runs:RUN_FORMATS")("") == [*RUN_FORMATS]
    done = msshift("score", write("q1 Q0 d 1 1 t\n").name, "--check", "--run-format", "csv")
    assert done.returncode == 2
    assert [name for name in RUN_FORMATS if name not in done.stderr] == []
    for code in ("field-count", "binary-input"):
        assert "three-scores" in CODES[code]


def test_standard_input_may_be_in_any_format(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mteb", "jsonl", "parquet", "colbert"):
        data = gzip.compress(WRITERS[name](rows_of(RUN)))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert scores("-") == scores(RUN)


@pytest.mark.parametrize(("name", "end"), FILES)
def test_the_same_ranking_has_the_same_scores(write: Write, name: str, end: str) -> None:
    path = write(FILES[name, end](WRITERS[name](rows_of(RUN))))
    assert scores(path) == scores(RUN) == scores(path, run_format=name)
    assert ms.validate_run(path, strict=True).ok
    expected = RUN
    if name == "msmarco":
        expected = {q: dict(zip(docs, (-1, -2, -3, -4), strict=False)) for q, docs in RUN.items()}
    assert ms.read_run(path) == {
        query: {doc: pytest.approx(score, rel=1e-7) for doc, score in docs.items()}
        for query, docs in expected.items()
    }


def test_scores_are_those_of_ir_measures(write: Write) -> None:
    parsed = [ir_measures.parse_measure(name) for name in MEASURES.split()]
    run = {query: dict(docs) for query, docs in RUN.items()}
    theirs = {
        (one.query_id, str(one.measure)): one.value
        for one in ir_measures.iter_calc(parsed, QRELS, run)
    }
    for query, measure, value in scores(write(WRITERS["mteb"](rows_of(RUN)))):
        assert value == pytest.approx(theirs.get((query, measure), 0.0), abs=1e-9)


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore")
def test_files_and_scores_of_ranx(tmp_path: Path) -> None:
    """Its first calls compile for a minute."""
    run = ranx.Run({query: dict(docs) for query, docs in RUN.items()}, name="ours")
    for kind in ("json", "parquet", "trec"):
        run.save(str(tmp_path / f"run.{kind}"))
        assert scores(tmp_path / f"run.{kind}") == scores(RUN)
    names = {"mrr@10": "RR@10", "ndcg@10": "nDCG@10", "map": "AP", "recall@2": "R@2"}
    means = ranx.evaluate(ranx.Qrels(QRELS), run, list(names), make_comparable=True)
    for name, ours in names.items():
        values = [value for _, measure, value in scores(RUN) if measure == ours]
        assert sum(values) / len(values) == pytest.approx(means[name], abs=1e-9)


@pytest.mark.neural
def test_files_and_scores_of_sentence_transformers(tmp_path: Path) -> None:
    import torch
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
    from sentence_transformers.util import dot_score

    class Evaluator(InformationRetrievalEvaluator):
        def embed_inputs(self, model: Any, sentences: Any, **_: Any) -> torch.Tensor:
            places = [float(text) for text in sentences]
            return torch.tensor([[1.0, place, math.sin(place)] for place in places])

    texts = {f"d{number}": f"{number}" for number in range(50)}
    queries = {f"q{number}": f"{number / 7}" for number in range(1, 9)}
    relevant = {query: {f"d{7 * place}"} for place, query in enumerate(queries)}
    evaluator = Evaluator(
        queries, texts, relevant, score_functions={"dot": dot_score}, write_predictions=True
    )
    model: Any = None
    theirs = evaluator.compute_all_metrics(model, output_path=str(tmp_path))["dot"]
    (path,) = tmp_path.glob("*_predictions_dot.jsonl")
    qrels = {query: dict.fromkeys(docs, 1) for query, docs in relevant.items()}
    figures = ms.score_runs([path], qrels, Settings("RR@10 nDCG@10 R@10")).figures
    for measure, name in {"RR@10": "mrr@k", "nDCG@10": "ndcg@k", "R@10": "recall@k"}.items():
        ours = figures.first(figure="score", measure=measure).value
        assert ours == pytest.approx(theirs[name][10], abs=1e-9)


@pytest.mark.parametrize("index", [[], ["qid"], ["qid", "docno"], ["score"]])
def test_parquet_of_pandas_is_read_with_its_index(tmp_path: Path, index: list[str]) -> None:
    rows = [(q, doc, score, "text") for q, docs in RUN.items() for doc, score in docs.items()]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "score", "query"]).sample(
        frac=1, random_state=1
    )
    frame = frame.set_index(index) if index else frame
    frame.to_parquet(tmp_path / "a.parquet")
    assert scores(tmp_path / "a.parquet") == scores(RUN)


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary("int32", "string")]
)
def test_parquet_of_polars_is_read(write: Write, kind: pa.DataType) -> None:
    """polars writes large strings, or views, and categories as dictionaries."""
    path = write(parquet(rows_of(RUN), query_id=kind, doc_id=kind, score=pa.float32()))
    assert scores(path) == scores(RUN)


# Which format it is.

THREE_COLUMNS: dict[str, tuple[str, str]] = {
    "ranks": ("1 2 3 | 1 2", "msmarco"),
    "ranks from 0": ("0 1 2 | 0 1", "msmarco"),
    "ranks of one document": ("1 2 3 | 1", "msmarco"),
    "decimal ranks": ("1.0 2.0 3.0 | 1.0", "msmarco"),
    "whole scores": ("30 20 10 | 9 4", "three-scores"),
    "whole scores, and a permutation": ("30 20 10 | 2 1", "three-scores"),
    "equal whole scores": ("3 3 2 | 7 7 5", "three-scores"),
    "one decimal number": ("3 2.5 1 | 2 1", "three-scores"),
    "decimal whole numbers": ("3.0 2.0 1.0", "three-scores"),
    "one negative number": ("1 -1", "three-scores"),
    "powers": ("1e2 1e1", "three-scores"),
    "one decimal line": ("0.5", "three-scores"),
    "one line": ("1", ""),
    "one line per query": ("1 | 1 | 1", ""),
    "one whole line per query": ("9 | 7", ""),
    "falling permutations": ("3 2 1 | 2 1", ""),
    "a permutation": ("2 1 3", ""),
    "falling ranks from 9": ("9 8 7", ""),
    "gaps": ("1 2 4", ""),
    "ranks from 2": ("2 3 4", ""),
    "ranks and scores": ("1 2 3 | 9.5 7.5", ""),
    "ranks and falling numbers": ("1 2 3 | 30 10", ""),
}
"""Third columns by query -> the format, or "" if the user must name it."""


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("case", THREE_COLUMNS)
def test_three_columns_are_ranks_or_scores(write: Write, case: str, interleaved: bool) -> None:
    numbers, name = THREE_COLUMNS[case]
    lines = [
        (place if interleaved else 0, f"q{query}\td{place}\t{number}\n")
        for query, of_query in enumerate(numbers.split(" | "))
        for place, number in enumerate(of_query.split())
    ]
    path = write("".join(line for _, line in sorted(lines, key=lambda line: line[0])))
    if name:
        assert ms.read_run(path) == ms.read_run(path, format=name)
        assert ms.validate_run(path).counts.get("rank-decimal", 0) == (case == "decimal ranks")
        return
    with pytest.raises(RunError, match="--run-format msmarco or three-scores") as caught:
        ms.read_run(path)
    assert codes(caught.value) == [("format-ambiguous", 1)]
    assert ms.read_run(path, format="three-scores")


def test_an_ambiguous_first_file_is_the_only_finding(write: Write) -> None:
    files = [write(f"q{number}\td1\t7\n", f"{number}.run") for number in range(3)]
    with pytest.raises(RunError, match="--run-format msmarco or three-scores") as caught:
        ms.read_run(files)
    (finding,) = caught.value.findings
    assert (finding.code, finding.source) == ("format-ambiguous", str(files[0]))


FOUR_COLUMNS = {
    "ColBERT": ("1 a 1 9.5\n1 b 2 9\n2 a 1 4\n", True),
    "ColBERT with ties": ("1 a 1 9.5\n1 b 2 9.5\n2 a 1 4\n2 b 2 3\n", True),
    "qrels": ("1 0 1 1\n1 0 2 0\n", False),
    "qrels of iterations": ("1 Q0 d1 1\n1 Q1 d2 0\n", False),
    "qrels of ir_datasets": ("1 a 1 0\n2 b 1 0\n", False),
    "graded qrels of ir_datasets": ("1 a 1 0\n1 b 2 0\n", False),
    "ranks from 0": ("1 a 0 9\n1 b 1 8\n", False),
    "ranks with a gap": ("1 a 1 9\n1 b 3 8\n", False),
    "rising scores": ("1 a 1 8\n1 b 2 9\n", False),
    "one document": ("1 a 1 9\n1 a 2 8\n", False),
}


@pytest.mark.parametrize("case", FOUR_COLUMNS)
def test_four_columns_are_colbert_s_or_qrels(write: Write, case: str) -> None:
    text, is_colbert = FOUR_COLUMNS[case]
    path = write(text)
    if is_colbert:
        assert ms.read_run(path) == ms.read_run(path, format="colbert")
        return
    with pytest.raises(RunError, match="these are qrels, or name --run-format colbert") as caught:
        ms.read_run(path)
    assert codes(caught.value)[0] == ("field-count", 1)


@pytest.mark.parametrize("name", ["msmarco", "three-scores", "colbert"])
def test_a_query_may_reach_over_the_end_of_a_block(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Blocks of 16 KiB; in the order of queries, and interleaved."""
    monkeypatch.setattr("msshift_bench.runs.lines._BLOCK_BYTES", 1 << 14)
    run = {
        f"q{query}": {f"d{doc}": float(3_000 - 3 * doc) for doc in range(1_000)}
        for query in range(4)
    }
    lines = WRITERS[name](rows_of(run)).splitlines(keepends=True)
    expected = {q: list(docs) for q, docs in run.items()}
    for text in (lines, sorted(lines, key=lambda line: int(line.split()[1][1:]))):
        read = ms.read_run(write(b"".join(text)))
        assert {query: list(docs) for query, docs in read.items()} == expected


def test_a_later_block_of_another_format_is_an_error(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msshift_bench.runs.lines._BLOCK_BYTES", 1 << 14)
    ranking = {"q1": {f"d{doc}": float(3_000 - 3 * doc) for doc in range(2_000)}}
    first = {name: WRITERS[name](rows_of(ranking)) for name in WRITERS}
    for name, more, code in (
        ("msmarco", b"q2\ta\t9\nq2\tb\t7\n", "format-contradicted"),
        ("msmarco", b"q2\ta\t9.5\nq2\tb\t7\n", "rank-not-integer"),
        ("three-scores", b"q2\ta\t1\nq2\tb\t2\n", "format-contradicted"),
        ("colbert", b"q2\ta\t7\t1\nq2\tb\t9\t2\n", "format-contradicted"),
    ):
        path = write(first[name] + more)
        with pytest.raises(RunError) as caught:
            ms.read_run(path)
        found = codes(caught.value)
        assert found[0] == (code, 2_001)
        if code == "format-contradicted":
            assert ms.validate_run(path, format=name).ok
    # Parts of a run have one format, which the first decides.
    parts = [write(first["msmarco"], "a"), write("q2\ta\t9\nq2\tb\t7\n", "b")]
    with pytest.raises(RunError) as caught:
        ms.read_run(parts)
    (finding,) = caught.value.findings
    assert (finding.code, finding.line, finding.source) == (
        "format-contradicted", 1, str(parts[1])
    )  # fmt: skip


def test_a_decimal_rank_is_one_warning_per_file(write: Write) -> None:
    path = write("q1 Q0 a 1.0 3 t\nq1 Q0 b 2.0 2 t\nq1 Q0 c 3.00 1 t\n")
    result = ms.validate_run([path, write("q2 Q0 a 1.0 3 t\n", "b.run")])
    assert codes(result.warnings) == [("rank-decimal", 1), ("rank-decimal", 1)]
    assert ms.read_run(path) == {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}}
    assert scores(path, ties="rank")


def test_formats_without_ranks_cannot_break_ties_by_rank(write: Write) -> None:
    for name in ("three-scores", "json", "mteb", "jsonl", "parquet"):
        with pytest.raises(UsageError, match="has no ranks"):
            scores(write(WRITERS[name](rows_of(RUN))), ties="rank")


# What is wrong.

Case = tuple[bytes, str, int, str]
"""Content, code, line and words of the message."""


def changed(name: str, old: str, new: str) -> bytes:
    """Return a run of the format with a text replaced, which it must contain once."""
    content = WRITERS[name](ROWS)
    assert content.count(old.encode()) == 1, (name, old)
    return content.replace(old.encode(), new.encode("latin-1"))


ROWS: Rows = [("q1", [("da", "9.5"), ("db", "8.5")]), ("q2", [("dc", "7.5"), ("dd", "2.5")])]
TWICE: Rows = [ROWS[0], ("q2", [("dc", "7.5"), ("dc", "2.5")])]


def test_a_line_of_json_that_is_too_long_ends_reading(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msshift_bench.runs.json_runs._MAX_RECORD_BYTES", 100)
    line = '{"query_id": "%s", "results": [{"corpus_id": "d1", "score": 1}]}\n'
    assert ms.read_run(write(line % "q1" + line % "q2")) == {"q1": {"d1": 1}, "q2": {"d1": 1}}
    with pytest.raises(RunError, match="100 bytes") as caught:
        ms.read_run(write(line % "q1" + line % ("q" * 250) + line % "q3"))
    assert codes(caught.value) == [("json-too-large", 2)]
    assert caught.value.findings[0].fix


LINE = {"jsonl": 2, "json": 0, "mteb": 0, "parquet": 4}
"""Format -> the line of the last document; 4 for lines of text."""


def damaged(name: str) -> Iterator[tuple[str, Case]]:
    """Yield each kind of damage to a file of a format."""
    line, is_json = LINE.get(name, 4), name in ("json", "mteb", "jsonl")
    content = WRITERS[name](ROWS)
    yield "document twice", (WRITERS[name](TWICE), "duplicate-document", line, "dc")
    yield "compressed and cut off", (gzip.compress(content)[:-9], "truncated-input", 0, "damaged")
    yield "empty", (b"", "empty-file" if name != "parquet" else "truncated-input", 0, "")
    if name != "msmarco":
        infinite = "score-infinite"
        for token, code in {"nan": "score-nan", "-inf": infinite, "-1e39": infinite}.items():
            rows = [ROWS[0], ("q2", [("dc", "7.5"), ("dd", token)])]
            text = WRITERS[name](rows)  # type: ignore[arg-type]
            if is_json:
                text = text.replace(b"nan", b"NaN").replace(b"inf", b"Infinity")
            yield token, (text, code, line, "")
    if name == "parquet":
        half = content[: len(content) // 2]
        yield "cut off", (half, "truncated-input", 0, "")
        empty = parquet([("q1", [("", "9.5")])])
        yield "empty id", (empty, "id-invalid", 1, "q1")
        texts = parquet(ROWS, score=pa.string())
        yield "text for a score", (texts, "score-not-number", 1, "da")
        return
    yield "not UTF-8", (changed(name, "dd", "d\xff"), "not-utf8", line or 1, "")
    if not is_json:
        fields = len(content.split(b"\n")[0].split())
        yield "cut off", (content[:-6], "field-count", 4, f"where {fields}")
        yield "empty id", (changed(name, "dd", ""), "field-count", 4, f"where {fields}")
        code = "rank-not-integer" if name == "msmarco" else "score-not-number"
        header = {6: "query Q0 doc rank score tag\n", 3: "query doc number\n"}
        yield (
            "header",
            (
                header.get(fields, "query doc rank score\n").encode() + content,
                "rank-not-integer" if name != "three-scores" else code,
                1,
                "",
            ),
        )
        yield "text for a number", (
            changed(name, "2" if name == "msmarco" else "2.5", "high") if name != "msmarco"
            else content.replace(b"dd\t2", b"dd\thigh"),
            code,
            4,
            "high",
        )  # fmt: skip
        yield "NUL byte", (changed(name, "dd", "d\0"), "binary-input", 4, "")
        return
    yield "cut off", (content[:-6], "not-json", line or 1, "")
    yield "empty id", (changed(name, "dd", ""), "id-invalid", line, "q2")
    yield "half of a character", (changed(name, "dd", "\\ud800"), "id-invalid", line, "q2")
    for value in ('"2.5"', "true", "null"):
        yield value, (changed(name, "2.5", value), "score-not-number", line, "dd")
    deep = changed(name, "2.5", "[" * 100_000 + "]" * 100_000)
    yield "too deep", (deep, "not-json", line or 1, "depth")
    if name == "jsonl":
        again = changed(name, '"query_id": "q2"', '"query_id": "q2", "query_id": "q3"')
        yield "key twice", (again, "duplicate-key", 2, "query_id")
        for what, old, new in (
            (
                "no list",
                '"results": [{"corpus_id": "dc"',
                '"results": {"corpus_id": ["dc"]}, "x": [{"a": 1',
            ),
            ("no score", '"score": 2.5', '"scores": 2.5'),
            ("no results", '"results": [{"corpus_id": "dc"', '"hits": [{"corpus_id": "dc"'),
        ):
            yield what, (changed(name, old, new), "wrong-nesting", 2, "")
        yield "a list", (content + b"[1]\n", "wrong-nesting", 3, "list")
        return
    yield "score in a list", (changed(name, "2.5", "[2.5]"), "wrong-nesting", 0, "dd")
    yield "one level more", (changed(name, "2.5", '{"a": 2.5}'), "wrong-nesting", 0, "dd")
    flat = changed(name, '{"dc": 7.5, "dd": 2.5}', "[1]")
    yield "list of documents", (flat, "wrong-nesting", 0, "q2")
    yield "query twice", (changed(name, '"q2"', '"q1"'), "duplicate-key", 0, "q1")
    yield "something behind", (content + b"{}", "not-json", 1, "")


DAMAGED: Mapping[str, dict[str, Case]] = {name: dict(damaged(name)) for name in WRITERS}


@pytest.mark.parametrize(
    ("name", "what"), [(name, what) for name, cases in DAMAGED.items() for what in cases]
)
def test_damage_is_refused_at_its_place(write: Write, name: str, what: str) -> None:
    content, code, line, word = DAMAGED[name][what]
    path = write(content)
    options: dict[str, str] = {} if content else {"format": name}
    with pytest.raises(RunError) as caught:
        ms.read_run(path, **options)  # type: ignore[arg-type]
    found = [one for one in caught.value.findings if one.code == code]
    assert [(one.line, one.source) for one in found[:1]] == [(line, str(path))]
    assert word in found[0].message
    assert found[0].fix
    assert ms.validate_run(path, **options).errors == caught.value.findings  # type: ignore[arg-type]


def test_json_of_too_many_bytes_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file that unpacks to more than a limit, which is a gigabyte."""
    monkeypatch.setattr("msshift_bench.runs.sources.MAX_UNPACKED", 1 << 20)
    monkeypatch.setattr("msshift_bench.runs.sources.MAX_UNPACKED", 1 << 20)
    bomb = WRITERS["json"](rows_of(RUN)) + b" " * (3 << 20)
    for content, code in (
        (gzip.compress(bomb), "json-too-large"),
        (gzip.compress(WRITERS["parquet"](rows_of(RUN)) + bytes(3 << 20)), "parquet-too-large"),
    ):
        with pytest.raises(RunError) as caught:
            ms.read_run(write(content))
        assert codes(caught.value) == [(code, 0)]


# Files of several runs.


def predictions(**runs: Rankings) -> str:
    """Return MTEB's predictions; a name is a subset and a split."""
    value: dict[str, Any] = {"mteb_model_meta": {"model_name": "org/model", "revision": "abc"}}
    for name, run in runs.items():
        subset, split = name.split("_")
        value.setdefault(subset, {})[split] = run
    return json.dumps(value)


def test_each_run_of_a_file_of_several_is_scored(write: Write, msshift: Command) -> None:
    worse = {
        query: dict(zip(docs, sorted(docs.values()), strict=True)) for query, docs in RUN.items()
    }
    path = write(predictions(en_test=RUN, en_dev={"q1": {}}, de_test=worse), "T_predictions.json")
    write(json.dumps(RUN), "run.json")
    write("".join(f"{q} 0 {d} {r}\n" for q, of in QRELS.items() for d, r in of.items()), "q.qrels")
    with pytest.raises(RunError, match="en/test") as caught:
        ms.read_run(path)
    assert codes(caught.value) == [("several-runs", 0)]
    sources = run_sources(path)
    names = [f"{path}:{name}" for name in ("en/test", "en/dev", "de/test")]
    assert [source.name for source in sources] == names
    assert {source.facts["revision"] for source in sources} == {"abc"}
    assert ms.read_run(sources[2]) == ms.read_run(worse)
    with pytest.raises(UsageError, match="has no ranks"):
        scores(sources[0], ties="rank")

    write(predictions(en_test=RUN, de_test=worse), path.name)
    names = [f"{path.name}:en/test", f"{path.name}:de/test"]
    options = ["--qrels", "q.qrels", "--measures", "AP", "--format", "csv"]
    done = msshift("score", path.name, "run.json", *options, "--reference", names[1])
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    means = [row for row in rows if row["figure"] == "score" and not row["against"]]
    values = {row["system"]: row["value"] for row in means}
    assert [*values] == [*names, "run.json"]
    assert values[names[0]] == values["run.json"] != values[names[1]]
    assert {row["against"] for row in rows} == {"", names[1]}
    done = msshift("score", path.name, "--check", "--format", "json")
    assert list(json.loads(done.stdout)) == names


def test_a_file_of_one_named_run_is_a_run(write: Write) -> None:
    path = write(predictions(default_test=RUN))
    (source,) = run_sources(path)
    assert (source.name, source.path) == (str(path), path)
    result = ms.score_runs([path], QRELS).to_json()
    assert [run["tag"] for run in result["runs"]] == ["org/model"]
    assert scores(path) == scores(source) == scores(RUN)
    for other in (RUN, write(WRITERS["trec"](rows_of(RUN)), "b.run"), source):
        assert len(run_sources(other)) == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"mteb_model_meta": {}, "en": {"test": {"q": {"d": 1}}, "test": {}}}', "duplicate-key"),
        ('{"mteb_model_meta": {}, "en": [1]}', "wrong-nesting"),
        ('{"mteb_model_meta": {}}', "empty-file"),
        ("[[1]]", "wrong-nesting"),
        ("{}", "empty-file"),
    ],
)
def test_predictions_of_another_nesting_are_refused(write: Write, text: str, code: str) -> None:
    path = write(text)
    with pytest.raises(RunError) as caught:
        ms.score_runs([path], QRELS)
    assert [(one.code, one.line) for one in caught.value.findings] == [(code, 0)]


def test_rankings_in_lists_need_query_ids() -> None:
    ranking = [{"id": "d1", "score": 2.0}, {"id": 7, "score": 1.5}]
    assert ms.read_run({"q1": ranking, "q2": [("d1", 1.0)], "q3": []}) == {
        "q1": {"d1": 2.0, "7": 1.5}, "q2": {"d1": 1.0}
    }  # fmt: skip
    with pytest.raises(UsageError, match="query_ids"):
        ms.read_run([ranking])
    report = ms.validate_run({"q1": [{"id": "d1"}, {"id": "d2", "score": 1.0}]})
    assert codes(report.errors) == [("score-not-number", 0)]


# A new format.


def test_a_new_format_is_one_function_and_one_row(
    write: Write, monkeypatch: pytest.MonkeyPatch, msshift: Command
) -> None:
    """The one that docs/architecture.md shows."""
    page = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (block,) = (block for block in blocks if "RunFormat(" in block)
    shown: dict[str, Any] = {}
    exec(block, shown)
    monkeypatch.setitem(RUN_FORMATS, "csv", shown["row"])  # type: ignore[arg-type]
    text = "".join(f"{q},{d},{score}\n" for q, docs in RUN.items() for d, score in docs.items())
    path = write(gzip.compress(text.encode()), "run.csv.gz")
    write("".join(f"{q} 0 {d} {r}\n" for q, of in QRELS.items() for d, r in of.items()), "q.qrels")
    assert scores(path) == scores(RUN)
    for option in ([], ["--run-format", "csv"]):
        done = msshift("score", path.name, "--qrels", "q.qrels", *option)
        assert done.returncode == 0, done.stderr
    twice = msshift("score", write(text + text.splitlines()[0], "b.csv").name, "--qrels", "q.qrels")
    assert (twice.returncode, "b.csv:10" in twice.stderr) == (1, True)
