from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.data.collection import open_collection
from msshift_bench.data.triples_export import export_triples
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import UsageError
from tests.conftest import WriteFolder


def test_texts_of_other_passages_are_refused(tsv_folder: WriteFolder, tmp_path: Path) -> None:
    folder = tsv_folder(
        collection="".join(f"d{i}\tpassage {i}\n" for i in range(20)),
        queries="".join(f"q{i}\twhat is passage {'x ' * (i % 4)}{i}\n" for i in range(30)),
        qrels="".join(f"q{i} 0 d{i % 20} 1\n" for i in range(30)),
    )
    build_dataset(folder, ["length"], tmp_path / "msshift")
    add_triples(tmp_path / "msshift", folder, count=1, depth=5)
    (folder / "collection.tsv").write_text("".join(f"d{i}\tanother {i}\n" for i in range(20)))
    with pytest.raises(UsageError, match="were drawn from 20 passages, and 'toy' holds 20, not al"):
        export_triples(
            tmp_path / "msshift",
            "length-short-triples",
            tmp_path / "out.tsv",
            texts=open_collection(folder),
        )
    assert not (tmp_path / "out.tsv").exists()
