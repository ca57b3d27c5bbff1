"""The tables of losses: layout, marks, matrices, slices, and Deltas as Zhan et al. print them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.data import DataInfo
from msshift_bench.evaluation import (
    Result,
    Settings,
    loss_table,
    losses_of,
    matrix_table,
    show_delta,
)
from msshift_bench.output import RENDERERS, Table, to_markdown
from tests.conftest import REPOSITORY
from tests.support.made_scores import made_scores
from tests.support.synthetic_entries import scored_report
from tests.support.tiny_run_sets import evaluate, write_ranks

to_latex = RENDERERS["latex"]

SETTINGS = Settings()
(RR10,) = SETTINGS.measures


def losses_in(result: Result, **view: bool) -> list[Table]:
    """Return the tables of a result, as the command shows them."""
    return [table for section in result.layout(result.figures, **view) for table in section.tables]


def notes_of(result: Result) -> str:
    return "\n".join(note.text for note in result.notes)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_ranks(tmp_path / "dense/length/short.run", {"s1": 2, "s2": 4, "l1": 1, "l2": 2})
    write_ranks(tmp_path / "dense/length/long.run", {"s1": 1, "s2": 1, "l1": 2, "l2": 0})
    write_ranks(tmp_path / "bm25/length.run", {"s1": 1, "s2": 2, "l1": 5, "l2": 1})
    return tmp_path


def test_tables_in_every_format(runs: Path) -> None:
    result = evaluate(runs)
    (table,) = result.tables()
    lines = to_markdown(table).splitlines()
    assert lines[0] == "**Query length (length), MRR@10 x 100**"
    assert lines[2] == "| system |  | short | long | mean |"
    assert lines[4] == "| bm25 |  | 75.0 | 60.0 | 67.5 |"
    assert lines[5] == "| dense | Avg In | 100.0 | 75.0 | 87.5 |"
    assert lines[7] == "|  | Rel Loss | 62.5% | 66.7% | 64.6%† |"
    assert r"dense & Avg In & 100.0 & 75.0 & 87.5 \\" in to_latex(table)
    assert loss_table(result.figures, RR10, SETTINGS, brief=True).rows == table.rows[:4]
    matrix = matrix_table(result.figures.where(system="dense"), RR10)
    assert losses_in(result, matrices=True) == [table, matrix]
    assert "| without short | **37.5** | 75.0 |" in to_markdown(matrix)
    for expected in ("edition rebuilt", "ties (trec)", "missing queries (zero)", "short 2, long 2"):
        assert expected in notes_of(result)


def test_the_best_of_several_systems_is_marked(runs: Path) -> None:
    ranks = {"s1": 2, "s2": 4, "l1": 1, "l2": 2}
    write_ranks(runs / "twin/length/short.run", ranks)
    write_ranks(runs / "twin/length/long.run", {"s1": 1, "s2": 1, "l1": 1, "l2": 1})
    (table,) = evaluate(runs).tables()
    best = [row[3].text for row in table.rows if row[1].text == "Rel Loss" and row[3].best]
    assert best == ["-33.3%"]
    assert not any(cell.best for cell in table.rows[0])


def test_one_seed_counts_queries_only_wherever_its_interval_stands() -> None:
    single, several = (
        scored_report("brittle", 0.3, shifts=["length"], seeds=seeds)
        for seeds in ((None,), (1, 2, 3))
    )
    table = single.tables()[0]
    assert [row[1].text for row in table.rows[3:]] == [
        "95% interval, queries only", "p (holm), queries only, this model",
    ]  # fmt: skip
    assert "$^{*}$" not in to_latex(table)
    assert r"$^{\dagger}$" in to_latex(table)
    families = "p: holm over 2 tests (systems x groups), holm over 1 test (systems)"
    assert rf"100. {families}; $\dagger$: p at most 0.05, queries only" in to_latex(table)
    assert r"95\% interval, queries only" in to_latex(table)
    assert "brittle: one seed: intervals and p count queries only" in notes_of(single)
    table = several.tables()[0]
    assert [row[1].text for row in table.rows[3:]] == [
        "95% interval", "sd of 3 seeds", "variance from seeds", "p (holm)",
    ]  # fmt: skip
    marks = [[cell.mark for cell in row[2:]] for row in table.rows]
    assert marks[2] == ["*", "*", "*"]
    assert table.note == f"{families}; *: p at most 0.05"
    assert [notes[0] for _, notes in several.sections()] == [table.note]


def test_notes_say_what_makes_an_interval_wide_and_what_would_halve_it() -> None:
    result = scored_report("brittle", 0.3, shifts=["length"], seeds=(1, 2))
    (row,) = result.figures.where(figure="rel_loss", group="mean", measure="RR@10")
    assert row.seed_share is not None
    assert "two seeds do not tell agreement from luck" in notes_of(result)
    share = f"{100 * row.seed_share:.0f}% of the variance of its average Rel Loss is what its 2 "
    share += "seeds differ by, noise included"
    assert share in notes_of(result)
    assert "no number of seeds would halve its interval" in notes_of(result)


# ---- slices: how many queries they have, and no percentage of too few ------------------------

SIZES = {
    "many": {"short": 20, "long": 21},
    "few": {"short": 20, "long": 19},
    "one-group": {"short": 20, "long": 0},
    "hardly": {"short": 3, "long": 4},
}
"""Label -> group -> queries with that label."""


@pytest.fixture(params=[1, 2], ids=["one seed", "two seeds"])
def sliced(request: pytest.FixtureRequest) -> Result:
    """The slices of a system, and of one ranking."""
    rng = np.random.default_rng(3)
    sizes = {group: sum(of[group] for of in SIZES.values()) for group in ("short", "long")}
    cubes = {group: rng.random((request.param, 2, size)) for group, size in sizes.items()}
    scores = [
        made_scores("dense", cubes),
        made_scores("bm25", {group: cube[0, 0] for group, cube in cubes.items()}),
    ]
    labels = {
        query_id: label
        for group in sizes
        for query_id, label in zip(
            scores[0].ids_of(group),
            [label for label, of in SIZES.items() for _ in range(of[group])],
            strict=True,
        )
    }
    return losses_of(scores, DataInfo(), SETTINGS, labels=labels)


@pytest.mark.parametrize(
    ("label", "counts", "shown"),
    [
        ("many", ["20", "21", "41"], [True, True, True]),
        ("few", ["20", "19", "39"], [True, False, False]),
        ("one-group", ["20", "-", "20"], [True, False, True]),
        ("hardly", ["3", "4", "7"], [False, False, False]),
    ],
)
def test_a_slice_shows_its_queries_and_no_figures_of_few(
    sliced: Result, label: str, counts: list[str], shown: list[bool]
) -> None:
    (table,) = (table for table in sliced.tables() if table.title.endswith(f", only {label}"))
    rows = {row[1].text or row[0].text: [cell.text for cell in row[2:]] for row in table.rows}
    assert next(iter(rows.items())) == ("queries", counts)
    for name in ("Avg In", "Out"):
        assert [text != "-" for text in rows[name]] == shown
    assert [text not in ("-", "") for text in rows["Rel Loss"]] == shown
    percentages = [
        texts for name, texts in rows.items()
        if name.startswith(("Rel Loss", "95%", "sd", "variance", "p ("))
    ]  # fmt: skip
    assert len(percentages) >= 3
    for texts in percentages:
        assert all(text in ("-", "") or may for text, may in zip(texts, shown, strict=True)), texts
    assert sliced.tables()[0].rows[0][0].text != "queries"
    assert "slices: no figures of fewer than 20 queries" in notes_of(sliced)
    assert sliced.figures.first(figure="rel_loss", slice="few", group="long").value is not None  # type: ignore[union-attr]


# ---- Deltas ---------------------------------------------------------------------------------

PUBLISHED: dict[str, Any] = json.loads(
    (REPOSITORY / "msshift_bench/analysis/published/interpolation_extrapolation.json").read_text(
        "utf-8"
    )
)

DELTAS = {
    "6 14k": {"BM25": (1, 1), "Reranker": (-5, -1), "ColBERT": (-2, 7), "SPLADE": (-18, -7),
              "DR": (-14, -7)},
    "6 45k": {"Reranker": (-2, -1), "ColBERT": (-2, 3), "SPLADE": (-17, -8), "DR": (-14, -8)},
    "6 200k": {"Reranker": (-1, 1), "ColBERT": (-2, 3), "SPLADE": (-5, -5), "DR": (-11, -9)},
    "7": {"BM25": (-1, 0), "Reranker": (-6, -1), "ColBERT": (-9, -3), "SPLADE": (-13, -6),
          "DR": (-12, -7)},
}  # fmt: skip
"""Table -> system -> its columns Delta of both measures, in percent."""


def printed() -> Iterator[tuple[str, float, float, int]]:
    """Yield every cell of Tables 6 to 9 that has a Delta: where, Inter., Extra., Delta."""
    cells = {f"6 {size}": rows for size, rows in PUBLISHED["restrain_trec_dl_19_20"].items()}
    cells["7"] = PUBLISHED["resttest_msmarco_dev"]
    for table, deltas in DELTAS.items():
        for system, pair in deltas.items():
            for place, delta in enumerate(pair):
                row = cells[table][system]
                yield f"{table} {system}", *row[2 * place : 2 * place + 2], delta
    for model, parts in PUBLISHED["table_8_training_methods"].items():
        if model != "columns":
            for measures in parts.values():
                for inter, extra, delta in measures.values():
                    yield f"8 {model}", inter, extra, int(delta.rstrip("%"))
    for model, row in PUBLISHED["table_9_pretraining"].items():
        if model != "columns":
            for part in ("restrain_45k_R@100", "resttest_R@100"):
                inter, extra, delta = row[part]
                yield f"9 {model}", inter, extra, int(delta.rstrip("%"))


def test_all_published_deltas_follow_from_their_printed_cells() -> None:
    cells = list(printed())
    wrong = [
        where for where, inter, extra, delta in cells if round(100 * extra / inter - 100) != delta
    ]
    assert (len(cells), wrong) == (66, [])


def test_deltas_have_the_layout_of_table_7() -> None:
    settings = Settings("RR@10 nDCG@10")
    systems = [
        scored_report(name, 0.2, shifts=["resttest"], settings=settings, **options)
        for name, options in (("bm25", {"per_group": False}), ("dense", {"seeds": (1, 2)}))
    ]
    together = losses_of(
        [scores for result in systems for scores in result.scores], DataInfo(), settings
    )
    (section,) = together.layout(together.figures, delta=True)
    (table,) = section.tables
    header = ("system", "MRR@10 Inter.", "Extra.", "Delta", "nDCG@10 Inter.", "Extra.", "Delta")
    assert table.header == header
    bm25, dense = ([cell.text for cell in row] for row in table.rows)
    assert bm25[1] == bm25[2] != "-"
    assert bm25[3] == bm25[6] == "0.0%"
    rows = together.figures.where(system="dense", measure="RR@10", group="all queries")
    avg_in, out, rel_loss = (
        rows.where(figure=name)[0].number for name in ("avg_in", "out", "rel_loss")
    )
    assert dense[1:3] == [f"{100 * avg_in:.1f}", f"{100 * out:.1f}"]
    assert dense[3].startswith(f"{-100 * rel_loss:+.1f}% [")
    (line,) = section.notes
    assert "minus Rel Loss" in line
    assert "queries only" not in line


def test_sizes_of_a_shift_share_a_table_and_lower_is_turned(runs: Path) -> None:
    sized = [scored_report("dense", 0.2, shifts=[f"restrain-{size}"]) for size in ("45k", "14k")]
    together = losses_of(
        [scores for result in sized for scores in result.scores], DataInfo(), SETTINGS
    )
    first, second = together.layout(together.figures, delta=True)
    assert (len(first.tables), len(second.tables)) == (1, 0)
    assert first.tables[0].header[:2] == ("#Q", "system")
    assert len(first.tables[0].rows) == 2
    turned = evaluate(runs, measures="RR@10 ASL@5")
    (section,) = turned.layout(turned.figures, delta=True)
    assert section.tables[0].title.endswith("(length), means x 100 (not ASL@5)")
    assert section.notes[1:] == [
        "Delta: minus the mean of the groups' Rel Losses",
        "of ASL@5 lower is better: the sign of its Delta is turned",
    ]


@pytest.mark.parametrize(
    ("rel_loss", "interval", "shown"),
    [
        (0.1234, (0.1, 0.15), "-12.3% [-15.0, -10.0]"),
        (-0.01, (-0.02, 0.0001), "+1.0% [0.0, +2.0]"),
        (0.0, (-0.01, 0.01), "0.0% [-1.0, +1.0]"),
        (-0.0, None, "0.0%"),
        (None, None, "-"),
    ],
)
def test_a_delta_is_a_turned_rel_loss(
    rel_loss: float | None, interval: tuple[float, float] | None, shown: str
) -> None:
    assert show_delta(rel_loss, interval) == shown
