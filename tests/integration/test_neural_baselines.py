"""The trained systems, from training to run files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.training.backbones import weights_digest
from msshift_bench.plumbing import line_and_stage
from msshift_bench.runs import find_run_sets
from tests.support.command_line import run_python
from tests.support.lanes import with_first
from tests.support.making import make_runs
from tests.support.run_files import queries_of, read_run, sidecar
from tests.support.tiny_recipes import NEURAL
from tests.support.trained import DEPTH, SYSTEMS, Trained

pytestmark = pytest.mark.neural

SIZE = 300
Train = Callable[[str], Trained]


@pytest.mark.parametrize("system", with_first(SYSTEMS, ["bi-encoder"]))
def test_a_trained_system_has_a_run_per_held_out_group(
    system: str, trained: Train, data: Path
) -> None:
    made = trained(system)
    (run_set,) = find_run_sets([made.run_set])
    complete = system == "bi-encoder"
    assert (run_set.missing == ()) == complete
    assert list(run_set.runs) == [("short", None), ("long", None)][: 1 + complete]
    everything = {row.query_id for row in queries_of("length", data)}
    stages = {"negatives", "train", "search", "total"}
    searches = system in NEURAL and system != "monobert"
    stages.add("encode" if searches else "candidates")
    for (held_out, _), run in run_set.runs.items():
        lines = read_run(run)
        assert set(lines) == everything
        lengths = {len(ranking) for ranking in lines.values()}
        # BM25 finds fewer passages for some queries.
        assert max(lengths) == DEPTH
        assert lengths == {DEPTH} or system not in ("bi-encoder", "splade")
        for ranking in lines.values():
            keys = [(score, doc_id) for doc_id, _, score, _ in ranking]
            assert keys == sorted(keys, reverse=True)
        (tag,) = {tag for (_, _, _, tag), *_ in lines.values()}
        assert tag == f"{system}-tiny-seed5{'-reranks-bm25-25' * (system == 'colbert')}"
        facts = sidecar(run)
        assert (facts["held_out"], facts["passages"]["rows"]) == (held_out, SIZE)
        assert (facts["parameters"]["steps"], facts["parameters"]["seed"]) == (7, 5)
        training = facts["training"]
        assert (training["leaked"], training["steps"]) == (0, 7)
        assert training["examples"] >= training["queries"] > 100
        assert facts["relevant_not_in_collection"] == {"test": 0, "train": 0}
        assert facts["hardware"]["torch_threads"] >= 1
        assert set(facts["seconds"]) == stages
        assert (made.model.parent / f"{held_out}.model").is_dir()
        parameters = json.dumps(facts["parameters"], sort_keys=True).encode()
        assert facts["recipe"] == {
            "name": "tiny",
            "file_sha256": hashlib.sha256(made.recipe.read_bytes()).hexdigest(),
            "parameters_sha256": hashlib.sha256(parameters).hexdigest(),
        }
    model = neural_systems()[system].load_model(made.model)
    facts = sidecar(made.run)["training"]
    assert weights_digest(model) == facts["weights_sha256"] != facts["initial_weights_sha256"]
    assert [entry.name for entry in made.run_set.parent.iterdir()] == [system]


@pytest.mark.extended
def test_all_systems_are_trained_on_the_same_triples_in_the_same_order(trained: Train) -> None:
    of_short, of_long = (
        sidecar(trained("bi-encoder").run.with_name(f"{group}.run.gz"))["training"]
        for group in ("short", "long")
    )
    assert of_short["initial_weights_sha256"] == of_long["initial_weights_sha256"]
    assert of_short["triples_sha256"] != of_long["triples_sha256"]
    digests = {sidecar(trained(system).run)["training"]["triples_sha256"] for system in NEURAL}
    assert digests == {of_short["triples_sha256"]}


@pytest.mark.extended
def test_facts_of_single_systems(trained: Train) -> None:
    facts = {system: sidecar(trained(system).run) for system in NEURAL}
    assert list(facts["bi-encoder"]["training"]["history"]) == ["3", "6", "7"]
    assert facts["bi-encoder"]["training"]["best_step"] in (3, 6, 7)
    assert "history" not in facts["splade"]["training"]
    # Vectors of 16 floats of 4 bytes, and the header of the file.
    assert SIZE * 16 * 4 < facts["bi-encoder"]["index"]["bytes"] < SIZE * 16 * 4 + 1000
    assert 0 < facts["splade"]["index"]["terms_per_query"] <= 500
    assert 0 < facts["splade"]["index"]["terms_per_passage"] <= 500
    assert facts["colbert"]["index"]["bytes"] > SIZE * 5 * 8 * 2
    assert facts["colbert"]["candidates"] == "reranks BM25's first 25"
    assert "index" not in facts["monobert"]


@pytest.mark.extended
def test_progress_of_a_training(trained: Train) -> None:
    events = trained("splade").events
    lines, stages = zip(*(line_and_stage(stage) for stage, _, _ in events), strict=True)
    assert set(lines) == {"splade without short of length"}
    assert list(dict.fromkeys(stages)) == [
        *("negatives", "passages", "vocabulary", "train", "encode", "search blocks", "search")
    ]
    assert [event[1:] for event in events if event[0].endswith(": train")] == [
        (step, 7) for step in range(1, 8)
    ]


@pytest.mark.extended
def test_an_interrupted_training_continues_to_the_same_bytes(
    trained: Train, data: Path, tmp_path: Path
) -> None:
    expected = trained("bi-encoder")

    def interrupt(stage: str, done: int, _: int) -> None:
        if stage.endswith(": train") and done == 5:
            raise KeyboardInterrupt

    given = {
        "data": data, "out": tmp_path, "recipe": expected.recipe, "held_out": ["short"],
        "keep_model": True,
    }  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        make_runs("bi-encoder", progress=interrupt, **given)
    assert not list(tmp_path.rglob("*.run.gz"))
    steps = list[int]()
    (run,) = make_runs(
        "bi-encoder",
        progress=lambda stage, done, _: steps.append(done) if ": train" in stage else None,
        **given,
    )
    assert steps == [4, 5, 6, 7]  # from the checkpoint of step 3
    assert run.read_bytes() == expected.run.read_bytes()
    assert sidecar(run)["training"] == sidecar(expected.run)["training"]
    assert not (tmp_path / ".work").exists()


def test_vectors_of_16_bits_take_half_the_bytes_and_rank_nearly_alike(
    trained: Train, data: Path, tmp_path: Path
) -> None:
    made = trained("bi-encoder")
    halved = {"search.storage": "float16", "search.depth": DEPTH}
    (rounded,) = make_runs(str(made.model), data=data, out=tmp_path, name="half", **halved)
    of_both = [sidecar(run)["index"]["bytes"] for run in (rounded, made.run)]
    assert of_both[0] < 0.6 * of_both[1]
    # Scores of this model nearly tie, so the scores at each rank are compared.
    nearly, exact = (
        {query: [line[2] for line in lines] for query, lines in read_run(run).items()}
        for run in (rounded, made.run)
    )
    assert nearly.keys() == exact.keys()
    assert all(nearly[query] == pytest.approx(exact[query], rel=1e-3) for query in exact)
    assert nearly != exact


@pytest.mark.extended
def test_the_libraries_are_silent_and_another_process_writes_the_same_bytes(
    trained: Train, data: Path, tmp_path: Path
) -> None:
    # In another process, because a library may print only once, or at its end.
    script = (
        "import sys, warnings; warnings.simplefilter('error')\n"
        "from tests.support.making import make_runs\n"
        "data, *recipes = sys.argv[1:]\n"
        "for system, recipe in zip(recipes[::2], recipes[1::2]):\n"
        "    given = {'recipe': recipe, 'held_out': ['short']} if recipe else {}\n"
        "    make_runs(system, data=data, out='runs', **given)\n"
    )
    (bm25,) = make_runs("bm25", data=data, out=tmp_path / "here")
    made = {system: trained(system) for system in NEURAL}
    given = [part for system, one in made.items() for part in (system, one.recipe)]
    root = Path(__file__).parents[2]
    environment = {
        "PYTHONPATH": str(root),
        "PYTHONHASHSEED": "1",
        "LC_ALL": "C",
        "TZ": "Asia/Tokyo",
    }
    done = run_python(script, tmp_path, environment, [data, "bm25", "", *given])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for run in (bm25, *(one.run for one in made.values())):
        found = tmp_path / "runs" / run.relative_to(run.parents[2 if run != bm25 else 1])
        assert found.read_bytes() == run.read_bytes()
