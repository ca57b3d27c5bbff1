"""Which releases can be imported together, and what needs more than a release holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.dataset_builders.audit import add_split_leakage
from msshift_bench.dataset_builders.release import import_official, read_test_sets
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import (
    DataError,
    MissingError,
    NotFoundError,
    UnknownNameError,
    UsageError,
)
from tests.conftest import Build, WriteFolder
from tests.support.official_checkout import write_checkout, write_resttest


def test_sources_that_cannot_be_imported(tmp_path: Path) -> None:
    checkout, out = write_checkout(tmp_path / "one"), tmp_path / "msshift"
    with pytest.raises(NotFoundError, match="is no release that can be imported: it holds neither"):
        import_official([tmp_path], out)
    with pytest.raises(UsageError, match="two sources hold the shift topics"):
        import_official([checkout, write_checkout(tmp_path / "two")], out)
    with pytest.raises(UnknownNameError, match=r"unknown shift in these sources 'lenght'.*length"):
        import_official([checkout], out, shifts=["lenght"])
    assert not out.exists()


def test_a_collection_that_is_not_the_release_s(tmp_path: Path, tsv_folder: WriteFolder) -> None:
    checkout, out = write_checkout(tmp_path / "one"), tmp_path / "msshift"
    with pytest.raises(DataError, match=r"^mini:300 holds none of the released queries; give the"):
        import_official([checkout], out, collection="mini:300")
    assert not out.exists()
    released = read_test_sets(checkout)[0]
    query_id, text = next(iter(released.queries.items()))
    other = tsv_folder(queries=f"{query_id}\tanother text\n", qrels=f"{query_id} 0 d1 1\n")
    with pytest.raises(DataError, match="holds none of the released queries"):
        import_official([checkout], out, collection=other)
    (other / "queries.tsv").write_text(f"{query_id}\t{text}\n")
    assert import_official([checkout], out, collection=other).collection["layout"] == "tsv"


def test_buckets_have_no_texts_without_their_collection(tmp_path: Path) -> None:
    write_resttest(tmp_path, {bucket: bucket for bucket in "12345"})
    with pytest.raises(UsageError, match="resttest is released without texts; give the collection"):
        import_official([tmp_path], tmp_path / "msshift")
    manifest = import_official([tmp_path], tmp_path / "msshift", texts=False)
    assert manifest.shifts["resttest"]["rows"]["3"]["test"] == 1


def test_a_release_of_test_queries_has_nothing_to_train_on(tmp_path: Path) -> None:
    folder = tmp_path / "msshift"
    import_official([write_checkout(tmp_path / "one")], folder)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(UsageError, match="has no training queries, so that nothing can leak"):
        add_split_leakage(folder)
    with pytest.raises(UsageError, match="holds no training queries to make triples of"):
        add_triples(folder, "mini:300")
    assert before == {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_texts_are_compared_only_where_they_are(build_once: Build) -> None:
    ids = build_once("mini:300", "length", texts=False)
    with pytest.raises(MissingError, match=r"holds ids only, no texts .*'msshift hydrate "):
        add_split_leakage(ids)
    with pytest.raises(UnknownNameError, match=r"unknown shift in .* 'topics'.*valid are length"):
        add_triples(ids, "mini:300", shifts=["topics"])
