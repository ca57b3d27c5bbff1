"""Embedding queries: batches of fixed shape against plain ones, and the noise of each.

The peer sorts the texts by length and pads each batch of 32 to its longest text: the quickest way
to use transformers, but its last bits depend on who shares a batch. Every program works in a
process of its own; loading and exporting the model is not timed. The second table counts the
texts whose vector is not bit by bit ours. CPU time is given beside the rate,
as it does not depend on what else the machine does. The third table counts the tokens that are
computed, relative to the peer's: the last batch of every length is filled, which costs the same
for any number of texts, so that a small sample shows it too large.

``scripts/bench build_embedding [--texts 4000] [--encoder FOLDER ...] [--threads 2]``
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msshift_bench.encoders import embeddings
from msshift_bench.encoders.models import (
    ROWS,
    EncoderSpec,
    find_encoder,
    load_encoder,
)
from msshift_bench.encoders.term_vectors import term_vectors
from msshift_bench.mini import generator as mini

REAL = Path(__file__).resolve().parents[2] / "shared/data/msmarco-query-texts/dev.txt"
LENGTH = 64

Vectors = NDArray[np.float32]


class Taken(NamedTuple):
    """Seconds of the clock, and of all processors."""

    clock: float
    cpu: float


def taken(clock: float = 0, cpu: float = 0) -> Taken:
    """Return the time since a start."""
    return Taken(time.perf_counter() - clock, time.process_time() - cpu)


def read_texts(count: int) -> list[str]:
    """Return distinct real queries where they are at hand, else generated ones; sorted."""
    if REAL.exists():
        texts = [line.strip() for line in REAL.read_text().splitlines()]
    else:
        texts = [query.text for query in mini.queries(count)]
    return sorted(set(texts[:count]))


def make_distilbert(folder: Path, texts: Sequence[str]) -> None:
    """Write an untrained model of DistilBERT's shape; its tokens are pieces of bytes."""
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
    ).save_pretrained(folder)
    torch.manual_seed(0)
    DistilBertModel(DistilBertConfig(vocab_size=8000)).save_pretrained(folder)


def ours(texts: list[str], encoder: str, work: Path) -> tuple[Vectors, Taken]:
    """Embed as the builder does, digests and files included; the model is loaded before."""
    spec = EncoderSpec(encoder, max_length=LENGTH)
    source = find_encoder(spec)
    loaded = load_encoder(spec, source)
    start = taken()
    order, blocks = embeddings._embed(texts, spec, source, loaded, work / "blocks", lambda *_: None)
    embeddings._arrange(np.argsort(order), blocks, work / "vectors.npy", lambda *_: None)
    return np.load(work / "vectors.npy"), taken(*start)


def plain(texts: list[str], encoder: str, by_length: bool) -> tuple[Vectors, Taken]:
    """Embed with transformers alone, each batch padded to its longest text."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = AutoModel.from_pretrained(encoder, dtype=torch.float32).eval()
    start = taken()
    tokens = tokenizer(texts, truncation=True, max_length=LENGTH)["input_ids"]
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    if by_length:
        order.sort(key=lambda place: len(tokens[place]))
    vectors = np.empty((len(texts), model.config.hidden_size), np.float32)
    for first in range(0, len(order), ROWS):
        batch = order[first : first + ROWS]
        padded = tokenizer.pad({"input_ids": [tokens[i] for i in batch]}, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(
                input_ids=padded["input_ids"], attention_mask=padded["attention_mask"]
            ).last_hidden_state
        vectors[batch] = hidden[:, 0].numpy()
    return vectors, taken(*start)


def work(way: str, encoder: str, count: int, out: Path) -> None:
    """Embed in this process; keep the vectors and the seconds."""
    texts = read_texts(count)
    with tempfile.TemporaryDirectory() as folder:
        if way == "ours":
            vectors, seconds = ours(texts, encoder, Path(folder))
        elif way == "subset":
            some, seconds = ours(texts[1::3], encoder, Path(folder))
            vectors = np.full((len(texts), some.shape[1]), np.nan, np.float32)
            vectors[1::3] = some
        else:
            vectors, seconds = plain(texts, encoder, way == "length-sorted")
    np.save(out, vectors)
    print(json.dumps(seconds))


def embed(way: str, encoder: str, threads: int, args: Any, folder: Path) -> tuple[Vectors, Taken]:
    """Embed in a fresh process and return the vectors and its seconds."""
    out = folder / f"{way}.npy"
    command = [sys.executable, __file__, "--texts", str(args.texts), "--work", way, encoder]
    process = subprocess.run(
        [*command, str(out)],
        env={
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "OMP_WAIT_POLICY": "PASSIVE",
            "TQDM_DISABLE": "1",
            "TRANSFORMERS_VERBOSITY": "error",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return np.load(out), Taken(*json.loads(process.stdout.splitlines()[-1]))


def compare(found: Vectors, reference: Vectors) -> tuple[str, str]:
    """Return the share of rows that differ at all, and the largest difference, in words."""
    made = ~np.isnan(found).any(axis=1)
    differ = (found[made] != reference[made]).any(axis=1).mean()
    return f"{differ:.1%}", f"{np.abs(found[made] - reference[made]).max():.2g}"


def tokens(lengths: NDArray[np.int64], step: int) -> float:
    """Return the tokens computed in batches of fixed shape, relative to length-sorted ones.

    Args:
        lengths: the texts' numbers of tokens.
        step: what lengths are rounded up to a multiple of; 1 is what the builder does.
    """
    in_order = np.sort(lengths)
    firsts = range(0, len(lengths), ROWS)
    peer = sum(in_order[n : n + ROWS].max() * len(in_order[n : n + ROWS]) for n in firsts)
    widths, rows = np.unique(-(-lengths // step) * step, return_counts=True)
    return float((-(-rows // ROWS) * ROWS * widths).sum() / peer)


def count_tokens(encoder: str, texts: list[str]) -> Iterator[str]:
    """Yield lines of a table: what filling the last batch of every length costs."""
    spec = EncoderSpec(encoder, max_length=LENGTH)
    tokenise = load_encoder(spec, find_encoder(spec), Path()).tokenise
    lengths = np.array([len(ids) for ids in tokenise(texts)])
    yield "| texts | one length a batch (ours) | lengths rounded up to 4 |"
    yield "|---:|---:|---:|"
    for count in sorted({len(texts), 20_000, 100_000, 500_000}):
        drawn = np.resize(lengths, count)
        yield f"| {count:,} | {tokens(drawn, 1):.3f} | {tokens(drawn, 4):.3f} |"


def encoders(args: Any, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and folders of what is measured."""
    if not args.encoder:
        make_distilbert(folder / "distilbert", read_texts(args.texts))
        yield "DistilBERT's shape, untrained", str(folder / "distilbert")
    for encoder in args.encoder:
        yield Path(encoder).name, encoder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=4000)
    parser.add_argument("--encoder", action="append", default=[], help="a folder; may be repeated")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        way, encoder, out = args.work
        os.sched_setaffinity(
            0, sorted(os.sched_getaffinity(0))[: int(os.environ["OMP_NUM_THREADS"])]
        )
        work(way, encoder, args.texts, Path(out))
        return

    source = "real queries" if REAL.exists() else "generated queries"
    print(
        f"{args.texts:,} {source}, batches of {ROWS}, {args.threads} threads, best of "
        f"{args.repeats}\n"
    )
    speed = [
        "| encoder | way | texts/s | CPU ms a text | CPU of length-sorted |",
        "|---|---|---:|---:|---:|",
    ]
    noise = ["| encoder | against | rows that differ | largest difference |", "|---|---|---:|---:|"]
    with tempfile.TemporaryDirectory() as name:
        for label, encoder in encoders(args, Path(name)):
            times: dict[str, Taken] = {}
            found: dict[str, Vectors] = {}
            for _ in range(args.repeats):
                for way in ("length-sorted", "shuffled", "ours"):
                    found[way], took = embed(way, encoder, args.threads, args, Path(name))
                    times[way] = Taken(*map(min, took, times.get(way, took)))
            for way, took in times.items():
                speed.append(
                    f"| {label} | {way} | {args.texts / took.clock:,.0f} "
                    f"| {1000 * took.cpu / args.texts:.2f} "
                    f"| {took.cpu / times['length-sorted'].cpu:.2f} |"
                )
            found["one thread"] = embed("ours", encoder, 1, args, Path(name))[0]
            found["a third of the texts"] = embed("subset", encoder, 2, args, Path(name))[0]
            reference = found.pop("ours")
            for way, vectors in found.items():
                share, most = compare(vectors, reference)
                noise.append(f"| {label} | {way} | {share} | {most} |")
            costs = list(count_tokens(encoder, read_texts(args.texts)))
    texts, start = read_texts(args.texts), taken()
    term_vectors(texts)
    took = taken(*start)
    cpu = 1000 * took.cpu / args.texts
    speed.append(f"| terms, no model | ours | {args.texts / took.clock:,.0f} | {cpu:.2f} | |")
    print("\n".join([*speed, "", *noise, "", *costs]))


if __name__ == "__main__":
    main()
