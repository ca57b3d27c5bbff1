"""Importing released files: read strictly, joined, validated, and refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import (
    Collection,
    Manifest,
    count_rows,
    load_dataset,
    open_collection,
    read_manifest,
    verify_dataset,
)
from msshift_bench.dataset_builders import build as building
from msshift_bench.dataset_builders.audit import add_split_leakage
from msshift_bench.dataset_builders.build import import_official
from msshift_bench.dataset_builders.release import OfficialRelease, read_official, read_test_sets
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.dataset_builders.write import hydrate_dataset
from msshift_bench.dataset_builders.zhan import read_resttest
from msshift_bench.errors import DataError
from msshift_bench.records import Row
from msshift_bench.shifts import parse_config
from tests.conftest import Build, Command, WriteFolder
from tests.support.cut_rows import cut_rows, ids_of
from tests.support.file_bytes import file_bytes
from tests.support.official_checkout import (
    training_file,
    write_checkout,
    write_mini_checkout,
    write_resttest,
)
from tests.support.refusals import check_refusals

Checkout = Callable[..., Path]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return a function that writes a checkout with one query in each test set."""
    return partial(write_checkout, tmp_path / "ms-marco-shift")


GROUPS = ("1", "2", "3", "4", "5")
# Bucket n holds query n; bucket 2 holds a second one, with two relevant passages.
EXTRAPOLATE = {g: f"{g}\t0\td{g}\t1\n" for g in GROUPS}
EXTRAPOLATE["2"] += "10\t0\td9\t1\n10\t0\td10\t1\n"


@pytest.fixture
def buckets(tmp_path: Path) -> Checkout:
    def write(changed: dict[tuple[str, str], str] | None = None) -> Path:
        for group in GROUPS:
            others = "".join(text for g, text in EXTRAPOLATE.items() if g != group)
            bucket = tmp_path / f"resttest_files/msmarco-passage/bucket-{group}"
            bucket.mkdir(parents=True, exist_ok=True)
            for regime, text in (("extrapolate", EXTRAPOLATE[group]), ("interpolate", others)):
                path = bucket / f"{regime}.dev-qrel.txt"
                path.write_text((changed or {}).get((group, regime), text))
        return tmp_path

    return write


def rows_of(release: OfficialRelease, shift: str, split: str) -> list[Row]:
    return next(cut_rows(cut, split) for cut in release.shifts if cut.shift.name == shift)


def test_test_sets_are_taken_as_they_are(checkout: Checkout) -> None:
    folder = checkout(
        C0=("20\tb \n3\ta\n", {"3": {"d2": 1, "d10": 1, "d9": 0}, "20": {"d1": 1}, "7": {"d1": 1}}),
        wha=("5\twhat or how\n6\twhat\n", {"5": {"d1": 1}, "6": {"d1": 1}}),
        how=("5\twhat or how\n", {"5": {"d1": 1}}),
    )
    release = read_official(folder)
    # Query 7 has judgements and no text.
    assert [row for row in rows_of(release, "topics", "test") if row.group == "C0"] == [
        Row("20", "b ", "C0", ("d1",), (1,)),
        Row("3", "a", "C0", ("d10", "d2"), (1, 1)),
    ]
    assert [set(cut.table["split"].to_pylist()) for cut in release.shifts] == [{"test"}] * 3
    assert {cut.grouping.rule for cut in release.shifts} == {"official-2022"}
    # A query of two groups is in the rows of both.
    words = release.shifts[1]
    assert [row.group for row in cut_rows(words, "test") if row.query_id == "5"] == ["how", "wha"]
    assert count_rows(words.shift, words.table)["wha"]["test"] == 2
    report: Any = dict(release.report)
    assert report["orphans"] == {"C0": ["7"]}
    assert report["test_sets"]["topics-C0"] == {"queries": 2, "qrels_queries": 3}
    assert report["training"] is None
    assert len(report["files"]) == 20
    assert list(report["files"]) == sorted(report["files"])
    json.dumps(report)


@pytest.fixture
def collection(tsv_folder: WriteFolder) -> Collection:
    folder = tsv_folder(
        queries='1\tone\n2\ttwice\n3\ttwice\n4\t say "x"\n5\tunjudged\n9\twhat is tested\n',
        qrels="".join(f"{query} 0 d1 1\n" for query in (1, 2, 3, 4, 9)) + "5 0 d1 0\n",
    )
    return open_collection(folder)


GOOD = "\t0\t1\t3\t0\t0\t1"
"""The labels of a training query: of topic 0, of no question word, short."""


QUERIES = {
    "[field-count] queries_0.tsv:2 3 fix": "1\ta\n2\tb\tc\n",
    "[repeated-id] queries_0.tsv:2 '1'": "1\ta\n1\tb\n",
    "[empty-text] queries_0.tsv '1'": "1\t \n",
}
"""Facts of an error -> the queries of C0."""

QRELS: list[tuple[Mapping[str, Any] | str, str]] = [
    ('{"1": {"d": 1}}\n}', "[not-json] qrel_0.json:2 fix"),
    ("[]", "[not-qrels] qrel_0.json:1 fix"),
    ("[" * 100_000, "[not-json] qrel_0.json fix"),
    ('{"1": {"d": ' + "9" * 5000 + "}}", "[not-json] qrel_0.json fix"),
    ('{"1": {"d": 1}, "1": {"d": 1}}', "[repeated-id] qrel_0.json '1'"),
    ('{"1": {"d": 1, "d": 1}}', "[duplicate-judgement] qrel_0.json '1'"),
    ({"1": ["d"]}, "[not-qrels] qrel_0.json '1' fix"),
    ({"1": {"d": "1"}}, "[relevance-not-integer] qrel_0.json '1'"),
    ({"1": {"d": True}}, "[relevance-not-integer] qrel_0.json '1'"),
    ({"1": {"d": 10**30}}, "[relevance-not-integer] qrel_0.json '1'"),
    ({}, "[unjudged-query] qrel_0.json '1'"),
    ({"1": {"d": 0}}, "[unjudged-query] qrel_0.json '1'"),
]
"""The qrels of C0, and the facts of the error."""

TRAINING = {
    "": "[header] :1 fix",
    f"one{GOOD}\n": "[header] :1 fix",
    training_file("one\t0\t1"): "[field-count] :2 3 fix",
    training_file(GOOD): "[empty-id] :2",
    training_file("one\t6\t1\t3\t0\t0\t1"): "[unknown-cluster] :2 '6'",
    training_file("one\t0\t1\t4\t0\t0\t1"): "[unknown-cluster] :2 '4'",
    training_file("one\t0\t1\t3\t0\t2\t1"): "[unknown-cluster] :2 '2'",
    training_file("one\t0\t1\t3\t0\t0\tyes"): "[unknown-flag] :2 'yes'",
    training_file("one\t0.0\t1\t3\t0\t0\t1"): "[unknown-cluster] :2 '0.0'",
    training_file("", f"one{GOOD}"): "[blank-line] :2 fix",
}
"""A training file -> the facts of the error, with ``:line`` of that file."""

BUCKETS = [
    (
        "3",
        "extrapolate",
        "3 0 d3 1\n1 0 d1 1\n",
        "DataError [missing-judgement] [not-disjoint] '1'",
    ),
    ("3", "extrapolate", "3 0 d3 1\n6 0 d1 1\n", "DataError [missing-judgement] 1"),
    ("3", "extrapolate", "3 0 d4 1\n", "DataError [missing-judgement] [extra-judgement] 1"),
    (
        *("3", "extrapolate", "3 0 d3 0\n"),
        "DataError [missing-judgement] [extra-judgement] [not-relevant] extrapolate.dev-qrel.txt",
    ),
    ("1", "interpolate", "2 0 d2 1\n", "DataError [missing-judgement] 5"),
    (
        "5",
        "extrapolate",
        "5 d5\n",
        "CollectionError [field-count] extrapolate.dev-qrel.txt:1 2 fix",
    ),
]
"""Bucket, regime and content of a file, and the facts of the error."""


def test_what_cannot_be_read(
    checkout: Checkout, buckets: Checkout, collection: Collection, tmp_path: Path
) -> None:
    def read(content: bytes | None = None, **files: Any) -> None:
        folder = checkout(**files)
        if content is not None:
            (folder / "EVAL/qrel/qrel_3.json").write_bytes(content)
        read_official(folder, collection=collection)

    def lack(read: Callable[[Path], object], folder: Path, file: str) -> None:
        (folder / file).unlink()
        read(folder)

    def read_buckets(group: str, regime: str, text: str) -> None:
        read_resttest(buckets({(group, regime): text}))

    bucket = "resttest_files/msmarco-passage/bucket-4/interpolate.dev-qrel.txt"
    refusals: dict[str, Callable[[], object]] = {
        "NotFoundError 20 EVAL/qrel/qrel_0.json": partial(read_official, tmp_path),
        "NotFoundError 1 EVAL/qrel/qrel_3.json": partial(
            lack, read_official, checkout(), "EVAL/qrel/qrel_3.json"
        ),
        **{
            f"CollectionError {facts}": partial(read, C0=(queries, {"1": {"d": 1}}))
            for facts, queries in QUERIES.items()
        },
        **{
            f"{number}: CollectionError {facts}": partial(read, C0=("1\ta\n", qrels))
            for number, (qrels, facts) in enumerate(QRELS)
        },
        "CollectionError [not-utf8] qrel_3.json 3": partial(read, b'{"\xff": {}}'),
        **{
            f"{number}: CollectionError {facts.replace(':', 'queries_clustering.tsv:')}": partial(
                read, training=text
            )
            for number, (text, facts) in enumerate(TRAINING.items())
        },
        "DataError queries_clustering.tsv": partial(read, training=training_file(f"absent{GOOD}")),
        "UsageError queries_clustering.tsv": partial(read_official, checkout()),
        "NotFoundError 10": partial(read_resttest, tmp_path),
        **{
            f"{number}: {facts}": partial(read_buckets, *bucket)
            for number, (*bucket, facts) in enumerate(BUCKETS)
        },
        "NotFoundError 1 10": lambda: lack(read_resttest, buckets(), bucket),
    }
    check_refusals(refusals)


def odd(rows: int, *lines: int) -> dict[str, object]:
    return {"rows": rows, "first_lines": list(lines)}


JOINED: list[tuple[list[str], dict[str, object], dict[str, list[tuple[str, str, str]]]]] = [
    (
        ["one\t0\t1\t3\t0\t0\tTrue", f"absent{GOOD}", f"unjudged{GOOD}", f"One{GOOD}"],
        {"rows": 4, "joined": 1, "unknown_text": odd(2, 3, 5), "collection": "toy", "text": "raw",
         "without_relevant_passage": odd(1, 4)},
        {"topics": [("1", "one", "C0")], "wh-words": [], "length": [("1", "one", "short")]},
    ),
    # All queries with the text take part.
    (
        ["twice\t4\t1\t3\t0\t0\tFalse"],
        {"several_query_ids": odd(1, 2)},
        {"topics": [("2", "twice", "C4"), ("3", "twice", "C4")], "length": []},
    ),
    # The first of repeated rows counts.
    (
        [f"one{GOOD}", f"one{GOOD}", "one\t1\t1\t3\t0\t0\t1"],
        {"repeated": odd(2, 3, 4), "contradictory": odd(1, 4)},
        {"topics": [("1", "one", "C0")]},
    ),
    # A test query of one shift may be trained on in another.
    (
        ["what is tested\t2\t1\t0\t1\t0\t1"],
        {"test_queries": {"topics": [], "wh-words": ["9"], "length": []}},
        {"topics": [("9", "what is tested", "C2")], "wh-words": []},
    ),
    # The release's label stands, whatever the rule says.
    (
        ["one\t5\t1\t3\t0\t1\t1", "twice\t5\t0\t3\t0\t0\t0"],
        {"other_length": odd(1, 2), "trained_on_others": odd(1, 2)},
        {"topics": [], "length": [("1", "one", "long")]},
    ),
    # Quoted fields join, too.
    ([f'" say ""x"""{GOOD}'], {"joined": 1}, {"topics": [("4", ' say "x"', "C0")]}),
    # Line numbers are listed up to a limit.
    (
        [f"{text}{GOOD}" for text in ("one", *(f"absent {n}" for n in range(30)))],
        {"unknown_text": odd(30, *range(3, 23))},
        {},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "report", "rows"), JOINED)
def test_training_rows_join_by_their_text(
    checkout: Checkout,
    collection: Collection,
    lines: list[str],
    report: dict[str, object],
    rows: dict[str, list[tuple[str, str, str]]],
) -> None:
    folder = checkout(training=training_file(*lines), wha=("9\twhat is tested\n", {"9": {"d1": 1}}))
    release = read_official(folder, collection=collection)
    joined: Any = release.report["training"]
    assert {name: joined[name] for name in report} == report
    for shift, expected in rows.items():
        trained = rows_of(release, shift, "train")
        assert [row[:3] for row in trained] == expected
        assert {row.relevant_doc_ids for row in trained} <= {("d1",)}


MINI = open_collection("mini:500")


@pytest.fixture(scope="module")
def mini_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mini_checkout(tmp_path_factory.mktemp("made-up") / "ms-marco-shift", MINI)


@pytest.fixture(scope="module")
def imported(mini_checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported") / "msshift"
    import_official([mini_checkout], folder, collection=MINI)
    return folder


def ids(folder: Path, split: str) -> dict[str, frozenset[str]]:
    """Return config -> the ids of a split, for every experiment."""
    configs = (name for name in read_manifest(folder).configs if parse_config(name)[1] is not None)
    return {config: frozenset(ids_of(folder, config, split)) for config in configs}


def test_all_shifts_validate_on_what_none_of_them_uses(imported: Path) -> None:
    (common,) = set(ids(imported, "validation").values())
    used = frozenset().union(*ids(imported, "train").values(), *ids(imported, "test").values())
    assert not common & used
    # The made-up training file names every other query; none is left out.
    assert common | used == MINI.relevant.keys()
    assert len(common) > 20
    texts, relevant = MINI.queries, MINI.relevant
    for row in load_dataset(imported, "length-short", split="validation"):
        assert (row.text, row.relevant) == (texts[row.query_id], relevant[row.query_id])
        assert row.group == ("short" if len(row.text.split(" ")) <= 5 else "long")
    assert verify_dataset(imported)[1] == []
    facts = {"queries": len(common), "sampled_from": len(common), "seed": 0}
    assert read_manifest(imported).parameters["validation"] == facts
    assert 'held_out["validation"]' in (imported / "README.md").read_text()


def test_no_more_are_sampled_than_the_papers_number(
    mini_checkout: Path, tmp_path: Path, imported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "VALIDATION_SIZE", 10)
    manifest = import_official([mini_checkout], tmp_path / "msshift", collection=MINI)
    assert manifest.parameters["validation"]["queries"] == 10
    (ten,) = set(ids(tmp_path / "msshift", "validation").values())
    assert len(ten) == 10
    assert ten < ids(imported, "validation")["length-short"]
    monkeypatch.undo()
    import_official([mini_checkout], tmp_path / "alone", collection=MINI, shifts=["wh-words"])
    alone, all_three = read_manifest(tmp_path / "alone"), read_manifest(imported)
    assert alone.configs["wh-words-who"] == all_three.configs["wh-words-who"]


@pytest.fixture
def toy(tsv_folder: WriteFolder) -> Collection:
    folder = tsv_folder(
        queries="1\tone\n2\ttwo\n3\ttested\n4\ttrained\n5\ttrained\n6\tunjudged\n7\tnot named\n",
        qrels="".join(f"{query} 0 d1 1\n" for query in (1, 2, 3, 4, 5, 7)),
    )
    return open_collection(folder)


def import_toy(toy: Collection, folder: Path, *lines: str) -> Manifest:
    tested = ("elsewhere\ttested\n", {"elsewhere": {"d1": 1}})
    mini_checkout = write_checkout(folder / "release", training_file(*lines), wha=tested)
    return import_official([mini_checkout], folder / "msshift", collection=toy)


def test_a_text_that_is_tested_or_trained_on_does_not_validate(
    toy: Collection, tmp_path: Path
) -> None:
    """The release has texts of queries but no ids; "tested" has another id in its test set."""
    lines = ("one\t5\t0\t3\t0\t0\t0", "tested\t5\t0\t3\t0\t0\t0")
    import_toy(toy, tmp_path, *lines, "trained\t0\t1\t3\t0\t0\t0", "unjudged\t5\t0\t3\t0\t0\t0")
    assert set(ids(tmp_path / "msshift", "validation").values()) == {frozenset({"1"})}
    # Queries 4 and 5 are trained on by the topics: the other shifts do not validate on them.
    (row,) = load_dataset(tmp_path / "msshift", "topics-C3", split="validation")
    assert row.group == "others"


def test_where_nothing_is_left_there_is_no_validation(toy: Collection, tmp_path: Path) -> None:
    manifest = import_toy(toy, tmp_path, "trained\t0\t1\t3\t0\t0\t0")
    assert list(manifest.configs["topics-C1"]) == ["train", "test"]
    why = "every joined query is trained on or tested with in some shift"
    assert manifest.parameters["validation"] == {"queries": 0, "why": why}
    assert 'held_out["validation"]' not in (tmp_path / "msshift" / "README.md").read_text()


def test_a_release_of_test_queries_gets_no_validation_queries_from_the_other(
    toy: Collection, msshift: Command, tmp_path: Path
) -> None:
    lines = training_file("one\t0\t1\t3\t0\t0\t0", "two\t5\t0\t3\t0\t0\t0")
    release = write_checkout(tmp_path / "one", lines)
    buckets = write_resttest(tmp_path / "two", dict(zip("12345", "34567", strict=True)))
    done = msshift("import", release, buckets, "--collection", toy.name)
    assert (done.returncode, "no validation queries" in done.stderr) == (0, False)
    manifest = read_manifest(tmp_path / "msshift")
    assert manifest.parameters["validation"]["queries"] == 1
    (row,) = load_dataset(tmp_path / "msshift", "topics-C1", split="validation")
    assert row.query_id == "2"
    assert list(manifest.configs["topics-C1"]) == ["train", "validation", "test"]
    assert list(manifest.configs["resttest-1"]) == ["test"]


def test_the_command_says_that_there_is_none(msshift: Command, tmp_path: Path) -> None:
    done = msshift("import", write_checkout(tmp_path / "release"))
    assert done.returncode == 0, done.stderr
    why = "no training queries were joined to a collection"
    assert f"no validation queries: {why}" in done.stderr
    manifest = read_manifest(tmp_path / "msshift")
    assert list(manifest.configs["length-long"]) == ["test"]
    assert manifest.parameters["validation"] == {"queries": 0, "why": why}
    assert 'held_out["train"]' not in (tmp_path / "msshift" / "README.md").read_text()
    done = msshift("import", tmp_path / "release", "--qrels", "qrels.tsv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--qrels needs a collection; add --collection" in done.stderr


def test_what_cannot_be_imported_or_added(
    tmp_path: Path, tsv_folder: WriteFolder, build_once: Build
) -> None:
    checkout, second = (write_checkout(tmp_path / name) for name in ("one", "two"))
    buckets = write_resttest(tmp_path / "buckets", {bucket: bucket for bucket in "12345"})
    query_id, text = next(iter(read_test_sets(checkout)[0].queries.items()))
    other = tsv_folder(queries=f"{query_id}\tanother text\n", qrels=f"{query_id} 0 d1 1\n")
    read, out, tests = tmp_path / "read", tmp_path / "msshift", tmp_path / "tests"
    import_official([checkout], read)
    without = import_official([buckets], tests, texts=False)
    assert without.shifts["resttest"]["rows"]["3"]["test"] == 1
    card = (tests / "README.md").read_text()
    assert "was imported without the texts" in card
    assert "msshift import" not in card
    before = file_bytes(tmp_path)
    refusals = {
        "NotFoundError EVAL resttest_files": partial(import_official, [tmp_path], out),
        "UsageError topics": partial(import_official, [checkout, second], out),
        "UnknownNameError 'lenght'": partial(import_official, [checkout], out, shifts=["lenght"]),
        "DataError mini:300 --collection": partial(
            import_official, [checkout], out, collection="mini:300"
        ),
        "DataError toy --collection": partial(import_official, [checkout], out, collection=other),
        "UsageError resttest --ids-only": partial(import_official, [buckets], out),
        "nothing that leaks: UsageError read": partial(add_split_leakage, read),
        "nothing to train on: UsageError read": partial(add_triples, read, "mini:300"),
        "DataError tests resttest --collection": partial(hydrate_dataset, tests, MINI),
        "MissingError import": partial(
            add_split_leakage, build_once("mini:300", "length", texts=False)
        ),
    }
    check_refusals(refusals)
    assert file_bytes(tmp_path) == before
    (other / "queries.tsv").write_text(f"{query_id}\t{text}\n")
    assert import_official([checkout], out, collection=other).collection["layout"] == "tsv"


def test_buckets_are_groups(buckets: Checkout, tsv_folder: WriteFolder) -> None:
    queries = "".join(f"{number}\tquery {number}\n" for number in (5, 4, 3, 2, 1, 10, 77))
    collection = open_collection(tsv_folder(queries=queries, qrels="1 0 d1 1\n"))
    cut, report = read_resttest(buckets(), collection)
    assert set(cut.table["split"].to_pylist()) == {"test"}
    assert cut_rows(cut, "test") == [
        Row("1", "query 1", "1", ("d1",), (1,)),
        Row("10", "query 10", "2", ("d10", "d9"), (1, 1)),
        *(Row(g, f"query {g}", g, (f"d{g}",), (1,)) for g in GROUPS[1:]),
    ]
    assert cut.shift.name == "resttest"
    tested = {group: counts["test"] for group, counts in count_rows(cut.shift, cut.table).items()}
    assert tested == dict(zip(GROUPS, (1, 2, 1, 1, 1), strict=True))
    assert report["collection"] == "toy"
    cut, report = read_resttest(buckets())
    assert {row.text for row in cut_rows(cut, "test")} == {""}
    assert report["collection"] is None
    few = open_collection(tsv_folder("few", queries="1\tone\n", qrels="1 0 d1 1\n"))
    with pytest.raises(DataError, match=r"few .*5 .*6 .*10, 2, 3, 4, 5"):
        read_resttest(buckets(), few)
