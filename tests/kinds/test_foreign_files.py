"""Files of other people at every door: the number of the plain file, a warning, or a refusal.

A cell is a kind of file and a command or function that reads such files. What is read gives the
same output as the plain file, and where lines are left out, a warning. What is refused names the
file, or the wrong value, and a cure. No cell ends in a traceback.
"""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import ir_measures
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import msshift_bench as ms
from msshift_bench.data import read_extra_tests, read_queries
from msshift_bench.errors import DataError, MsShiftError
from msshift_bench.evaluation import Settings
from msshift_bench.records import Qrel
from tests.support.command_line import Done, run_msshift
from tests.support.commands import COMMANDS
from tests.support.fabricated import write_runs, write_system
from tests.support.lanes import diagonal

Judgements = Iterable[tuple[str, str, int]]
Texts = Mapping[str, str]


def qrels_lines(form: str, qrels: Judgements, *lines: str) -> str:
    """Return lines of qrels, the first of which are given, in a form of `str.format`."""
    return "".join(
        f"{line}\n" for line in (*lines, *(form.format(q=q, d=d, r=r) for q, d, r in qrels))
    )


def subtopics(qrels: Judgements, *, second: int) -> str:
    """Return qrels in which each document is judged for two subtopics, the other with `second`."""
    return qrels_lines("{q} 1 {d} {r}\n{q} 2 {d} " + str(second), qrels)


TREC = "{q} 0 {d} {r}"
THREE = "{q}\t{d}\t{r}"

QRELS_READ: Mapping[str, Callable[[Judgements], str]] = {
    "grades 1.0": partial(qrels_lines, "{q} 0 {d} {r}.0"),
    "header of BEIR": lambda qrels: qrels_lines(THREE, qrels, "query-id\tcorpus-id\tscore"),
    "header with underscores": lambda q: qrels_lines(THREE, q, "query_id\tcorpus_id\tscore"),
    "header of PyTerrier": lambda qrels: qrels_lines(TREC, qrels, "qid iter docno label"),
    "diversity, one grade": partial(subtopics, second=1),
}
"""Kind of qrels -> its content; all give the numbers of the plain file."""

WARNED = ("diversity, one grade",)

QRELS_REFUSED: Mapping[str, Callable[[Judgements], str]] = {
    "comments": lambda qrels: qrels_lines(TREC, qrels, "# made by us, in 2024"),
    "unknown header": lambda qrels: qrels_lines(THREE, qrels, "a\tb\tc"),
    "grades 0.5": partial(qrels_lines, "{q} 0 {d} {r}.5"),
    "diversity, two grades": partial(subtopics, second=0),
    "commas": partial(qrels_lines, "{q},0,{d},{r}"),
    "JSON": lambda qrels: json.dumps({q: {d: r} for q, d, r in qrels}),
    "a run": partial(qrels_lines, "{q} Q0 {d} {r} 1.5 tag"),
}

TOPIC = "<topic number='{0}'><query>{1}</query></topic>\n"
SGML = "<top>\n<num> Number: {0}\n<dom> Domain: Law\n<title> {1}\n<narr> No.\n</top>\n"


def query_lines(form: str, texts: Texts) -> str:
    return "".join(form.format(query_id, text) for query_id, text in texts.items())


TOPICS_READ: Mapping[str, Callable[[Texts], str]] = {
    "topics in SGML": partial(query_lines, SGML),
    "topics in XML": lambda texts: f"<topics>{query_lines(TOPIC, texts)}</topics>",
}
"""Kind of topics -> its content; only the test queries of leakage may be such a file."""

QUERIES_REFUSED: Mapping[str, Callable[[Texts], str]] = {
    "questions and answers": lambda texts: query_lines("{1}\tof {0}\n", texts),
    "header": lambda texts: "qid\tquery\n" + query_lines("{0}\t{1}\n", texts),
    "JSON lines": partial(query_lines, '{{"_id": "{0}", "text": "{1}"}}\n'),
    "commas": partial(query_lines, "{0},{1}\n"),
    "text first": partial(query_lines, "{1}\t{0}\n"),
    **TOPICS_READ,
}

QRELS_COMMANDS: Mapping[str, str] = {
    "score": "score runs/dense/length/short.run.gz --qrels {0} --allow partial --format csv",
    "build": "build length --collection collection --qrels {0} --out built --format json",
    "similarity": "similarity --indicator overlap --train a={0} --test b={0} --format csv",
    "leakage find": "leakage find --train train.tsv --test test.tsv --train-qrels {0} "
    "--test-qrels plain.qrels --format csv",
    "leakage find, test": "leakage find --train train.tsv --test test.tsv --test-qrels {0} "
    "--train-qrels plain.qrels --format csv",
    "leakage clean": "leakage clean --found found --train train.tsv --qrels {0} --format csv",
    "evaluate": "evaluate runs --extra-test {0} --allow leaked --allow partial --format csv",
}
"""Command that reads qrels -> its words; ``evaluate`` reads the file in a folder."""

QUERIES_COMMANDS: Mapping[str, str] = {
    "similarity": "similarity --train train.tsv --test {0}",
    "similarity, train": "similarity --train {0} --test test.tsv",
    "annotate": "annotate --train train.tsv --test {0} --encoder terms --out sheet.csv",
    "variants": "variants typos --queries {0} --out variants.tsv",
    "analyse": "analyse runs --shift wh-words --train train.tsv --test {0} "
    "--indicator unseen-words",
    "leakage find": "leakage find --train train.tsv --test {0} --separate-ids --format csv",
    "leakage find, train": "leakage find --train {0} --test test.tsv --separate-ids --format csv",
    "leakage clean": "leakage clean --found found --train {0}",
    "build": "build length --collection other --out built",
    "evaluate": "evaluate runs --extra-test {0} --allow leaked --allow partial --format csv",
}

BY_ANOTHER_ROW = {
    "demo": "has only a generated collection",
    "import": "reads collection and qrels as build",
    "triples": "reads collection and qrels as build",
    "export": "reads the collection as build",
    "irds": "reads the collection as build",
    "run": "reads collection and qrels as build, and --extra-test as evaluate",
    "verify": "reads collection and qrels as build, for topics",
    "pretrain": "reads the collection's passages alone",
    "leakage experiment": "reads the collection as build, and --test as evaluate",
}
"""Command -> why no row of it is here."""


def test_every_command_and_function_has_a_row() -> None:
    files = {"qrels", "train_qrels", "test_qrels", "train", "test", "queries", "collection"}
    files |= {"extra_test", "test_set", "test_queries"}
    reading = {
        " ".join(words)
        for words, command in COMMANDS.items()
        if files.intersection(parameter.name for parameter in command.params)
    }
    doors = {name.partition(",")[0] for name in (*QRELS_COMMANDS, *QUERIES_COMMANDS)}
    assert reading == doors | BY_ANOTHER_ROW.keys()
    assert not doors & BY_ANOTHER_ROW.keys()
    functions = {
        name
        for name in ms.__all__
        if inspect.isroutine(value := getattr(ms, name))
        and files.intersection(inspect.signature(value).parameters)
    }
    rows = {name.partition(",")[0] for name in (*QRELS_FUNCTIONS, *QUERIES_FUNCTIONS)}
    assert functions <= rows | BY_ANOTHER_FUNCTION.keys()


def by_hand(world: Path) -> float:
    """Return the mean RR of a run on all qrels, by ir_measures."""
    run = ms.read_run(world / "runs/dense/length/short.run.gz")
    qrels = [Qrel(*judgement) for judgement in judgements(world)]
    records = [ir_measures.Qrel(*qrel) for qrel in qrels]
    return float(ir_measures.calc_aggregate([ir_measures.RR], records, run)[ir_measures.RR])


def judgements(world: Path) -> list[tuple[str, str, int]]:
    lines = (line.split() for line in (world / "plain.qrels").read_text().splitlines())
    return [(query_id, doc_id, int(grade)) for query_id, _, doc_id, grade in lines]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection whose query ids begin with ``#``, a data set, runs, and queries that leak."""
    folder = tmp_path_factory.mktemp("foreign")
    source = ms.open_collection("mini:300")
    queries = {f"#{query_id}": text for query_id, text in source.queries.items()}
    qrels = [(f"#{q}", d, r) for q, docs in source.qrels.items() for d, r in docs.items()]
    (folder / "collection").mkdir()
    write_queries(folder / "collection/queries.tsv", queries)
    write_queries(folder / "collection/collection.tsv", dict(source.passages()))
    for path in ("collection/qrels.tsv", "plain.qrels"):
        (folder / path).write_text(qrels_lines(TREC, qrels))
    ms.build_dataset(
        ms.open_collection(folder / "collection"), ["length", "wh-words"], folder / "msshift"
    )
    for shift in ("length", "wh-words"):
        write_runs(folder / "runs/dense", folder / "msshift", shift)
    shutil.copytree(folder / "runs/dense/length", folder / "runs/dense/extra/x/length")
    write_queries(folder / "train.tsv", dict(list(queries.items())[:200]))
    write_queries(folder / "test.tsv", dict(list(queries.items())[150:250]))
    assert run_msshift(
        ["leakage", "find", "--train", "train.tsv", "--test", "test.tsv"], folder
    ).stdout
    return folder


def write_queries(path: Path, texts: Texts) -> Path:
    path.write_text(query_lines("{0}\t{1}\n", texts))
    return path


def read_texts(path: Path) -> dict[str, str]:
    return dict(line.split("\t") for line in path.read_text().splitlines())


def call(world: Path, folder: Path, words: str, files: Mapping[str, str]) -> Done:
    """Run a command in a folder of the world's files and of others, which replace those."""
    for path in world.iterdir():
        (folder / path.name).symlink_to(path)
    for name, content in files.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    return run_msshift(words.split(), folder)


def outcome(done: Done, folder: Path) -> tuple[str, list[bytes]]:
    """Return what a command prints, and the qrels that it writes."""
    return done.stdout, [
        path.read_bytes() for path in folder.glob("*/qrels.tsv") if "clean" in str(path)
    ]


def run_on_qrels(world: Path, folder: Path, door: str, content: str) -> Done:
    if door == "evaluate":
        queries = (world / "collection/queries.tsv").read_text()
        files = {"extra/qrels.tsv": content, "extra/queries.tsv": queries}
        return call(world, folder, QRELS_COMMANDS[door].format("x=extra"), files)
    return call(world, folder, QRELS_COMMANDS[door].format("foreign"), {"foreign": content})


@pytest.fixture(scope="module")
def plain(
    world: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[str, list[bytes]]]:
    """Return a function that gives a command's outcome for the plain file of qrels, once."""

    @cache
    def run(door: str) -> tuple[str, list[bytes]]:
        folder = tmp_path_factory.mktemp("plain")
        done = run_on_qrels(world, folder, door, (world / "plain.qrels").read_text())
        assert done.returncode == 0, done.stderr
        printed, written = outcome(done, folder)
        assert bool(written) == (door == "leakage clean")
        return printed, written

    return run


def is_refused(done: Done, *names: str) -> bool:
    """Whether a command refuses a file by its name or a value in it, with a cure."""
    assert done.returncode in (1, 2, 3), done.stdout
    assert "Traceback" not in done.stderr
    assert "fix:" in done.stderr, done.stderr
    return any(name in done.stderr for name in names)


@pytest.mark.parametrize(("door", "kind"), diagonal(QRELS_COMMANDS, QRELS_READ))
def test_commands_read_foreign_qrels(
    world: Path,
    tmp_path: Path,
    plain: Callable[[str], tuple[str, list[bytes]]],
    caplog: pytest.LogCaptureFixture,
    door: str,
    kind: str,
) -> None:
    done = run_on_qrels(world, tmp_path, door, QRELS_READ[kind](judgements(world)))
    assert done.returncode == 0, done.stderr
    assert outcome(done, tmp_path) == plain(door)
    assert ("repeat a judgement" in caplog.text + done.stderr) == (kind in WARNED)


@pytest.mark.parametrize(("door", "kind"), diagonal(QRELS_COMMANDS, QRELS_REFUSED))
def test_commands_refuse_other_files_as_qrels(
    world: Path, tmp_path: Path, door: str, kind: str
) -> None:
    content = QRELS_REFUSED[kind](judgements(world))
    done = run_on_qrels(world, tmp_path, door, content)
    assert is_refused(done, "foreign", "qrels.tsv")


@pytest.fixture
def queries(world: Path, kind: str) -> str:
    """Return the test queries in a kind of file that is refused."""
    return QUERIES_REFUSED[kind](read_texts(world / "test.tsv"))


@pytest.mark.parametrize(("door", "kind"), diagonal(QUERIES_COMMANDS, QUERIES_REFUSED))
def test_commands_refuse_other_files_as_queries(
    world: Path, tmp_path: Path, door: str, kind: str, queries: str
) -> None:
    name, files = "foreign", {"foreign": queries}
    if door in ("build", "evaluate"):
        folder = "other" if door == "build" else "extra"
        first = next(iter(read_texts(world / "test.tsv")))
        files = {f"{folder}/queries.tsv": queries, f"{folder}/qrels.tsv": f"{first} 0 1 1\n"}
        files |= {f"{folder}/collection.tsv": "1\ta passage\n"}
        name = "x=extra"
    done = call(world, tmp_path, QUERIES_COMMANDS[door].format(name), files)
    if door == "leakage find" and kind in TOPICS_READ:
        words = QUERIES_COMMANDS[door].format("test.tsv").split()
        expected = run_msshift(words, world)
        assert done.returncode == expected.returncode == 0
        assert done.stdout.replace("title", "query") == expected.stdout
    elif door == "leakage clean":
        assert done.returncode == 1  # Only the file of `leakage find`, by its digest, is cleaned.
        assert "foreign" in done.stderr
    else:
        assert is_refused(done, "foreign", "queries.tsv")


def data_of(world: Path) -> dict[str, Any]:
    return {"data": world / "msshift"}


def score(world: Path, qrels: Path) -> float:
    run = world / "runs/dense/length/short.run.gz"
    figures = ms.score_runs([run], qrels, Settings("RR"), allow=["partial"]).figures
    return float(figures.first(figure="score").value or 0)


def pairs(found: ms.LeakageResult) -> list[Any]:
    return [tuple(pair) for pair in found.pairs]


def clean(world: Path, folder: Path, **files: Path) -> bytes:
    ms.clean_training(world / "found", world / "train.tsv", folder / "out", **files)
    return (folder / "out/qrels.tsv").read_bytes()


def extra(world: Path, folder: Path, *, qrels: Path | None = None, queries: Path) -> object:
    (folder / "set").mkdir()
    (folder / "set/queries.tsv").symlink_to(queries)
    (folder / "set/qrels.tsv").symlink_to(qrels or world / "plain.qrels")
    (test_set,) = read_extra_tests({"x": folder / "set"})
    return test_set.judged


QRELS_FUNCTIONS: Mapping[str, Callable[[Path, Path], object]] = {
    "read_qrels": lambda _, qrels: ms.read_qrels(qrels),
    "score_runs": score,
    "open_test_set": lambda world, qrels: ms.open_test_set(qrels, **data_of(world)).judged,
    "open_collection": lambda world, qrels: dict(
        ms.open_collection(world / "collection", qrels=qrels).qrels
    ),
    "find_leakage": lambda world, qrels: pairs(
        ms.find_leakage(world / "train.tsv", world / "test.tsv", qrels=(qrels, qrels))
    ),
    "clean_training": lambda world, qrels: clean(world, qrels.parent, qrels=qrels),
    "read_extra_tests": lambda world, qrels: extra(
        world, qrels.parent, qrels=qrels, queries=world / "collection/queries.tsv"
    ),
}

QUERIES_FUNCTIONS: Mapping[str, Callable[[Path, Path], object]] = {
    "read_queries": lambda _, queries: read_queries(queries),
    "set_similarity": lambda world, queries: ms.set_similarity(world / "train.tsv", queries),
    "set_similarity, train": lambda world, queries: ms.set_similarity(queries, world / "test.tsv"),
    "find_leakage": lambda world, queries: pairs(
        ms.find_leakage(world / "train.tsv", queries, separate_ids=True)
    ),
    "find_leakage, train": lambda world, queries: pairs(
        ms.find_leakage(queries, world / "test.tsv", separate_ids=True)
    ),
    "read_extra_tests": lambda world, queries: extra(world, queries.parent, queries=queries),
}

BY_ANOTHER_FUNCTION = {
    "evaluate": "open_collection",
    "build_dataset": "open_collection",
    "import_official": "open_collection",
    "add_triples": "open_collection",
    "hydrate_dataset": "open_collection",
    "mteb_tasks": "open_collection",
    "training_pairs": "open_collection",
    "validation_candidates": "open_collection",
    "evaluate_extra_tests": "read_extra_tests",
    "predict_losses": "set_similarity",
    "import_variants": "has no file of queries",
    "detectable_rel_loss": "takes a number",
    "make_variants": "takes queries in memory",
}
"""Function -> the row by which its files are read."""


@pytest.mark.parametrize(("door", "kind"), diagonal(QRELS_FUNCTIONS, QRELS_READ))
def test_functions_read_foreign_qrels(world: Path, tmp_path: Path, door: str, kind: str) -> None:
    for name in ("plain", "foreign"):
        (tmp_path / name).mkdir()
    foreign, same = tmp_path / "foreign/file", tmp_path / "plain/file"
    foreign.write_text(QRELS_READ[kind](judgements(world)))
    same.write_text((world / "plain.qrels").read_text())
    value = QRELS_FUNCTIONS[door](world, foreign)
    assert value == QRELS_FUNCTIONS[door](world, same)
    if door == "score_runs":
        assert value == pytest.approx(by_hand(world), abs=1e-9)


@pytest.mark.parametrize(("door", "kind"), diagonal(QRELS_FUNCTIONS, QRELS_REFUSED))
def test_functions_refuse_other_files_as_qrels(
    world: Path, tmp_path: Path, door: str, kind: str
) -> None:
    (tmp_path / "file").write_text(QRELS_REFUSED[kind](judgements(world)))
    with pytest.raises(DataError) as caught:
        QRELS_FUNCTIONS[door](world, tmp_path / "file")
    assert all(finding.source and finding.fix for finding in caught.value.findings[:1])


@pytest.mark.parametrize(("door", "kind"), diagonal(QUERIES_FUNCTIONS, QUERIES_REFUSED))
def test_functions_refuse_other_files_as_queries(
    world: Path, tmp_path: Path, door: str, kind: str, queries: str
) -> None:
    (tmp_path / "file").write_text(queries)
    if door == "find_leakage" and kind in TOPICS_READ:
        expected = QUERIES_FUNCTIONS[door](world, world / "test.tsv")
        assert QUERIES_FUNCTIONS[door](world, tmp_path / "file") == expected
    else:
        with pytest.raises(MsShiftError) as caught:
            QUERIES_FUNCTIONS[door](world, tmp_path / "file")
        assert isinstance(caught.value, DataError)
        assert caught.value.findings[0].fix


COLON_COMMANDS = {
    "verify": "verify {data}",
    "similarity": "similarity --data {data} --shift length --format csv",
    "score": "score {run} --data {data} --test length-short --format csv",
    "evaluate": "evaluate {runs} --data {data} --format csv",
    "triples": "triples {data} --collection collection --negatives 1 --depth 20",
    "leakage find": "leakage find --data {data}",
    "irds": "irds --data {data} export msshift/length/short/test queries",
}


@pytest.mark.every(3)
@pytest.mark.parametrize("door", COLON_COMMANDS)
def test_a_colon_in_a_relative_path_makes_no_address_of_it(
    world: Path, tmp_path: Path, door: str
) -> None:
    """Arrow takes ``ms:v1`` for a URI of the scheme ``ms``."""
    printed = []
    for data, system, of in (("msshift", "bm25", "plain"), ("ms:v1", "bm25:k1=0.9", "colon")):
        folder = tmp_path / of
        shutil.copytree(world / "msshift", folder / data)
        (folder / "collection").symlink_to(world / "collection")
        (folder / system / "length").mkdir(parents=True)
        for group in ("short", "long"):
            run = ms.read_run(world / f"runs/dense/length/{group}.run.gz")
            rows = [(q, d, score) for q, docs in run.items() for d, score in docs.items()]
            names = ("query_id", "doc_id", "score")
            columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
            pq.write_table(pa.table(columns), folder / system / f"length/{group}.parquet")
        shutil.copy(folder / system / "length/long.parquet", folder / f"{system}.parquet")
        words = COLON_COMMANDS[door].format(data=data, run=f"{system}.parquet", runs=system)
        done = run_msshift(words.split(), folder)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.replace(data, "DATA").replace(system, "SYSTEM"))
    assert printed[0] == printed[1]


@pytest.mark.parametrize("ending", [".csv", ".json"])
@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("evaluate runs", "sparse/length"),
        ("compare runs", "sparse/length"),
        ("analyse runs --indicator unseen-words", "sparse/length"),
        ("report runs --out page", "sparse/length"),
        ("submit runs/dense --system system.toml --out page", "dense/wh-words"),
        ("submit runs/dense --system system.toml --out page", "dense/wh-words/how"),
    ],
)
def test_commands_refuse_a_table_in_the_place_of_a_run(
    world: Path, tmp_path: Path, command: str, place: str, ending: str
) -> None:
    (tmp_path / "msshift").symlink_to(world / "msshift")
    shutil.copytree(world / "runs", tmp_path / "runs")
    write_system(tmp_path / "system.toml", "dense", length="msshift")
    table = tmp_path / f"runs/{place}{ending}"
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text("qid,docno,score\n#1,1,2.5\n")
    done = run_msshift(command.split(), tmp_path)
    if ending == ".json" and command.startswith("submit"):  # the other form of a run
        assert done.returncode == 2
        assert all(word in done.stderr for word in (f"runs/{place}{ending}", ".run.gz", "keep one"))
    else:
        assert is_refused(done, f"runs/{place}{ending}")
    assert not (tmp_path / "page").exists()
