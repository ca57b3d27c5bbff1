"""Building at the size of MS MARCO: shifts by rules, topics, embeddings, negatives."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runner import Case, Clock, Row, Sizes

PASSAGES = 8_841_823
TENTH = ", a tenth of the queries"
GROWING = ("length wh-words", "topics --encoder terms")
COLUMNS, CLUSTERS, ITERATIONS = 768, 100, 25
LENGTH, BATCH = 64, 32
NEGATIVES, DEPTH = 100, 1000


def write_queries(folder: Path, texts: Iterable[str]) -> None:
    """Write queries with one relevant passage each, with ids in no order, as MS MARCO's are."""
    folder.mkdir()
    (folder / "collection.tsv").write_text("1\ta passage\n")
    with (folder / "queries.tsv").open("w") as queries, (folder / "qrels.tsv").open("w") as qrels:
        for number, text in enumerate(texts, 1):
            query_id = number * 524_287 % 1_185_869
            queries.write(f"{query_id}\t{text}\n")
            qrels.write(f"{query_id}\t0\t{number * 7919 % PASSAGES}\t1\n")


def texts_of(source: str, count: int) -> Iterator[str]:
    """Return so many lines of a file, or of all in a folder; of ``mini`` if no path is given."""
    from msshift_bench import mini

    if not source:
        return (query.text for query in islice(mini.queries(count), count))
    path = Path(source)
    files = sorted(path.glob("*.txt")) if path.is_dir() else [path]
    return islice((line for file in files for line in file.read_text().split("\n") if line), count)


def write_collections(folder: Path, sizes: Sizes) -> None:
    """Write the whole, and a tenth of it beside it."""
    write_queries(folder / "whole", texts_of(sizes.texts, sizes.queries))
    write_queries(folder / "tenth", texts_of(sizes.texts, sizes.queries // 10))


def build_command(shifts: str, collection: str) -> tuple[str, ...]:
    """Return a build that replaces what an earlier round made."""
    return ("msshift", "build", *shifts.split(), "--collection", collection, "--overwrite")


def bytes_a_query(_: Path, sizes: Sizes, rows: Mapping[str, Row]) -> Iterator[str]:
    """Say by how much memory grows with the queries."""
    for shifts in GROWING:
        if {shifts, f"{shifts}{TENTH}"} <= rows.keys():
            grown = rows[shifts].peak_mb - rows[f"{shifts}{TENTH}"].peak_mb
            each = grown * 2**20 / (0.9 * sizes.queries)
            yield f"memory of {shifts} grows by {each:,.0f} bytes a query"


def write_vectors(folder: Path, sizes: Sizes) -> None:
    """Write vectors around 300 overlapping centres of unequal weight, with a common offset."""
    rng = np.random.default_rng(2022)
    centres = rng.standard_normal((300, COLUMNS), dtype=np.float32) / 2
    weights = rng.dirichlet(np.full(300, 0.7))
    shape = (sizes.rows, COLUMNS)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, shape)
    for start in range(0, sizes.rows, 8192):
        block = vectors[start : start + 8192]
        block[:] = rng.standard_normal(block.shape, dtype=np.float32) + 3
        block += centres[rng.choice(300, len(block), p=weights)]
    vectors.flush()


def keys_of(vectors: Any) -> list[str]:
    """Return the ids of the rows."""
    return [f"{number:07d}" for number in range(len(vectors))]


def kmeans_of_msshift(folder: Path, _: Sizes, clock: Clock) -> dict[str, str]:
    """Cluster by our k-means."""
    from msshift_bench.dataset_builders.kmeans import kmeans

    vectors = np.load(folder / "vectors.npy")
    ids = keys_of(vectors)
    with clock():
        inertia = kmeans(vectors, ids, k=CLUSTERS, iterations=ITERATIONS).inertia
    return {"inertia": f"{inertia:.4g}"}


def kmeans_of_scikit_learn(folder: Path, _: Sizes, clock: Clock) -> dict[str, str]:
    """Cluster by scikit-learn from our first centroids, until no label changes, as ours does."""
    from sklearn.cluster import KMeans

    from msshift_bench.dataset_builders.kmeans import _first_centroids

    vectors = np.load(folder / "vectors.npy")
    first = _first_centroids(vectors, keys_of(vectors), CLUSTERS, 0).astype(np.float32)
    with clock():
        model = KMeans(CLUSTERS, init=first, n_init=1, max_iter=ITERATIONS, tol=0).fit(vectors)
    return {"inertia": f"{model.inertia_:.4g}"}


def kmeans_of_faiss(folder: Path, _: Sizes, clock: Clock) -> dict[str, str]:
    """Cluster by faiss, which chooses its own first centroids, with all points."""
    import faiss

    vectors = np.load(folder / "vectors.npy")
    with clock():
        model = faiss.Kmeans(
            COLUMNS, CLUSTERS, niter=ITERATIONS, seed=1, max_points_per_centroid=len(vectors)
        )
        model.train(vectors)
        distances, _ = model.index.search(vectors, 1)  # The labels, which the others give, too.
    return {"inertia": f"{distances.sum(dtype=np.float64):.4g}"}


def prepare_encoder(folder: Path, sizes: Sizes) -> None:
    """Write the texts; without an encoder, write an untrained one of DistilBERT's shape."""
    texts = sorted({text.strip() for text in texts_of(sizes.texts, sizes.count)} - {""})
    (folder / "texts.txt").write_text("\n".join(texts))
    encoder = folder / "encoder"
    if sizes.encoder:
        encoder.symlink_to(Path(sizes.encoder).resolve())
        return
    import tokenizers
    import torch
    from transformers import DistilBertConfig, DistilBertModel, PreTrainedTokenizerFast

    learner = tokenizers.ByteLevelBPETokenizer(lowercase=True)
    special = ["[PAD]", "[CLS]", "[SEP]"]
    learner.train_from_iterator(texts, 8000, special_tokens=special, show_progress=False)
    learner.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=learner._tokenizer, pad_token="[PAD]", model_max_length=LENGTH
    ).save_pretrained(encoder)
    torch.manual_seed(0)
    DistilBertModel(DistilBertConfig(vocab_size=8000)).save_pretrained(encoder)


def embed(folder: Path, _: Sizes, clock: Clock, *, name: str, step: int = 1) -> dict[str, str]:
    """Embed every `step`-th text as the builder does, digests and files included."""
    from msshift_bench.encoders import embeddings
    from msshift_bench.encoders.models import EncoderSpec, find_encoder, load_encoder

    texts = (folder / "texts.txt").read_text().split("\n")[::step]
    work = folder / f"{name}-{os.getpid()}"
    spec = EncoderSpec(str(folder / "encoder"), max_length=LENGTH)
    source = find_encoder(spec)
    loaded = load_encoder(spec, source)
    with clock():
        order, parts = embeddings._embed(texts, spec, source, loaded, work / "blocks")
        embeddings._arrange(np.argsort(order), parts, folder / f"{name}.npy")
    np.save(folder / "lengths.npy", [len(ids) for ids in loaded.tokenise(texts)])
    return {"texts/s": f"{len(texts) / clock.seconds:,.0f}"}


def embed_plainly(
    folder: Path, _: Sizes, clock: Clock, *, name: str, is_sorted: bool
) -> dict[str, str]:
    """Embed with transformers alone, each batch padded to its longest text."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    texts = (folder / "texts.txt").read_text().split("\n")
    tokenizer = AutoTokenizer.from_pretrained(folder / "encoder")
    model = AutoModel.from_pretrained(folder / "encoder", dtype=torch.float32).eval()
    with clock():
        tokens = tokenizer(texts, truncation=True, max_length=LENGTH)["input_ids"]
        order = list(range(len(texts)))
        random.Random(0).shuffle(order)
        if is_sorted:
            order.sort(key=lambda place: len(tokens[place]))
        vectors = np.empty((len(texts), model.config.hidden_size), np.float32)
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            padded = tokenizer.pad({"input_ids": [tokens[i] for i in batch]}, return_tensors="pt")
            inputs = {key: padded[key] for key in ("input_ids", "attention_mask")}
            with torch.inference_mode():
                vectors[batch] = model(**inputs).last_hidden_state[:, 0].numpy()
    np.save(folder / f"{name}.npy", vectors)
    return {"texts/s": f"{len(texts) / clock.seconds:,.0f}"}


def embed_alone(folder: Path, sizes: Sizes, clock: Clock) -> dict[str, str]:
    """Embed in one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    return embed(folder, sizes, clock, name="one thread")


def noise(folder: Path, _: Sizes, rows: Mapping[str, Row]) -> Iterator[str]:
    """Say in how many texts' vectors anything differs, and what filling up batches costs."""
    if "msshift, torch" not in rows:
        return
    reference = np.load(folder / "torch.npy")
    yield "| against msshift, torch | vectors that differ | largest difference |"
    yield "|---|---:|---:|"
    for name in ("shuffled", "sorted", "one thread", "a third"):
        if (folder / f"{name}.npy").exists():
            vectors = np.load(folder / f"{name}.npy")
            difference = np.abs(vectors - reference[:: 3 if name == "a third" else 1])
            yield f"| {name} | {difference.any(axis=1).mean():.1%} | {difference.max():.2g} |"
    lengths = np.load(folder / "lengths.npy")
    for count in (len(lengths), 20_000, 100_000, 500_000):
        in_order = np.sort(np.resize(lengths, count))
        batches = np.split(in_order, range(BATCH, count, BATCH))
        peer = sum(batch[-1] * len(batch) for batch in batches)
        widths, texts = np.unique(in_order, return_counts=True)
        ours = (-(-texts // BATCH) * BATCH * widths).sum()
        yield f"of {count:,} texts ours computes {ours / peer:.3f} times the peer's tokens"


def mine(folder: Path, sizes: Sizes, clock: Clock) -> dict[str, str]:
    """Mine with the package; the index ends where the first queries are done."""
    from benchmarks.support.zipf_collection import Generated
    from msshift_bench.dataset_builders.negatives import mine_negatives
    from msshift_bench.plumbing import reporting

    collection = Generated(sizes.passages)
    rows = collection.rows(sizes.queries)
    begun: list[tuple[float, float, int]] = []

    def progress(stage: str, done: int, _: int) -> None:
        if stage == "negatives" and not begun:
            begun.append((time.perf_counter(), time.process_time(), done))

    work = folder / f"negatives-{os.getpid()}"
    work.mkdir()
    with clock():
        start = time.perf_counter()
        with reporting(progress):
            mine_negatives(collection, rows, work, passages="", count=NEGATIVES, depth=DEPTH)
        ((indexed, cpu, done),) = begun
        mined = (time.perf_counter() - indexed, time.process_time() - cpu)
    if done == sizes.queries:
        sys.exit(f"the first shard holds all {done:,} queries; --queries must be higher")
    return mining_facts(indexed - start, *mined, sizes.queries - done)


def mine_with_bm25s(_: Path, sizes: Sizes, clock: Clock) -> dict[str, str]:
    """Call bm25s directly and draw with Python: ties and draws as they come."""
    import bm25s
    import Stemmer

    from benchmarks.support.zipf_collection import Generated

    collection = Generated(sizes.passages)
    rows = collection.rows(sizes.peer_queries)
    stemmer, threads = Stemmer.Stemmer("english"), os.cpu_count() or 1
    generator = random.Random(0)
    with clock():
        start = time.perf_counter()
        ids, texts = zip(*collection.passages(), strict=True)
        tokens = bm25s.tokenize(list(texts), stemmer=stemmer, show_progress=False)
        index = bm25s.BM25(k1=0.82, b=0.68, method="lucene", backend="numba")
        index.index(tokens, show_progress=False)
        asked = bm25s.tokenize([row.text for row in rows], stemmer=stemmer, show_progress=False)
        asked = bm25s.tokenization.convert_tokenized_to_string_list(asked)
        index.retrieve(asked[:8], k=DEPTH, n_threads=threads, show_progress=False)
        indexed, cpu = time.perf_counter(), time.process_time()
        for first in range(0, len(rows), 1000):
            part = slice(first, first + 1000)
            found = index.retrieve(asked[part], k=DEPTH, n_threads=threads, show_progress=False)
            for row, documents in zip(rows[part], found.documents.tolist(), strict=True):
                relevant = set(row.relevant_doc_ids)
                candidates = [ids[number] for number in documents if ids[number] not in relevant]
                generator.sample(candidates, NEGATIVES)
        mined = (time.perf_counter() - indexed, time.process_time() - cpu)
    return mining_facts(indexed - start, *mined, len(rows))


def mining_facts(index: float, seconds: float, cpu: float, queries: int) -> dict[str, str]:
    """Return the columns of one who mines."""
    return {
        "s to index": f"{index:.1f}",
        "queries": f"{queries:,}",
        "queries/s": f"{queries / seconds:,.0f}",
        "CPU ms/query": f"{1000 * cpu / queries:.2f}",
    }


CASES = {
    "build rules": Case(
        "The shifts that rules make, whole processes; --texts names a folder of real queries.",
        write_collections,
        {name: build_command(name, "whole") for name in ("length", "wh-words", "length wh-words")},
        {"queries": 500_000, "texts": ""},
        targets={"length": "15 s", "wh-words": "15 s"},
    ),
    "build memory": Case(
        "Memory that grows with the queries; --texts names a folder of real queries.",
        write_collections,
        {
            **{shifts: build_command(shifts, "whole") for shifts in GROWING},
            **{f"{shifts}{TENTH}": build_command(shifts, "tenth") for shifts in GROWING},
        },
        {"queries": 200_000, "texts": ""},
        environment={"MSSHIFT_CACHE": "cache"},
        repeats=1,  # a second round would find the vectors in the cache
        check=bytes_a_query,
    ),
    "build topics": Case(
        f"k-means, k = {CLUSTERS}, {ITERATIONS} iterations, of rows x {COLUMNS}.",
        write_vectors,
        {
            "msshift": kmeans_of_msshift,
            "scikit-learn, from our first centroids": kmeans_of_scikit_learn,
            "faiss, all points": kmeans_of_faiss,
        },
        {"rows": 500_000},
    ),
    "build embedding": Case(
        "Embedding queries, in batches of one length beside plain ones, and the noise of each.",
        prepare_encoder,
        {
            "msshift, torch": partial(embed, name="torch"),
            "transformers, sorted by length": partial(embed_plainly, name="sorted", is_sorted=True),
            "transformers, shuffled": partial(embed_plainly, name="shuffled", is_sorted=False),
            "msshift, one thread": embed_alone,
            "msshift, a third of the texts": partial(embed, name="a third", step=3),
        },
        {"count": 4000, "texts": "", "encoder": "", "threads": os.cpu_count() or 1},
        environment={
            "OMP_NUM_THREADS": "{threads}",
            "OMP_WAIT_POLICY": "PASSIVE",
            "TQDM_DISABLE": "1",
            "TRANSFORMERS_VERBOSITY": "error",
        },
        check=noise,
    ),
    "build negatives": Case(
        f"Mining {NEGATIVES} negatives a query among BM25's first {DEPTH}, indexing included.",
        None,
        {"msshift triples": mine, "bm25s and random choice": mine_with_bm25s},
        {"passages": 1_000_000, "queries": 100_000, "peer_queries": 5_000},
        targets={"msshift triples": "120 s"},
    ),
}
