"""Without a library, the Hub or a GPU: one sentence names what is missing and what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.training.backbones import load_config
from msshift_bench.baselines.training.trainer import check_machine
from msshift_bench.cli.begin import demo
from msshift_bench.errors import HubError, MissingError, NotFoundError, install_fix
from tests.support.command_line import run_msshift, run_python, run_script
from tests.support.making import make_runs

HIDDEN = """
import sys
from msshift_bench.cli import main
sys.modules[sys.argv.pop(1)] = None
main()
"""
"""The command line where a library cannot be imported."""

OFFLINE = {"HF_HUB_OFFLINE": "1"}


@pytest.mark.parametrize(
    ("module", "command", "what", "extra"),
    [
        ("Stemmer", "run bm25 --data DATA", "BM25", "bm25"),
        (
            "rank_bm25",
            "run bm25 --set engine=rank_bm25 --data DATA",
            "the engine rank_bm25",
            "bm25",
        ),
        ("torch", "run bi-encoder --data DATA", "bi-encoder", "neural"),
        ("sentence_transformers", "run colbert --data DATA", "colbert", "neural"),
        ("faiss", "run splade --data DATA", "splade", "neural"),
        ("datasets", "run splade --data DATA", "splade", "neural"),
        ("accelerate", "run monobert --data DATA", "monobert", "neural"),
        ("torch", "run monobert --dry-run --data DATA", "monobert", "neural"),
        (
            "sentence_transformers",
            "run some/model --set kind=splade --data DATA",
            "model",
            "neural",
        ),
        ("Stemmer", "triples DATA", "BM25", "bm25"),
        ("huggingface_hub", "push DATA --repo some/where", "pushing to the Hub", "hf"),
        ("huggingface_hub", "install some/where", "downloading from the Hub", "hf"),
        ("datasets", "install DATA", "installing a data set", "hf"),
        ("ir_datasets", "irds --data DATA list", "a data set in ir_datasets", "irds"),
        ("Stemmer", "demo --collection mini:300", "the demo", "bm25"),
        ("torch", "demo --collection mini:300", "the demo", "neural"),
    ],
)
def test_a_missing_library(
    module: str,
    command: str,
    what: str,
    extra: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    done = run_msshift(command.replace("DATA", str(data)).split(), tmp_path, OFFLINE)
    last = done.stderr.splitlines()[-1]
    sentence = f"error: {what} needs the '{extra}' extra; {install_fix(extra)}"
    assert (done.returncode, last) == (3, sentence)
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.extended
@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("Stemmer", "run bm25 --data DATA", "bm25"),
        ("torch", "run bi-encoder --data DATA", "neural"),
        ("huggingface_hub", "run some/model --data DATA", "neural"),
        ("huggingface_hub", "push DATA --repo some/where", "hf"),
        ("datasets", "install DATA", "hf"),
        ("ir_datasets", "irds --data DATA list", "irds"),
    ],
)
def test_a_library_that_is_missing_from_the_start(
    module: str, command: str, extra: str, data: Path, tmp_path: Path
) -> None:
    arguments = [module, *command.replace("DATA", str(data)).split()]
    done = run_python(HIDDEN, tmp_path, OFFLINE, arguments)
    assert done.returncode == 3
    assert done.stderr.endswith(f"{install_fix(extra)}\n")


def test_the_demo_names_all_extras_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("Stemmer", "torch"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingError) as caught:
        demo(tmp_path / "demo")
    assert str(caught.value) == (
        f"the demo needs the extras 'bm25' and 'neural'; {install_fix('bm25,neural')}"
    )
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("run splade --recipe paper --data DATA", "no encoder distilbert/distilbert"),
        ("run some/model --data DATA", "no model some/model: "),
        ("run ./model --set kind=colbert --data DATA", "no model ./model: the folder"),
        ("build topics --collection mini:300 --encoder some/bert", "no encoder 'some/bert': "),
        ("push DATA --repo some/where", "HF_TOKEN"),
        ("install some/where", "HF_HUB_OFFLINE is set"),
    ],
)
@pytest.mark.neural
@pytest.mark.extended
def test_without_the_hub(command: str, missing: str, data: Path, tmp_path: Path) -> None:
    arguments = command.replace("DATA", str(data)).split()
    done = run_script(arguments, tmp_path, {**OFFLINE, "MSSHIFT_CACHE": str(tmp_path / "cache")})
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert missing in done.stderr.splitlines()[-1]
    assert not (tmp_path / "runs").exists()


@pytest.mark.neural
def test_a_hub_that_does_not_answer_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    asked = []

    def check_hub() -> None:
        asked.append(1)
        raise HubError("cannot reach the Hub")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("msshift_bench.data.hub.check_hub", check_hub)
    for name in ("some/bert", "some/bert", "./bert"):
        with pytest.raises(NotFoundError, match=f"no encoder {name}"):
            load_config(name)
        assert len(asked) == 1
    with pytest.raises(NotFoundError, match="no model some/bert"):
        neural_systems()["splade"].load_model("some/bert")
    assert len(asked) == 1
    (said,) = (one.message for one in caplog.records if one.name.startswith("msshift_bench"))
    assert said == "cannot reach the Hub. The cached model is used without a check for updates"
    assert constants.HF_HUB_OFFLINE


@pytest.mark.neural
@pytest.mark.parametrize(
    ("precision", "gpu", "sentence"),
    [
        ("fp16", False, "precision is fp16, which needs a GPU, and torch finds none"),
        ("bf16", True, "precision is bf16, which Some GPU does not support; use --set precision"),
    ],
)
def test_without_the_gpu_that_the_precision_needs(
    precision: str,
    gpu: bool,
    sentence: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
    given: dict[str, Any] = {"data": data, "out": tmp_path / "runs"}
    with pytest.raises(MissingError, match=sentence):
        make_runs("bi-encoder", precision=precision, **given)
    assert not (tmp_path / "runs").exists()


@pytest.mark.neural
@pytest.mark.parametrize(("precision", "known"), [("fp16", False), ("bf16", True), ("fp32", False)])
def test_a_gpu_trains_in_the_precisions_that_it_supports(
    precision: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: known)
    check_machine(precision)
