"""Pre-training: the same bytes again and after kills, and nothing read but passages."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.baselines.training.backbones import PRETRAINING, describe_encoder
from msshift_bench.data.collection import open_collection
from msshift_bench.errors import UsageError
from msshift_bench.runs import sidecar_path
from tests.conftest import Build, Command
from tests.support.forking import NEURAL, Done, run_forked
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import sidecar
from tests.support.tiny_recipes import tiny_pretraining, tiny_recipe

pytestmark = [pytest.mark.extended, pytest.mark.neural]

STEPS = 12

PROGRAM = """
import os, signal, sys
from msshift_bench.baselines import pretrain_encoder
from msshift_bench.plumbing import reporting

collection, recipe, out, moment = sys.argv[1:]

def die(stage, done, total):
    if f"{stage} {done}" == f"encoder: {moment}":
        os.kill(os.getpid(), signal.SIGKILL)

with reporting(die):
    pretrain_encoder(collection, recipe, out=out)
"""

Pretrain = Callable[..., Done]


def write_collection(folder: Path, queries: str) -> Path:
    """Write a collection of the TSV layout: mini's passages, and queries with a judgement each."""
    folder.mkdir()
    passages = list(open_collection("mini:60").passages())
    lines = [f"{passage.doc_id}\t{passage.text}\n" for passage in passages]
    (folder / "collection.tsv").write_text("".join(lines))
    texts = [f"{queries} number {number}" for number in range(9)]
    rows = [f"{number}\t{text}\n" for number, text in enumerate(texts)]
    (folder / "queries.tsv").write_text("".join(rows))
    judged = [f"{n}\t0\t{passages[len(queries) * n % 60].doc_id}\t1\n" for n in range(9)]
    (folder / "qrels.tsv").write_text("".join(judged))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretraining")
    (folder / "tiny.toml").write_text(tiny_pretraining(steps=STEPS))
    write_collection(folder / "one", "where is the wine")
    write_collection(folder / "other", "who plays it")
    return folder


@pytest.fixture(scope="module")
def pretrain(folder: Path) -> Pretrain:
    def pretrain(out: str, collection: str = "one", moment: str = "") -> Done:
        arguments = [collection, "tiny.toml", out, moment]
        return run_forked(PROGRAM, ["-c", *arguments], folder, os.environ, NEURAL)

    return pretrain


@pytest.fixture(scope="module")
def encoder(folder: Path, pretrain: Pretrain) -> Path:
    done = pretrain("encoder")
    assert done.returncode == 0, done.stderr
    return folder / "encoder"


def contents(encoder: Path) -> dict[str, object]:
    """Return every file, of the facts only those that are the same each time."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in encoder.iterdir()}
    facts = json.loads((encoder / PRETRAINING).read_bytes())
    for name in ("seconds", "collection", "seen"):
        del facts[name]
    return {**found, PRETRAINING: facts}


def test_an_encoder_says_what_it_has_seen(encoder: Path) -> None:
    facts = json.loads((encoder / PRETRAINING).read_bytes())
    assert facts["seen"] == "the 60 passages of one; no query and no judgement"
    assert facts["passages"]["rows"] == 60
    assert facts["steps"] == STEPS
    assert [step for step, _ in facts["losses"]] == list(range(1, STEPS + 1))
    assert facts["losses"][-1][1] < facts["losses"][0][1]
    assert facts["word_pieces"]["met"] == pytest.approx(
        facts["word_pieces"]["passages"] * STEPS * 8 / 60, rel=0.01
    )
    assert not (encoder.parent / ".work").exists()


def test_a_killed_pretraining_on_other_queries_and_judgements_ends_in_the_same_bytes(
    folder: Path, pretrain: Pretrain, encoder: Path
) -> None:
    one, other = (folder / name for name in ("one", "other"))
    assert (one / "queries.tsv").read_bytes() != (other / "queries.tsv").read_bytes()
    assert (one / "qrels.tsv").read_bytes() != (other / "qrels.tsv").read_bytes()
    for moment in ("tokenize 60", "train 7", f"train {STEPS}"):
        assert pretrain("killed", "other", moment).returncode == -9
        assert not (folder / "killed").exists()
    done = pretrain("killed", "other")
    assert done.returncode == 0, done.stderr
    assert contents(folder / "killed") == contents(encoder)


def test_a_complete_encoder_is_left_as_it_is(
    folder: Path, pretrain: Pretrain, encoder: Path
) -> None:
    before = (encoder / PRETRAINING).stat().st_mtime_ns
    assert pretrain("encoder").returncode == 0
    assert (encoder / PRETRAINING).stat().st_mtime_ns == before


def test_what_stands_in_the_way_is_named(
    folder: Path, msshift: Callable[..., Done], encoder: Path
) -> None:
    command = ["pretrain", "--collection", str(folder / "one")]
    tiny = ["--recipe", str(folder / "tiny.toml")]
    done = msshift(*command, *tiny, "--out", str(encoder), "--set", "seed=9")
    assert done.returncode == 2
    assert "seed 5 instead of 9. Choose another --out, or remove" in done.stderr

    other = Path(shutil.copytree(encoder, folder / "changed"))
    weights = other / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"oops")
    done = msshift(*command, *tiny, "--out", str(other))
    assert done.returncode == 2
    assert f"{weights} is not what pretraining.json describes" in done.stderr.replace("\n", " ")
    with pytest.raises(UsageError, match=r"model\.safetensors is not what pretraining\.json"):
        describe_encoder(other)  # A training that starts from it asks for this.

    done = msshift(*command, *tiny, "--out", str(folder / "one"))
    assert done.returncode == 2
    assert "holds something else" in done.stderr

    done = msshift(*command, "--recipe", "nimi", "--out", str(folder / "new"))
    assert done.returncode == 2
    assert "mini" in done.stderr


def test_the_installed_command_names_what_is_missing(script: Command, tmp_path: Path) -> None:
    done = script("pretrain", "--collection", "nowhere", "--out", "encoder")
    assert done.returncode == 3
    assert "no folder nowhere" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_run_says_what_its_encoder_has_seen(
    folder: Path, encoder: Path, build_once: Build
) -> None:
    recipe = folder / "splade.toml"
    recipe.write_text(tiny_recipe("splade", steps=2, encoder=str(encoder), random=None))
    given = {"data": build_once("mini:300", "length"), "out": folder / "runs", "recipe": recipe}
    (run,) = make_runs("splade", held_out=["short"], **given)
    told = sidecar(run)
    facts = json.loads((encoder / PRETRAINING).read_bytes())
    assert told["encoder"] == {
        "weights_sha256": facts["weights_sha256"],
        "seen": facts["seen"],
        "passages_sha256": facts["passages"]["sha256"],
    }
    # Another encoder in the same folder is no start for the other groups of the run set.
    other = {**told, "encoder": {**told["encoder"], "weights_sha256": "0" * 64}}
    sidecar_path(run).write_text(json.dumps(other))
    message = f'short.run.json differs from this request: weights_sha256 "{"0" * 64}" ins'
    with pytest.raises(UsageError, match=message):
        plan_runs("splade", held_out=["long"], **given)
