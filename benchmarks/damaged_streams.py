"""Damaged and valid files of several streams in all four compressions, as runs and as qrels.

Each file has one stream or twenty, with one change: a bit flipped, bytes removed, added or
repeated, the end cut off, padding or garbage between two streams or after the last; or it is valid,
with the padding that its format allows. A file must be refused if `gzip -t`, `bzip2 -t`, `xz -t` or
`zstd -t` refuses it. Other files are refused, or give the bytes that the tool gives. Exit code 1
otherwise.

``scripts/bench damaged_streams [--count 300] [--seed 0]``
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import lzma
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msshift_bench.errors import DataError
from msshift_bench.plumbing.reading import open_stream
from msshift_bench.runs import Judgements, judge_run, read_qrels

JUDGEMENTS = Judgements.from_qrels({f"q{number}": {"d3": 1} for number in range(200)})
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0note"
TOOLS = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}
OUTCOMES = ("refused by both", "read whole", "refused by us only", "read although the tool refuses")
OUTCOMES += ("read, but not what the tool reads",)
WRONG = OUTCOMES[-2:]


def compress(name: str, data: bytes) -> bytes:
    """Return the bytes as one stream, with the checksum that the format's own tool adds."""
    if name == "zst":
        command = ["zstd", "-q", "-c", "--check"]
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout
    if name == "gz":
        return gzip.compress(data, mtime=0)
    return bz2.compress(data) if name == "bz2" else lzma.compress(data)


def texts(kind: str, streams: int) -> list[bytes]:
    """Return the texts of the streams: a run, or qrels, of 200 queries."""
    if kind == "runs":
        lines = [f"q{n} Q0 d{d} {d} {9 - d} t\n" for n in range(200) for d in range(1, 6)]
    else:
        lines = [f"q{n} 0 d{d} {d % 3}\n" for n in range(200) for d in range(1, 6)]
    size = len(lines) // streams
    return ["".join(lines[at : at + size]).encode() for at in range(0, len(lines), size)]


def flip_at(data: bytes, place: int, bit: int) -> bytes:
    """Return the bytes with one bit flipped."""
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def flipped(data: bytes, rng: random.Random) -> bytes:
    return flip_at(data, rng.randrange(len(data)), rng.randrange(8))


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(1, len(data))]


def left_out(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice([1, 1, 2, 7, 50]) :]


def put_in(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice([b"\0", bytes(4), rng.randbytes(3), b"BZh9"]) + data[at:]


def repeated(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[: at + 30] + data[at:]


DAMAGE: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(flipped, flipped, flipped, flipped),
    *(cut, cut, left_out, put_in, repeated),
)


def between(name: str, rng: random.Random) -> bytes:
    """Return bytes for between two streams or after the last: valid in some formats only."""
    kinds = [b"", b"", bytes(4), bytes(8), bytes(rng.randrange(1, 9)), b"x", rng.randbytes(9)]
    return rng.choice([*kinds, SKIPPABLE] if name == "zst" else kinds)


def make(name: str, streams: Sequence[bytes], rng: random.Random) -> bytes:
    """Return a file with one change, with bytes between its streams, or without a change."""
    how = rng.random()
    if how < 0.7:
        return rng.choice(DAMAGE)(b"".join(streams), rng)
    if how < 0.75:
        return b"".join(streams)
    place = rng.randrange(len(streams) + 1) if name == "zst" else rng.randrange(1, len(streams) + 1)
    return b"".join([*streams[:place], between(name, rng), *streams[place:]])


def by_tool(name: str, path: Path) -> bytes | None:
    """Return the bytes that the format's own tool gives; `None` if it refuses the file."""
    tool = [TOOLS[name], "-q"] if name == "zst" else [TOOLS[name]]
    with path.open("rb") as file:
        if subprocess.run([*tool, "-t"], stdin=file, capture_output=True, check=False).returncode:
            return None
    with path.open("rb") as file:
        return subprocess.run([*tool, "-dc"], stdin=file, capture_output=True, check=True).stdout


def parsed(kind: str, path: Path) -> object:
    """Return what our reader gives for a file, in a form that can be compared."""
    if kind == "qrels":
        return read_qrels(path)
    run = judge_run(path, JUDGEMENTS)
    columns = sorted(zip(*(column.tolist() for column in run.hits), strict=True))
    return run.report.lines, run.report.queries, columns


def outcome(name: str, kind: str, path: Path, plain: Path) -> str:
    """Read a file with our reader and with the tool; return one of `OUTCOMES`."""
    text = by_tool(name, path)
    try:
        found = parsed(kind, path)
    except DataError:
        return OUTCOMES[0] if text is None else OUTCOMES[2]
    if text is None:
        return OUTCOMES[3]
    with open_stream(path) as stream:
        same = stream.read() == text
    plain.write_bytes(text)
    return OUTCOMES[1] if same and found == parsed(kind, plain) else OUTCOMES[4]


def try_all(name: str, count: int, seed: int, folder: Path) -> Counter[str]:
    """Make `count` files of one format, half of them runs; return the counts of `OUTCOMES`."""
    outcomes: Counter[str] = Counter()
    streams = {
        (kind, number): [compress(name, text) for text in texts(kind, number)]
        for kind in ("runs", "qrels")
        for number in (1, 20)
    }
    for number in range(count):
        rng = random.Random(f"{seed} {name} {number}")
        kind = ("runs", "qrels")[number % 2]
        data = make(name, streams[kind, rng.choice([1, 20, 20])], rng)
        path = folder / "file"
        path.write_bytes(data)
        found = outcome(name, kind, path, folder / "plain")
        outcomes[found] += 1
        if found in WRONG:
            kept = Path(f"damaged-{seed}-{number}.{name}")
            kept.write_bytes(data)
            print(f"{found}: {kind} {number}, kept as {kept}", file=sys.stderr)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="files of each format")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    missing = [tool for tool in TOOLS.values() if shutil.which(tool) is None]
    if missing:
        sys.exit(f"these tools are needed to compare with: {', '.join(missing)}")
    total: Counter[str] = Counter()
    print("| format | " + " | ".join(OUTCOMES) + " |")
    print("|---|" + "---:|" * len(OUTCOMES))
    with tempfile.TemporaryDirectory() as folder:
        for name in TOOLS:
            found = try_all(name, arguments.count, arguments.seed, Path(folder))
            print(
                f"| {name} | " + " | ".join(str(found[one]) for one in OUTCOMES) + " |", flush=True
            )
            total += found
    if any(total[one] for one in WRONG):
        sys.exit(1)


if __name__ == "__main__":
    main()
