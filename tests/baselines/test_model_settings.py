"""The settings of a model change its rankings as they change a search by hand, at both doors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from msshift_bench import evaluate
from msshift_bench.baselines import open_system
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.baselines.training.trainer import check_machine
from msshift_bench.encoders import DEFAULTS, ModelSettings, warn_if_slow
from msshift_bench.errors import UsageError
from msshift_bench.libraries import torch
from tests.baselines.test_kinds_of_models import (
    DEPTH,
    Toy,
    bert,
    check_run,
    cross,
    make_toy,
    search_by_hand,
    shaken,
    sparse,
    static,
)
from tests.conftest import Command
from tests.support.lanes import with_first
from tests.support.run_files import sidecar

pytestmark = pytest.mark.neural


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return make_toy(tmp_path_factory.mktemp("toy"))


def model_of(toy: Toy, seed: int = 1, **options: Any) -> Any:
    prompts = {"search_query": "where is ", "search_document": "old "}
    return shaken(bert(toy.bert, prompts=prompts, **options), seed)


def with_prompts(model: Any) -> None:
    model.prompts = {"query": "where is ", "document": "small walls "}


def with_lengths(model: Any) -> None:
    model[0].query_length, model[0].document_length = 4, 5


def search_in_16_bits(model: Any) -> None:
    Neural._searching(SimpleNamespace(search_precision="bf16"), model)  # type: ignore[arg-type]


DOORS: Mapping[str, Callable[[Any], object]] = {
    "dtype=float16": ModelSettings(dtype="float16").set_up,
    "dtype=bfloat16": ModelSettings(dtype="bfloat16").set_up,
    "search_precision=bf16": search_in_16_bits,
    "precision=bf16": lambda _: check_machine("bf16"),
}
"""Setting -> the function that applies it to a model."""


@pytest.mark.parametrize("setting", DOORS)
def test_16_bits_on_a_processor_without_avx512_are_slow(
    setting: str, toy: Toy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_of(toy)
    caplog.clear()
    for capability in ("AVX512", "DEFAULT", "AVX2"):
        assert not caplog.messages
        warn_if_slow.cache_clear()
        monkeypatch.setattr(
            torch.backends.cpu, "get_cpu_capability", lambda *, known=capability: known
        )
        for _ in range(2):
            DOORS[setting](model)
    (message,) = caplog.messages
    assert message.startswith(f"{setting} is slow on this processor, which has no AVX-512: 32 bits")


CASES: Mapping[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "prompts": ({"query_prompt": "search_query", "document_prompt": "small walls "}, with_prompts),
    "truncated": ({"truncate_dim": 5}, lambda model: setattr(model, "truncate_dim", 5)),
    "dot": ({"similarity": "dot"}, lambda model: setattr(model, "similarity_fn_name", "dot")),
    "bfloat16": ({"dtype": "bfloat16"}, lambda model: model.bfloat16()),
    "float16": ({"dtype": "float16"}, lambda model: model.half()),
    "lengths": ({"query_length": 4, "passage_length": 5}, with_lengths),
}
"""Settings, and the change of a model by hand."""


@pytest.mark.parametrize("case", with_first(CASES, ["prompts", "truncated", "bfloat16"]))
def test_settings_change_what_a_search_by_hand_does(
    case: str, toy: Toy, tmp_path: Path, msshift: Command
) -> None:
    settings, change = CASES[case]
    model, changed = model_of(toy), model_of(toy)
    plain = search_by_hand(model, toy)
    change(changed)
    by_hand = search_by_hand(changed, toy)
    assert by_hand != plain
    evaluate(model, "length", name="mine", runs=tmp_path, **toy.given(), **settings)
    run = tmp_path / "mine" / "length.run.gz"
    check_run(run, by_hand)
    assert search_by_hand(model, toy) == plain, "the user's model is as before"
    model.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    options = {**settings, "search.depth": DEPTH, "batch_size": 7}
    changes = (f"--set={name}={json.dumps(value)}" for name, value in options.items())
    where = "--data", toy.data, "--collection", toy.collection, "--out", tmp_path
    done = msshift("run", tmp_path / "saved", *changes, *where)
    assert done.returncode == 0, done.stderr
    saved = tmp_path / "saved" / "length.run.gz"
    check_run(saved, by_hand)
    shown = {name: value for name, value in settings.items() if name != "similarity"}
    for path in (run, saved):
        assert sidecar(path)["parameters"].get("model_settings", {}) == shown
    assert sidecar(saved)["parameters"]["search"]["batch_size"] == 7
    with pytest.raises(UsageError, match="instead of"):
        evaluate(model, "length", name="mine", runs=tmp_path, **toy.given())


def test_normalized_vectors_are_compared_by_cosine(toy: Toy, tmp_path: Path) -> None:
    model = model_of(toy, similarity_fn_name="dot")
    options = {"normalize": True, "truncate_dim": 5}
    evaluate(model, "length", name="mine", runs=tmp_path, **toy.given(), **options)
    by_hand = model_of(toy, similarity_fn_name="cosine", truncate_dim=5)
    check_run(tmp_path / "mine" / "length.run.gz", search_by_hand(by_hand, toy))


@pytest.mark.extended
def test_models_of_a_factory_get_the_settings(toy: Toy, tmp_path: Path) -> None:
    models = {group: model_of(toy, seed) for seed, group in enumerate(("short", "long"), 1)}
    settings, change = CASES["prompts"]
    evaluate(
        lambda group: models[group], "length", name="mine", runs=tmp_path, **toy.given(), **settings
    )
    for group, model in models.items():
        change(model)
        run = tmp_path / "mine" / "length" / f"{group}.run.gz"
        check_run(run, search_by_hand(model, toy))
        facts = sidecar(run)
        assert facts["model"]["model_settings"] == settings
        assert facts["parameters"]["search"].items() >= settings.items()


def test_without_settings_a_sidecar_is_as_before(toy: Toy, tmp_path: Path) -> None:
    """Runs that were made before there were settings are complete."""
    assert DEFAULTS.parameters() == {}
    evaluate(model_of(toy), "length", name="mine", runs=tmp_path, device="cpu", **toy.given())
    parameters = sidecar(tmp_path / "mine" / "length.run.gz")["parameters"]
    names = ["architecture", "model", "search", "settings", "similarity", "weights_sha256"]
    assert sorted(parameters) == names


def test_unused_prompts_are_a_doubt_until_one_is_chosen(toy: Toy) -> None:
    options = {**toy.given(), "runs": None}
    warnings = evaluate(model_of(toy), "length", **options).warnings
    assert any("search_query, search_document are not used; choose" in line for line in warnings)
    chosen = {"query_prompt": "search_query", "document_prompt": "search_document"}
    warnings = evaluate(model_of(toy), "length", **options, **chosen).warnings
    assert not any("prompts" in line for line in warnings)


@pytest.mark.extended
def test_a_revision_of_the_hub(toy: Toy, tmp_path: Path, script: Command) -> None:
    """The cache of the Hub has two revisions, by refs."""
    place = tmp_path / "hub" / "models--me--tiny"
    (place / "refs").mkdir(parents=True)
    for number, name in enumerate(("main", "v1"), 1):
        digest = f"{number}" * 40
        (place / "refs" / name).write_text(digest)
        model_of(toy, number).save_pretrained(str(place / "snapshots" / digest))
    where = "--data", toy.data, "--collection", toy.collection, "--out", tmp_path
    environment = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    for number, options in enumerate(((), ("--set", "revision=v1")), 1):
        shutil.rmtree(tmp_path / "tiny", ignore_errors=True)
        depth = "--set", f"search.depth={DEPTH}"
        done = script("run", "me/tiny", *depth, *options, *where, **environment)
        assert done.returncode == 0, done.stderr
        run = tmp_path / "tiny" / "length.run.gz"
        check_run(run, search_by_hand(model_of(toy, number), toy))
    assert sidecar(run)["parameters"]["model_settings"] == {"revision": "v1"}


REFUSED: list[tuple[Callable[[Toy], Any], dict[str, Any], str]] = [
    (model_of, {"truncate_dim": 17}, "truncate_dim must be at most 16, got 17"),
    (model_of, {"truncate_dim": 0}, "the settings of mine: truncate_dim: "),
    (model_of, {"dtype": "int8"}, "the settings of mine: dtype: "),
    (model_of, {"query_length": 2}, "the settings of mine: query_length: "),
    (model_of, {"revision": "v1"}, "revision is an option for models in folders or on the Hub"),
    (lambda toy: sparse(toy.bert), {"truncate_dim": 3}, "truncate_dim is a setting of bi-enc"),
    (lambda toy: cross(toy.bert, 1), {"query_prompt": "q"}, "query_prompt is a setting of "),
    (lambda toy: static(toy.bert), {"passage_length": 9}, "StaticEmbedding reads texts of any"),
    (lambda _: lambda queries: [], {"query_prompt": "q"}, "an option for models of sentence-"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "options", "message"), REFUSED)
def test_settings_that_a_model_does_not_have(
    make: Callable[[Toy], Any], options: dict[str, Any], message: str, toy: Toy
) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate(make(toy), "length", name="mine", **toy.given(), **options)


def test_settings_of_weights_that_are_loaded_here(tmp_path: Path, toy: Toy) -> None:
    (tmp_path / "knrm").mkdir()
    with pytest.raises(
        UsageError, match="revision is a setting of transformers that are loaded as they are"
    ):
        open_system(str(tmp_path / "knrm"), changes={"kind": "knrm", "revision": "v1"})
    with pytest.raises(UsageError, match="query_length"):
        ModelSettings.of({"query_length": 1}, open_kind("bi-encoder"), "mine")


def open_kind(name: str) -> Any:
    from msshift_bench.baselines.systems.finding import neural_systems

    return neural_systems()[name]
