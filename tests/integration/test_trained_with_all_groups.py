"""The model that holds out nothing: it trains on as many queries, of all groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import open_dataset
from msshift_bench.errors import UsageError
from msshift_bench.evaluation import evaluate_extra_tests
from tests.conftest import Build, Command
from tests.support.figures import read_figures
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import queries_of, sidecar, write_test_set
from tests.support.trained import Trained


@pytest.fixture
def words(build_once: Build) -> Path:
    return build_once("mini:300", "length", "wh-words")


@pytest.mark.parametrize("shift", ["length", "wh-words"])
def test_it_trains_on_as_many_queries_as_the_others_with_equal_shares(
    shift: str, words: Path
) -> None:
    def plan(*held_out: str) -> list[Any]:
        return plan_runs("bi-encoder", [shift], data=words, out="runs", held_out=held_out)

    (run,), others = plan("nothing"), plan()
    assert run.path == Path("runs", "bi-encoder-all", f"{shift}.run.gz")
    train = run.train
    assert len(train) == len({row.query_id for row in train})
    assert {len(train)} == {len(other.train) for other in others}
    shares = Counter(row.group for row in train)
    assert shares.keys() == {other.held_out for other in others}
    assert max(shares.values()) - min(shares.values()) <= 1
    of_experiments = {row for other in others for row in other.train}
    assert of_experiments.issuperset(train)
    tested = open_dataset(words).test_sets(shift).values()
    assert {row.query_id for rows in tested for row in rows}.isdisjoint(q.query_id for q in train)
    assert run.validation == others[0].validation
    assert run.facts["training"]["groups"] == dict(sorted(shares.items()))
    assert plan("nothing")[0].train == train


@pytest.mark.extended
def test_a_run_set_from_the_command_line(words: Path, tmp_path: Path, msshift: Command) -> None:
    request = ("run", "bm25-tuned", "--data", words, "--shift", "length", "--set", "depth=50")
    assert msshift(*request).returncode == 0
    done = msshift(*request, "--held-out", "nothing")
    assert done.returncode == 0, done.stderr
    assert "partial" not in done.stderr
    path = tmp_path / "runs" / "bm25-tuned-all" / "length.run.gz"
    assert done.stdout == f"{path.relative_to(tmp_path)}\n"
    facts = sidecar(path)
    assert (facts["held_out"], facts["training_queries"]) == (None, "everything")
    training = sidecar(tmp_path / "runs" / "bm25-tuned" / "length" / "long.run.gz")["training"]
    assert facts["training"]["queries"] == training["queries"]
    assert facts["training"]["leaked"] == 0
    assert len(facts["training"]["queries_sha256"]) == 64
    again = msshift(*request, "--held-out", "nothing")
    assert "complete already, skipped" in again.stderr
    compare = ("compare", "runs", "--data", words, "--reference", "bm25-tuned-all")
    done = msshift(*compare, "--format", "json")
    assert done.returncode == 0, done.stderr
    drops = read_figures(done.stdout).where(figure="drop_out", against="bm25-tuned-all")
    assert drops.names("group") == ["short", "long", "mean"]
    assert all(row.low <= row.value <= row.high and row.family for row in drops)


def test_its_training_queries_are_no_test_queries(
    words: Path, tmp_path: Path, msshift: Command
) -> None:
    given: dict[str, Any] = {"data": words, "out": tmp_path / "runs", "held_out": ["nothing"]}
    first, *others = plan_runs("bm25-tuned", **given)[0].train[:3]
    texts = {"new": first.text, **{row.query_id: f"{row.text} else" for row in others}}
    write_test_set(tmp_path / "dl19", texts, dict.fromkeys(texts, first.relevant_doc_ids[0]))
    (run,) = make_runs("bm25-tuned", extra_test={"dl19": tmp_path / "dl19"}, **given)
    extra = run.parent / "extra" / "dl19" / run.name
    counted = sidecar(extra)["trained_on"]
    assert (counted["model"], counted["words"], counted["trained"]) == ("nothing", 1, 1)
    evaluate = ("evaluate", "runs", "--data", words, "--extra-test", "dl19=dl19")
    done = msshift(*evaluate)
    assert (done.returncode, "trained-on-test" in done.stderr) == (1, True)
    assert "the model without nothing trained on 1 of the 3 queries" in done.stderr
    assert msshift(*evaluate, "--allow", "leaked").returncode == 0


@pytest.mark.neural
@pytest.mark.extended
def test_models_lose_against_it_with_an_interval(
    data: Path, trained: Callable[[str], Trained], tmp_path: Path
) -> None:
    rows = sorted(queries_of("length", data))[:12]
    texts = {f"dl-{row.query_id}": row.text for row in rows}
    judged = {f"dl-{row.query_id}": row.relevant_doc_ids[0] for row in rows}
    write_test_set(tmp_path / "dl19", texts, judged)
    given: dict[str, Any] = {"data": data, "out": tmp_path / "runs"}
    given |= {"recipe": trained("bi-encoder").recipe, "extra_test": {"dl19": tmp_path / "dl19"}}
    make_runs("bi-encoder", seeds=[1, 2], **given)
    made = make_runs("bi-encoder", held_out=["nothing"], seeds=[1, 2], **given)
    folder = tmp_path / "runs/bi-encoder-all/length"
    assert made == [folder / f"seed-{seed}/all.run.gz" for seed in (1, 2)]
    result = evaluate_extra_tests(tmp_path / "runs", given["extra_test"], data)
    (drop,) = result.figures.where(figure="drop")
    assert (drop.against, drop.seeds) == ("bi-encoder-all", 2)
    assert drop.low <= drop.value <= drop.high


def test_what_cannot_be_trained_with_all_groups(words: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"data": words, "out": tmp_path / "runs"}
    with pytest.raises(UsageError, match="bm25-all is not trained"):
        plan_runs("bm25", held_out=["nothing"], **given)
    with pytest.raises(UsageError, match="held-out nothing makes another system, bm25-tuned-all"):
        plan_runs("bm25-tuned", held_out=["nothing", "short"], **given)
    with pytest.raises(UsageError, match=r"restrain-14k are training sets, .*choose other shifts"):
        plan_runs("bm25-tuned", ["restrain-14k"], held_out="nothing", **given)
    folders = str(tmp_path / "{held_out}")
    with pytest.raises(UsageError, match="models that were trained elsewhere"):
        plan_runs(folders, held_out=["nothing"], **given)
