"""Parquet files of a few bytes that unpack to gigabytes: refused before anything is decoded."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.data import (
    install_dataset,
    load_dataset,
    read_manifest,
    sha256_of,
    write_manifest,
)
from msshift_bench.errors import CollectionError, IntegrityError, RunError
from msshift_bench.evaluation import score_runs
from msshift_bench.leakage import LeakedPair, pairs_to_judge, read_leaked_queries
from msshift_bench.runs import read_run, validate_run
from tests.conftest import Build

ROWS, LONG = 100_000, "x" * (1 << 20)
"""Rows that name one text: a hundred gigabytes if each row has a copy of it."""


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """Check that the process has not grown to more than 3 GB."""
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < 3 << 30


def repeated(text: str) -> pa.Array:
    """Return a column of one text, which the file holds once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array([text]))


@pytest.mark.parametrize("long", ["query_id", "doc_id"])
def test_ids_of_a_run(tmp_path: Path, long: str) -> None:
    path = tmp_path / "a.parquet"
    ids = {name: repeated(LONG if name == long else "7") for name in ("query_id", "doc_id")}
    scores = pa.array([float(-row) for row in range(ROWS)])
    pq.write_table(pa.table({**ids, "score": scores}), path, compression="zstd")
    assert path.stat().st_size < 2 << 20
    for read in (read_run, lambda path: score_runs([path], {"7": {"7": 1}})):
        with pytest.raises(RunError, match="parquet-too-large"):
            read(path)
    assert validate_run(path).errors[0].code == "parquet-too-large"


def test_ids_that_fit_are_read(tmp_path: Path) -> None:
    table = {
        "query_id": pa.array(["q", "q", "p"]).dictionary_encode(),
        "doc_id": pa.array(["a", "b", "a"]).dictionary_encode(),
        "score": pa.array([3.0, 2.0, 1.0]),
    }
    pq.write_table(pa.table(table), tmp_path / "a.parquet", row_group_size=2)
    assert read_run(tmp_path / "a.parquet") == {"q": {"a": 3.0, "b": 2.0}, "p": {"a": 1.0}}


def test_texts_of_candidates(tmp_path: Path) -> None:
    texts = dict.fromkeys(LeakedPair._fields, "7") | {"tier": "same-text", "train_text": LONG}
    columns: dict[str, pa.Array] = {name: repeated(text) for name, text in texts.items()}
    columns["cosine"] = pa.array([0.95] * ROWS, pa.float32())
    pq.write_table(pa.table(columns), tmp_path / "candidates.parquet", compression="zstd")
    for read in (read_leaked_queries, pairs_to_judge):
        with pytest.raises(CollectionError, match="unpacks to more than"):
            read(tmp_path)


@pytest.mark.parametrize("name", ["text", "relevant_doc_ids"])
def test_texts_of_a_data_set(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = Path(shutil.copytree(build_once("mini:300", "length"), tmp_path / "foreign"))
    path, manifest = folder / "length-short" / "train.parquet", read_manifest(folder)
    table = pq.read_table(path)
    texts = repeated(LONG)
    if name == "relevant_doc_ids":
        texts = pa.ListArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), texts)
    wide = table.take(pa.array([0] * ROWS, pa.int64()))
    pq.write_table(
        wide.set_column(wide.column_names.index(name), name, texts), path, compression="zstd"
    )
    entry = manifest.configs["length-short"]["train"]
    file = replace(entry.files[0], rows=ROWS, bytes=path.stat().st_size, sha256=sha256_of(path))
    splits = {**manifest.configs["length-short"], "train": replace(entry, rows=ROWS, files=(file,))}
    write_manifest(folder, replace(manifest, configs={**manifest.configs, "length-short": splits}))
    with pytest.raises(IntegrityError, match="unpacks to more than 1,073,741,824 bytes"):
        load_dataset(folder, "length-short", split="train")
    with pytest.raises(IntegrityError, match="parquet-too-large"):
        install_dataset(folder)
