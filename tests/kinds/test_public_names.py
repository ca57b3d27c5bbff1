"""Every public name gives a value that is known without it, and refuses a wrong value.

The rows are the names of `msshift_bench.__all__`: a name without a row fails. Calls run in a folder
of their own, which holds the files of `world`.
"""

from __future__ import annotations

import csv
import math
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import msshift_bench as ms
from msshift_bench.errors import (
    CollectionError,
    DataError,
    NotFoundError,
    RunError,
    UnknownNameError,
    UsageError,
)
from tests.conftest import REPOSITORY, Build
from tests.support.examples_folder import write_examples_folder
from tests.support.fabricated import write_run
from tests.support.fake_hub import REPO, use_fake_hub

RANKS = {"short": 2, "long": 4, "wha": 1, "how": 2, "who": 4}
"""Held-out group -> the rank of the relevant passage of its queries; in-domain it is 1.

So Avg In is 1, and the Rel Loss of these groups in RR@10 is 0.5, 0.75, 0, 0.5 and 0.75.
"""


def write_ranks(folder: Path, data: Path, shift: str, ranks: Mapping[str, int]) -> None:
    """Write a run set, with the first relevant passage of held-out queries at the group's rank."""
    groups = ms.SHIFTS[shift].groups
    tests = {group: ms.load_dataset(data, f"{shift}-{group}", split="test") for group in groups}
    for held_out in groups:
        rankings = [
            (row.query_id, [*(f"x{n}" for n in range(rank - 1)), *row.relevant_doc_ids])
            for group in groups
            for row in tests[group]
            for rank in [ranks[group] if group == held_out else 1]
        ]
        write_run(folder / shift / f"{held_out}.run", rankings)


@pytest.fixture(scope="module")
def world(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of `write_examples_folder`, with these files in addition:

    - ``ranked/ours``: run sets of ``length`` and ``wh-words``, with the ranks of `RANKS`
    - ``ranked/other``: a run set of ``length``, with the ranks 1 and 2
    - ``bad.run`` and ``bad.tsv``: a malformed run, and malformed judgements
    """
    folder = tmp_path_factory.mktemp("world")
    data = build_once("mini:300", "length", "wh-words")
    write_examples_folder(folder, data)
    for shift in ("length", "wh-words"):
        write_ranks(folder / "ranked/ours", data, shift, RANKS)
    write_ranks(folder / "ranked/other", data, "length", {"short": 1, "long": 2})
    (folder / "bad.run").write_text("q1 Q0 d3 1 nan mine\n")
    (folder / "bad.tsv").write_text("q1 0 d1\n")
    return folder


@pytest.fixture(autouse=True)
def folder(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder whose entries lead to those of `world`; with a fake Hub, and no cache."""
    for path in world.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MSSHIFT_CACHE", "cache")
    use_fake_hub(monkeypatch, tmp_path)


class First(ms.System):
    """One passage first, whatever the query."""

    name = "first"
    per_group = True
    doc_id: str = "7"

    def rank(self, run: Any) -> Iterable[tuple[str, dict[str, float]]]:
        return ((query.query_id, {self.doc_id: 1.0}) for query in run.queries)


class RelevantSecond:
    """A model that ranks the relevant passages second to an irrelevant one."""

    def __init__(self) -> None:
        rows = ms.load_dataset("msshift", "length", split="queries")
        self.relevant = {row.text: row.relevant_doc_ids for row in rows}

    def search(self, queries: Sequence[str], k: int) -> list[dict[str, float]]:
        relevant = [self.relevant[text] for text in queries]
        return [{"1" if "0" in ids else "0": 2.0, **dict.fromkeys(ids, 1.0)} for ids in relevant]


def copied() -> Path:
    """Return a copy of the data set, which a call may change."""
    return Path(shutil.copytree("msshift", "copy"))


def last(*results: Any) -> Any:
    return results[-1]


def value_of(result: ms.Result, **names: object) -> float | None:
    return result.figures.where(**names)[0].value


def by_group(result: ms.Result, column: str = "group", **names: object) -> dict[str, float | None]:
    return {getattr(row, column): row.value for row in result.figures.where(**names)}


def rows_in(path: str) -> int:
    return int(pq.read_metadata(path).num_rows)


LINKED = {"C0": 0.6, "C1": 0.5, "C2": 0.2}
"""Group -> its Rel Loss; `points` gives it a similarity such that both add up to 0.8."""


def points(losses: Mapping[str, float] = LINKED) -> list[ms.Figure]:
    loss = ms.Figure("rel_loss", shift="topics", system="mine", measure="RR@10")
    near = ms.Figure("similarity", shift="topics", against="weighted-jaccard", slice="test")
    return [
        row._replace(group=group, value=value)
        for group, rel_loss in losses.items()
        for row, value in ((loss, rel_loss), (near, 0.8 - rel_loss))
    ]


def linked(**values: float) -> ms.Result:
    """Link the losses of ``wh-words``, which are 0, 0.5 and 0.75, to these similarities."""
    similarities = [
        ms.Similarity("weighted-jaccard", value, 20, 40, shift="wh-words", group=group)
        for group, value in values.items()
    ]
    return ms.analyse_report(ms.evaluate_run_sets("ranked/ours", shifts=["wh-words"]), similarities)


def predicted(train: str, test: str) -> ms.Result:
    return ms.predict_losses(ms.link_losses(points()), {"1": train}, {"8": test})


def sheets() -> ms.Annotations:
    return ms.read_annotations(["ada.csv", "ben.csv"])


def plan(**changes: Any) -> ms.Plan:
    given = {"system": First(), "shifts": ["length"], "collection": "mini:300", "out": "made"}
    return ms.Plan(**{**given, **changes})


POPE = {"t8": "Who is pope?", "t9": "how old is rome"}
"""Test queries, the first of which is a training query of ``train.tsv`` but for its spelling."""


def found() -> ms.LeakageResult:
    return ms.find_leakage("train.tsv", POPE)


def cleaned(tier: str) -> str:
    found().write("found")
    ms.clean_training("found", "train.tsv", "new", tier=tier)
    return Path("new/queries.tsv").read_text()


def left_out(scored: Any) -> Any:
    found().write("found")
    return ms.read_leaked_queries("found", scored).query_ids


def hydrated() -> int:
    """Return how many test queries of a hydrated data set have the text of their collection."""
    ms.build_dataset("mini:300", ["length"], "ids", texts=False)
    ms.hydrate_dataset("ids", "mini:300")
    rows, texts = ms.load_dataset("ids", "length-short")["test"], ms.open_collection("mini:300")
    return sum(row.text == texts.queries[row.query_id] for row in rows)


def with_triples() -> Path:
    ms.add_triples(copied(), "mini:300", shifts=["length"], count=2, depth=20)
    return Path("copy")


def of_report() -> list[list[str]]:
    ms.write_report("ranked/ours", "new", shifts=["length"], links=False)
    with Path("new/figures/rel-loss-length.csv").open() as file:
        return [[row["group"], row["value"]] for row in csv.DictReader(file)]


def drawn(name: str) -> bytes:
    ms.draw_result(ms.evaluate_run_sets("ranked/ours", shifts=["length"]), name)
    return Path(name).read_bytes()


def installed() -> int:
    """Return how many configs the datasets library has of an installed data set."""
    from datasets import config

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "HF_DATASETS_CACHE", "prepared")
        return len(list(ms.install_dataset("msshift").cache.iterdir()))


def built(**samples: Any) -> int:
    ms.build_dataset("mini:300", ["length"], "new", samples=ms.SampleSizes(**samples))
    return rows_in("new/length-short/test.parquet")


CITATION = REPOSITORY / "CITATION.cff"
TRIPLES = "length-short-triples"

VALUES: Mapping[str, tuple[Callable[[], Any], Any]] = {
    "__version__": (lambda: f"\nversion: {ms.__version__}\n" in CITATION.read_text(), True),
    "SHIFTS": (lambda: [len(ms.SHIFTS["topics"].groups), ms.SHIFTS["restrain-14k"].train_size],
        [5, 14_000]),
    "INDICATORS": (lambda: ms.INDICATORS["unseen-words"].higher, "farther"),
    "read_run": (lambda: ms.read_run("my.run")["q2"], {"d8": 5.0}),
    "write_run": (lambda: last(ms.write_run("new.run", {"q1": {"d1": 1.0, "d2": 2.5}}, tag="t"),
            Path("new.run").read_text()), "q1 Q0 d2 1 2.5 t\nq1 Q0 d1 2 1.0 t\n"),
    "validate_run": (lambda: [(one.code, one.line) for one in ms.validate_run("bad.run").errors],
        [("score-nan", 1)]),
    "read_qrels": (lambda: ms.read_qrels("qrels.txt"),
        [("q1", "d1", 1), ("q2", "d7", 2), ("q2", "d8", 1)]),
    "open_test_set": (lambda: len(ms.open_test_set("length-short").judged), 44),
    # The first relevant passage has rank 2 for q1, and rank 1 for q2.
    "score_runs": (lambda: value_of(ms.score_runs(["my.run"], "qrels.txt"), figure="score"),
        (1 / 2 + 1 / 1) / 2),
    "find_run_sets": (
        lambda: {(at.system, at.shift.name, len(at.files)) for at in ms.find_run_sets("ranked")},
        {("other", "length", 2), ("ours", "length", 2), ("ours", "wh-words", 3)}),
    "evaluate_run_sets": (
        lambda: by_group(ms.evaluate_run_sets("ranked/ours", shifts=["length"]), figure="rel_loss"),
        {"short": 0.5, "long": 0.75, "mean": 0.625}),
    "compare_run_sets": (
        lambda: value_of(ms.compare_run_sets("ranked", shifts=["length"]), figure="rel_loss",
            system="other", against="ours", group="mean"), (0 + 0.5) / 2 - (0.5 + 0.75) / 2),
    "mteb_tasks": (
        lambda: last(pytest.importorskip("mteb"),
            [task.metadata.name for task in ms.mteb_tasks(shifts="length")]),
        ["msshift-length-short", "msshift-length-long"]),
    "evaluate_extra_tests": (
        lambda: by_group(ms.evaluate_extra_tests("runs/dense", {"dl19": "dl19"}), "model",
            figure="score"), {"short": 1 / 2, "long": 1 / 1, "mean": 0.75}),
    "Settings": (lambda: [str(one) for one in ms.Settings("RR@10 nDCG@10").measures],
        ["RR@10", "nDCG@10"]),
    # One system, two models, 106 queries, one measure.
    "Result": (lambda: ms.evaluate_run_sets("ranked/other").per_query().num_rows, 2 * 106),
    "Figures": (
        lambda: ms.Figures(points()).where(figure="rel_loss", group=("C0", "C2")).names("value"),
        [0.6, 0.2]),
    "Figure": (lambda: ms.Figure("loss", value=0.25, low=0.1, high=0.4).interval, (0.1, 0.4)),
    # Quantiles of a table, times the deviation of a difference of scores that correlate at 0.8.
    "detectable_rel_loss": (lambda: ms.detectable_rel_loss(100),
        pytest.approx((1.959964 + 0.841621) * math.sqrt(2 * (1 - 0.8)) / 10, abs=1e-6)),
    "draw_result": (lambda: drawn("new.png")[:4], b"\x89PNG"),
    "write_report": (of_report, [["short", "0.5"], ["long", "0.75"], ["mean", "0.625"]]),
    # Similarity and Rel Loss add up to 0.9.
    "analyse_report": (lambda: value_of(linked(wha=0.9, how=0.4, who=0.15), figure="slope"),
        pytest.approx(-1)),
    # NumPy's polyfit of the losses on these sums of fractions: 0.113779, 0.139320 and 0.104087.
    "analyse_run_sets": (lambda: value_of(ms.analyse_run_sets("ranked/ours", shifts=["wh-words"],
            indicators=["weighted-jaccard"]), figure="slope"),
        pytest.approx(-1.66394069, abs=1e-8)),
    "link_losses": (lambda: value_of(ms.link_losses(points()), figure="slope"), pytest.approx(-1)),
    # Two of four words each are in both: the similarity is (2 / 4) / (6 / 4).
    "predict_losses": (lambda: value_of(predicted("cheap flights to rome", "Cheap hotels in Rome"),
            figure="foretold"), pytest.approx(0.8 - 1 / 3)),
    # Three words with shares of 1/3 and 1/4, and one that only the second query has.
    "set_similarity": (
        lambda: ms.set_similarity({"1": "who is pope"}, {"8": "who is the Pope"}).value,
        pytest.approx((3 / 4) / (3 / 3 + 1 / 4))),
    # Sums of fractions over the words of both groups.
    "group_similarity": (
        lambda: {one.group: one.value for one in ms.group_similarity("msshift", "length")},
        pytest.approx({"short": 0.18053306, "long": 0.18053306}, abs=1e-8)),
    "Similarity": (lambda: list(ms.set_similarity({"1": "cheap flights"},
            {"8": "cheap hotels", "9": "flights"}, "unseen-words").ranks), [2, 1]),
    # Rome and rome are two words: one of three is in both queries.
    "IndicatorOptions": (lambda: ms.set_similarity({"1": "rome hotels"}, {"8": "Rome hotels"},
            **ms.IndicatorOptions(tokenizer=str.split)).value, pytest.approx(1 / 3)),
    "find_leakage": (lambda: [(one.train_id, one.test_id, one.tier) for one in found().pairs],
        [("1", "t8", "same-normalised")]),
    "LeakageResult": (lambda: last(found().write("new"), rows_in("new/candidates.parquet")), 1),
    "clean_training": (lambda: cleaned("near-duplicate"), "2\tcheap flights to rome\n"),
    "read_leaked_queries": (lambda: left_out(ms.open_test_set({"t8": {"d1": 1}})), {"t8"}),
    # With such a threshold, any word in common counts.
    "add_split_leakage": (
        lambda: ms.add_split_leakage(copied(), threshold=1e-9).shifts["length"]["near_duplicates"][
            "test_queries"]["short"]["any"], 44),
    "read_annotations": (lambda: [len(sheets().verdicts), *sheets().annotators], [6, "Ada", "Ben"]),
    "Annotations": (
        lambda: [[one.labels["label"] for one in verdicts] for verdicts in sheets().disputed()],
        [["different", "specialization"]]),
    # Both annotators give a label of leakage to two of the three pairs.
    "review_leakage": (
        lambda: value_of(ms.review_leakage(sheets()), figure="judged_pairs", group="leaking",
            slice="all"), 2),
    "open_collection": (lambda: len(list(ms.open_collection("mini:300").passages())), 300),
    "build_dataset": (built, 44),
    "SampleSizes": (lambda: built(test_size=20), 20),
    "load_dataset": (lambda: len(ms.load_dataset("msshift", "length-short", split="test")), 44),
    # Two shifts, of two and three groups.
    "open_dataset": (lambda: len(ms.open_dataset().manifest.configs), (1 + 2) + (1 + 3)),
    "Dataset": (lambda: {row.group for row in ms.open_dataset().rows("length-short", "train")},
        {"long"}),
    "verify_dataset": (lambda: last((copied() / "length-short/test.parquet").write_bytes(b""),
            {one.source for one in ms.verify_dataset("copy")[1]}),
        {"copy/length-short/test.parquet"}),
    # Two for each of 135 training queries.
    "add_triples": (lambda: rows_in(f"{with_triples()}/{TRIPLES}/train-00000-of-00001.parquet"),
        2 * 135),
    "load_triples": (lambda: sum(1 for _ in ms.load_triples(with_triples(), TRIPLES)), 2 * 135),
    "hydrate_dataset": (hydrated, 44),
    "import_official": (lambda: last(ms.import_official(["ms-marco-shift"], "new"),
            rows_in("new/topics-C0/test.parquet")), 1),
    "make_variants": (lambda: [(one.query_id, one.method) for one in
            ms.make_variants("typos", [("1", "cheap flights")], copies=2)],
        [("1", "typos-1"), ("1", "typos-2")]),
    "import_variants": (lambda: ms.import_variants("CharacterBERT-DR", "dev.small")[1],
        [("1", "chaep flights", "typo1")]),
    "push_dataset": (lambda: [ms.push_dataset("msshift", REPO).unchanged for _ in range(2)],
        [False, True]),
    "install_dataset": (installed, (1 + 2) + (1 + 3)),
    "evaluate": (
        lambda: by_group(ms.evaluate(RelevantSecond(), "length", progress=False), figure="score"),
        {"short": 1 / 2, "long": 1 / 2, "mean": 1 / 2}),
    "open_system": (lambda: ms.open_system("bm25", changes={"k1": 1.2}).parameters()["k1"], 1.2),
    "System": (lambda: First(doc_id="9").parameters()["doc_id"], "9"),
    "Plan": (lambda: [run.state() for run in plan().runs()], ["new", "new"]),
    # One passage for each query.
    "make_runs": (
        lambda: [sum(map(len, ms.read_run(path).values())) for path in ms.make_runs(plan())],
        [106, 106]),
    "training_pairs": (lambda: ms.training_pairs("length-short", limit=9).column_names,
        ["anchor", "positive"]),
    "validation_candidates": (
        lambda: len(ms.validation_candidates("length-short", queries=3, depth=5).samples()), 3),
    "diagnose": (
        lambda: [one.state for one in ms.diagnose(["msshift", "msshfit"]) if one.code == "data"],
        ["ok", "missing"]),
    "MsShiftError": (lambda: [ms.MsShiftError.exit_code, NotFoundError.exit_code], [1, 3]),
}  # fmt: skip
"""Public name -> a call, and the value that it must give."""

REFUSALS: Mapping[type[Exception], Mapping[str, tuple[Callable[[], Any], str]]] = {
    AttributeError: {"__version__": (lambda: ms.__versoin__, "'__versoin__'")},
    CollectionError: {"read_qrels": (lambda: ms.read_qrels("bad.tsv"), "bad.tsv:1")},
    DataError: {
        "Figure": (lambda: ms.link_losses(points({**LINKED, "C2": math.inf})), "inf"),
        "Similarity": (lambda: linked(wha=0.9, how=0.4), "who"),
        "analyse_report": (lambda: linked(wha=math.nan, how=0.4, who=0.15), "nan"),
        "link_losses": (lambda: ms.link_losses(points()[:-1]), "C2"),
        "predict_losses": (lambda: predicted("rome", "pope"), "0"),
        "read_leaked_queries": (lambda: left_out("msshift"), "t8"),
    },
    NotFoundError: {
        "MsShiftError": (lambda: ms.open_dataset("msshfit"), "msshfit"),
        "evaluate_extra_tests": (lambda: ms.evaluate_extra_tests("runs", {"dl19": "dl20"}), "dl20"),
        "find_run_sets": (lambda: ms.find_run_sets("rums"), "rums"),
        "hydrate_dataset": (lambda: ms.hydrate_dataset("msshfit", "mini:300"), "msshfit"),
        "import_official": (lambda: ms.import_official(["dl19"], "new"), "dl19"),
        "install_dataset": (lambda: ms.install_dataset("org/msshfit"), "org/msshfit"),
        "open_collection": (lambda: ms.open_collection("mini:3OO"), "'mini:3OO'"),
        "open_dataset": (lambda: ms.open_dataset("msshfit"), "msshfit"),
        "set_similarity": (lambda: ms.set_similarity("trian.tsv", POPE), "trian.tsv"),
        "verify_dataset": (lambda: ms.verify_dataset("msshfit"), "msshfit"),
    },
    OSError: {"diagnose": (lambda: list(ms.diagnose("x" * 300)), "x" * 300)},
    RunError: {
        "read_run": (lambda: ms.read_run("bad.run"), "bad.run:1: score 'nan'"),
        "write_run": (lambda: ms.write_run("new.run", {"q1": {"two words": 1.0}}), "'two words'"),
    },
    UnknownNameError: {
        "Dataset": (lambda: ms.open_dataset().rows("length-short", "dev"), "'dev'"),
        "Figures": (lambda: ms.Figures(points()).where(grup="C0"), "'grup'"),
        "INDICATORS": (lambda: ms.set_similarity(POPE, POPE, "jacard"), "'jacard'"),
        "Plan": (lambda: plan(held_out=["shrt"]).runs(), "'shrt'"),
        "SHIFTS": (lambda: ms.group_similarity("msshift", "lenght"), "'lenght'"),
        "add_triples": (lambda: ms.add_triples("msshift", "mini:300", shifts=["dl"]), "'dl'"),
        "analyse_run_sets": (lambda: ms.analyse_run_sets("runs", indicators=["near"]), "'near'"),
        "build_dataset": (lambda: ms.build_dataset("mini:300", ["lenght"], "new"), "'lenght'"),
        "clean_training": (lambda: cleaned("near"), "'near'"),
        "compare_run_sets": (lambda: ms.compare_run_sets("runs", reference="bert"), "'bert'"),
        "draw_result": (lambda: drawn("new.gif"), "'.gif'"),
        "evaluate_run_sets": (lambda: ms.evaluate_run_sets("runs", shifts=["who"]), "'who'"),
        "group_similarity": (lambda: ms.group_similarity(split="tests"), "'tests'"),
        "import_variants": (lambda: ms.import_variants("CharacterBERT-DR", "dev"), "'dev'"),
        "load_dataset": (lambda: ms.load_dataset("msshift", "length-who"), "'length-who'"),
        "load_triples": (lambda: ms.load_triples("msshift", TRIPLES), f"'{TRIPLES}'"),
        "make_variants": (lambda: ms.make_variants("typo", []), "'typo'"),
        "mteb_tasks": (lambda: ms.mteb_tasks(shifts="lenght"), "'lenght'"),
        "open_system": (lambda: ms.open_system("bm26"), "'bm26'"),
        "open_test_set": (lambda: ms.open_test_set("length-who"), "'length-who'"),
        "score_runs": (lambda: ms.score_runs(["my.run"], "length-who"), "'length-who'"),
        "training_pairs": (lambda: ms.training_pairs("length-who"), "'length-who'"),
        "validate_run": (lambda: ms.validate_run("my.run", format="tsv"), "'tsv'"),
        "validation_candidates": (lambda: ms.validation_candidates("length-who"), "'length-who'"),
    },
    UsageError: {
        "Annotations": (lambda: ms.review_leakage(ms.Annotations((), (), ())), "label"),
        "LeakageResult": (lambda: found().write("dl19"), "dl19"),
        "IndicatorOptions": (lambda: ms.set_similarity(POPE, POPE, encoder="terms"), "encoder"),
        "Result": (lambda: linked(wha=0.9, how=0.4, who=0.15).per_query(), "'analysis'"),
        "SampleSizes": (lambda: ms.SampleSizes(test_size=-5), "-5"),
        "Settings": (lambda: ms.Settings(confidence=95), "95"),
        "add_split_leakage": (lambda: ms.add_split_leakage("msshift", threshold=2.0), "2.0"),
        "detectable_rel_loss": (lambda: ms.detectable_rel_loss(-1), "-1"),
        "evaluate": (lambda: ms.evaluate(RelevantSecond(), "length", seeds=(-1,)), "-1"),
        "find_leakage": (lambda: ms.find_leakage("train.tsv", POPE, threshold=2.0), "2.0"),
        "make_runs": (lambda: ms.make_runs(plan(gpus=-3)), "-3"),
        "push_dataset": (lambda: ms.push_dataset("msshift", "msshift"), "'msshift'"),
        "read_annotations": (lambda: ms.read_annotations(["ada.csv"], both="same"), "'same'"),
        "review_leakage": (lambda: ms.review_leakage(sheets(), precision=1.5), "1.5"),
        "write_report": (lambda: ms.write_report("ranked/ours", "dl19"), "dl19"),
    },
    # A system checks its fields as pydantic does.
    ValueError: {"System": (lambda: First.model_validate({"doc_id": 9}), "input_value=9")},
}
"""The class of an error -> public name -> a call that raises it, and the wrong value it names."""


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a name's tests; `diagnose`, to look for a GPU, and MTEB import torch."""
    return [pytest.mark.neural] * (name in ("diagnose", "mteb_tasks"))


def test_every_public_name_has_a_value_and_a_refusal() -> None:
    names = set(ms.__all__)
    assert names == VALUES.keys()
    assert names == {name for rows in REFUSALS.values() for name in rows}


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in VALUES])
def test_a_name_gives_the_right_value(name: str) -> None:
    call, value = VALUES[name]
    assert call() == value


@pytest.mark.parametrize(
    ("error", "name"),
    [
        pytest.param(error, name, marks=marks(name))
        for error, rows in REFUSALS.items()
        for name in rows
    ],
)
def test_a_name_refuses_a_wrong_value_and_names_it(error: type[Exception], name: str) -> None:
    call, wrong = REFUSALS[error][name]
    with pytest.raises(error, match=rf"(?<![\w.]){re.escape(wrong)}(?![\w.]*\w)"):
        call()
