"""The shift of rare terms: counts by hand, and a build from the command to the evaluation."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from msshift_bench.data import QueryColumns, open_dataset
from msshift_bench.dataset_builders.rare_terms import group_by_rarest_term
from msshift_bench.errors import UnknownNameError
from msshift_bench.shifts import SHIFTS
from tests.conftest import Command

TEXTS = {
    "1": "what is rome",  # rome: in 2, 5 and 6, which is set aside
    "2": "cheap flights to rome",  # flights: in 3
    "3": "flights to oslo",  # oslo: nowhere else
    "4": "what is the",  # no content word
    "5": "rome rome",
    "6": "rome",  # set aside: in 1, 2 and 5
}


def grouped(texts: dict[str, str]) -> dict[str, str]:
    queries = QueryColumns(tuple(texts), tuple(texts.values()))
    found = group_by_rarest_term(queries, set_aside=frozenset("6"))
    # Counts 2, 0 ("cheap"), 0, 2, 3: their median is 2.
    assert found.parameters == {"cut": 2}
    return dict(found.labels)


def test_groups_by_how_often_the_rarest_word_is_met_in_other_training_queries() -> None:
    expected = {"1": "seen", "2": "rare", "3": "rare", "4": "others", "5": "seen", "6": "seen"}
    assert grouped(TEXTS) == expected
    shuffled = random.Random(1).sample(list(TEXTS.items()), len(TEXTS))
    assert grouped(dict(shuffled)) == expected
    every = QueryColumns(("1", "2"), ("rome", "oslo"))
    assert group_by_rarest_term(every).parameters == {"cut": 1}
    assert group_by_rarest_term(QueryColumns((), ())).labels == {}
    with pytest.raises(UnknownNameError, match="rare-terms rule 'mean'"):
        group_by_rarest_term(every, "mean")


@pytest.mark.slow
def test_one_row_makes_it_a_shift_of_every_command(msshift: Command, tmp_path: Path) -> None:
    done = msshift("build", "rare-terms", "--collection", "mini:500")
    assert done.returncode == 0, done.stderr
    dataset = open_dataset(tmp_path / "msshift")
    assert set(dataset.manifest.configs) == {"rare-terms", "rare-terms-seen", "rare-terms-rare"}
    assert not SHIFTS["rare-terms"].in_ms_shift
    assert "Lupart2023MsShift" in (tmp_path / "msshift" / "README.md").read_text()
    assert msshift("verify").returncode == 0
    done = msshift("run", "bm25", "--set", "depth=20")
    assert done.returncode == 0, done.stderr
    done = msshift("evaluate", "runs")
    assert (done.returncode, "Rare terms (rare-terms)" in done.stdout) == (0, True), done.stderr
