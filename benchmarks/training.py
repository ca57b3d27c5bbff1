"""Baselines: search of a million passages with untrained models."""

from __future__ import annotations

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
    )
}
