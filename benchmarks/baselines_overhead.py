"""The cost of our training loop beyond a bare script of sentence-transformers with one recipe.

Both train the bi-encoder of the recipe ``mini`` from the same weights on the same triples, with the
same loss, batches, optimizer, schedule and checkpoints, alternately in one process on one thread.
Ours meets batches in a planned order, marks complete checkpoints and reports every step; the bare
script hands a data set to ``SentenceTransformerTrainer`` and calls ``train()``. By default the
latter also collects facts for a model card, which ours does not; the bare script is measured with
and without. The model is tiny, so that the loop's cost weighs the most. The target is 5%.

``scripts/bench baselines_overhead [--steps 200] [--repeats 5]``
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback

from benchmarks.support.bare_runs import bare_run
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.systems.recipe import load_recipe
from msshift_bench.baselines.training.backbones import make_random_encoder, quiet_libraries
from msshift_bench.baselines.training.training_data import TrainingData, make_training_data
from msshift_bench.data.collection import open_collection
from msshift_bench.data.dataset import load_dataset
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.plumbing.progress import silent

SYSTEM: Any = neural_systems()["bi-encoder"]
COLLECTION = "mini:2000"


def triples_of(folder: Path, recipe: Any) -> TrainingData:
    """Make the triples of one held-out group of the generated collection."""
    collection = open_collection(COLLECTION)
    build_dataset(collection, ["length"], folder / "msshift")
    rows: Any = load_dataset(folder / "msshift", "length-short", split="train")
    return make_training_data(bare_run(collection, folder, train=rows), recipe)


def ours(model: Any, triples: TrainingData, recipe: Any, folder: Path) -> Callable[[], None]:
    """Return our training, ready to start."""

    def start() -> None:
        recipe.fit(model, triples, folder, silent, name="a model")

    return start


def bare(
    model: Any, triples: TrainingData, recipe: Any, folder: Path, *, card: bool = False
) -> Callable[[], None]:
    """Return what one would write with the library alone, ready to start."""
    import datasets
    import sentence_transformers as library

    class Trainer(library.SentenceTransformerTrainer):
        def add_model_card_callback(self, default_args: dict[str, Any]) -> None:
            if card:
                super().add_model_card_callback(default_args)

    columns: dict[str, list[str]] = {name: [] for name in triples.columns}
    for place in range(len(triples)):
        for name, text in triples[place].items():
            columns[name].append(text)
    data = datasets.Dataset.from_dict(columns)

    def start() -> None:
        arguments = library.SentenceTransformerTrainingArguments(
            output_dir=str(folder),
            max_steps=recipe.steps,
            per_device_train_batch_size=recipe.batch_size,
            learning_rate=recipe.learning_rate,
            warmup_steps=recipe.warmup_steps,
            lr_scheduler_type=recipe.schedule,
            weight_decay=recipe.weight_decay,
            seed=recipe.seed,
            save_strategy="steps",
            save_steps=recipe.checkpoint_every,
            save_total_limit=2,
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        loss = recipe.training_loss(model)
        trainer = Trainer(model=model, args=arguments, train_dataset=data, loss=loss)
        trainer.remove_callback(PrinterCallback)
        trainer.train()

    return start


WAYS = {"bare": bare, "bare, with a model card": partial(bare, card=True), "ours": ours}


def main() -> None:
    """Measure both, alternately, and print the ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recipe: Any = load_recipe(SYSTEM, SYSTEM.name, "mini")
    recipe = recipe.changed(
        steps=arguments.steps, checkpoint_every=arguments.steps // 2, accumulate=1
    )
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="msshift-bench-") as name, quiet_libraries():
        folder = Path(name)
        triples = triples_of(folder, recipe)
        length = recipe.query_length + recipe.passage_length
        texts = (passage.text for passage in open_collection(COLLECTION).passages())
        make_random_encoder(folder / "bert", recipe.random, texts, length=length, seed=0)
        for repeat in range(arguments.repeats + 1):
            for way, prepare in WAYS.items():
                model = recipe.new_model(folder / "bert")
                start = prepare(model, triples, recipe, folder / f"{way}-{repeat}")
                began = time.process_time()
                start()
                taken[way].append(time.process_time() - began)
    print(f"{arguments.steps} steps of {recipe.batch_size} triples")
    print("| loop | CPU s, median | ours / this, median (range) |")
    print("|---|---:|---:|")
    for way, seconds in taken.items():
        # The first of each also pays for what the libraries import late.
        pairs = zip(taken["ours"][1:], seconds[1:], strict=True)
        ratios = sorted(one / other for one, other in pairs)
        print(
            f"| {way} | {statistics.median(seconds[1:]):.2f} "
            f"| {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) |"
        )


if __name__ == "__main__":
    main()
