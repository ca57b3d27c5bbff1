"""Pre-training: equal bytes after interrupts, and only passages are read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from msshift_bench.baselines import pretrain_encoder
from msshift_bench.baselines.training.backbones import PRETRAINING, describe_encoder
from msshift_bench.data.collection import open_collection
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import reporting
from msshift_bench.runs import sidecar_path
from tests.conftest import Command
from tests.support.command_line import Done, run_msshift
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import sidecar
from tests.support.tiny_recipes import tiny_pretraining, tiny_recipe

pytestmark = [pytest.mark.extended, pytest.mark.neural]

STEPS = 12


def write_collection(folder: Path, queries: str) -> None:
    """Write mini's passages, and queries with one judgement each."""
    folder.mkdir()
    passages = list(open_collection("mini:60").passages())
    judged = [passages[len(queries) * n % 60].doc_id for n in range(9)]
    for name, lines in (
        ("collection", (f"{passage.doc_id}\t{passage.text}\n" for passage in passages)),
        ("queries", (f"{n}\t{queries} number {n}\n" for n in range(9))),
        ("qrels", (f"{n}\t0\t{doc_id}\t1\n" for n, doc_id in enumerate(judged))),
    ):
        (folder / f"{name}.tsv").write_text("".join(lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretraining")
    (folder / "tiny.toml").write_text(tiny_pretraining(steps=STEPS))
    write_collection(folder / "one", "where is the wine")
    write_collection(folder / "other", "who plays it")
    return folder


def pretrain(folder: Path, out: str, *more: str, recipe: str = "tiny.toml") -> Done:
    command = ("pretrain", "--collection", "one", "--recipe", recipe, "--out", out, *more)
    return run_msshift(command, folder)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Path:
    done = pretrain(folder, "encoder")
    assert done.returncode == 0, done.stderr
    return folder / "encoder"


def contents(encoder: Path) -> dict[str, object]:
    """Return every file; of the facts, only what every pre-training repeats."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in encoder.iterdir()}
    facts = json.loads((encoder / PRETRAINING).read_bytes())
    for name in ("seconds", "collection", "seen"):
        del facts[name]
    return {**found, PRETRAINING: facts}


def test_the_facts_of_an_encoder(folder: Path, encoder: Path) -> None:
    facts = json.loads((encoder / PRETRAINING).read_bytes())
    assert facts["seen"] == "the 60 passages of one; no query and no judgement"
    assert (facts["passages"]["rows"], facts["steps"]) == (60, STEPS)
    assert [step for step, _ in facts["losses"]] == list(range(1, STEPS + 1))
    assert facts["losses"][-1][1] < facts["losses"][0][1]
    read = facts["word_pieces"]["passages"] * STEPS * 8 / 60
    assert facts["word_pieces"]["met"] == pytest.approx(read, rel=0.01)
    assert not (folder / ".work").exists()
    # A complete encoder is not made again.
    before = (encoder / PRETRAINING).stat().st_mtime_ns
    assert pretrain(folder, "encoder").returncode == 0
    assert (encoder / PRETRAINING).stat().st_mtime_ns == before


@pytest.mark.extended
@pytest.mark.parametrize(
    "moments",
    [
        ["train 7"],
        pytest.param(["tokenize 60", "train 7", f"train {STEPS}"], marks=pytest.mark.extended),
    ],
)
def test_an_interrupted_pretraining_with_other_queries_ends_in_the_same_bytes(
    moments: list[str], folder: Path, encoder: Path, tmp_path: Path
) -> None:
    one, other = (folder / name for name in ("one", "other"))
    for name in ("queries.tsv", "qrels.tsv"):
        assert (one / name).read_bytes() != (other / name).read_bytes()
    events = []

    def interrupt(stage: str, done: int, _total: int) -> None:
        events.append(f"{stage} {done}")
        if moments and events[-1] == f"encoder: {moments[0]}":
            raise KeyboardInterrupt

    while moments:
        with reporting(interrupt), pytest.raises(KeyboardInterrupt):
            pretrain_encoder(other, folder / "tiny.toml", out=tmp_path / "encoder")
        assert not (tmp_path / "encoder").exists()
        moments = moments[1:]
    events.clear()
    with reporting(interrupt):
        pretrain_encoder(other, folder / "tiny.toml", out=tmp_path / "encoder")
    assert "encoder: train 1" not in events  # it continued from a checkpoint
    assert contents(tmp_path / "encoder") == contents(encoder)


def test_pretrainings_that_are_refused(folder: Path, encoder: Path) -> None:
    damaged = Path(shutil.copytree(encoder, folder / "damaged"))
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"oops")
    for done, words in (
        (pretrain(folder, "encoder", "--set", "seed=9"), "seed 5 instead of 9. Choose another --"),
        (
            pretrain(folder, "damaged"),
            "model.safetensors is missing, or differs from its SHA-256 in pretraining.json",
        ),
        (pretrain(folder, "one"), "is not empty and no encoder"),
        (pretrain(folder, "new", recipe="nimi"), "'mini'"),
    ):
        assert (done.returncode, words in done.stderr.replace("\n", " ")) == (2, True), done.stderr
    with pytest.raises(
        UsageError, match=r"model\.safetensors is missing, or differs from .* pretraining\.json"
    ):
        describe_encoder(damaged)  # as a training calls it
    assert not (folder / "new").exists()


@pytest.mark.extended
def test_the_installed_command_names_a_missing_folder(script: Command, tmp_path: Path) -> None:
    done = script("pretrain", "--collection", "nowhere", "--out", "encoder")
    assert done.returncode == 3
    assert "no folder nowhere" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.extended
def test_a_sidecar_records_what_its_encoder_has_seen(
    encoder: Path, data: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "splade.toml"
    recipe.write_text(tiny_recipe("splade", steps=2, encoder=str(encoder), random=None))
    given = {"data": data, "out": tmp_path / "runs", "recipe": recipe}
    (run,) = make_runs("splade", held_out=["short"], **given)
    recorded, facts = sidecar(run), json.loads((encoder / PRETRAINING).read_bytes())
    assert recorded["encoder"] == {
        "weights_sha256": facts["weights_sha256"],
        "seen": facts["seen"],
        "passages_sha256": facts["passages"]["sha256"],
    }
    # All models of a run set start from one encoder.
    other = {**recorded, "encoder": {**recorded["encoder"], "weights_sha256": "0" * 64}}
    sidecar_path(run).write_text(json.dumps(other))
    message = f'short.run.json differs from this request: weights_sha256 "{"0" * 64}" ins'
    with pytest.raises(UsageError, match=message):
        plan_runs("splade", held_out=["long"], **given)
