"""The four neural systems, from training to run files; small enough to train in a second."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.plumbing import line_and_stage
from msshift_bench.runs import find_run_sets, model_path
from tests.support.making import make_runs
from tests.support.run_files import queries_of, read_run, sidecar
from tests.support.tiny_recipes import NEURAL, tiny_recipe

pytestmark = [pytest.mark.neural, pytest.mark.extended]

SIZE = 300
DEPTH = 10
COLLECTION = f"mini:{SIZE}"

DROPOUT = {"dropout": 0.1, "initial": 0.05, "matching": False}
CHANGES = {"bi-encoder": {"validation": {"every": 3, "queries": 10, "depth": 5, "patience": 0}}}


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a tiny recipe of every neural system."""
    folder = tmp_path_factory.mktemp("recipes")
    paths = {}
    for system in NEURAL:
        paths[system] = folder / system / "tiny.toml"
        paths[system].parent.mkdir()
        changes = {"random": DROPOUT, "search": {"depth": DEPTH}, **CHANGES.get(system, {})}
        paths[system].write_text(tiny_recipe(system, **changes))
    return paths


@pytest.fixture(scope="module")
def events() -> list[tuple[str, int, int]]:
    """Return what the making of the run sets of `neural` reports."""
    return []


@pytest.fixture(scope="module")
def neural(
    data: Path,
    recipes: dict[str, Path],
    events: list[tuple[str, int, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Return the folder of run sets for ``length``: the bi-encoder's, and one run of the others."""
    out = tmp_path_factory.mktemp("neural") / "runs"
    given: dict[str, Any] = {"data": data, "out": out}
    make_runs("bi-encoder", recipe=recipes["bi-encoder"], keep_model=True, **given)
    for system in NEURAL[1:]:
        make_runs(
            system,
            recipe=recipes[system],
            held_out=["short"],
            progress=lambda *event: events.append(event),
            **given,
        )
    return out


TAGS = {"colbert": "colbert-tiny-seed5-reranks-bm25-25"}

STAGES = {
    "bi-encoder": {"negatives", "train", "encode", "search", "total"},
    "splade": {"negatives", "train", "encode", "search", "total"},
    "colbert": {"negatives", "train", "encode", "search", "total"},
    "monobert": {"negatives", "train", "candidates", "search", "total"},
}


@pytest.mark.parametrize("system", NEURAL)
def test_a_neural_system_gives_a_run_per_held_out_group(
    system: str, neural: Path, data: Path
) -> None:
    (run_set,) = find_run_sets([neural / system])
    whole = system == "bi-encoder"
    assert (run_set.missing == ()) == whole
    assert list(run_set.runs) == [("short", None), ("long", None)][: 1 + whole]
    everything = {row.query_id for row in queries_of("length", data)}
    for (held_out, _), run in run_set.runs.items():
        lines = read_run(run)
        assert set(lines) == everything
        lengths = {len(ranking) for ranking in lines.values()}
        # What BM25 hands on, some queries have fewer of.
        assert max(lengths) == DEPTH
        assert system in ("colbert", "monobert") or lengths == {DEPTH}
        for ranking in lines.values():
            keys = [(score, doc_id) for doc_id, _, score, _ in ranking]
            assert keys == sorted(keys, reverse=True)
        assert {tag for (_, _, _, tag), *_ in lines.values()} == {
            TAGS.get(system, f"{system}-tiny-seed5")
        }
        said = sidecar(run)
        assert said["held_out"] == held_out
        assert said["parameters"]["steps"] == 7
        assert said["parameters"]["seed"] == 5
        assert said["training"]["leaked"] == 0
        assert said["training"]["steps"] == 7
        assert said["training"]["examples"] >= said["training"]["queries"] > 100
        assert said["passages"]["rows"] == SIZE
        assert said["relevant_not_in_collection"] == {"test": 0, "train": 0}
        assert said["hardware"]["torch_threads"] >= 1
        assert STAGES[system] == set(said["seconds"])
    trained = [sidecar(run)["training"] for run in run_set.runs.values()]
    starts = {training["initial_weights_sha256"] for training in trained}
    ends = {training["weights_sha256"] for training in trained}
    assert (len(starts), len(ends), starts & ends) == (1, len(trained), set())
    assert sorted(entry.name for entry in neural.iterdir()) == sorted(NEURAL)


def test_a_sidecar_names_the_recipe(neural: Path, recipes: dict[str, Path]) -> None:
    for system, path in recipes.items():
        said = sidecar(neural / system / "length" / "short.run.gz")
        parameters = json.dumps(said["parameters"], sort_keys=True).encode()
        assert said["recipe"] == {
            "name": "tiny",
            "file_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "parameters_sha256": hashlib.sha256(parameters).hexdigest(),
        }


def test_all_systems_meet_the_same_triples_in_the_same_order(neural: Path) -> None:
    digests = {
        run.parents[1].name + run.name: sidecar(run)["training"]["triples_sha256"]
        for run in neural.rglob("*.run.gz")
    }
    of_long = digests.pop("bi-encoderlong.run.gz")
    assert len(digests) == len(NEURAL)
    assert {*digests.values()}.isdisjoint({of_long})
    assert len({*digests.values()}) == 1


def test_what_only_some_sidecars_say(neural: Path, data: Path) -> None:
    said = {system: sidecar(neural / system / "length" / "short.run.gz") for system in NEURAL}
    assert list(said["bi-encoder"]["training"]["history"]) == ["3", "6", "7"]
    assert said["bi-encoder"]["training"]["best_step"] in (3, 6, 7)
    assert "history" not in said["splade"]["training"]
    # Vectors of 16 floats of 4 bytes, and a little for the file.
    assert SIZE * 16 * 4 < said["bi-encoder"]["index"]["bytes"] < SIZE * 16 * 4 + 1000
    assert 0 < said["splade"]["index"]["terms_per_query"] <= 500
    assert 0 < said["splade"]["index"]["terms_per_passage"] <= 500
    assert said["colbert"]["index"]["bytes"] > SIZE * 5 * 8 * 2
    assert "index" not in said["monobert"]


def test_what_is_reported_of_one_held_out_group(
    neural: Path, events: list[tuple[str, int, int]]
) -> None:
    told = [event for event in events if event[0].startswith("splade")]
    lines, stages = zip(*(line_and_stage(stage) for stage, _, _ in told), strict=True)
    assert set(lines) == {"splade without short of length"}
    assert list(dict.fromkeys(stages)) == [
        "negatives", "passages", "vocabulary", "train",
        "encode", "search blocks", "search",
    ]  # fmt: skip
    assert [event[1:] for event in told if event[0].endswith(": train")] == [
        (step, 7) for step in range(1, 8)
    ]


def test_vectors_in_16_bits_take_half_the_bytes_and_rank_nearly_alike(
    data: Path, neural: Path, tmp_path: Path
) -> None:
    whole = neural / "bi-encoder" / "length" / "short.run.gz"
    halved = {"search.storage": "float16", "search.depth": DEPTH}
    (rounded,) = make_runs(str(model_path(whole)), data=data, out=tmp_path, name="half", **halved)
    of_both = [sidecar(run)["index"]["bytes"] for run in (rounded, whole)]
    assert of_both[0] < 0.6 * of_both[1]
    # An untrained model's passages nearly tie, so the scores at each rank are compared.
    nearly, exact = (
        {query: [line[2] for line in lines] for query, lines in read_run(run).items()}
        for run in (rounded, whole)
    )
    assert nearly.keys() == exact.keys()
    assert all(nearly[query] == pytest.approx(exact[query], rel=1e-3) for query in exact)
    assert nearly != exact


def test_the_libraries_are_silent_and_another_process_gives_the_same(
    neural: Path, data: Path, recipes: dict[str, Path], tmp_path: Path
) -> None:
    make_runs("bm25", data=data, out=tmp_path / "here")
    # In a process of its own, because a library may speak only once, or at its end.
    script = (
        "import sys; from tests.support.making import make_runs\n"
        "data, collection, out, *recipes = sys.argv[1:]\n"
        "given = {'data': data, 'collection': collection, 'out': out}\n"
        "make_runs('bm25', ['length'], **given)\n"
        "for system, recipe in zip(recipes[::2], recipes[1::2]):\n"
        "    make_runs(system, ['length'], recipe=recipe, held_out=['short'], **given)\n"
    )
    given = [part for system in NEURAL for part in (system, recipes[system])]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, data, COLLECTION, tmp_path / "there", *given],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "Asia/Tokyo"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    runs = {Path("bm25", "length.run.gz"): tmp_path / "here"}
    runs |= {Path(system, "length", "short.run.gz"): neural for system in NEURAL}
    for name, folder in runs.items():
        assert (tmp_path / "there" / name).read_bytes() == (folder / name).read_bytes()
