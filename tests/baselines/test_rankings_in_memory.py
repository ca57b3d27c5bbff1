"""Without `runs`, `evaluate` scores rankings while the model makes them, and writes no run file."""

from __future__ import annotations

import gc
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from msshift_bench import Result, Settings, evaluate
from msshift_bench.baselines import Run
from msshift_bench.baselines.systems import sidecars
from msshift_bench.errors import RunError
from msshift_bench.runs import Judgements, OpenedParts, RankedRun, RunSource, judge_run
from msshift_bench.runs.judging import RunJudge
from msshift_bench.search import Bm25, Ranking
from tests.baselines.conftest import COLLECTION, MINI, Patch, Values
from tests.conftest import Build
from tests.support.kills import changes_below
from tests.support.lanes import with_first

DEPTH = 30


class Noisy:
    """Adds noise to BM25's scores and rounds them, so that there are ties; some rankings are empty.

    Attributes:
        asked: text -> how often it was searched, over all models.
    """

    index = Bm25(MINI.passages())
    asked: ClassVar[Counter[str]] = Counter()

    def __init__(self, held_out: str = "", shift: str = "", seed: int = 0) -> None:
        self.random = np.random.default_rng([*f"{held_out}{shift}{seed}".encode()])

    def search(self, queries: list[str], k: int) -> list[Ranking]:
        self.asked.update(queries)
        return [
            {doc: round(score + self.random.normal(), 1) for doc, score in ranking.items()}
            if self.random.random() > 0.05
            else {}
            for ranking in self.index.search(queries, depth=k)
        ]


@pytest.fixture(scope="module")
def both(build_once: Build) -> Path:
    return build_once(COLLECTION, "length", "wh-words")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: Patch) -> Path:
    """The folder of temporary folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def without_digests(result: Result) -> tuple[object, ...]:
    """Return what is the same of a result in memory, without the digests and number of files."""
    runs = [run | {"digest": "", "name": ""} for part in result.scores for run in part.run_facts()]
    notes = [note for note in result.notes if not note.text.startswith(("Noisy: ", "mine: "))]
    return repr(list(result.figures)), result.tables(), notes, result.warnings, runs


MODELS: dict[str, tuple[Callable[[], object], Values]] = {
    "one": (Noisy, {"shift": ("wh-words", "length")}),
    "factory": (lambda: Noisy, {"shift": "length"}),
    "seeds": (lambda: Noisy, {"seeds": (2, 1)}),
}


@pytest.mark.parametrize(
    ("case", "ties"),
    with_first(
        [("one", "rank"), ("one", "doc-id-ascending"), ("factory", "expected"), ("seeds", "trec")],
        [("one", "rank"), ("factory", "expected")],
    ),
)
def test_results_equal_those_of_run_files(case: str, ties: str, both: Path, tmp_path: Path) -> None:
    model, options = MODELS[case]
    measures = "RR@10 nDCG@10 R@20" + " SetP Rprec" * (ties != "expected")
    settings = Settings(measures, ties=ties)
    options |= {"data": both, "depth": DEPTH, "measures": settings, "progress": False}
    in_memory = evaluate(model(), **options)
    kept = evaluate(model(), runs=tmp_path, **options)
    assert without_digests(in_memory) == without_digests(kept)
    assert {run["digest"] for part in in_memory.scores for run in part.run_facts()} == {""}
    names = [run["name"] for part in kept.scores for run in part.run_facts()]
    expected = [str(Path(name).relative_to(tmp_path)) for name in names]
    assert [run["name"] for part in in_memory.scores for run in part.run_facts()] == expected
    sha256 = [note.text for note in in_memory.notes if "sha256" in note.text]
    assert not sha256


def test_each_ranking_is_made_and_judged_once(
    both: Path, temporary: Path, monkeypatch: Patch
) -> None:
    judged: Counter[bytes] = Counter()
    judge = RunJudge.judge

    def counting(self: RunJudge, lines: Any) -> Any:
        found = judge(self, lines)
        judged.update(found.queries)
        return found

    monkeypatch.setattr(RunJudge, "judge", counting)
    monkeypatch.setattr(Noisy, "asked", Counter())
    result = evaluate(
        Noisy, "length", data=both, measures="RR@10 Rprec SetP", depth=DEPTH, progress=False
    )
    queries = len(result.scores[0].query_ids)
    assert set(Noisy.asked.values()) == {2}, "once for each of the two models"
    assert len(Noisy.asked) == queries
    assert set(judged.values()) <= {1, 2}
    empty = sum(queries - run["queries"] for run in result.scores[0].run_facts())
    assert (judged.total(), empty > 0) == (2 * queries - empty, True)
    assert not list(temporary.iterdir())


@pytest.mark.neural
def test_only_unfinished_work_is_written(data: Path, temporary: Path) -> None:
    class Encoder:
        def __init__(self, held_out: str) -> None:
            self.seed = len(held_out)

        def encode_query(self, texts: Sequence[str]) -> Any:
            random = np.random.default_rng(self.seed)
            return np.array([[len(text), *random.normal(size=7)] for text in texts])

        encode_document = encode_query

    with changes_below(temporary) as changes:
        evaluate(Encoder, "length", data=data, depth=DEPTH, progress=False)
    paths = [Path(change.split()[-1]).relative_to(temporary) for change in changes]
    (folder,) = {path.parts[0] for path in paths}
    assert {path.parts[1] for path in paths if len(path.parts) > 1} == {".work"}
    assert any(path.suffix == ".npy" or ".npz" in path.name for path in paths)
    assert folder.startswith("msshift-")
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("place", ["search", "judge"])
def test_an_interrupt_leaves_nothing(
    place: str, data: Path, temporary: Path, monkeypatch: Patch
) -> None:
    ended = []

    class Interrupted:
        def search(self, queries: list[str], k: int) -> Iterator[Ranking]:
            if place == "search" and ended:
                raise KeyboardInterrupt
            ended.append(k)
            return iter([{"7": 1.0}] * len(queries))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    if place == "judge":
        monkeypatch.setattr(RunJudge, "judge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate(Interrupted(), "length", data=data, batch_size=20, progress=False)
    gc.collect()  # A ranking that is left open would write to a folder that is gone.
    assert ended
    assert not list(temporary.iterdir())


def test_a_collection_that_changes_between_two_models_is_refused(
    data: Path, monkeypatch: Patch
) -> None:
    streams: list[object] = []
    stream = sidecars.Facts.stream

    def grows(self: Run, *arguments: Any) -> Iterator[Any]:
        streams.append(self)
        yield from stream(self, *arguments)
        self.facts["passages"]["sha256"] = str(len(streams))

    class Encoder:
        def __init__(self, held_out: str) -> None:
            self.seed = len(held_out)

        def encode_document(self, texts: Sequence[str]) -> Any:
            return np.random.default_rng(self.seed).normal(size=(len(texts), 4))

        encode_query = encode_document

    pytest.importorskip("torch")
    monkeypatch.setattr(sidecars.Facts, "stream", grows)
    with pytest.raises(RunError, match="other-passages"):
        evaluate(Encoder, "length", data=data, depth=5, progress=False)


def test_rankings_are_dropped_once_they_are_judged() -> None:
    held = most = 0

    class Counted(dict[str, float]):
        def __del__(self) -> None:
            nonlocal held
            held -= 1

    def rankings() -> Iterator[tuple[str, Counted]]:
        nonlocal held, most
        for query in range(100):
            held += 1
            most = max(most, held)
            yield f"q{query}", Counted({f"d{doc}": -float(doc) for doc in range(10_000)})

    @contextmanager
    def opened(_with_ranks: bool) -> Iterator[OpenedParts]:
        yield [RankedRun("mine", rankings(), "tag")], []

    judgements = Judgements({f"q{query}": {"d2": 1} for query in range(100)})
    run = judge_run(RunSource("mine", opened), judgements)
    assert (run.report.lines, run.report.tag, run.report.digest) == (1_000_000, "tag", "")
    assert set(run.hits.rank.tolist()) == {3}
    assert most <= 12, "rankings are held until they make a block of 50,000 lines"


def test_models_that_rank_alike_but_for_ties_are_refused(data: Path) -> None:
    documents = sorted((passage.doc_id for passage in MINI.passages()), reverse=True)[:60]

    def rounded(held_out: str) -> object:
        width = 1 if held_out == "short" else 3 / 2
        ranking = {doc: -(place // width) for place, doc in enumerate(documents)}
        return SimpleNamespace(search=lambda queries, k: [ranking] * len(queries))

    with pytest.raises(RunError, match="identical-runs"):
        evaluate(rounded, "length", data=data, progress=False)
