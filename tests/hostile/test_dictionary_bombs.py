"""Parquet files of a few bytes that unpack to gigabytes: refused before anything is decoded."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable
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
from msshift_bench.leakage import LeakedPair, pairs_to_judge, read_left_out
from msshift_bench.runs import read_run, validate_run
from tests.conftest import Build

ROWS, LONG = 100_000, 1 << 20
"""Rows that name one text, and its length: a hundred gigabytes if each row has its own copy."""

MOST = 3 << 30
"""Bytes that the process may have grown to."""


def write(path: Path, **long: str) -> Path:
    """Write a run whose ids are texts of a dictionary."""
    columns = {
        name: pa.DictionaryArray.from_arrays(
            pa.array([0] * ROWS, pa.int32()), pa.array([long.get(name, "7")])
        )
        for name in ("query_id", "doc_id")
    }
    scores = pa.array([float(-row) for row in range(ROWS)])
    pq.write_table(pa.table({**columns, "score": scores}), path, compression="zstd")
    assert path.stat().st_size < 2 << 20
    return path


READERS: dict[str, Callable[[Path], object]] = {
    "read_run": read_run,
    "validate_run": lambda path: check(validate_run(path).errors[0].code),
    "score_runs": lambda path: score_runs([path], {"7": {"7": 1}}),
}


def check(code: str) -> None:
    assert code == "parquet-too-large"
    raise RunError(code)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["query_id", "doc_id"])
def test_ids_of_a_run(tmp_path: Path, name: str, reader: str) -> None:
    path = write(tmp_path / "a.parquet", **{name: "x" * LONG})
    with pytest.raises(RunError, match="parquet-too-large"):
        READERS[reader](path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MOST


def test_ids_that_fit_are_read(tmp_path: Path) -> None:
    table = {
        "query_id": pa.array(["q", "q", "p"]).dictionary_encode(),
        "doc_id": pa.array(["a", "b", "a"]).dictionary_encode(),
        "score": pa.array([3.0, 2.0, 1.0]),
    }
    pq.write_table(pa.table(table), tmp_path / "a.parquet", row_group_size=2)
    assert read_run(tmp_path / "a.parquet") == {"q": {"a": 3.0, "b": 2.0}, "p": {"a": 1.0}}


def candidates(path: Path, long: str) -> Path:
    path.mkdir()
    texts = {name: "7" for name in LeakedPair._fields if name != "cosine"} | {"tier": "same-text"}
    texts |= {"train_text": long}
    columns: dict[str, pa.Array] = {
        name: pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array([text]))
        for name, text in texts.items()
    }
    columns["cosine"] = pa.array([0.95] * ROWS, pa.float32())
    pq.write_table(pa.table(columns), path / "candidates.parquet", compression="zstd")
    return path


@pytest.mark.parametrize("read", [read_left_out, pairs_to_judge])
def test_texts_of_candidates(tmp_path: Path, read: Callable[..., object]) -> None:
    found = candidates(tmp_path / "found", "x" * LONG)
    with pytest.raises(CollectionError, match="unpacks to more than"):
        read(found)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MOST


@pytest.mark.parametrize("name", ["text", "relevant_doc_ids"])
def test_a_data_set_of_somebody_else(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = Path(shutil.copytree(build_once("mini:300", "length"), tmp_path / "foreign"))
    path, manifest = folder / "length-short" / "train.parquet", read_manifest(folder)
    table = pq.read_table(path)
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array(["x" * LONG]))
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
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MOST
