"""Baselines: search of a million passages with untrained models, and our loop of training."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.runner import Case, Clock, Sizes

QUERY_LENGTH, PASSAGE_LENGTH, DIMENSIONS = 24, 32, 64
TERMS = 130
"""The terms of a passage that MS-Shift reports for SPLADE (section 5.1)."""

DEPTH, BATCH = 1000, 64
COLLECTION = "mini:2000"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


def write_models(folder: Path, _: Sizes) -> None:
    """Save an untrained model of every system."""
    from msshift_bench import mini
    from msshift_bench.baselines import open_system
    from msshift_bench.baselines.systems.recipe import RandomEncoder
    from msshift_bench.baselines.training.backbones import make_random_encoder, quiet_libraries

    shape = RandomEncoder(layers=1, hidden=32, heads=2, inner=64, vocabulary=1500, dropout=0.0)
    texts = [passage.text for passage in mini.passages(2000)]
    length = QUERY_LENGTH + PASSAGE_LENGTH
    make_random_encoder(folder / "bert", shape, texts, length=length, seed=0)
    with quiet_libraries():
        for name in ("bi-encoder", "splade", "colbert", "monobert"):
            recipe: Any = open_system(name, "mini")
            own = {"dimensions": DIMENSIONS} if name == "colbert" else {}
            recipe = recipe.changed(query_length=QUERY_LENGTH, passage_length=PASSAGE_LENGTH, **own)
            model = recipe.new_model(folder / "bert")
            if name == "splade":
                _make_sparse(model, texts[:500])
            model.save_pretrained(str(folder / name), create_model_card=False)


def _make_sparse(model: Any, texts: list[str]) -> None:
    """Shift the head's logits until texts have `TERMS` terms on average."""
    import torch

    bias = model[0].model.cls.predictions.decoder.bias
    with torch.no_grad():
        bias += 100.0  # Every term is above 0: its weight tells its logit.
        weights = model.encode_document(texts, convert_to_sparse_tensor=False)
        logits = torch.expm1(weights.double()).sort(dim=1, descending=True).values
        bias -= float(logits[:, TERMS].mean())


def search(
    folder: Path, sizes: Sizes, clock: Clock, *, system: str, **settings: Any
) -> dict[str, str]:
    """Encode and search; what is kept on disk stays for the other settings of the system."""
    import time

    from msshift_bench.baselines import Run, open_system
    from msshift_bench.baselines.systems.finding import neural_systems
    from msshift_bench.baselines.training.backbones import quiet_libraries
    from msshift_bench.data import open_collection
    from msshift_bench.mini import generator as mini
    from msshift_bench.records import Row
    from msshift_bench.search import Bm25, Bm25Parameters
    from msshift_bench.shifts import get_shift

    @dataclass(kw_only=True)
    class CpuRun(Run):
        """Measures the processor's time, which other work does not lengthen much."""

        def bm25(self, parameters: Bm25Parameters | None = None) -> Bm25:
            with self.stage("BM25"):
                return super().bm25(parameters)

        @contextmanager
        def stage(self, name: str) -> Iterator[None]:
            start = time.process_time()
            yield
            self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - start

    kind = neural_systems()[system]
    searcher = kind.searcher()(depth=DEPTH, batch_size=BATCH, **settings)
    rows = [
        Row.judged(query.query_id, query.text, "short", {})
        for query in islice(mini.queries(sizes.passages), sizes.queries)
    ]
    work = folder / "work" / system
    work.mkdir(parents=True, exist_ok=True)
    run = CpuRun(
        name="a model",
        system=open_system("bm25"),
        shift=get_shift("length"),
        collection=open_collection(f"mini:{sizes.passages}"),
        queries=tuple(sorted(rows)),
        work=work,
    )
    with clock(), quiet_libraries():
        for _ in searcher.rank(kind.load_model(folder / system), run):
            pass
    facts = {"bytes": 0, **run.facts.get("index", {})}
    notes = [f"{key} {value:.3f}" for key, value in facts.items() if isinstance(value, float)]
    return {
        "CPU seconds of the stages": "; ".join(f"{key} {n:.1f}" for key, n in run.seconds.items()),
        "index GB": f"{facts['bytes'] / 1e9:.2f}",
        "notes": ", ".join(notes),
    }


def short_recipe(steps: int) -> Any:
    """Return the bi-encoder's recipe ``mini`` with so many steps."""
    from msshift_bench.baselines import open_system

    recipe: Any = open_system("bi-encoder", "mini")
    return recipe.changed(steps=steps, checkpoint_every=steps // 2, accumulate=1)


def write_material(folder: Path, sizes: Sizes) -> None:
    """Write the data set, and an untrained encoder."""
    from msshift_bench.baselines.training.backbones import make_random_encoder
    from msshift_bench.data import open_collection
    from msshift_bench.dataset_builders.build import build_dataset

    recipe, collection = short_recipe(sizes.steps), open_collection(COLLECTION)
    build_dataset(collection, ["length"], folder / "msshift")
    length = recipe.query_length + recipe.passage_length
    texts = (passage.text for passage in collection.passages())
    make_random_encoder(folder / "bert", recipe.random, texts, length=length, seed=0)


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


def train_with_ours(folder: Path, sizes: Sizes, clock: Clock) -> None:
    """Train with our loop."""
    from msshift_bench.baselines.training.backbones import quiet_libraries

    recipe = short_recipe(sizes.steps)
    with quiet_libraries():
        triples, model = triples_of(folder, recipe), recipe.new_model(folder / "bert")
        with clock():
            recipe.fit(model, triples, folder / f"{os.getpid()}", name="a model")


def train_barely(folder: Path, sizes: Sizes, clock: Clock, *, card: bool) -> None:
    """Train with the library alone, with or without collecting facts for a model card."""
    import datasets
    import sentence_transformers as library
    from transformers import PrinterCallback

    from msshift_bench.baselines.training.backbones import quiet_libraries

    class Trainer(library.SentenceTransformerTrainer):
        def add_model_card_callback(self, default_args: dict[str, Any]) -> None:
            if card:
                super().add_model_card_callback(default_args)

    recipe = short_recipe(sizes.steps)
    with quiet_libraries():
        triples, model = triples_of(folder, recipe), recipe.new_model(folder / "bert")
        columns: dict[str, list[str]] = {name: [] for name in triples.columns}
        for place in range(len(triples)):
            for name, text in triples[place].items():
                columns[name].append(text)
        data = datasets.Dataset.from_dict(columns)
        with clock():
            arguments = library.SentenceTransformerTrainingArguments(
                output_dir=str(folder / f"{os.getpid()}"),
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


CASES = {
    "baselines": Case(
        "Untrained models of one layer encode and search the generated collection; the three "
        "indexes of the bi-encoder share its vectors.",
        write_models,
        {
            "bi-encoder, exact": partial(search, system="bi-encoder"),
            "bi-encoder, IVF": partial(
                search, system="bi-encoder", index="IVF4096,Flat", index_parameters="nprobe=64"
            ),
            "bi-encoder, HNSW": partial(
                search, system="bi-encoder", index="HNSW32", index_parameters="efSearch=2000"
            ),
            "SPLADE, inverted index": partial(search, system="splade"),
            "ColBERT, BM25's first 1,000": partial(
                search, system="colbert", candidates="bm25:1000"
            ),
            "monoBERT, BM25's first 1,000": partial(search, system="monobert"),
        },
        {"passages": 1_000_000, "queries": 200},
        environment=ONE_THREAD,
        repeats=1,
    ),
    "baselines_overhead": Case(
        "Our training loop beside a bare script of sentence-transformers with the same recipe.",
        write_material,
        {
            "msshift": train_with_ours,
            "SentenceTransformerTrainer": partial(train_barely, card=False),
            "the same with its model card": partial(train_barely, card=True),
        },
        {"steps": 200},
        environment=ONE_THREAD,
        repeats=5,
    ),
}
