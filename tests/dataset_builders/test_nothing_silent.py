"""What a build must not do without a word: drop, miscount, or write what nobody can open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import Dataset, Triple, load_triples, open_collection, open_dataset
from msshift_bench.dataset_builders.build import build_dataset, import_official
from msshift_bench.dataset_builders.cut import SampleSizes
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import CollectionError
from tests.conftest import Build, Command, WriteFolder
from tests.support.command_line import run_python
from tests.support.hub_server.client import client_environment
from tests.support.official_checkout import write_mini_checkout, write_resttest
from tests.support.run_files import write_test_set
from tests.support.tsv_files import write_tsv_folder

MINI = open_collection("mini:300")
COUNT_ROWS = """
import datasets, json, sys
rows = {}
for folder in sys.argv[1:]:
    for config in datasets.get_dataset_config_names(folder):
        for split, table in datasets.load_dataset(folder, config).items():
            rows[f"{folder} {config}/{split}"] = len(table)
print(json.dumps(rows))
"""


def queries_of_passages(tsv_folder: WriteFolder, passages: str) -> Path:
    """Write 48 queries, to each of which a passage of its own is relevant: d0 to d47."""
    return tsv_folder(
        collection=passages,
        queries="".join(f"q{i}\ta thing{' in a long query' * (i % 2)} {i}\n" for i in range(48)),
        qrels="".join(f"q{i} 0 d{i} 1\n" for i in range(48)),
    )


def test_a_build_checks_the_passages(tsv_folder: WriteFolder, tmp_path: Path) -> None:
    folder = queries_of_passages(tsv_folder, "d0\tone\nd1 no tab\nd2\ttwo\n")
    with pytest.raises(CollectionError) as caught:
        build_dataset(folder, ["length"], tmp_path / "msshift")
    (finding,) = caught.value.findings
    place = (finding.code, finding.source, finding.line)
    assert place == ("field-count", str(folder / "collection.tsv"), 2)
    assert not (tmp_path / "msshift").exists()


def test_relevant_passages_that_are_absent_are_counted(
    msshift: Command, tmp_path: Path, tsv_folder: WriteFolder
) -> None:
    folder = queries_of_passages(tsv_folder, "d0\tone\nd1\ttwo\nother\tthree\n")
    done = msshift("build", "length", "--collection", str(folder), "--out", "built")
    assert "46 of 48 relevant passages are not in toy: no system can retrieve them" in done.stderr
    passages = open_dataset(tmp_path / "built").manifest.collection["passages"]
    assert passages == {"rows": 3, "relevant": 48, "relevant_absent": 46}
    done = msshift("build", "length", "--collection", "mini:300", "--out", "whole")
    assert "relevant passages" not in done.stderr


@pytest.mark.extended
def test_triples_say_which_pairs_they_leave_out(
    msshift: Command, build_copy: Build, tmp_path: Path
) -> None:
    build_copy("mini:300", "length")

    def made(*options: str) -> tuple[Dataset, list[Triple], str]:
        done = msshift("triples", "msshift", "--negatives", "1", *options)
        dataset = open_dataset(tmp_path / "msshift")
        return dataset, list(load_triples(dataset, "length-long-triples")), done.stderr

    dataset, _, told = made()
    rows = dataset.rows("length-long", "train")
    pairs = {(row.query_id, doc_id) for row in rows for doc_id in row.relevant_doc_ids}
    left_out = len(pairs) - len(rows)
    counts = dataset.manifest.shifts["length"]["triples"]["pairs"]["length-long"]
    assert counts == {"all": len(pairs), "left_out": left_out}
    assert left_out > 0
    assert f"length-long-triples omits {left_out:,} of {len(pairs):,} pairs" in told
    dataset, triples, told = made("--every-pair")
    assert {triple[:2] for triple in triples} == pairs
    assert len(triples) == len(pairs)
    assert dataset.manifest.shifts["length"]["triples"]["pairs"]["length-long"]["left_out"] == 0
    assert " omits " not in told
    # With more negatives than a query has relevant passages, every pair is there anyway.
    some = made("--negatives", "9", "--depth", "20")[1]
    assert made("--negatives", "9", "--depth", "20", "--every-pair")[1] == some


@pytest.mark.extended
def test_the_plain_library_opens_every_kind_of_build(tmp_path: Path) -> None:
    """Those of `test_describe` are the plain ones, small ones and ones of ids."""
    official, restrain, without, triples = (
        tmp_path / name for name in ("official", "restrain", "without", "triples")
    )
    write_mini_checkout(tmp_path / "checkout", open_collection("mini:500"))
    write_resttest(tmp_path / "buckets", {str(n): f"{n}" for n in range(1, 6)})
    sources = (tmp_path / "checkout", tmp_path / "buckets")
    shifts = ["length", "resttest"]
    import_official(sources, official, shifts=shifts, collection="mini:500", texts=False)
    texts = {"t1": "how long is it", "t2": "what is it"}
    write_test_set(tmp_path / "tests", texts, {"t1": "d1", "t2": "d2"})
    options = {"restrain": {"test_sets": [tmp_path / "tests"]}}
    build_dataset(MINI, ["restrain-20"], restrain, options=options)
    small = SampleSizes(validation_size=0, nano=True)
    build_dataset(MINI, ["length"], without, samples=small)
    given = SampleSizes(test_queries=frozenset(list(MINI.queries)[::9]))
    build_dataset(MINI, shifts, triples, samples=given)
    add_triples(triples, MINI, shifts=["length"], count=2, depth=10)
    folders = [str(folder) for folder in (official, restrain, without, triples)]
    done = run_python(COUNT_ROWS, tmp_path, client_environment(tmp_path, None), folders)
    assert (done.returncode, done.stderr) == (0, "")
    configs: dict[str, Any] = {name: open_dataset(name).manifest.configs for name in folders}
    assert json.loads(done.stdout) == {
        f"{name} {config}/{split}": entry.rows
        for name, splits_of in configs.items()
        for config, splits in splits_of.items()
        for split, entry in splits.items()
    }
    assert set(configs[str(without)]["length-short"]) == {"train", "test"}


def test_a_missing_encoder_names_the_shifts_that_need_none(
    msshift: Command, tmp_path: Path
) -> None:
    folder = write_tsv_folder(tmp_path / "toy", MINI)
    done = msshift("build", "--collection", str(folder), "--encoder", "./none", HF_HUB_OFFLINE="1")
    assert done.returncode == 3
    assert "--encoder terms" in done.stderr
    assert "name only the shifts wh-words, length" in done.stderr
    assert not (tmp_path / "msshift").exists()
    done = msshift("build", "wh-words", "length", "--collection", str(folder))
    assert done.returncode == 0
