"""A shift of a user's labels, from the build to the report, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msshift_bench import (
    evaluate,
    evaluate_run_sets,
    load_dataset,
    open_collection,
    open_dataset,
    training_pairs,
)
from tests.conftest import Command
from tests.support.fabricated import write_run
from tests.support.refusals import check_exits
from tests.support.tiny_recipes import write_recipes

GROUPS = ("people", "pricing", "rest")


@pytest.fixture
def built(tmp_path: Path, msshift: Command) -> Path:
    """Return a data set with a shift of labels, in the test's folder."""
    queries = open_collection("mini:300").queries
    lines = [f"{query_id}\t{GROUPS[len(text) % 3]}\n" for query_id, text in queries.items()]
    (tmp_path / "labels.tsv").write_text("".join(lines), "utf-8")
    done = msshift("build", "--groups", "domain=labels.tsv", "--collection", "mini:300")
    assert done.returncode == 0, done.stderr
    assert "domain (rule labels)" in done.stdout
    return tmp_path / "msshift"


def write_run_sets(data: Path, folder: Path) -> None:
    """Write run sets of two systems; one of them loses rank on the group it did not see."""
    rows = [row for part in open_dataset(data).test_sets("domain").values() for row in part]
    for system, held_out in [("flat", None), *(("per-group", group) for group in GROUPS)]:
        rankings = [
            (row.query_id, ("none",) * (row.group == held_out) + row.relevant_doc_ids)
            for row in rows
        ]
        name = f"domain/{held_out}.run" if held_out else "domain.run"
        write_run(folder / system / name, rankings, system)


def test_every_command_knows_the_shift_by_the_data_set(
    built: Path, tmp_path: Path, msshift: Command
) -> None:
    write_run_sets(built, tmp_path / "runs")
    commands = {
        "verify": "are unchanged",
        "list": "domain: groups of queries by a file of labels",
        "evaluate runs --shift domain --output figures.json": "Domain (domain)",
        "evaluate runs --by domain": "Domain (domain)",
        "compare runs": "domain",
        "similarity --shift domain": "pricing",
        "score runs/flat/domain.run --shift domain": "pricing",
        "score runs/flat/domain.run --test domain-people": "domain-people",
        "variants typos --shift domain --out typos.tsv": "typos-1",
        "irds export msshift/domain/people/test qrels": " 0 ",
    }
    for command, printed in commands.items():
        done = msshift(*command.split())
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert printed in done.stdout + done.stderr, command
    figures = json.loads((tmp_path / "figures.json").read_text("utf-8"))["figures"]
    losses = [row for row in figures if (row["figure"], row["system"]) == ("rel_loss", "per-group")]
    assert {row["group"]: row["value"] for row in losses} == dict.fromkeys((*GROUPS, "mean"), 0.5)
    assert {row["shift"] for row in figures} == {"domain"}


def test_a_shift_of_another_data_set_is_unknown(
    built: Path, tmp_path: Path, msshift: Command
) -> None:
    write_run_sets(built, tmp_path / "runs")
    assert msshift("build", "length", "--collection", "mini:300", "--out", "plain").returncode == 0
    check_exits(
        msshift,
        {
            "evaluate runs --data plain": "1 [no-place] domain.run --data",
            "evaluate runs --shift domian": "2 'domian' domain",
            "evaluate runs --shift domain --data plain": "2 'domain'",
            "similarity --shift domain --data plain": "2 'domain'",
            "run bm25 --shift domain --data plain": "2 'domain'",
            "score runs/flat/domain.run --test domain-none": "2 'domain-none'",
        },
    )


def test_a_model_in_memory_is_evaluated_on_the_shift(built: Path) -> None:
    class First:
        def search(self, queries: list[str], k: int) -> list[dict[str, float]]:
            return [{"0": 1.0} for _ in queries]

    result = evaluate(First(), "domain", data=built, progress=False)
    assert [row.group for row in result.figures.where(figure="score")] == [*GROUPS, "mean"]
    assert "domain" in str(result.tables()[0])


def test_training_pairs_hold_a_group_of_the_shift_out(built: Path) -> None:
    train = load_dataset(built, "domain-people", split="train")
    pairs = training_pairs("domain-people", built)
    assert {*pairs["anchor"]} == {row.text for row in train}
    assert "people" not in {row.group for row in train}


def test_predictions_of_the_shift_are_scored(built: Path, tmp_path: Path) -> None:
    folder = tmp_path / "predictions" / "me__one"
    folder.mkdir(parents=True)
    for test, rows in open_dataset(built).test_sets("domain").items():
        rankings = {row.query_id: {row.relevant_doc_ids[0]: 1.0} for row in rows}
        value = {"mteb_model_meta": {"model_name": "me/one"}, "default": {"test": rankings}}
        (folder / f"msshift-domain-{test}_predictions.json").write_text(json.dumps(value))
    figures = evaluate_run_sets(folder.parent, built).figures
    scores = figures.where(figure="score", system="me/one")
    assert {row.group: row.value for row in scores} == dict.fromkeys((*GROUPS, "mean"), 1.0)


@pytest.mark.neural
@pytest.mark.extended
def test_a_bi_encoder_is_trained_and_reported_on_labels(
    built: Path, tmp_path: Path, msshift: Command
) -> None:
    write_recipes(tmp_path / "recipes")
    place = {"MSSHIFT_RECIPES": str(tmp_path / "recipes")}
    for command in (
        "run bi-encoder --shift domain --recipe mini --seeds 1,2 --keep-model",
        "triples --shift domain",
        "verify",
        "evaluate runs --plot losses.svg",
        "analyse runs",
        "similarity --shift domain --indicator model-based --models runs",
        "report runs --out report",
    ):
        done = msshift(*command.split(), **place)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    rows = open_dataset(built).rows("domain-people", "train")[:5]
    qrels = "".join(f"{row.query_id} 0 {row.relevant_doc_ids[0]} 1\n" for row in rows)
    (tmp_path / "qrels.tsv").write_text(qrels)
    run = tmp_path / "runs" / "bi-encoder" / "domain" / "seed-1" / "people.run.gz"
    check_exits(msshift, {f"score {run} --qrels qrels.tsv": "1 [trained-on-test] people"})
    found = {path.name for path in (tmp_path / "runs").rglob("*.run.gz")}
    assert found == {f"{group}.run.gz" for group in GROUPS}
    assert "Domain" in (tmp_path / "report" / "report.html").read_text("utf-8")
