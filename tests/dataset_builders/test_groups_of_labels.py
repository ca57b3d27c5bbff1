"""Shifts of labels: what a build makes of a file of labels, and which files it refuses."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from msshift_bench import build_dataset, open_dataset
from msshift_bench.data import open_collection, verify_dataset
from msshift_bench.dataset_builders.cut import ids_and_texts, queries_table
from msshift_bench.dataset_builders.topics import replay_topics
from msshift_bench.errors import UsageError
from msshift_bench.records import OTHERS
from msshift_bench.shifts import LabelledShift, get_shift, in_order, known_shifts, parse_config
from tests.support.refusals import check_refusals

MINI = open_collection("mini:300")
USABLE = tuple(ids_and_texts(queries_table(MINI)))
GROUPS = ("people", "pricing", "rest")
LABELS = {query_id: GROUPS[n % 5 % 3] for n, query_id in enumerate(USABLE[10:])}


def write_labels(path: Path, *rows: tuple[str, ...]) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return path


def build(folder: Path, labels: Path, *shifts: str) -> Path:
    options = {"domain": {"labels": labels}}
    build_dataset(MINI, [*shifts, "domain"], folder, options=options, texts=False)
    return folder


def test_labels_are_cut_as_the_shifts_of_the_benchmark(tmp_path: Path) -> None:
    rows = [("query_id", "group"), *LABELS.items()]
    folder = build(tmp_path / "msshift", write_labels(tmp_path / "labels.tsv", *rows), "length")
    dataset = open_dataset(folder)
    assert verify_dataset(dataset)[1] == []
    facts = dataset.manifest.shifts["domain"]
    assert facts["groups"] == {group: group for group in GROUPS}
    assert facts["parameters"]["labels"]["queries"] == len(LABELS)
    assert len({counts["train"] for counts in facts["rows"].values()}) == 1
    held = Counter(LABELS.values())
    for group in GROUPS:
        splits = dataset.splits(f"domain-{group}")
        ids = [row.query_id for rows_of in splits.values() for row in rows_of]
        assert len(set(ids)) == len(ids)
        assert {row.group for row in splits["train"]} == {*GROUPS} - {group}
        assert {LABELS[row.query_id] for row in splits["test"]} == {group}
        assert held[group] / 5 < len(splits["test"]) <= held[group] / 4
        assert {row.group for row in splits["validation"]} <= {*GROUPS, OTHERS}
        validated = [row.query_id for row in dataset.rows("length-short", "validation")]
        assert [row.query_id for row in splits["validation"]] == validated
    assert "people" in (folder / "README.md").read_text("utf-8")


def test_neither_the_order_nor_the_header_of_labels_matters(tmp_path: Path) -> None:
    rows = list(LABELS.items())
    first = write_labels(tmp_path / "a.tsv", ("qid", "label"), *rows)
    second = write_labels(tmp_path / "b.tsv", *reversed(rows))
    folders = build(tmp_path / "a", first), build(tmp_path / "b", second)
    assert len({(folder / "manifest.json").read_bytes() for folder in folders}) == 1


def test_splits_of_the_file_are_used(tmp_path: Path) -> None:
    splits = ("train", "train", "test", "train", "validation")
    rows = [(*row, splits[n // 5 % 5]) for n, row in enumerate(LABELS.items())]
    dataset = open_dataset(build(tmp_path / "out", write_labels(tmp_path / "labels.tsv", *rows)))
    given = {query_id: split for query_id, _, split in rows}
    for group in GROUPS:
        for split, found in dataset.splits(f"domain-{group}").items():
            assert {given[row.query_id] for row in found} == {split}
        tests = dataset.rows(f"domain-{group}", "test")
        assert len(tests) == sum(row[1:] == (group, "test") for row in rows)
    validation = dataset.rows("domain-people", "validation")
    assert len(validation) == sum(row[2] == "validation" for row in rows)


def test_wrong_labels_are_refused(tmp_path: Path) -> None:
    one, two, three = USABLE[:3]
    files: dict[str, list[tuple[str, ...]]] = {
        "CollectionError [repeated-id] labels.tsv:2 'b' 'a' fix": [(one, "a"), (one, "b")],
        "CollectionError [one-group] labels.tsv:1 'a' fix": [(one, "a"), (two, "a")],
        "no line: CollectionError [one-group] labels.tsv:1 fix": [("query_id", "group")],
        "CollectionError [unknown-query] labels.tsv:2 'none' fix": [(one, "a"), ("none", "b")],
        "CollectionError [group-name] labels.tsv:1 'All' fix": [(one, "All"), (two, "b")],
        "white space: CollectionError [group-name] labels.tsv:2 fix": [(one, "a"), (two, "b c")],
        "CollectionError [field-count] labels.tsv:2 fix": [(one, "a"), (two, "b", "test")],
        "one column: CollectionError [field-count] labels.tsv:1 fix": [(one,), (two, "b")],
        "CollectionError [unknown-split] labels.tsv:1 'dev' fix": [
            (one, "a", "dev"), (two, "b", "test"), (three, "a", "train"),
        ],
        "no test: DataError 'b'": [(one, "a", "test"), (two, "b", "train"), (three, "a", "train")],
        "too few: DataError domain 'a' 4": [(one, "a"), (two, "b")],
    }  # fmt: skip
    calls: dict[str, Callable[[], object]] = {}
    for number, (case, rows) in enumerate(files.items()):
        (tmp_path / str(number)).mkdir()
        path = write_labels(tmp_path / str(number) / "labels.tsv", *rows)
        calls[case] = partial(build, tmp_path / "out", path)
    for name in ("length", "restrain", "typos", "my-labels", "a b", ""):
        options = {name: {"labels": path}}
        calls[f"{name!r}: UsageError {name.partition(' ')[0]} --groups"] = partial(
            build_dataset, MINI, [name], tmp_path / "out", options=options
        )
    calls["UsageError other"] = partial(
        build_dataset, MINI, ["length"], tmp_path / "out", options={"other": {"labels": path}}
    )
    check_refusals(calls)
    assert not (tmp_path / "out").exists()


def test_a_group_without_judgements_is_refused(tmp_path: Path) -> None:
    folder, labels = (
        tmp_path / "given",
        write_labels(tmp_path / "labels.tsv", ("1", "a"), ("2", "b")),
    )
    folder.mkdir()
    write_labels(folder / "collection.tsv", ("d1", "ponds"))
    write_labels(folder / "queries.tsv", ("1", "ponds"), ("2", "frogs"))
    (folder / "qrels.tsv").write_text("1 0 d1 1\n")
    options = {"domain": {"labels": labels}}
    call = partial(build_dataset, folder, ["domain"], tmp_path / "out", options=options)
    check_refusals({"CollectionError [unjudged-group] labels.tsv:2 'b' fix": call})


def test_a_name_brings_its_groups_along() -> None:
    name = LabelledShift("domain", {"b": "b", "a": "a"})
    assert (name, repr(name)) == ("domain", "'domain'")
    for made in (copy.deepcopy(name), pickle.loads(pickle.dumps(name))):
        assert get_shift(made).groups == {"b": "b", "a": "a"}
    known = known_shifts(["length", name])
    assert parse_config("domain-a", known) == (get_shift("domain", known), "a")
    assert in_order([name, "restrain-14k", "length"]) == ["length", "restrain-14k", "domain"]


def test_labels_are_no_part_of_a_data_set_to_replay(tmp_path: Path) -> None:
    folder = build(tmp_path / "msshift", write_labels(tmp_path / "labels.tsv", *LABELS.items()))
    with pytest.raises(UsageError, match="domain"):
        replay_topics(folder, MINI, tmp_path / "again")
