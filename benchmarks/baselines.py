"""The cost of encoding and searching a million passages, and of our training loop.

``scripts/bench baselines [--passages 1000000] [--queries 200] [--only SYSTEM ...]`` encodes and
searches the generated collection with untrained models of one layer, each system in a process of
its own, on one thread, at its setting for large collections; the target is a peak below 6 GB. The
three indexes of the bi-encoder share its vectors. SPLADE's head is shifted until a passage has
about as many terms as MS-Shift reports (section 5.1).

``scripts/bench baselines_overhead`` measures the training loop.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from msshift_bench.baselines import Run, open_system
from msshift_bench.baselines.rerankers.reranker import RerankSearch
from msshift_bench.baselines.retrievers.biencoder import DenseSearch
from msshift_bench.baselines.retrievers.colbert import ColBertSearch
from msshift_bench.baselines.retrievers.splade import SparseSearch
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.systems.recipe import RandomEncoder, load_recipe
from msshift_bench.baselines.systems.searcher import Searcher
from msshift_bench.baselines.training.backbones import make_random_encoder, quiet_libraries
from msshift_bench.data.collection import open_collection
from msshift_bench.mini import generator as mini
from msshift_bench.records import Row
from msshift_bench.search.bm25 import Bm25, Bm25Parameters
from msshift_bench.shifts import get_shift

SHAPE = RandomEncoder(layers=1, hidden=32, heads=2, inner=64, vocabulary=1500, dropout=0.0)
QUERY_LENGTH, PASSAGE_LENGTH, DIMENSIONS = 24, 32, 64
TERMS = 130
DEPTH, BATCH = 1000, 64
TARGET = 6.0

SETTINGS: dict[str, tuple[str, Searcher]] = {
    "bi-encoder, exact": ("bi-encoder", DenseSearch(depth=DEPTH, batch_size=BATCH)),
    "bi-encoder, IVF": (
        "bi-encoder",
        DenseSearch(
            depth=DEPTH, batch_size=BATCH, index="IVF4096,Flat", index_parameters="nprobe=64"
        ),
    ),
    "bi-encoder, HNSW": (
        "bi-encoder",
        DenseSearch(
            depth=DEPTH, batch_size=BATCH, index="HNSW32", index_parameters="efSearch=2000"
        ),
    ),
    "SPLADE, inverted index": ("splade", SparseSearch(depth=DEPTH, batch_size=BATCH)),
    "ColBERT, BM25's first 1,000": (
        "colbert",
        ColBertSearch(depth=DEPTH, batch_size=BATCH, candidates="bm25:1000"),
    ),
    "monoBERT, BM25's first 1,000": ("monobert", RerankSearch(depth=DEPTH, batch_size=BATCH)),
}


@dataclass(kw_only=True)
class CpuRun(Run):
    """Measures the processor's time, which other work on the machine does not lengthen much."""

    def bm25(self, parameters: Bm25Parameters | None = None) -> Bm25:
        with self.stage("BM25"):
            return super().bm25(parameters)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - start


def make_models(folder: Path) -> None:
    """Save an untrained model of every system."""
    texts = [passage.text for passage in mini.passages(2000)]
    length = QUERY_LENGTH + PASSAGE_LENGTH
    make_random_encoder(folder / "bert", SHAPE, texts, length=length, seed=0)
    with quiet_libraries():
        for name, architecture in neural_systems().items():
            recipe: Any = load_recipe(architecture, name, "mini")
            own = {"dimensions": DIMENSIONS} if name == "colbert" else {}
            recipe = recipe.changed(query_length=QUERY_LENGTH, passage_length=PASSAGE_LENGTH, **own)
            model = recipe.new_model(folder / "bert")
            if name == "splade":
                make_sparse(model, texts[:500])
            model.save_pretrained(str(folder / name), create_model_card=False)


def make_sparse(model: Any, texts: list[str]) -> None:
    """Shift the head's logits until texts have `TERMS` terms on average."""
    import torch

    bias = model[0].model.cls.predictions.decoder.bias
    with torch.no_grad():
        bias += 100.0  # every term is above 0: its weight tells its logit
        weights = model.encode_document(texts, convert_to_sparse_tensor=False)
        logits = torch.expm1(weights.double()).sort(dim=1, descending=True).values
        bias -= float(logits[:, TERMS].mean())


def run(name: str, folder: Path, passages: int, queries: int) -> dict[str, Any]:
    """Encode and search with one setting; what is kept on disk stays there."""
    system, search = SETTINGS[name]
    rows = tuple(
        Row.judged(query.query_id, query.text, "short", {})
        for query in islice(mini.queries(passages), queries)
    )
    work = folder / "work" / system
    work.mkdir(parents=True, exist_ok=True)
    measured = CpuRun(
        name="a model",
        system=open_system("bm25"),
        shift=get_shift("length"),
        collection=open_collection(f"mini:{passages}"),
        queries=tuple(sorted(rows)),
        work=work,
    )

    with quiet_libraries():
        model = neural_systems()[system].load_model(folder / system)
        found = sum(len(ranking) for _, ranking in search.rank(model, measured))
    return {
        "seconds": measured.seconds,
        "index": {"bytes": 0, **measured.facts.get("index", {})},
        "found": found,
    }


def measure(name: str, arguments: argparse.Namespace, folder: Path) -> None:
    """Run one setting in a process of its own and print its row of the table."""
    command = [sys.executable, __file__, "--child", name, "--folder", str(folder)]
    command += ["--passages", str(arguments.passages), "--queries", str(arguments.queries)]
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        process = subprocess.Popen(command, stdout=output, env=alone)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{name} failed with {process.returncode}")
        total = time.perf_counter() - start
        output.seek(0)
        report = json.load(output)
    seconds = "; ".join(f"{stage} {value:.1f}" for stage, value in report["seconds"].items())
    facts = {key: value for key, value in report["index"].items() if key != "bytes"}
    notes = ", ".join(
        f"{key} {value:.3f}" for key, value in facts.items() if isinstance(value, float)
    )
    print(
        f"| {name} | {seconds} | {usage.ru_utime + usage.ru_stime:.0f} | {total:.0f} "
        f"| {report['index']['bytes'] / 1e9:.2f} | {usage.ru_maxrss * 1024 / 1e9:.2f} | {notes} |",
        flush=True,
    )


def main() -> None:
    """Print the table, or run one setting of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--only", nargs="+", choices=list(neural_systems()), default=())
    parser.add_argument("--folder", type=Path, help="kept; a temporary one by default")
    parser.add_argument("--child", choices=SETTINGS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        report = run(arguments.child, arguments.folder, arguments.passages, arguments.queries)
        print(json.dumps(report))
        return
    print(f"{arguments.passages:,} passages, {arguments.queries} queries, {os.cpu_count()} cores")
    print("| system | CPU seconds of the stages | CPU s | seconds | index GB | peak GB | |")
    print("|---|---|---:|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory(prefix="msshift-bench-") as name:
        folder = arguments.folder or Path(name)
        make_models(folder)
        for setting, (system, _) in SETTINGS.items():
            if not arguments.only or system in arguments.only:
                measure(setting, arguments, folder)


if __name__ == "__main__":
    main()
