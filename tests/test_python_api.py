"""Every public function takes one value where it takes several, in each way to write it."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import msshift_bench as ms
from msshift_bench import SHIFTS, Figure, MsShiftError, Settings, open_test_set, score_runs
from msshift_bench.errors import CollectionError, UnknownNameError, UsageError
from tests.conftest import Build
from tests.support.examples_folder import write_examples_folder

ir_measures = pytest.importorskip("ir_measures", reason="needs ir_measures")

Spellings = list[Any]
"""Ways to write one value, which must give the same; the first is a list of it."""

SHIFT: Spellings = [["length"], "length", SHIFTS["length"], (SHIFTS["length"],)]
WORDS: Spellings = [["wh-words"], "wh-words", SHIFTS["wh-words"], (SHIFTS["wh-words"],)]
RUNS: Spellings = [["runs"], "runs", Path("runs"), ("runs",)]
DENSE: Spellings = [["runs/dense"], "runs/dense", Path("runs/dense")]
ALLOW: Spellings = [["partial"], "partial", {"partial"}]
MEASURES: Spellings = [
    ["nDCG@10", "RR@10"],
    "nDCG@10 RR@10",
    "nDCG@10, RR@10",
    [ir_measures.nDCG @ 10, "RR@10"],
    (ir_measures.nDCG @ 10, ir_measures.RR @ 10),
]
MEASURE: Spellings = [["nDCG@10"], "nDCG@10", ir_measures.nDCG @ 10, *MEASURES[3:3]]
SETTINGS: Spellings = [Settings("nDCG@10"), *MEASURE, Settings("nDCG@10").measures]
NO_MEASURE: Spellings = [["nDGC@10"], "nDGC@10"]
NO_SHIFT: Spellings = [["lenght"], "lenght"]
NO_ALLOWANCE: Spellings = [["parital"], "parital"]

LOSSES = [
    Figure(figure, shift="length", group=group, measure="RR@10", system=system, value=value)
    ._replace(against=against, slice=part)
    for figure, system, against, part, values in (
        ("rel_loss", "dense", "", "", (0.1, 0.2, 0.4)),
        ("similarity", "", "weighted-jaccard", "test", (0.5, 0.4, 0.1)),
    )
    for group, value in zip("abc", values, strict=True)
]  # fmt: skip


class Searches:
    """A model, made for a seed."""

    def __init__(self, held_out: str = "", seed: int = 0) -> None:
        self.doc_id = str(seed + len(held_out))

    def search(self, queries: list[str], k: int) -> list[dict[str, float]]:
        return [{self.doc_id: 1.0} for _ in queries]


Row = tuple[Callable[..., Any], dict[str, Any], Spellings]


def rows() -> dict[tuple[str, str], Row]:
    """Return the function and the parameter -> the call, its other arguments, the spellings."""
    runs = {"runs": "runs", "data": "msshift"}
    dense = {"runs": "runs/dense", "extra_test": {"dl19": "dl19"}}
    triples = {"data": "msshift", "collection": "mini:300", "count": 2}
    linked = {**runs, "shifts": ["wh-words"], "indicators": ["weighted-jaccard"]}
    model = {"model": Searches(), "data": "msshift", "progress": False, "shift": ["length"]}
    plan = {"collection": "mini:300", "out": "made", "shifts": ["length"]}
    bm25, neural = {"system": "bm25", **plan}, {"system": "bi-encoder", **plan}
    scored = {"runs": ["my.run"], "test_set": "qrels.txt"}
    official = {"sources": ["ms-marco-shift"], "folder": "official", "overwrite": True}
    report = {"runs": "runs", "data": "msshift", "out": "report"}
    built = {"collection": "mini:300", "folder": "built", "overwrite": True}

    def analyse_report(**given: Any) -> Any:
        result = ms.evaluate_run_sets("runs", "msshift", ["wh-words"])
        return ms.analyse_report(result, **given)

    def planned(system: str, **given: Any) -> Any:
        changed = ms.Plan(system=ms.open_system(system, *["mini"] * (system != "bm25")), **given)
        return [(run.name, run.held_out, str(run.path)) for run in changed.runs()]

    calls: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Spellings]]] = {
        "add_triples": (ms.add_triples, triples, {"shifts": SHIFT}),
        "analyse_report": (analyse_report, {}, {"similarities": [[one()], one(), (one(),)]}),
        "analyse_run_sets": (
            ms.analyse_run_sets,
            linked,
            {
                "runs": RUNS,
                "shifts": WORDS,
                "settings": SETTINGS,
                "indicators": [["weighted-jaccard"], "weighted-jaccard"],
                "allow": ALLOW,
            },
        ),
        "build_dataset": (ms.build_dataset, built, {"shifts": SHIFT}),
        "compare_run_sets": (
            ms.compare_run_sets,
            runs,
            {"runs": RUNS, "shifts": SHIFT, "settings": SETTINGS, "allow": ALLOW},
        ),
        "evaluate": (
            ms.evaluate,
            model,
            {"shift": SHIFT, "seeds": [[2], 2, (2,)], "measures": SETTINGS},
        ),
        "evaluate_extra_tests": (
            ms.evaluate_extra_tests,
            dense,
            {"runs": DENSE, "shifts": SHIFT, "settings": SETTINGS, "allow": ALLOW},
        ),
        "evaluate_run_sets": (
            ms.evaluate_run_sets,
            runs,
            {"runs": RUNS, "shifts": SHIFT, "settings": SETTINGS, "allow": ALLOW},
        ),
        "diagnose": (
            lambda **given: list(ms.diagnose(**given)),
            {},
            {"data": [["msshift"], "msshift", Path("msshift")]},
        ),
        "find_run_sets": (ms.find_run_sets, {}, {"paths": RUNS}),
        "import_official": (
            ms.import_official,
            official,
            {"sources": [["ms-marco-shift"], "ms-marco-shift"], "shifts": SHIFT},
        ),
        "link_losses": (
            ms.link_losses,
            {"figures": LOSSES},
            {
                "figures": [LOSSES[:1], LOSSES[0]],
                "remarks": [["A remark."], "A remark."],
                "further": [[], ()],
            },
        ),
        "Plan": (planned, bm25, {"shifts": SHIFT}),
        "read_annotations": (
            ms.read_annotations,
            {},
            {"sheets": [["ada.csv"], "ada.csv", Path("ada.csv")]},
        ),
        "score_runs": (
            ms.score_runs,
            scored,
            {
                "runs": [["my.run"], "my.run", Path("my.run"), ("my.run",)],
                "settings": SETTINGS,
                "allow": ALLOW,
            },
        ),
        "mteb_tasks": (ms.mteb_tasks, {"data": "msshift"}, {"shifts": NO_SHIFT}),
        "Settings": (ms.Settings, {}, {"measures": MEASURE}),
        # It draws for seconds: what it refuses shows that it reads its arguments in the same way.
        "write_report": (
            ms.write_report,
            report,
            {
                "runs": [["nowhere"], "nowhere", Path("nowhere")],
                "shifts": NO_SHIFT,
                "settings": NO_MEASURE,
                "allow": NO_ALLOWANCE,
            },
        ),
    }
    found = {
        (name, parameter): (call, given, spellings)
        for name, (call, given, parameters) in calls.items()
        for parameter, spellings in parameters.items()
    }
    seeds = [[2], 2, (2,)]
    found["evaluate", "seeds"] = (ms.evaluate, {**model, "model": Searches}, seeds)
    found["Plan", "seeds"] = (planned, neural, seeds)
    found["Plan", "held_out"] = (planned, neural, [["short"], "short", ("short",)])
    return found


def one() -> Any:
    return ms.Similarity("weighted-jaccard", 0.5, 10, 20, shift="wh-words", group="how")


SEVERAL = re.compile(r"Sequence|Iterable|Collection\[str|ShiftNames|SettingsSource|MeasureNames")
"""Annotations of parameters that take several values, or measures."""

OTHERWISE = {
    ("Result", "answers"): "made by the functions that return results",
    ("Result", "notes"): "made by the functions that return results",
    ("Result", "scores"): "made by the functions that return results",
    ("Result", "layout"): "made by the functions that return results",
    ("compare_run_sets", "others"): "stored_scores returns a list",
    ("make_variants", "queries"): "pairs of an id and a text, not several of a kind",
    ("review_leakage", "subsets"): "a text is a file of ids",
    ("write_run", "rankings"): "pairs of an id and a ranking, or a mapping",
}
"""Parameters that take several values, and no single one; and why."""


def parameters() -> Iterator[tuple[str, str]]:
    for name in ms.__all__:
        value = getattr(ms, name)
        if inspect.isfunction(value) or (inspect.isclass(value) and value not in (ms.Figures,)):
            try:
                signature = inspect.signature(value)
            except ValueError:  # a typed dictionary
                continue
            for parameter in signature.parameters.values():
                if SEVERAL.search(str(parameter.annotation)):
                    yield name, parameter.name


def test_every_parameter_that_takes_several_values_has_a_row() -> None:
    assert set(rows()) >= set(parameters()) - OTHERWISE.keys()
    assert OTHERWISE.keys() <= set(parameters())


@pytest.fixture(scope="module")
def examples(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api")
    write_examples_folder(folder, build_once("mini:300", "length", "wh-words"))
    return folder


@pytest.fixture
def here(examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shutil.copytree(examples, tmp_path / "here"))


def outcome(call: Callable[..., Any], **given: Any) -> Any:
    """Return what a call gives as plain values, or the sentence by which it refuses."""
    try:
        found = call(**given)
    except MsShiftError as error:
        return str(error)
    if isinstance(found, ms.Result):
        return {**found.to_json(), "created": None, "settings": found.settings}
    return asdict(found) if hasattr(found, "content_digest") else found


REFUSED = {
    ("analyse_report", "similarities"),
    ("link_losses", "figures"),
    ("mteb_tasks", "shifts"),
    *(("write_report", name) for name in ("runs", "shifts", "settings", "allow")),
}


@pytest.mark.every(5)
@pytest.mark.usefixtures("here")
@pytest.mark.neural
@pytest.mark.parametrize(("name", "parameter"), rows(), ids=[".".join(row) for row in rows()])
def test_one_value_is_accepted_where_several_are(name: str, parameter: str) -> None:
    call, given, spellings = rows()[name, parameter]
    outcomes = [outcome(call, **{**given, parameter: spelling}) for spelling in spellings]
    assert isinstance(outcomes[0], str) == ((name, parameter) in REFUSED), outcomes[0]
    for spelling, found in zip(spellings[1:], outcomes[1:], strict=True):
        assert found == outcomes[0], spelling


QRELS = pd.DataFrame(
    {"query_id": ["q1", "q2", "q2"], "doc_id": ["d1", "d7", "d8"], "relevance": [1, 2, 1]}
)


@pytest.mark.parametrize(
    "qrels",
    [
        QRELS,
        QRELS.rename(columns={"query_id": "qid", "doc_id": "docno", "relevance": "label"}),
        pa.Table.from_pandas(QRELS),
    ],
    ids=["data frame", "names of PyTerrier", "Arrow table"],
)
def test_judgements_may_be_a_table(qrels: Any) -> None:
    run = {"q1": {"d3": 9.1, "d1": 8.7}, "q2": {"d8": 5.0}}
    frame = pd.DataFrame(
        [(query, doc, score) for query, docs in run.items() for doc, score in docs.items()],
        columns=["query_id", "doc_id", "score"],
    )
    for given in (run, [run], frame, [frame]):
        score = score_runs(given, qrels).figures.first(figure="score")
        assert score is not None
        assert (score.value, score.queries) == (0.75, 2)  # (1/2 + 1/1) / 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: open_test_set(QRELS[["query_id", "doc_id"]]), UsageError, "no column relevance"),
        (lambda: open_test_set(QRELS[:1].assign(relevance=0.5)), CollectionError, "0.5 is not"),
        (lambda: open_test_set(7), UsageError, "not 7"),
        (lambda: open_test_set(SHIFTS["length"]), UsageError, "length is a complete shift"),
        (lambda: score_runs([], {}), UsageError, "name at least one run"),
        (lambda: score_runs(7, {"q": {"d": 1}}), UsageError, "or records, not 7"),
        (lambda: Settings(7), UnknownNameError, "unknown measure '7'"),
        (lambda: Settings(["RR@10", 7]), UnknownNameError, "unknown measure '7'"),
        (lambda: ms.group_similarity("msshift", ["length"]), UnknownNameError, "['length']"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("here")
def test_what_cannot_be_is_one_sentence(
    call: Callable[[], Any], error: type[MsShiftError], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as refused:
        call()
    assert len(str(refused.value).splitlines()) <= 2


@pytest.mark.usefixtures("here")
def test_a_shift_is_a_name_or_a_value() -> None:
    dataset = ms.open_dataset("msshift")
    assert dataset.test_sets("length") == dataset.test_sets(SHIFTS["length"])
    by_name, by_value = (
        ms.group_similarity(dataset, shift) for shift in ("length", SHIFTS["length"])
    )
    assert [one.value for one in by_name] == [one.value for one in by_value]


@pytest.mark.usefixtures("here")
def test_figures_are_chosen_by_one_name_or_several() -> None:
    figures = ms.evaluate_run_sets("runs", settings=MEASURES[0]).figures
    losses = figures.where(figure=["rel_loss", "loss"], measure=ir_measures.nDCG @ 10)
    assert losses == figures.where(figure=("rel_loss", "loss"), measure="nDCG@10")
    assert losses.names("measure") == ["nDCG@10"]
    assert losses.names("figure") == ["loss", "rel_loss"]


def test_a_notebook_shows_a_result_s_tables_and_notes_escaped() -> None:
    name, missing = "<script>&", "q<b>"
    runs = [pd.DataFrame([("q1", "d1", 1.0)], columns=["query_id", "doc_id", "score"])]
    result = score_runs(runs, {"q1": {"d1": 1}, missing: {"d1": 1}})
    (scores,) = result.scores
    result = ms.Result(
        result.kind,
        ms.Figures([row._replace(system=name) for row in result.figures]),
        result.settings, result.data, result.notes, result.layout, [scores],
    )  # fmt: skip
    shown = result._repr_html_()
    assert name not in shown
    assert "<td>&lt;script&gt;&amp;</td>" in shown
    (table,) = result.tables()
    assert shown.count("<tr>") == 1 + len(table.rows)
    assert table.title == "<qrels>, means x 100"
    assert "<caption>&lt;qrels&gt;, means x 100</caption>" in shown
    lines = [line for _, notes in result.sections() for line in notes]
    assert shown.count("<li>") == len(lines)
    assert "test queries missing from the run: 1 of 2 of &lt;qrels&gt;" in shown


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("given", ["found", Path("found/candidates.parquet"), {"q1"}])
@pytest.mark.parametrize(
    "call",
    [
        lambda given: ms.evaluate_run_sets("runs", without=given),
        lambda given: score_runs({"q1": {"d1": 1.0}}, {"q1": {"d1": 1}}, without=given),
    ],
)
def test_leaked_queries_are_read_before_they_are_left_out(
    call: Callable[[object], object], given: object
) -> None:
    with pytest.raises(UsageError, match=r"without is .*read_leaked_queries\(") as caught:
        call(given)
    assert repr(given) in str(caught.value)
