"""Mutate run files and read them: no traceback, and no score that is silently wrong.

Every mutated file must either stop with findings, and then the naive evaluator must call it
malformed too, or give the naive evaluator's scores.

``scripts/bench fuzz_runs [--count 200000] [--seed 0]`` prints a summary. For a failing input, it
writes ``fuzz-failure.run`` and ends with 1.
"""

from __future__ import annotations

import argparse
import gzip
import random
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.support.naive_evaluator import evaluate
from msshift_bench.evaluation.settings import parse_measure
from msshift_bench.runs import Judgements, judge_run, validate_run

QRELS = {
    "q1": {"d1": 1, "d3": 2, "d9": 1},
    "q2": {"d2": 1},
    "21": {"12345678901": 3, "1": 1},
    "q4": {"d0": 0},
    "q5": {"d1": 1},
}
JUDGEMENTS = Judgements.from_qrels(QRELS)
POLICIES = ("trec", "rank", "doc-id-ascending")
WORDS = [b"nan", b"inf", b"1e39", b"-1", b"0", b"1", b"2", b"0x1", b"1_0", b"+1", b"01", b"1e-3"]
WORDS += [b"", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\v", b"\f", b"\0", b"\x1c", b'"', b"#", b","]
WORDS += ["é".encode(), "\u00a0".encode(), "\ufeff".encode(), b"\xff", b"d1", b"q1", b"Q0", b"."]


def make_run(rng: random.Random) -> bytes:
    """Return a valid run: some queries, some documents, ties, either format, either gap."""
    lines = []
    three = rng.random() < 0.2
    for query in rng.sample([*QRELS, "x"], rng.randint(1, 5)):
        docs = [f"d{n}" for n in range(10)] + ["12345678901", "12345678902", "1", "é"]
        docs = rng.sample(docs, rng.randint(1, len(docs)))
        scores = sorted((rng.choice([0.5, 1, 2, 2.00000001, 3e-5]) for _ in docs), reverse=True)
        for rank, (doc, score) in enumerate(zip(docs, scores, strict=True), start=1):
            lines.append(f"{query} {doc} {rank}" if three else f"{query} Q0 {doc} {rank} {score} t")
    text = "\n".join([*lines, ""]).encode()
    return text.replace(b" ", b"\t") if rng.random() < 0.3 else text


def change_bytes(data: bytearray, rng: random.Random) -> None:
    """Flip a byte, delete some, or insert a word."""
    change, at = rng.randrange(3), rng.randrange(len(data))
    if change == 0:
        data[at] = rng.randrange(256)
    elif change == 1:
        del data[at : at + rng.choice([1, 1, 1, 2, 5, 50])]
    else:
        data[at:at] = rng.choice(WORDS)


def change_lines(data: bytearray, rng: random.Random) -> None:
    """Replace a field, move a line, repeat or drop it, or end lines in another way."""
    change = rng.choice(["field", "field", "field", "move", "move", "repeat", "drop", "end"])
    if change == "end":
        end = rng.choice([b"\r\n", b"\n", b" \n", b"\n\n"])
        data[:] = data.replace(b"\n", end, rng.choice([1, -1]))
        return
    lines = bytes(data).split(b"\n")
    at = rng.randrange(len(lines))
    line = lines[at]
    if change == "field":
        fields = line.split(b" ")
        column = rng.randrange(len(fields))
        other = rng.choice(lines).split(b" ")[column : column + 1]
        fields[column] = rng.choice([*other, *other, *other, rng.choice(WORDS)])
        lines[at] = b" ".join(fields)
    if change in ("move", "drop"):
        del lines[at]
    if change in ("move", "repeat"):
        lines.insert(rng.randrange(len(lines) + 1), line)
    data[:] = b"\n".join(lines)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Damage a run in a few places; sometimes compress it, and damage that."""
    mutated = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 6])):
        rng.choice((change_bytes, change_lines, change_lines))(mutated, rng)
        mutated = mutated or bytearray(b"\n")
    if rng.random() < 0.1:
        mutated = bytearray(gzip.compress(bytes(mutated), mtime=0))
        if rng.random() < 0.5:
            change_bytes(mutated, rng)
    return bytes(mutated)


def text_of(data: bytes) -> bytes | None:
    """Return the text of a file that may be compressed; `None` if it cannot be decompressed."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return None


def check(data: bytes, policy: str, path: Path) -> str:
    """Read one file; return the first finding's code, or ``scored``.

    Raises:
        AssertionError: if the package and the naive evaluator disagree.
    """
    path.write_bytes(data)
    text = text_of(data)
    expected = None if text is None else evaluate(text, QRELS, policy)
    result = validate_run(path, JUDGEMENTS, tie_policy=policy)
    if not result.ok:
        assert expected is None, f"stopped at what is not malformed: {result.errors[0]}"
        return result.errors[0].code
    assert expected is not None, "took for sound what is malformed"
    run = judge_run(path, JUDGEMENTS, tie_policy=policy)
    for name, values in expected.items():
        scores = parse_measure(name).per_query(run)
        assert np.allclose(scores, values, rtol=0, atol=1e-12), f"{name}: {scores} not {values}"
    return "scored"


def fuzz(count: int, seed: int, folder: Path) -> Counter[str]:
    """Check `count` mutated files; return the count of each outcome."""
    outcomes: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(seed * 1_000_000_007 + number)
        data = mutate(make_run(rng), rng)
        policy = rng.choice(POLICIES)
        try:
            outcomes[check(data, policy, folder / "fuzzed.run")] += 1
        except Exception as error:
            Path("fuzz-failure.run").write_bytes(data)
            raise AssertionError(
                f"input {number} of seed {seed} under {policy}: {data!r}"
            ) from error
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = fuzz(arguments.count, arguments.seed, Path(folder))
    for outcome, number in outcomes.most_common():
        print(f"{outcome:24}{number:>9,}")
    print(f"{'in all':24}{outcomes.total():>9,}")


if __name__ == "__main__":
    sys.exit(main())
