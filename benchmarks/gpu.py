"""What a GPU does: the four systems trained and used in bf16, beside 32 bits.

For each system, the recipe `paper` trains for 200 steps in bf16, with its batch and lengths, from
random weights of DistilBERT's shape, on the generated collection `mini`. Then a million generated
passages are encoded in bf16 (monoBERT reads each with a query), and the rankings of 1,000 passages
for 20 queries are compared with those of the same weights in 32 bits.

``scripts/bench gpu``; without a GPU it says so and exits with 3. ``--quick --device cpu`` goes the
same way with tiny models and few passages, which shows that the script runs, and nothing else.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.zipf_collection import Generated
from benchmarks.training import COLLECTION, triples_of
from msshift_bench.baselines.backbones import make_random_encoder, quiet_libraries
from msshift_bench.baselines.finding import neural_systems
from msshift_bench.baselines.recipe import RandomEncoder
from msshift_bench.baselines.recipe_files import load_recipe
from msshift_bench.baselines.trainer import train
from msshift_bench.data import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.plumbing import batches, silent

SYSTEMS = ("bi-encoder", "splade", "colbert", "monobert")
TOGETHER = 20_000
HEADER = (
    "system", "steps/s", "triples/s", "train GB", "passages/s", "encode GB", "largest change",
    "of the range", "first ten kept",
)  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """How much is done."""

    shape: RandomEncoder
    steps: int
    batch: int | None
    passages: int
    queries: int
    ranked: int


FULL = Scale(
    RandomEncoder(layers=6, hidden=768, heads=12, inner=3072, vocabulary=30_522, dropout=0.1),
    steps=200, batch=None, passages=1_000_000, queries=20, ranked=1_000,
)  # fmt: skip
QUICK = Scale(
    RandomEncoder(
        layers=1, hidden=16, heads=2, inner=32, vocabulary=300, dropout=0.1, initial=0.5
    ),
    steps=2, batch=4, passages=60, queries=3, ranked=40,
)  # fmt: skip


def peak_gb(device: str) -> float:
    """Return the most memory since the last call: the GPU's, or this process's."""
    import torch

    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    torch.cuda.synchronize()
    peak: float = torch.cuda.max_memory_allocated() / 1e9
    torch.cuda.reset_peak_memory_stats()
    return peak


def copy_of(recipe: Any, model: Any, kind: str, encoder: Path) -> Any:
    """Return a model with the same weights in another precision.

    The trainer leaves a model that computes in bf16 whatever its weights are, so it is made anew.
    """
    import torch

    made = recipe.new_model(encoder)
    made.load_state_dict(model.state_dict())
    return made.to(model.device).to(getattr(torch, kind)).eval()


def scores_of(system: Any, model: Any, queries: list[str], passages: list[str], size: int) -> Any:
    """Return the scores of all pairs."""
    everything = [np.arange(len(passages))] * len(queries)
    return np.stack(list(system.score(model, queries, passages, everything, size)))


def row_of(name: str, scale: Scale, device: str, folder: Path) -> list[str]:
    """Measure a system."""
    system: Any = neural_systems()[name]
    recipe: Any = load_recipe(system, name, "paper")
    batch = scale.batch or recipe.batch_size
    recipe = recipe.changed(
        encoder="random",
        random=scale.shape,
        steps=scale.steps,
        batch_size=batch,
        accumulate=1 if scale.batch else recipe.accumulate,
        checkpoint_every=scale.steps,
        validation=None,
        precision="bf16",
    )
    texts = [passage.text for passage in open_collection(COLLECTION).passages()]
    length = recipe.query_length + recipe.passage_length
    make_random_encoder(folder / "bert", recipe.random, texts, length=length, seed=0)
    build_dataset(open_collection(COLLECTION), ["length"], folder / "msshift")
    triples = triples_of(folder, recipe)
    model = recipe.new_model(folder / "bert").to(device)
    peak_gb(device)
    start = time.perf_counter()
    train(model, triples, recipe, folder / "checkpoints", silent, name=name)
    trained = peak_gb(device)
    steps = scale.steps / (time.perf_counter() - start)

    half = copy_of(recipe, model, "bfloat16", folder / "bert")
    full = copy_of(recipe, model, "float32", folder / "bert")
    del model
    collection = Generated(scale.passages)
    queries = [query.text for query in open_collection(COLLECTION).queries][: scale.queries]
    size = recipe.search.batch_size
    start = time.perf_counter()
    for part in batches(collection.passages(), TOGETHER):
        scores_of(system, half, queries[:1], [one.text for one in part], size)
    encoded = peak_gb(device)
    rate = scale.passages / (time.perf_counter() - start)

    ranked = texts[: scale.ranked]
    narrow = scores_of(system, half, queries, ranked, size)
    wide = scores_of(system, full, queries, ranked, size)
    change = float(np.abs(narrow - wide).max())
    spread = float(np.ptp(wide, axis=1).mean())
    firsts = [np.argsort(-scores, axis=1, kind="stable")[:, :10] for scores in (wide, narrow)]
    kept = np.mean([len(np.intersect1d(*pair)) / 10 for pair in zip(*firsts, strict=True)])
    numbers = (steps, steps * batch, trained, rate, encoded, change, change / spread, kept)
    return [name, *(f"{number:,.4g}" for number in numbers)]


def main() -> None:
    """Print a row for each system."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny models, to try the script")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--only", nargs="*", choices=SYSTEMS, default=SYSTEMS)
    options = parser.parse_args()
    if options.device == "cpu" and not options.quick:
        parser.error("--device cpu is for --quick: at full size it takes days")
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        print("torch finds no GPU here, and this benchmark is of a GPU", file=sys.stderr)
        sys.exit(3)
    device = torch.cuda.get_device_name() if options.device == "cuda" else "the CPU, tiny models"
    print(f"{device}, torch {torch.__version__}, bf16", flush=True)
    print(f"| {' | '.join(HEADER)} |\n|---|{'---:|' * (len(HEADER) - 1)}", flush=True)
    for name in options.only:
        with tempfile.TemporaryDirectory(prefix="msshift-bench-") as folder, quiet_libraries():
            scale = QUICK if options.quick else FULL
            print(
                f"| {' | '.join(row_of(name, scale, options.device, Path(folder)))} |", flush=True
            )


if __name__ == "__main__":
    main()
