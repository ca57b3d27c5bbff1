"""Sentences above tables: by hand, in every format, and never more than their figures show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from msshift_bench.data import DataInfo
from msshift_bench.evaluation import Result, Settings, differences_of, losses_of
from msshift_bench.output import SentenceFormat, answers_of, to_text
from msshift_bench.shifts import get_shift
from msshift_bench.stats import DAGGER, STAR, Figure, Figures
from tests.support.answers import check_answer
from tests.support.command_line import run_msshift
from tests.support.made_scores import RR10, made_scores

TOPICS = {"C1": "born, president, war"}


def row(figure: str, value: float | None, *ends: float, mark: str = "", **names: Any) -> Figure:
    """Return a figure of ``a`` on the complete shift length, with p of 0.01 where it has a mark."""
    names = {"shift": "length", "system": "a", "group": "mean", "seeds": 3, **names}
    low, high = ends or (None, None)
    p = names.pop("p", 0.01 if mark else None)
    return Figure(figure, value=value, low=low, high=high, mark=mark, p=p, **names)


def groups(figure: str, *values: float, mark: str = "", **names: Any) -> list[Figure]:
    """Return a figure on each group of a shift, with intervals of 0.01 to both sides."""
    tested = get_shift(names.get("shift", "length")).tested
    return [
        row(figure, value, value - 0.01, value + 0.01, mark=mark, group=group, **names)
        for group, value in zip(tested, values, strict=True)
    ]


LOSES = row("rel_loss", 0.055, 0.042, 0.069, mark=STAR)
ON_TOPICS = row("rel_loss", 0.055, 0.042, 0.069, mark=STAR, shift="topics")
OF_TOPICS = groups("rel_loss", 0.02, 0.09, 0.02, 0.02, 0.02, mark=STAR, shift="topics")
LEADS = row("lead", 0.147, 0.136, 0.158, mark=DAGGER, against="bm25", seeds=None)
LEAD_GROUPS = groups("lead", 0.173, 0.120, against="bm25", seeds=None)
TWO = groups("lead_difference", 0.053, -0.053, mark=DAGGER, against="bm25", seeds=None)
UNSEEN = "on lengths of queries that it was not trained on"

SENTENCES: Sequence[tuple[Sequence[Figure], str]] = [
    ([LOSES, *groups("rel_loss", 0.05, 0.06)], f"a loses 5.5% [4.2, 6.9] {UNSEEN}"),
    (
        [row("rel_loss", -0.055, -0.069, -0.042, mark=STAR), *groups("rel_loss", 0.1, 0.2)],
        f"a gains 5.5% [4.2, 6.9] {UNSEEN}",
    ),
    (
        [row("rel_loss", 0.008, -0.01, 0.026, p=0.4), *groups("rel_loss", 0.1, 0.2)],
        f"a: no loss is shown {UNSEEN}: 0.8% [-1.0, 2.6]",
    ),
    (
        [row("rel_loss", 0.02, 0.001, 0.039, p=0.08), *groups("rel_loss", 0.1, 0.2)],
        f"a: no loss is shown {UNSEEN}: 2.0% [0.1, 3.9], p = 0.080",
    ),
    (
        [LOSES._replace(mark="", p=None), *groups("rel_loss", 0.1, 0.2)],
        f"a: Rel Loss 5.5% [4.2, 6.9] {UNSEEN}",
    ),
    ([row("rel_loss", 0.055), *groups("rel_loss", 0.1, 0.2)], f"a: Rel Loss 5.5% {UNSEEN}"),
    (
        [LOSES, groups("rel_loss", 0.1, 0.2)[0]],
        "a loses 5.5% [4.2, 6.9] on short alone (without long)",
    ),
    ([row("out", 0.3)], f"a: too few runs for a Rel Loss {UNSEEN}"),
    (
        [
            LOSES._replace(seeds=1, mark=DAGGER),
            *groups("rel_loss", 0.0, 0.11, mark=DAGGER),
            *groups("rel_loss_difference", -0.11, 0.11, mark=DAGGER),
        ],
        f"a loses 5.5% [4.2, 6.9] {UNSEEN}; one seed: of these models only",
    ),
    (
        [
            LOSES,
            *groups("rel_loss", 0.0, 0.11, mark=STAR),
            *groups("rel_loss_difference", -0.11, 0.11, mark=STAR),
        ],
        f"a loses 5.5% [4.2, 6.9] {UNSEEN}, most on long queries: 11.0% [10.0, 12.0]",
    ),
    (
        [
            ON_TOPICS,
            *OF_TOPICS,
            *groups(
                "rel_loss_difference", -0.02, 0.07, -0.02, -0.02, -0.01, mark=STAR, shift="topics"
            ),
        ],
        "a loses 5.5% [4.2, 6.9] on topics that it was not trained on, "
        "most on C1 (born, president, war): 9.0% [8.0, 10.0]",
    ),
    (
        [ON_TOPICS, *OF_TOPICS, *groups("rel_loss_difference", *[0.0] * 5, shift="topics")],
        "a loses 5.5% [4.2, 6.9] on topics that it was not trained on",
    ),
    (
        [LEADS, *LEAD_GROUPS, *TWO],
        "a leads bm25 by 14.7 [13.6, 15.8] points; "
        "on long queries 5.3 [4.3, 6.3] less than on short ones",
    ),
    (
        [LEADS._replace(value=-0.147, low=-0.158, high=-0.136), *TWO],
        "a trails bm25 by 14.7 [13.6, 15.8] points; "
        "its lead is on long queries 5.3 [4.3, 6.3] less than on short ones",
    ),
    (
        [row("lead", 0.004, -0.005, 0.013, p=0.5, against="bm25", seeds=None)],
        "a: neither a lead over bm25 nor the reverse is shown: 0.4 [-0.5, 1.3] points",
    ),
    (
        [row("lead_out", 0.01, 0.005, 0.015, mark=STAR, against="b"), *groups("lead_out", 0.1, 0)],
        f"a leads b by 1.0 [0.5, 1.5] points {UNSEEN}",
    ),
    ([row("score", 0.35, 0.3, 0.4, seeds=None)], "a scores 35.0 in MRR@10"),
    (
        [row("score", 0.35, 0.3, 0.4, shift="", group="length-short", seeds=None)],
        "a scores 35.0 [30.0, 40.0] in MRR@10 on length-short",
    ),
    (
        [
            row("score", 0.35, 0.3, 0.4, seeds=None),
            row("score", 0.1, 0.05, 0.15, mark=DAGGER, against="b", seeds=None),
        ],
        "a scores 35.0 in MRR@10; 10.0 [5.0, 15.0] points more than b",
    ),
    (
        [
            row("score", 0.35, 0.3, 0.4, seeds=None),
            row("score", 0.1, 0.05, 0.15, mark=DAGGER, system="c", against="a", seeds=None),
            row("score", 0.1, 0.05, 0.15, mark=DAGGER, system="d", against="a", seeds=None),
            row("score", 0.1, -0.05, 0.25, against="b", seeds=None),
        ],
        "a scores 35.0 in MRR@10; less than c, d",
    ),
    (
        [
            row("rel_loss", 0.4, 0.3, 0.5),
            *groups("rel_loss", 0.1, 0.2),
            row("rel_loss", 0.1, -0.05, 0.25, against="b", p=0.2),
        ],
        f"a: Rel Loss 40.0% {UNSEEN}; no significant difference from others",
    ),
]


def shown_percent(figure: Figure, value: float | None) -> str:
    return f"{100 * value:z.1f}" + "%" * (figure.figure.startswith("rel_loss"))


@pytest.mark.parametrize(("figures", "sentence"), SENTENCES)
def test_a_sentence_by_hand(figures: Sequence[Figure], sentence: str) -> None:
    answers = answers_of(
        Figures(figures), SentenceFormat(shown_percent, "MRR@10", "", {"topics": TOPICS})
    )
    assert answers[0].text == sentence


def test_only_sentences_without_a_shift_in_words_name_it() -> None:
    figures = [LOSES, *groups("rel_loss", 0.1, 0.2), row("score", 0.3, system="b"), ON_TOPICS]
    answers = answers_of(Figures(figures), SentenceFormat(shown_percent, "MRR@10", " of MRR@10"))
    assert [answer.text.partition(" [")[0] for answer in answers] == [
        "a loses 5.5%",
        "length: b scores 30.0 in MRR@10",
        "a loses 5.5%",
    ]


# ---- made scores ---------------------------------------------------------------------------------


@st.composite
def results(draw: st.DrawFn) -> Result:
    """Draw losses, a comparison of every two systems, or leads, of some systems on a shift."""
    shift = draw(st.sampled_from(["length", "topics"]))
    tested = get_shift(shift).groups
    kinds = draw(st.lists(st.sampled_from([(), (2,), (1, "m"), (3, "m")]), min_size=2, max_size=3))
    queries = draw(st.sampled_from([1, 2, 30]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    scores = []
    for name, shape in zip("abc", kinds, strict=False):
        sizes = [len(tested) if size == "m" else size for size in shape]
        values = {group: rng.choice(RR10, size=(*sizes, queries)) for group in tested}
        # A model scores less on the group that it was trained without.
        less = draw(st.sampled_from([1.0, 0.5, 0.0]))
        for place, group in enumerate(tested):
            of_group = values[group] * draw(st.sampled_from([1.0, 0.5]))
            if "m" in shape:
                of_group[:, place] *= less
            values[group] = of_group
        scores.append(made_scores(name, values, shift=shift))
    data = DataInfo(groups={"topics": TOPICS})
    settings = Settings(correction=draw(st.sampled_from(["holm", "none"])))
    how = draw(st.sampled_from(["losses", "pairs", "leads"]))
    if how == "losses":
        return losses_of(scores, data, settings)
    return differences_of(scores, data, settings, reference="a" if how == "leads" else None)


@given(results())
def test_no_sentence_says_more_than_its_figures(result: Result) -> None:
    shown = "".join(map(to_text, result.tables()))
    answers = result.to_json()["answers"]
    systems = {part.system for part in result.scores}
    if result.figures.where(figure=("lead", "lead_out")):
        systems.remove("a")
    assert {answer["system"] for answer in answers} == systems
    for answer in answers:
        check_answer(answer, shown)


# ---- commands ------------------------------------------------------------------------------------

CALLS = {
    "evaluate runs": 15,
    "evaluate runs --shift length --measures RR@10,ASL@5": 5,
    "evaluate runs --shift topics --correction none": 5,
    "evaluate partial --allow partial": 1,
    "compare runs --shift length --shift topics": 10,
    "compare runs --reference bm25": 12,
    "score runs/bm25/length.run runs/late/length/short.run --qrels qrels.tsv": 2,
    "score runs/bm25/length.run runs/late/length/short.run --test length-long "
    "--reference runs/bm25/length.run": 2,
}
"""A command -> its number of sentences: one for each system, or run, and shift."""


@pytest.mark.every(8)
@pytest.mark.parametrize("words", CALLS)
def test_every_sentence_of_a_command(words: str, world: Path) -> None:
    done = run_msshift([*words.split(), "--format", "json"], world)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)["answers"]
    assert len(answers) == CALLS[words]
    shown = run_msshift(words.split(), world).stdout
    sentences = "".join(f"{answer['text']}\n" for answer in answers)
    assert shown.startswith(f"{sentences}\n")
    for answer in answers:
        check_answer(answer, shown.removeprefix(sentences))


def test_formats_for_people_begin_with_the_answers_and_tables_of_figures_have_none(
    world: Path, tmp_path: Path
) -> None:
    words = ["evaluate", "runs/dense", "--shift", "length"]
    shown = {
        form: run_msshift([*words, "--format", form], world).stdout
        for form in ("text", "markdown", "latex", "csv", "json")
    }
    (answer,) = json.loads(shown["json"])["answers"]
    text = answer["text"]
    assert text.startswith("dense loses ")
    assert shown["text"].startswith(f"{text}\n\n")
    assert shown["markdown"].startswith(f"- {text}\n\n")
    assert shown["latex"].startswith(f"% {text}\n\n")
    assert "loses" not in shown["csv"]
    for ending in ("csv", "parquet"):
        output = tmp_path / f"figures.{ending}"
        assert run_msshift([*words, "--output", str(output)], world).returncode == 0
        assert b"dense loses" not in output.read_bytes()
