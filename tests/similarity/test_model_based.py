"""R of a data set's groups, under models that a run set keeps beside its runs."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from msshift_bench.data import open_dataset
from msshift_bench.similarity import group_similarity, set_similarity
from tests.conftest import Build, Command
from tests.support.refusals import check_exits, check_refusals

pytestmark = pytest.mark.neural


@pytest.fixture
def runs(tiny_models: Path, tmp_path: Path) -> Path:
    """Return a run set with two seeds; the first has kept its models, which are the same one."""
    folder = tmp_path / "runs" / "bi-encoder"
    for seed in (1, 2):
        for group in ("short", "long"):
            run = folder / "length" / f"seed-{seed}" / f"{group}.run"
            run.parent.mkdir(parents=True, exist_ok=True)
            run.write_text("q1 Q0 d1 1 1.0 x\n")
            if seed == 1:
                shutil.copytree(tiny_models / "my-bi-encoder", run.with_suffix(".model"))
    return folder


def test_r_is_the_mean_dot_product_of_the_models_own_vectors(
    runs: Path, tiny_models: Path, build_once: Build
) -> None:
    from sentence_transformers import SentenceTransformer

    dataset = open_dataset(build_once("mini:300", "length"))
    model = SentenceTransformer(str(tiny_models / "my-bi-encoder"), device="cpu")
    for one in group_similarity(dataset, "length", "model-based", models=runs):
        train = dataset.rows(f"length-{one.group}", "train")
        test = dataset.rows(f"length-{one.group}", "test")
        left, right = (
            model.encode_query([row.text for row in rows], show_progress_bar=False)
            for rows in (test, train)
        )
        assert one.query_ids == tuple(row.query_id for row in test)
        np.testing.assert_allclose(one.values, (left @ right.T).mean(axis=1), atol=1e-5)
        assert one.value == pytest.approx(one.values.mean())
        assert one.other_queries == len(train)
        folder = tiny_models / "my-bi-encoder"
        alone = set_similarity(train, test, "model-based", models=folder)
        assert alone.values.tolist() == one.values.tolist()


def test_a_model_that_is_not_there_or_not_fit_is_named(
    runs: Path, tiny_models: Path, build_once: Build, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    narrow = SentenceTransformer(str(tiny_models / "my-bi-encoder"), device="cpu")
    narrow.append(modules.Dense(16, 8))
    narrow.save_pretrained(str(tmp_path / "narrow"), create_model_card=False)
    widths = {"short": tiny_models / "my-bi-encoder", "long": tmp_path / "narrow"}
    of_groups = partial(group_similarity, build_once("mini:300", "length"), "length", "model-based")
    of_sets = partial(set_similarity, {"1": "a"}, {"2": "b"}, "model-based")
    shutil.copytree(runs, tmp_path / "two" / "bi-encoder")
    shutil.copytree(runs, tmp_path / "two" / "other")
    shutil.copytree(tiny_models, tmp_path / "tiny")
    shutil.copytree(runs, tmp_path / "lacking" / "bi-encoder")
    (tmp_path / "lacking/bi-encoder/length/seed-1/long.run").unlink()
    no_encoders = {"short": tmp_path / "tiny/bert", "long": tmp_path / "tiny"}
    refusals = {
        "MissingError short.run --keep-model": partial(of_groups, models=runs, seed=2),
        "UnknownNameError '3' bi-encoder": partial(of_groups, models=runs, seed=3),
        "UsageError --models": of_groups,
        "UsageError long length": partial(of_groups, models={"short": tmp_path / "tiny"}),
        "NotFoundError 'own' bert": partial(of_groups, models=no_encoders),
        "UsageError my-splade": partial(of_sets, models=tmp_path / "tiny/my-splade"),
        "UsageError two 2 bi-encoder other": partial(of_groups, models=tmp_path / "two"),
        "RunError [missing-run] bi-encoder length long": partial(
            of_groups, models=tmp_path / "lacking"
        ),
        "UsageError folder": partial(of_sets, models=widths),
        "UsageError long 8 short 16": partial(of_groups, models=widths),
    }
    check_refusals(refusals)


def test_what_the_command_says_of_a_run_set(
    msshift: Command, runs: Path, build_copy: Build
) -> None:
    data = build_copy("mini:300", "length")
    digest = open_dataset(data).manifest.content_digest
    command = "similarity --indicator model-based --models runs --per-query r.parquet"
    sidecar = runs / "length" / "seed-1" / "long.run.json"

    for content, facts in (
        ({"data_digest": "0123456789abcdef"}, f"[other-data] 0123456789ab {digest[:12]} --data"),
        ({"data_digest": digest, "held_out": "short"}, "[sidecar-differs] short long"),
        ("[", "[sidecar-unreadable]"),
    ):
        sidecar.write_text(content if isinstance(content, str) else json.dumps(content))
        check_exits(msshift, {command: f"1 {facts} long.run.json"})
    sidecar.write_text(json.dumps({"data_digest": digest}))
    done = msshift(*command.split())
    assert "model: short.model, long.model" in done.stdout
    rows = pq.ParquetFile(data.parent / "r.parquet").read().to_pylist()
    sidecar.unlink()
    for one in group_similarity(data, "length", "model-based", models=runs):
        values = [row["value"] for row in rows if row["group"] == one.group]
        assert values == one.values.tolist()
    shutil.rmtree(runs / "length" / "seed-1" / "long.model")
    refused = msshift(*command.split())
    assert (refused.returncode, "--keep-model" in refused.stderr) == (3, True)
