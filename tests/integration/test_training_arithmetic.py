from __future__ import annotations

import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.training.neural import Neural
from scripts.arithmetic import EncoderShape, Work, work_of

DISTILBERT = EncoderShape(layers=6, hidden=768, inner=3072, vocabulary=30_522)

PAPER = [neural_systems()[name] for name in ("bi-encoder", "splade", "colbert", "monobert")]
"""The systems of MS-Shift's paper."""

PASSAGES, QUERIES = 8_841_823, 31_244
"""MS MARCO, and the test queries of the topics."""


def test_the_weights_of_distilbert() -> None:
    # 66.4 million parameters, less biases, layer norms and positions.
    assert DISTILBERT.layer_weights == 6 * (4 * 768**2 + 2 * 768 * 3072) == 42_467_328
    assert DISTILBERT.bytes == 4 * (42_467_328 + 30_522 * 768)


@pytest.mark.parametrize("system", PAPER, ids=lambda one: one.name)
def test_the_plan_of_the_paper(system: type[Neural]) -> None:
    recipe = open_system(system.name, "paper")
    assert (recipe.steps, recipe.batch_size) == {
        "bi-encoder": (100_000, 128),
        "splade": (100_000, 128),
        "colbert": (150_000, 32),
        "monobert": (150_000, 32),
    }[system.name]
    assert recipe.search.depth == 1000
    assert recipe.encoder == "distilbert/distilbert-base-uncased"
    work = work_of(recipe, DISTILBERT, PASSAGES, QUERIES, 0)
    weights = DISTILBERT.layer_weights
    head = 768 * (768 + 30_522)
    pairs = 32 * 180 * 128  # MaxSim of a query with one passage
    assert (
        work
        == {
            "bi-encoder": Work(
                6.0 * weights * 12_800_000 * (64 + 2 * 256),
                2.0 * weights * (PASSAGES * 256 + QUERIES * 64),
                PASSAGES * 768 * 4,
            ),
            "splade": Work(
                6.0 * (weights + head) * 12_800_000 * (64 + 2 * 256),
                2.0 * (weights + head) * (PASSAGES * 256 + QUERIES * 64),
                PASSAGES * 130 * 8,
            ),
            "colbert": Work(
                6.0 * weights * 4_800_000 * (32 + 2 * 180),
                2.0 * weights * (PASSAGES * 180 + QUERIES * 32) + 2.0 * QUERIES * PASSAGES * pairs,
                PASSAGES * 180 * 2 * 128,
            ),
            "monobert": Work(
                6.0 * weights * 512 * 4_800_000 * 2, 2.0 * weights * 512 * QUERIES * 1000, 0
            ),
        }[system.name]
    )


def test_an_estimate() -> None:
    work = Work(training=2e15, searching=1e15, index_bytes=1000)
    assert work.seconds(1e12) == pytest.approx(10_000)
    assert work.bytes(DISTILBERT) == 1000 + 11 * DISTILBERT.bytes
