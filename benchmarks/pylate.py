"""Check with the real PyLate that its rankings and files are read as they were made.

PyLate pins another sentence-transformers than this package. So this script makes an environment
of its own in a temporary folder: PyLate, the torch of `constraints.txt`, and this package without
the extra `neural`. There, a ColBERT model with random weights searches the collection `mini`.
Its lists in `read_run` and `evaluate`, and its file of predictions, must rank as MaxSim in numpy
does. With tokens whose products are all below 0 they would not: see `findings/pylate_padding.sh`.

``scripts/bench pylate [--folder ENVIRONMENT]``
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[1]
PINNED = (
    "pylate==1.6.0", "fastkmeans==0.5.0", "ninja==1.11.1.4",
)  # fmt: skip
"""Without their dependencies: fast-plaid, of PyLate's PLAID index, needs torch 2.11 at most."""

LIBRARIES = (
    "sentence-transformers==5.3.0", "transformers==5.3.0", "ujson==5.12.0", "voyager==2.1.0",
    "datasets==5.2.0", "accelerate==1.15.0", "pandas==3.1.1",
)  # fmt: skip

COLLECTION, DEPTH, SIZE = "mini:100", 10, 16


def make_environment(folder: Path) -> Path:
    """Install PyLate and this package into a new environment; return its Python."""
    python = folder / "bin" / "python"
    if python.exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pins = (REPOSITORY / "constraints.txt").read_text().split()
    torch = next(pin for pin in pins if pin.startswith("torch=="))
    with tempfile.TemporaryDirectory() as temporary:
        # pip builds a package in the folder of its sources.
        tree = Path(temporary) / "tree"
        unused = shutil.ignore_patterns(".*", "tests", "docs", "build", "*.egg-info")
        shutil.copytree(REPOSITORY, tree, ignore=unused)
        for words in (("--no-deps", *PINNED), (torch, *LIBRARIES), (str(tree),)):
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *words], check=True)
    return python


def make_model(folder: Path, texts: Sequence[str]) -> Any:
    """Return PyLate's ColBERT over a BERT of one layer with random weights."""
    torch, transformers = import_module("torch"), import_module("transformers")
    torch.manual_seed(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *",.?!"]
    words = sorted({word.strip(",.?!") for text in texts for word in text.lower().split()})
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join([*special, *filter(None, words)]) + "\n")
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"))
    shape = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.5,
    )
    transformers.BertModel(shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    models = import_module("pylate.models")
    return models.ColBERT(str(folder), embedding_size=SIZE, device="cpu")


def maxsim(queries: Sequence[Any], passages: Sequence[Any]) -> np.ndarray:
    """Return the scores by hand: the sum over query tokens of the largest product."""
    scores = [
        [float((query @ passage.T).max(axis=1).sum()) for passage in passages] for query in queries
    ]
    return np.array(scores, np.float32)


def check(
    found: Mapping[str, Mapping[str, float]], query_ids: Sequence[str], doc_ids: Sequence[str],
    scores: np.ndarray, name: str,
) -> None:  # fmt: skip
    """Check the first passages of each query, and their scores."""
    assert set(found) == set(query_ids), name
    for query_id, row in zip(query_ids, scores.tolist(), strict=True):
        by_hand = sorted(zip(row, doc_ids, strict=True), reverse=True)[:DEPTH]
        ranking = sorted(((s, d) for d, s in found[query_id].items()), reverse=True)[:DEPTH]
        assert [doc for _, doc in ranking] == [doc for _, doc in by_hand], (name, query_id)
        assert np.allclose([s for s, _ in ranking], [s for s, _ in by_hand], rtol=1e-5), name
    print(f"{name}: {len(found)} queries, the first {DEPTH} of {len(doc_ids)} passages as by hand")


def search(work: Path) -> None:
    """Search with PyLate, and read with this package, in the environment of both."""
    ms, build = map(import_module, ("msshift_bench", "msshift_bench.dataset_builders.build"))
    indexes, retrieve = import_module("pylate.indexes"), import_module("pylate.retrieve")
    collection = import_module("msshift_bench.data").open_collection(COLLECTION)
    build.build_dataset(collection, ("length",), work / "data")
    tests = ms.open_dataset(work / "data").test_sets(ms.SHIFTS["length"])
    rows = sorted({row for group in tests.values() for row in group})
    passages = list(collection.passages())
    query_ids, doc_ids = [row.query_id for row in rows], [row.doc_id for row in passages]
    texts = [row.text for row in rows], [row.text for row in passages]
    model = make_model(work / "bert", [*texts[0], *texts[1]])
    vectors = [
        model.encode(side, is_query=query, show_progress_bar=False)
        for side, query in zip(texts, (True, False), strict=True)
    ]
    scores = maxsim(*vectors)
    tokens = sum(map(len, vectors[1]))
    index = indexes.Voyager(
        index_folder=str(work / "index"), override=True, embedding_size=SIZE, ef_search=tokens
    )
    index.add_documents(documents_ids=doc_ids, documents_embeddings=vectors[1])
    retriever = retrieve.ColBERT(index=index)
    lists = retriever.retrieve(queries_embeddings=vectors[0], k=DEPTH, k_token=tokens)
    first = lists[0][0]
    print("a list begins with", first, "of", {key: type(value) for key, value in first.items()})
    check(
        ms.read_run(dict(zip(query_ids, lists, strict=True))), query_ids, doc_ids, scores, "lists"
    )

    def ranks(queries: list[str], k: int) -> Any:
        encoded = model.encode(queries, is_query=True, show_progress_bar=False)
        return retriever.retrieve(queries_embeddings=encoded, k=k, k_token=tokens)

    ms.evaluate(
        ranks, "length", data=work / "data", collection=COLLECTION, runs=work / "runs",
        name="pylate", depth=DEPTH, progress=False,
    )  # fmt: skip
    run = ms.read_run(work / "runs" / "pylate" / "length.run.gz")
    check(run, query_ids, doc_ids, scores, "evaluate")
    write_predictions(work, model, dict(zip(query_ids, texts[0], strict=True)), passages, rows)
    (file,) = work.glob("*.jsonl")
    print(file.name, "begins with", file.read_text()[:160])
    check(ms.read_run(file), query_ids, doc_ids, scores, "file")


def write_predictions(
    work: Path, model: Any, queries: Mapping[str, str], passages: Sequence[Any], rows: Sequence[Any]
) -> None:
    """Write PyLate's predictions as its evaluator does."""
    evaluation = import_module("pylate.evaluation")
    evaluator = evaluation.PyLateInformationRetrievalEvaluator(
        dict(queries),
        {passage.doc_id: passage.text for passage in passages},
        {row.query_id: set(row.relevant_doc_ids) for row in rows},
        corpus_chunk_size=100,
        name="mini",
        write_predictions=True,
    )
    evaluator(model, output_path=str(work))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="the environment, which is kept and used again")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        names = ("pylate", "sentence-transformers", "transformers", "torch", "voyager")
        print(", ".join(f"{name} {version(name)}" for name in names))
        search(given.inside)
        return
    with tempfile.TemporaryDirectory(prefix="msshift-pylate-") as temporary:
        python = make_environment((given.folder or Path(temporary) / "environment").resolve())
        work = Path(temporary) / "work"
        work.mkdir()
        # -P: this file's folder would hide the library of the same name.
        command = [str(python), "-P", __file__, "--inside", str(work)]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
        environment.pop("PYTHONPATH", None)
        sys.exit(subprocess.run(command, cwd=work, env=environment).returncode)


if __name__ == "__main__":
    main()
