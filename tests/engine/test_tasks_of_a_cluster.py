"""What a cluster's machines do is the same as here; tests/engine/test_ray_cluster.py needs Ray."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines.systems import lexical
from msshift_bench.data import Collection, ContentDigest, open_collection
from msshift_bench.dataset_builders.negatives import mine_negatives
from msshift_bench.encoders import EncoderSpec, ModelSettings, embed_queries
from msshift_bench.engine import Engine, using_engine
from msshift_bench.errors import UsageError
from tests.conftest import Build
from tests.support.file_bytes import file_bytes, flip
from tests.support.making import make_runs
from tests.support.mini_rows import mini_rows
from tests.support.one_machine import OneMachine
from tests.support.run_files import queries_of, write_test_set
from tests.support.tiny_encoder import make_tiny_encoder
from tests.support.trained import Trained

SIZE = 300


def test_blocks_of_a_search_give_the_same_run(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "_BLOCK_QUERIES", 50)
    blocks: list[Any] = []
    runs = []
    for engine in (Engine(), OneMachine(before=blocks.append)):
        with using_engine(engine):
            given = {"data": build_once("mini:300", "length"), "out": tmp_path / str(len(runs))}
            runs += make_runs("bm25", **given)
    assert runs[0].read_bytes() == runs[1].read_bytes()
    assert len(blocks) > 1


def mined(collection: Collection, folder: Path) -> list[bytes]:
    """Return the blocks of negatives that the engine in use mines for SIZE queries."""
    options = {
        "passages": ContentDigest.of(open_collection(f"mini:{SIZE}").passages()).hexdigest(),
        "count": 5, "depth": 20, "block_queries": 100,
    }  # fmt: skip
    blocks = mine_negatives(collection, mini_rows(SIZE), folder, **options)
    return [block.load().tobytes() for block in blocks]


def test_negatives_are_the_same(tmp_path: Path) -> None:
    collection, found = open_collection(f"mini:{SIZE}"), list[list[bytes]]()
    for engine in (Engine(), OneMachine()):
        with using_engine(engine):
            found.append(mined(collection, tmp_path / str(len(found))))
    assert found[0] == found[1]
    assert len(found[0]) > 1


@pytest.mark.neural
def test_embeddings_are_the_same_and_another_encoder_is_refused(tmp_path: Path) -> None:
    queries = open_collection(f"mini:{SIZE}").queries
    make_tiny_encoder(tmp_path / "tiny", queries.values(), length=24)
    settings = ModelSettings(truncate_dim=7, model_kwargs={"attn_implementation": "eager"})
    spec = EncoderSpec(str(tmp_path / "tiny"), max_length=24, settings=settings)
    expected = embed_queries(queries, spec, cache=tmp_path / "here")
    with using_engine(OneMachine()):
        assert embed_queries(queries, spec, cache=tmp_path / "there").sha256 == expected.sha256

    other = EncoderSpec(str(shutil.copytree(tmp_path / "tiny", tmp_path / "other")), max_length=24)
    weights = tmp_path / "other/model.safetensors"
    with (
        using_engine(OneMachine(before=lambda _: flip(weights, -8))),
        pytest.raises(UsageError, match=r"the encoder .*other or its libraries .* all machines"),
    ):
        embed_queries(dict(list(queries.items())[:9]), other, cache=tmp_path / "refused")


@pytest.mark.extended
@pytest.mark.neural
def test_a_kept_model_searches_there_and_a_machine_without_the_folder_is_refused(
    build_once: Build, trained: Callable[[str], Trained], tmp_path: Path
) -> None:
    made, data = trained("bi-encoder"), build_once("mini:300", "length")
    row = next(queries_of("length", data))
    write_test_set(tmp_path / "dl19", {"dl-1": row.text}, {"dl-1": row.relevant_doc_ids[0]})
    given: dict[str, Any] = {"data": data, "recipe": made.recipe}
    given["extra_test"] = {"dl19": tmp_path / "dl19"}
    written, tasks = [], list[Any]()
    for engine in (Engine(), OneMachine(before=tasks.append)):
        runs = tmp_path / f"runs-{len(written)}"
        shutil.copytree(made.run_set, runs / "bi-encoder")
        with using_engine(engine):
            make_runs("bi-encoder", out=runs, **given)
        assert not (runs / ".work").exists()
        written.append({k: v for k, v in file_bytes(runs).items() if k.endswith(".run.gz")})
    assert written[0] == written[1]
    assert len(written[0]) == 4
    assert len(tasks) == 2

    lost = tmp_path / "lost"
    shutil.copytree(made.run_set, lost / "bi-encoder")
    with (
        using_engine(OneMachine(before=lambda task: task[0].plan.unlink())),
        pytest.raises(UsageError, match=r"cannot read .*/short; use a folder of runs"),
    ):
        make_runs("bi-encoder", out=lost, **given)
    assert not (lost / "bi-encoder/extra").exists()
