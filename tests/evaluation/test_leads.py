"""Leads over a reference and their differences: by hand, in every format, and on published runs."""

from __future__ import annotations

import csv
import gzip
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from msshift_bench.arrays import Floats
from msshift_bench.data import DataInfo, open_dataset
from msshift_bench.dataset_builders.build import import_official
from msshift_bench.evaluation import Result, Settings, differences_of, read_per_query
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import FIGURES, Estimate, Figure
from tests.conftest import REPOSITORY
from tests.support.command_line import run_msshift
from tests.support.fabricated import write_run
from tests.support.figures import read_figures
from tests.support.made_scores import RR10, made_scores

LEADS = {name for name, kind in FIGURES.items() if kind.is_lead and not kind.over_all}


def drawn(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).choice(RR10, size=shape)


def compare(
    systems: Mapping[str, Mapping[str, Floats]], shift: str = "length", measure: str = "RR@10"
) -> Result:
    """Compare systems with the last of them."""
    scores = [made_scores(name, of, shift=shift, measure=measure) for name, of in systems.items()]
    settings = Settings(measure)
    return differences_of(scores, DataInfo(), settings, reference=scores[-1].system)


def row_of(result: Result, figure: str, group: str, system: str = "a") -> Figure:
    (row,) = result.figures.where(figure=figure, group=group, system=system)
    return row


def test_leads_of_two_groups_and_their_one_test() -> None:
    sizes = {"short": 50, "long": 80}
    system, other, reference = (
        {group: drawn(10 * place + size, size) for group, size in sizes.items()}
        for place in range(3)
    )
    result = compare({"a": system, "b": other, "ref": reference})
    apart = {group: system[group] - reference[group] for group in sizes}
    for group, size in sizes.items():
        lead = row_of(result, "lead", group)
        half = stats.t.ppf(0.975, size - 1) * apart[group].std(ddof=1) / size**0.5
        assert lead.value == pytest.approx(apart[group].mean())
        assert lead.interval == pytest.approx((lead.value - half, lead.value + half))
        p = stats.ttest_rel(system[group], reference[group]).pvalue
        assert (lead.p_uncorrected, lead.queries, lead.against) == (pytest.approx(p), size, "ref")
        assert lead.family == "holm over 4 tests (systems x sides x groups)"
    short, long = (row_of(result, "lead_difference", group) for group in sizes)
    assert short.value == pytest.approx(apart["short"].mean() - apart["long"].mean())
    error = sum(part.var(ddof=1) / len(part) for part in apart.values()) ** 0.5
    half = stats.t.ppf(0.975, 128) * error
    assert short.interval == pytest.approx((short.value - half, short.value + half))
    assert long._replace(group="short") == short._replace(
        value=-short.value, low=-short.high, high=-short.low
    )
    assert short.family == "holm over 2 tests (systems x sides x groups)"
    assert (short.counts, short.seeds, short.queries) == ("queries only", None, 130)
    whole = row_of(result, "lead", "mean")
    assert whole.value == pytest.approx(np.mean([part.mean() for part in apart.values()]))
    assert whole.family == "holm over 2 tests (systems x sides)"


def test_a_lead_difference_is_from_the_mean_of_the_other_groups() -> None:
    groups = list(SHIFTS["topics"].groups)
    cubes = [
        {group: drawn(7 * n + place, 40) for n, group in enumerate(groups)} for place in (0, 1)
    ]
    result = compare({"a": cubes[0], "ref": cubes[1]}, "topics")
    leads = {group: cubes[0][group].mean() - cubes[1][group].mean() for group in groups}
    for group in groups:
        row = row_of(result, "lead_difference", group)
        others = [lead for other, lead in leads.items() if other != group]
        assert row.value == pytest.approx(leads[group] - np.mean(others))
        assert row.family == "holm over 5 tests (systems x sides x groups)"
    assert not result.figures.where(figure="lead_difference", group="mean")


def test_one_model_has_one_score_and_one_family() -> None:
    one = {
        name: {group: drawn(n, 40) for group in ("short", "long")} for n, name in enumerate("ab")
    }
    trained = {group: drawn(5, 2, 2, 40) for group in ("short", "long")}
    scores = [made_scores(name, of) for name, of in {**one, "c": trained}.items()]
    figures = differences_of(scores, DataInfo(), Settings()).figures
    assert figures.where(system="a", against="").names("figure") == ["score"]
    (row, *_) = pair = figures.where(system="a", against="b")
    assert (pair.names("figure"), row.family) == (["score"], "holm over 2 tests (pairs x groups)")
    assert figures.where(system="a", against="c").names("figure") == ["avg_in", "out"]
    # The difference of the two models still counts in the families of Avg In and Out.
    assert (
        figures.where(figure="out", against="c")[0].family == "holm over 6 tests (pairs x groups)"
    )
    over = differences_of(scores, DataInfo(), Settings(), reference="b").figures
    assert over.where(system="a", against="b").names("figure") == ["lead", "lead_difference"]


def test_the_sides_of_a_system_trained_per_group_differ_by_its_loss() -> None:
    trained = {group: drawn(n, 3, 2, 60) for n, group in enumerate(("short", "long"))}
    one = {group: drawn(n + 5, 60) for n, group in enumerate(("short", "long"))}
    result = compare({"a": trained, "ref": one})
    assert {row.figure for row in result.figures} & LEADS == LEADS - {"lead", "lead_difference"}
    for group, held_out in (("short", 0), ("long", 1)):
        loss = (trained[group][:, 1 - held_out] - trained[group][:, held_out]).mean()
        lead_in, lead_out = (row_of(result, f"lead_{side}", group) for side in ("in", "out"))
        assert lead_in.number - lead_out.number == pytest.approx(loss)
        inside = result.figures.first(figure="avg_in", group=group, against="ref")
        assert lead_in.interval == pytest.approx(inside.interval)
        assert (lead_in.counts, lead_in.seeds) == ("queries and seeds", 3)
        assert lead_in.family == "holm over 4 tests (systems x sides x groups)"


def test_the_drop_from_a_model_trained_with_all_groups() -> None:
    """Out of each group loses against ``a-all``; other references have leads alone."""
    trained = {group: drawn(n, 3, 2, 60) for n, group in enumerate(("short", "long"))}
    of_all = {group: drawn(n + 5, 3, 60) for n, group in enumerate(("short", "long"))}
    result = compare({"a": trained, "b": trained, "a-all": of_all})
    drops = result.figures.where(figure="drop_out")
    assert drops.names("system") == ["a"]
    assert drops.names("group") == ["short", "long", "mean"]
    for held_out, (group, reference) in enumerate(of_all.items()):
        row = row_of(result, "drop_out", group)
        out = trained[group][:, held_out]
        assert row.value == pytest.approx(1 - out.mean() / reference.mean())
        assert row.low < row.value < row.high
        assert 0 < row.p <= 1
        assert (row.against, row.counts, row.seeds) == ("a-all", "queries and seeds", 3)
        assert row.family == "holm over 2 tests (systems x groups)"
        # Two models of the same scores lose nothing.
    equal = {group: values.mean(axis=1) for group, values in trained.items()}
    same = {group: np.stack([values, values], axis=1) for group, values in equal.items()}
    assert row_of(compare({"a": same, "a-all": equal}), "drop_out", "short").value == 0
    assert any(row[1].text == "drop, Out" for table in result.tables() for row in table.rows)
    renamed = compare({"a": trained, "all": of_all})
    assert not renamed.figures.where(figure="drop_out")


def test_seeds_of_one_model_count_in_its_leads() -> None:
    seeds = np.array([-0.2, 0.0, 0.2])[:, None]
    one = {"short": drawn(1, 3, 60) + seeds, "long": drawn(2, 3, 60) + seeds}
    reference = {group: drawn(5, 60) for group in one}
    result = compare({"a": one, "ref": reference})
    lead, difference = (row_of(result, figure, "short") for figure in ("lead", "lead_difference"))
    assert (lead.counts, lead.seeds) == ("queries and seeds", 3)
    # A seed that moves both groups alike moves no difference of leads.
    assert lead.high - lead.low > 3 * (difference.high - difference.low)
    known = Estimate.mean(one["short"] - reference["short"], "a", "short").uncertainty()
    assert lead.seed_sd == pytest.approx(known.trained.scale * 3**0.5)


def test_a_lead_is_positive_where_lower_is_better() -> None:
    groups = {"short": np.array([1.0, 2, 3]), "long": np.array([1.0, 1, 2])}
    worse = {group: values + np.array([1, 2, 1]) for group, values in groups.items()}
    result = compare({"a": groups, "ref": worse}, measure="ASL@5")
    assert row_of(result, "lead", "long").value == pytest.approx(4 / 3)


def test_leads_that_do_not_vary_have_no_p() -> None:
    cubes = [{"short": np.full(9, level), "long": np.full(9, 0.5)} for level in (1.0, 0.5)]
    figures = compare({"a": cubes[0], "ref": cubes[1]}).figures.where(figure="lead_difference")
    assert [(row.value, row.p) for row in figures] == [(0.5, None), (-0.5, None)]


# ---- commands ------------------------------------------------------------------------------------

COMPARE = "compare runs/bm25 runs/dense-all runs/late --reference bm25 --shift length"


def test_leads_are_in_every_format(world: Path, tmp_path: Path) -> None:
    shown = {}
    for form in ("text", "markdown", "latex-full", "csv", "json"):
        done = run_msshift([*COMPARE.split(), "--format", form], world)
        assert done.returncode == 0, done.stderr
        shown[form] = done.stdout
    output = tmp_path / "figures.parquet"
    assert run_msshift([*COMPARE.split(), "--output", str(output)], world).returncode == 0
    figures = read_figures(shown["json"])
    leads = figures.where(figure=tuple(LEADS))
    assert set(leads.names("figure")) == LEADS
    rows = [row for row in csv.DictReader(shown["csv"].splitlines()) if row["figure"] in LEADS]
    stored = [row for row in pq.read_table(output).to_pylist() if row["figure"] in LEADS]
    assert len(leads) == len(rows) == len(stored)
    for row, line, cell in zip(leads, rows, stored, strict=True):
        assert row.value == pytest.approx(float(line["value"])) == pytest.approx(cell["value"])
    for figure in (leads[0], leads.where(figure="lead_difference_out")[0]):
        for form in ("text", "markdown", "latex-full"):
            text = shown[form].replace("$-$", "-")
            assert f"{100 * figure.value:.1f}" in text
            assert f"[{100 * figure.low:.1f}, {100 * figure.high:.1f}]" in text


def test_seeds_of_one_model_are_read_from_their_folders(world: Path, tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        run = tmp_path / f"runs/one/length/seed-{seed}/all.run"
        run.parent.mkdir(parents=True)
        shutil.copy(world / f"runs/dense/length/seed-{seed}/short.run", run)
    (tmp_path / "runs/bm25").symlink_to(world / "runs/bm25")
    words = ["compare", "runs", "--reference", "bm25", "--data", str(world / "msshift")]
    words += ["--shift", "length", "--format", "json"]
    figures = read_figures(run_msshift(words, tmp_path).stdout)
    leads = figures.where(system="one", figure=("lead", "lead_difference"))
    assert {(row.counts, row.seeds) for row in leads} == {("queries and seeds", 3)}
    assert "*" in leads.names("mark")
    assert "†" not in leads.names("mark")
    scored = ["evaluate", "runs/one", *words[4:], "--per-query", "scores.parquet"]
    (score, *_) = read_figures(run_msshift(scored, tmp_path).stdout).where(figure="score")
    assert (score.counts, score.seeds) == ("queries and seeds", 3)
    (again,) = read_per_query(tmp_path / "scores.parquet", ["RR@10"]).values()
    assert [*again.runs] == [("all", 1), ("all", 2), ("all", 3)]
    (tmp_path / "runs/one/length/seed-4").mkdir()
    done = run_msshift(words, tmp_path)
    assert done.returncode == 1
    assert "one/length/seed-4/all.run" in done.stderr
    assert "[missing-run]" in done.stderr


def test_a_new_kind_is_one_function_and_one_row(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (REPOSITORY / "docs/architecture.md").read_text("utf-8").partition("### A new kind")[2]
    monkeypatch.setitem(FIGURES, "kept", FIGURES["rel_loss"])
    exec(page.partition("```python\n")[2].partition("```")[0], {})
    words = ["evaluate", "runs/late", "--shift", "length"]
    figures = read_figures(run_msshift([*words, "--format", "json"], world).stdout)
    kept = figures.where(figure="kept")
    assert kept.names("group") == ["short", "long", "mean"]
    for row in kept.where(group=("short", "long")):
        out, inside = (figures.first(figure=name, group=row.group) for name in ("out", "avg_in"))
        assert row.value == pytest.approx(out.value / inside.value)
        assert row.low < row.value < row.high
    (line,) = [line for line in run_msshift(words, world).stdout.splitlines() if "Kept" in line]
    assert [f"{100 * row.value:.1f}%" for row in kept] == line.split()[1:]


@pytest.mark.extended
@pytest.mark.realdata
def test_what_published_rankings_lead_bm25_by(real_data: Path, tmp_path: Path) -> None:
    import_official([real_data / "ms-marco-shift"], tmp_path / "msshift", shifts=["length"])
    tests = open_dataset(tmp_path / "msshift").test_sets(SHIFTS["length"])
    relevant = {row.query_id: row.relevant_doc_ids for rows in tests.values() for row in rows}
    with gzip.open(real_data / "public-runs/dev-small.rr10.tsv.gz", "rt") as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    fillers = [f"filler{place}" for place in range(9)]
    for system in ("bm25", "ance", "sbert"):
        rankings = []
        for line in lines:
            rank = round(1 / value) if (value := float(line[system])) else 0
            found = [*fillers[: rank - 1], relevant[line["query_id"]][0]] if rank else fillers
            rankings.append((line["query_id"], found))
        write_run(tmp_path / f"runs/{system}/length.run", rankings)
    words = ["compare", "runs", "--reference", "bm25"]
    done = run_msshift(words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ance leads bm25 by 14.7 [")
    sentence = done.stdout.partition("\n")[0]
    assert sentence.endswith("points; on long queries 5.3 [3.5, 7.2] less than on short ones")
    printed = [line.split() for line in done.stdout.splitlines()]
    assert ["lead", "17.3†", "12.0†", "14.7†"] in printed
    assert ["lead", "-", "others", "5.3†", "-5.3†", "-"] in printed
    assert any(line[-5:-3] == ["[3.5,", "7.2]"] for line in printed)
    figures = read_figures(run_msshift([*words, "--format", "json"], tmp_path).stdout)
    means = {row.system: row.value for row in figures.where(figure="score", group="short")}
    assert means == pytest.approx({"bm25": 0.185, "ance": 0.358, "sbert": 0.354}, abs=5e-4)
    # Single runs by group have the same leads.
    files = ("runs/ance/length.run", "--reference", "runs/bm25/length.run", "--shift", "length")
    single = read_figures(run_msshift(["score", *files, "--format", "json"], tmp_path).stdout)
    for figure in ("lead", "lead_difference"):
        for group in ("short", "long"):
            of_set = figures.first(figure=figure, group=group, system="ance")
            of_run = single.first(figure=figure, slice=group)
            assert (of_run.value, of_run.interval) == (of_set.value, of_set.interval)
