"""What a GPU does: the four systems trained and used in bf16, beside 32 bits.

For each system, the recipe `paper` trains for some steps in bf16, with its batch and lengths, from
random weights of DistilBERT's shape, on the generated collection `mini`. Then generated passages
are encoded in bf16 (monoBERT reads each with a query), and the rankings of passages for 20 queries
are compared with those of the same weights in 32 bits.
"""

from __future__ import annotations

import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runner import Case, Clock, Sizes

COLLECTION = "mini:2000"
TOGETHER = 20_000
TINY = {"layers": 1, "hidden": 16, "heads": 2, "inner": 32, "vocabulary": 300, "initial": 0.5}
"""A shape for trying this on a processor, where the full one takes days."""

FULL = {"layers": 6, "hidden": 768, "heads": 12, "inner": 3072, "vocabulary": 30_522}


def look_for_gpu(folder: Path, sizes: Sizes) -> None:
    """Build the data set; exit with 3 where there is no GPU."""
    import torch

    from msshift_bench.data import open_collection
    from msshift_bench.dataset_builders.build import build_dataset

    if sizes.device == "cuda" and not torch.cuda.is_available():
        print("torch finds no GPU here, and this benchmark is of a GPU", file=sys.stderr)
        sys.exit(3)
    build_dataset(open_collection(COLLECTION), ["length"], folder / "msshift")


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
    return np.stack(
        list(system.searcher()(batch_size=size).score(model, queries, passages, everything))
    )


def triples_of(folder: Path, recipe: Any) -> Any:
    """Return the triples of one held-out group of the generated collection."""
    from msshift_bench import load_dataset
    from msshift_bench.baselines import Run, open_system
    from msshift_bench.baselines.training.training_data import make_training_data
    from msshift_bench.data import open_collection
    from msshift_bench.shifts import get_shift

    rows = {"train": load_dataset(folder / "msshift", "length-short", split="train")}
    run = Run(
        name="a model",
        system=open_system("bm25"),
        shift=get_shift("length"),
        collection=open_collection(COLLECTION),
        work=folder,
        rows=lambda split: rows.get(split, ()),
    )
    return make_training_data(run, recipe)


def measure(folder: Path, sizes: Sizes, clock: Clock, *, name: str) -> dict[str, str]:
    """Train one system and use it."""
    from benchmarks.support.zipf_collection import Generated
    from msshift_bench.baselines import open_system
    from msshift_bench.baselines.systems.recipe import RandomEncoder
    from msshift_bench.baselines.training.backbones import make_random_encoder, quiet_libraries
    from msshift_bench.data import open_collection
    from msshift_bench.plumbing import batches

    recipe: Any = open_system(name, "paper")
    shape = RandomEncoder(**(FULL if sizes.device == "cuda" else TINY), dropout=0.1)
    fields = {"encoder": "random", "random": shape, "validation": None, "precision": "bf16"}
    if sizes.batch:
        fields |= {"batch_size": sizes.batch, "accumulate": 1}
    recipe = recipe.changed(**fields, steps=sizes.steps, checkpoint_every=sizes.steps)
    collection, length = open_collection(COLLECTION), recipe.query_length + recipe.passage_length
    texts = [passage.text for passage in collection.passages()]
    work = folder / name
    make_random_encoder(work / "encoder", shape, texts, length=length, seed=0)
    with clock(), quiet_libraries():
        triples = triples_of(folder, recipe)
        peak_gb(sizes.device)
        start = time.perf_counter()
        model = recipe.new_model(work / "encoder")
        recipe.fit(model, triples, work, name=name)
        trained = peak_gb(sizes.device)
        steps = sizes.steps / (time.perf_counter() - start)

        half = copy_of(recipe, model, "bfloat16", work / "encoder")
        full = copy_of(recipe, model, "float32", work / "encoder")
        del model
        queries = list(collection.queries.values())[: sizes.queries]
        size = recipe.search.batch_size
        start = time.perf_counter()
        for part in batches(Generated(sizes.passages).passages(), TOGETHER):
            scores_of(recipe, half, queries[:1], [one.text for one in part], size)
        encoded = peak_gb(sizes.device)
        rate = sizes.passages / (time.perf_counter() - start)

        ranked = texts[: sizes.ranked]
        narrow = scores_of(recipe, half, queries, ranked, size)
        wide = scores_of(recipe, full, queries, ranked, size)
    change = float(np.abs(narrow - wide).max())
    firsts = [np.argsort(-scores, axis=1, kind="stable")[:, :10] for scores in (wide, narrow)]
    kept = np.mean([len(np.intersect1d(*pair)) / 10 for pair in zip(*firsts, strict=True)])
    numbers = {
        "steps/s": steps,
        "triples/s": steps * recipe.batch_size,
        "train GB": trained,
        "passages/s": rate,
        "encode GB": encoded,
        "largest change": change,
        "of the range": change / float(np.ptp(wide, axis=1).mean()),
        "first ten kept": kept,
    }
    return {key: f"{number:,.4g}" for key, number in numbers.items()}


SYSTEMS = ("bi-encoder", "splade", "colbert", "monobert")

CASES = {
    "gpu": Case(
        "The four systems in bf16 on a GPU. --device cpu takes tiny models, to try this with few "
        "--steps, --batch, --passages and --ranked.",
        look_for_gpu,
        {name: partial(measure, name=name) for name in SYSTEMS},
        {
            "device": "cuda",
            "steps": 200,
            "batch": 0,
            "passages": 1_000_000,
            "queries": 20,
            "ranked": 1_000,
        },
        repeats=1,
    )
}
