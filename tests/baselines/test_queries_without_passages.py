"""Queries for which a model retrieves nothing: they were asked and count 0, at every door."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from msshift_bench import Settings, evaluate, evaluate_run_sets, score_runs
from msshift_bench.data import open_collection, open_dataset
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import DataError, RunError
from msshift_bench.evaluation import Result
from msshift_bench.libraries import sentence_transformers as library, torch, transformers
from msshift_bench.plumbing import with_checksum
from msshift_bench.shifts import get_shift
from tests.baselines.conftest import MINI, Values
from tests.conftest import Command
from tests.support.making import make_runs
from tests.support.run_files import sidecar
from tests.support.tiny_encoder import make_tiny_encoder


def rows_of(data: Path) -> Mapping[str, Any]:
    return open_dataset(data).test_sets(get_shift("length"))


class Half:
    """A model that finds the relevant passage of every second query, and nothing for the others."""

    def __init__(self, data: Path) -> None:
        rows = sorted({row for of in rows_of(data).values() for row in of})
        self.found = {row.text: dict.fromkeys(row.relevant_doc_ids, 1.0) for row in rows[::2]}

    def search(self, queries: list[str], k: int) -> list[dict[str, float]]:
        return [self.found.get(text, {}) for text in queries]

    def by_hand(self, data: Path) -> dict[str, float]:
        """Return group -> the share of its queries whose relevant passage is found."""
        return {
            group: np.mean([row.text in self.found for row in rows]).item()
            for group, rows in rows_of(data).items()
        }


def scores_of(result: Result) -> dict[str, Any]:
    """Return group -> score, of the groups."""
    scores = {row.group: row.value for row in result.figures.where(figure="score")}
    return {group: value for group, value in scores.items() if group != "mean"}


@pytest.fixture
def half(given: Values, data: Path) -> Path:
    """The run of `Half`."""
    evaluate(Half(data), name="half", progress=False, **given)
    return Path(given["runs"] / "half" / "length.run.gz")


@pytest.mark.parametrize("missing", ["zero", "skip", "error"])
def test_they_count_0(
    missing: Any, given: Values, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, settings = Half(data), Settings("RR@10", missing=missing)
    results = [
        evaluate(model, name="half", measures=settings, progress=False, **given),
        evaluate_run_sets(given["runs"] / "half", data, settings=settings),
    ]
    by_hand = model.by_hand(data)
    assert 0.3 < min(by_hand.values()) < max(by_hand.values()) < 0.7
    count = sum(len(rows) for rows in rows_of(data).values())
    note = f"half/length: nothing was retrieved for {count // 2} of {count} queries, by the sidecar"
    for result in results:
        assert scores_of(result) == pytest.approx(by_hand)
        assert any(warning.startswith(note) for warning in result.warnings), result.warnings
        assert result.scores[0].run_facts()[0]["missing_queries"] == 0
    warning = f"half on length: nothing was retrieved for {count // 2} of {count} queries"
    assert any(message.startswith(warning) for message in caplog.messages)


def test_a_single_run_and_the_command_line(half: Path, data: Path, msshift: Command) -> None:
    by_hand = Half(data).by_hand(data)
    result = score_runs([half], "length-short", data=data)
    (score,) = result.figures.where(figure="score")
    assert score.value == pytest.approx(by_hand["short"])
    done = msshift("evaluate", half.parent, "--data", data, "--format", "json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    shown = {row["group"]: row["value"] for row in figures if row["figure"] == "score"}
    assert {group: shown[group] for group in by_hand} == pytest.approx(by_hand)


def _without_a_sidecar(run: Path, facts: dict[str, Any]) -> None:
    run.with_name("length.run.json").unlink()


def _not_said(run: Path, facts: dict[str, Any]) -> None:
    del facts["queries_without_passages"]
    run.with_name("length.run.json").write_text(json.dumps(with_checksum(facts)))


def _said_of_others(run: Path, facts: dict[str, Any]) -> None:
    facts["queries_without_passages"] = [*facts["queries_without_passages"][:5], [], "other"]
    run.with_name("length.run.json").write_text(json.dumps(with_checksum(facts)))


def _said_of_another_file(run: Path, facts: dict[str, Any]) -> None:
    facts["run_sha256"] = "0" * 64
    run.with_name("length.run.json").write_text(json.dumps(with_checksum(facts)))


@pytest.mark.parametrize(
    "change", [_without_a_sidecar, _not_said, _said_of_others, _said_of_another_file]
)
def test_what_no_sidecar_says_is_still_incomplete(change: Any, half: Path, data: Path) -> None:
    facts = sidecar(half)
    assert len(facts["queries_without_passages"]) == facts["queries"] // 2
    change(half, facts)
    with pytest.raises(RunError, match=r"lacks \d+ of the \d+ test queries of short .*incomplete"):
        evaluate_run_sets(half.parent, data)


def test_bm25_without_a_common_word(tmp_path: Path, tsv_folder: Any) -> None:
    texts = [*(f"word{n % 2} {'and so on ' * (n % 4)}" for n in range(400))]
    folder = tsv_folder(
        collection="d0\tword0\nd1\tother\n",
        queries="".join(f"q{n:03}\t{text.strip()}\n" for n, text in enumerate(texts)),
        qrels="".join(f"q{n:03} 0 d0 1\n" for n in range(400)),
    )
    build_dataset(open_collection(str(folder)), ("length",), tmp_path / "msshift")
    data = tmp_path / "msshift"
    (run,) = make_runs("bm25", data=data, out=tmp_path / "runs", collection=str(folder))
    by_hand = {
        group: np.mean([row.text.startswith("word0") for row in rows]).item()
        for group, rows in rows_of(data).items()
    }
    assert scores_of(evaluate_run_sets(run.parent, data)) == pytest.approx(by_hand)


def test_a_run_without_any_passage_is_refused(tmp_path: Path, tsv_folder: Any) -> None:
    folder = tsv_folder(
        collection="d0\tother\n",
        queries="".join(f"q{n:03}\tword {'and so on ' * (n % 4)}end\n" for n in range(40)),
        qrels="".join(f"q{n:03} 0 d0 1\n" for n in range(40)),
    )
    build_dataset(open_collection(str(folder)), ("length",), tmp_path / "msshift")
    given: dict[str, Any] = {"data": tmp_path / "msshift", "collection": str(folder)}
    with pytest.raises(DataError, match="bm25 on length: all rankings are empty; check"):
        make_runs("bm25", out=tmp_path / "runs", **given)
    assert not list(tmp_path.rglob("*.run.gz"))


@pytest.mark.neural
def test_a_sparse_model_without_active_dimensions(
    given: Values, data: Path, tmp_path: Path, msshift: Command
) -> None:
    """Its vectors hold few of the words, so that many queries have none of them."""
    groups = rows_of(data)
    passages = {row.doc_id: _words(row.text) for row in MINI.passages()}
    make_tiny_encoder(tmp_path / "bert", [row.text for row in MINI.passages()], length=400)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "bert")
    weights = torch.zeros(len(tokenizer))
    weight_of = {}
    for word, number in sorted(tokenizer.get_vocab().items()):
        if word.isalpha() and crc32(word.encode()) % 8 == 0:
            weight_of[word] = 1 + crc32(word.encode()) % 1000 / 1000
            weights[number] = weight_of[word]
    modules = library.sparse_encoder.modules
    model = library.SparseEncoder(modules=[modules.SparseStaticEmbedding(tokenizer, weights)])
    by_hand, empty = {}, 0
    for group, rows in groups.items():
        total = 0.0
        for row in rows:
            dots = {
                doc_id: sum(weight_of.get(word, 0.0) ** 2 for word in _words(row.text) & words)
                for doc_id, words in passages.items()
            }
            ranks = sorted(
                (d for d in dots if dots[d] > 0), key=lambda d: (dots[d], d), reverse=True
            )
            empty += not ranks
            hits = [n for n, doc_id in enumerate(ranks[:10], 1) if doc_id in row.relevant_doc_ids]
            total += 1 / hits[0] if hits else 0.0
        by_hand[group] = total / len(rows)
    assert empty > 20
    assert min(by_hand.values()) > 0.05
    model.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    result = evaluate(model, name="mine", progress=False, **given)
    assert scores_of(result) == pytest.approx(by_hand, rel=1e-6)
    done = msshift("run", tmp_path / "saved", "--data", data, "--out", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert f"saved on length: nothing was retrieved for {empty} of " in done.stderr
    result = evaluate_run_sets(tmp_path / "runs" / "saved", data)
    assert scores_of(result) == pytest.approx(by_hand, rel=1e-6)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
