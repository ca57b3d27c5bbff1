"""msshift similarity: what it prints and writes is what the functions return."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from msshift_bench import mini
from msshift_bench.data import open_dataset
from msshift_bench.similarity import group_similarity, query_similarity
from tests.conftest import Build, Command


def test_the_command_prints_what_the_functions_return(msshift: Command, build_copy: Build) -> None:
    dataset = build_copy("mini:300", "wh-words", "length")
    printed = json.loads(msshift("similarity", "--json").stdout)
    assert list(printed["shifts"]) == ["wh-words", "length"]
    for shift, groups in printed["shifts"].items():
        expected = [
            {
                "group": o.group,
                "value": o.value,
                "queries": o.queries,
                "other_queries": o.other_queries,
            }
            for o in group_similarity(dataset, shift)
        ]
        assert groups == expected
    shown = msshift("similarity", "--shift", "length", "--against", "train").stdout
    assert "test queries of a group and train queries of the others" in shown
    for one in group_similarity(dataset, "length", against="train"):
        assert f"{one.value:.6f}" in shown


def test_the_command_compares_two_files(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("1\tcheap flights\n2\tcheap rooms\n")
    (tmp_path / "test.tsv").write_text("3\tCheap flights\n")
    printed = json.loads(
        msshift("similarity", "--train", "train.tsv", "--test", "test.tsv", "--json").stdout
    )
    assert (printed["value"], printed["queries"], printed["other_queries"]) == (0.75 / 1.25, 1, 2)
    assert "0.600000" in msshift("similarity", "--train", "train.tsv", "--test", "test.tsv").stdout
    alone = msshift("similarity", "--train", "train.tsv")
    assert (alone.returncode, "give both" in alone.stderr) == (2, True)


def test_the_command_writes_every_querys_value(msshift: Command, build_copy: Build) -> None:
    data = build_copy("mini:300", "length")
    (data.parent / "msshift.toml").write_text('shifts = ["length"]\n')
    asked = ("similarity", "--indicator", "clarity", "--depth", "20", "--per-query", "c.parquet")
    done = msshift(*asked)
    assert done.returncode == 0, done.stderr
    assert "BM25's first 20 passages of mini:300" in done.stdout
    table = pq.ParquetFile(data.parent / "c.parquet").read()
    rows = table.to_pylist()
    assert json.loads(table.schema.metadata[b"msshift_bench"])["indicator"] == "clarity"
    for one in group_similarity(data, "length", "clarity", depth=20):
        assert one.other_queries == 0
        assert one.per_query is not None
        own = [row for row in rows if row["group"] == one.group]
        assert [row["query_id"] for row in own] == list(one.per_query.query_ids)
        assert [row["value"] for row in own] == one.per_query.values.tolist()
        assert [row["rank"] for row in own] == one.per_query.ranks.tolist()
        texts = {row.query_id: row.text for row in open_dataset(data).rows("length", "queries")}
        alone = {query_id: texts[query_id] for query_id in one.per_query.query_ids[:3]}
        values = query_similarity(alone, alone, "clarity", collection="mini:300", depth=20).values
        assert values.tolist() == one.per_query.values[:3].tolist()


def test_the_command_finds_the_nearest_query_of_a_file(msshift: Command, tmp_path: Path) -> None:
    rows = list(mini.queries(300))
    for name, part in (("train", rows[:200]), ("test", [*rows[200:], rows[5]])):
        lines = "".join(f"{row.query_id}\t{row.text}\n" for row in part)
        (tmp_path / f"{name}.tsv").write_text(lines)
    (tmp_path / "msshift.toml").write_text('shifts = ["length"]\n')
    files = ("similarity", "--train", "train.tsv", "--test", "test.tsv")
    asked = (*files, "--indicator", "nearest-query", "--encoder", "terms")
    printed = json.loads(msshift(*asked, "--per-query", "n.parquet", "--json").stdout)
    assert printed["computed_with"]["encoder"] == "terms"
    last = pq.ParquetFile(tmp_path / "n.parquet").read().to_pylist()[-1]
    assert last["nearest_text"] == rows[5].text
    assert last["rank"] == 1
    for wrong, message in (
        ((*files, "--split", "all"), "are for the groups of a data set"),
        ((*files, "--per-query", "x.parquet"), "has no values per query"),
        ((*files, "--indicator", "clarity"), "give the collection (--collection)"),
        ((*files, "--encoder", "terms"), "takes tokenizer, and not encoder"),
        ((*files, "--indicator", "model-based"), "--models"),
    ):
        refused = msshift(*wrong)
        assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr
