"""The order of systems beside the paper's, as docs/experiments.md shows it."""

from __future__ import annotations

import pytest

from msshift_bench.output import to_markdown
from msshift_bench.stats import Figure, Figures
from scripts.experiments.tables import main, orders_of, published


def test_the_paper_s_means() -> None:
    assert published("topics")["bi-encoder"] == pytest.approx(0.11, abs=0.001)
    assert published("topics")["colbert"] == pytest.approx(0.041, abs=0.0005)
    assert set(published("length")) == {"bi-encoder", "colbert", "splade", "monobert"}


def test_resttest_s_losses_are_those_of_zhan_et_al() -> None:
    # Table 7 prints them as Delta: -12, -10, -13 and -6%.
    assert published("resttest") == pytest.approx(
        {"bi-encoder": 0.115, "colbert": 0.095, "splade": 0.13, "monobert": 0.062}, abs=0.0005
    )


def test_an_order_is_stated_only_where_a_difference_is_significant() -> None:
    differences = [
        Figure(
            "rel_loss", system=first, against=second, value=value, low=value - 0.01, high=0.2, p=p
        )
        for first, second, value, p in (
            ("bi-encoder", "colbert", 0.02, 0.03),
            ("bi-encoder", "splade", -0.02, 0.03),
            ("colbert", "splade", -0.02, 0.051),
        )
    ]
    text = to_markdown(orders_of("topics", Figures(differences)))
    assert "| bi-encoder - colbert | 2.0% | [1.0, 20.0] | 0.030 | 7.0% | agrees |" in text
    assert "| -2.0% | [-3.0, 20.0] | 0.030 | 5.2% | disagrees |" in text
    assert "| 0.051 | -1.8% | cannot tell |" in text


def test_folders_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["orders", "no-data", "no-runs"]) == 3
    assert "no-" in capsys.readouterr().err
