"""Malformed run files, each with its first finding; ``tests/runs/test_malformed.py`` reads them."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import lzma
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

QRELS = {"1": {"d1": 1, "d4": 2}, "2": {"d2": 1}, "3": {"d3": 1}, "4": {}}
"""The judgements that the files are read with."""

GOOD = (
    "1 Q0 d5 1 9.5 tag\n"
    "1 Q0 d1 2 9.25 tag\n"
    "1 Q0 d6 3 8 tag\n"
    "2 Q0 d2 1 7.5 tag\n"
    "2 Q0 d7 2 -1e-3 tag\n"
    "3 Q0 d8 1 0 tag\n"
)


class Malformed(NamedTuple):
    """One malformed file.

    Attributes:
        name: the file's name, which describes its error.
        content: its bytes.
        code: the first finding's code.
        line: the first finding's line; 0 for the complete file.
        severity: ``"error"``, or ``"warning"`` if the file can be evaluated.
        tie_policy: the policy under which it is read.
        run_format: the format that is named.
    """

    name: str
    content: bytes
    code: str
    line: int
    severity: str = "error"
    tie_policy: str = "trec"
    run_format: str = "auto"


def changed(line: int, old: str, new: str) -> bytes:
    """Return the good run with `old` replaced by `new` in one line, which must contain it."""
    lines = GOOD.splitlines(keepends=True)
    if old not in lines[line - 1]:
        raise ValueError(f"line {line} does not hold {old!r}")
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    return "".join(lines).encode()


def inserted(line: int, new: str) -> bytes:
    """Return the good run with a new line before line `line`."""
    lines = GOOD.splitlines(keepends=True)
    return "".join([*lines[: line - 1], new + "\n", *lines[line - 1 :]]).encode()


def ranked(*ranks: int) -> bytes:
    """Return three-column lines of query 1 with these ranks."""
    return "".join(f"1\td{number}\t{rank}\n" for number, rank in enumerate(ranks)).encode()


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def parquet(**changes: list | pa.Array | None) -> bytes:
    """Return a Parquet run with some columns changed, or removed where the change is `None`."""
    columns = {"query_id": ["1", "1", "2"], "doc_id": ["d1", "d2", "d2"], "score": [2.0, 1.0, 3.0]}
    table = {name: values for name, values in {**columns, **changes}.items() if values is not None}
    sink = io.BytesIO()
    pq.write_table(pa.table(table), sink)
    return sink.getvalue()


def field_counts() -> Iterator[Malformed]:
    """Lines with too few or too many fields."""
    cases = {
        "no-tag": (changed(2, " tag", ""), 2),
        "tag-of-two-words": (changed(3, "tag", "my tag"), 3),
        "no-q0": (changed(1, "Q0 ", ""), 1),
        "doc-id-with-space": (changed(4, "d2", "d 2"), 4),
        "doc-id-with-vertical-tab": (changed(4, "d2", "d\v2"), 4),
        "one-field": (inserted(2, "1"), 2),
        "blank-line-inside": (inserted(3, ""), 3),
        "white-line-inside": (inserted(3, " \t "), 3),
        "comment": (inserted(1, "# made by my system"), 1),
        "comma-separated": (GOOD.replace(" ", ",").encode(), 1),
        "no-break-space": (changed(5, "2 Q0", "2\u00a0Q0"), 5),
        "carriage-returns-alone": (GOOD.replace("\n", "\r").encode(), 1),
        "two-lines-in-one": (GOOD.replace("tag\n2 Q0 d2", "tag2 Q0 d2").encode(), 3),
        "three-among-six": (inserted(4, "1 d9 4"), 4),
        "six-among-three": (ranked(1, 2) + b"1 Q0 d9 3 1 tag\n", 3),
        "four-of-three": (ranked(1, 2) + b"1\td2\t3\t0.5\n", 3),
        "after-crlf": (changed(6, " tag", "").replace(b"\n", b"\r\n"), 6),
        "after-byte-order-mark": (b"\xef\xbb\xbf" + changed(2, " tag", ""), 2),
        "last-line-cut-off": (GOOD.encode()[:-9], 6),
    }
    for name, (content, line) in cases.items():
        yield Malformed(name, content, "field-count", line)


def scores() -> Iterator[Malformed]:
    """Scores that are no numbers, or cannot be compared."""
    for score in ("nan", "NaN", "-nan"):
        yield Malformed(f"score-{score}", changed(3, " 8 ", f" {score} "), "score-nan", 3)
    for score in ("inf", "-Infinity", "1e39", "-1e300", "1e999"):
        yield Malformed(f"score-{score}", changed(5, "-1e-3", score), "score-infinite", 5)
    wrong = ["high", "9,5", "1_000", "0x1p3", "None", "1.2.3", "--5", "1e", "٣", "9.5f", "1/2"]
    for number, score in enumerate([*wrong, '"9.5"', "tensor(9.5)", "nan?"]):
        content = changed(1, "9.5", score)
        yield Malformed(f"score-not-number-{number}", content, "score-not-number", 1)


def ranks() -> Iterator[Malformed]:
    """Ranks that are no ranks, and unusual rankings."""
    for rank in ("x", "1.5", "-1", "1_0", "0x2", "1" + "0" * 30, "٢"):
        content = changed(2, " 2 ", f" {rank} ")
        yield Malformed(f"rank-{rank[:5]}", content, "rank-not-integer", 2)
    swapped = b"1 Q0 d1 9.5 1 tag\n1 Q0 d2 8.5 2 tag\n"
    yield Malformed("rank-and-score-swapped", swapped, "rank-not-integer", 1)
    yield Malformed("score-for-rank", b"1\td1\t9.5\n", "rank-not-integer", 1, run_format="msmarco")
    header = inserted(1, "query_id Q0 doc_id rank score tag")
    yield Malformed("header-line", header, "rank-not-integer", 1)

    yield Malformed("ranks-from-0", ranked(0, 1, 2), "rank-zero-based", 1, "warning")
    yield Malformed("ranks-from-0-matter", ranked(0, 1, 2), "rank-zero-based", 1, tie_policy="rank")
    yield Malformed("ranks-all-1", changed(2, " 2 ", " 1 "), "rank-repeated", 2, "warning")
    decimals = changed(2, " 2 ", " 2.0 ").replace(b" 3 8 ", b" 3.0 8 ")
    yield Malformed("ranks-decimal", decimals, "rank-decimal", 2, "warning")
    for name, content, code, line, severity in (
        ("rank-repeated-matters", ranked(1, 2, 2), "rank-repeated", 3, "error"),
        ("ranks-from-2", ranked(2, 3), "rank-gap", 1, "warning"),
        ("rank-left-out", ranked(1, 2, 4), "rank-gap", 3, "warning"),
        ("ranks-descend", ranked(3, 2, 1), "rank-order", 2, "warning"),
    ):
        policy = "rank" if severity == "error" else "trec"
        yield Malformed(name, content, code, line, severity, policy, "msmarco")
        yield Malformed(f"{name}-ambiguous", content, "format-ambiguous", 1)
    rising = changed(3, " 8 ", " 9.3 ")
    yield Malformed("score-rises", rising, "rank-score-disagree", 3, "warning")
    distances = b"1 Q0 d1 1 0.1 tag\n1 Q0 d2 2 0.2 tag\n"
    yield Malformed("scores-are-distances", distances, "rank-score-disagree", 2, "warning")


def documents_and_queries() -> Iterator[Malformed]:
    """Documents that occur twice, and ids that do not fit the test set."""
    good = GOOD.encode()
    cases = {
        "twice-in-a-row": (changed(2, "d1", "d5"), 2),
        "twice-apart": (changed(3, "d6", "d5"), 3),
        "twice-far-apart": (good + b"1 Q0 d5 4 1 tag\n", 7),
        "file-twice": (good + good, 7),
        "twice-with-crlf": (changed(3, "d6", "d1").replace(b"\n", b"\r\n"), 3),
        "twice-with-tabs": (changed(3, "d6", "d1").replace(b" ", b"\t"), 3),
        "twice-with-gaps": (changed(3, "d6", "d1").replace(b" ", b"  "), 3),
        "twice-in-three-columns": (ranked(1, 2) + b"1\td0\t3\n", 3),
    }
    for name, (content, line) in cases.items():
        yield Malformed(name, content, "duplicate-document", line)
    unknown = GOOD.encode() + b"9 Q0 d1 1 1 tag\n"
    yield Malformed("unknown-query", unknown, "unknown-query", 7, "warning")
    unjudged = GOOD.encode() + b"4 Q0 d1 1 1 tag\n"
    yield Malformed("query-without-qrels", unjudged, "query-without-qrels", 7, "warning")
    for name, line, old, new, code in (
        ("doc-id-with-zeros", 3, "d6", "006", "id-leading-zeros"),
        ("doc-id-decimal", 3, "d6", "6.0", "id-decimal"),
        ("query-id-with-zeros", 6, "3", "03", "id-leading-zeros"),
        ("query-id-decimal", 6, "3", "3.0", "id-decimal"),
    ):
        yield Malformed(name, changed(line, old, new), code, line, "warning")


def encodings() -> Iterator[Malformed]:
    """Bytes that are not UTF-8 text."""
    good = GOOD.encode()
    for name, wrong in (
        ("latin-1", b"d\xe9"),
        ("cut-off-character", b"d\xe2\x82"),
        ("surrogate", b"d\xed\xa0\x80"),
        ("overlong", b"d\xc0\xaf"),
        ("byte-ff", b"\xff"),
    ):
        content = good.replace(b"d2", wrong)
        yield Malformed(name, content, "not-utf8", 4)
    yield Malformed("utf-16", GOOD.encode("utf-16"), "binary-input", 1)
    yield Malformed("utf-16-without-mark", GOOD.encode("utf-16-le"), "binary-input", 1)
    yield Malformed("nul-byte", good.replace(b"d2", b"d\0"), "binary-input", 4)
    yield Malformed("png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", "binary-input", 3)
    yield Malformed("zip", b"PK\x03\x04\x14\0\0\0\x08\0", "binary-input", 1)
    yield Malformed("one-endless-line", b"x" * (5 << 20), "binary-input", 1)


def empty_and_damaged() -> Iterator[Malformed]:
    """Empty and damaged files."""
    good = GOOD.encode()
    gz = functools.partial(gzip.compress, mtime=0)
    compressors = {"gz": gz, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd}
    yield Malformed("empty", b"", "empty-file", 0)
    yield Malformed("blank-lines-only", b"\n \r\n\n", "empty-file", 0)
    yield Malformed("byte-order-mark-only", b"\xef\xbb\xbf", "empty-file", 0)
    for suffix, compress in compressors.items():
        yield Malformed(f"empty.{suffix}", compress(b""), "empty-file", 0)
        cut = compress(good)[:-5]
        yield Malformed(f"cut-off.{suffix}", cut, "truncated-input", 0)
        damaged = bytearray(compress(good))
        # Arrow's zstd writes no checksum, so that only damage to the header can be seen.
        damaged[4 if suffix == "zst" else len(damaged) // 2] ^= 0xFF
        yield Malformed(f"damaged.{suffix}", bytes(damaged), "truncated-input", 0)
    yield Malformed("garbage-after.gz", gz(good) + b"xyz", "truncated-input", 0)
    whole = parquet()
    yield Malformed("cut-off.parquet", whole[:-8], "truncated-input", 0)
    yield Malformed("nothing-but-magic.parquet", b"PAR1", "truncated-input", 0)


def formats() -> Iterator[Malformed]:
    """Numbers of which nobody knows whether they are ranks, and JSON of another nesting."""
    for name, content in {
        "one-number": b"1\td1\t7\n",
        "one-line-per-query": b"1\td1\t1\n2\td1\t1\n",
        "ranks-and-scores": ranked(1, 2) + b"2\td1\t9.5\n2\td2\t8\n",
        "ranks-and-falling": ranked(1, 2) + b"2\td1\t30\n2\td2\t10\n",
    }.items():
        yield Malformed(name, content, "format-ambiguous", 1)
    numbers = [*range(1, 1_001)]
    for name, begin, end in (
        ("scores-after-ranks", numbers, ranked(30, 10)),
        ("ranks-after-scores", [3 * rank for rank in reversed(numbers)], ranked(1, 2)),
    ):
        lines = [f"1{query}\td{rank:0100}\t{rank}\n" for query in range(20) for rank in begin]
        yield Malformed(name, "".join(lines).encode() + end, "format-contradicted", 20_001)
    texts = {
        "json-lines": ('{"query_id": "1", "doc_id": "d1", "score": 1.0}\n', "wrong-nesting", 1),
        "json-cut-off": ('{"1": {"d1":\n1.0, "d2"', "not-json", 2),
        "json-key-twice": ('{"1": {"d1": 1}, "1": {"d2": 1}}', "duplicate-key", 0),
        "json-two-runs": ('{"s": {"a": {"1": {"d1": 1}}, "b": {}}}', "several-runs", 0),
    }
    for name, (text, code, line) in texts.items():
        yield Malformed(name, text.encode(), code, line)


def repeated(text: str) -> pa.Array:
    """Return a column of one text, which the file contains once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * 1100), pa.array([text]))


def parquet_files() -> Iterator[Malformed]:
    """Parquet files with the wrong columns or values."""
    for name, changes, code, line in (
        ("no-score", {"score": None}, "unreadable-parquet", 0),
        ("no-doc-id", {"doc_id": None}, "unreadable-parquet", 0),
        ("no-rows", {"query_id": [], "doc_id": [], "score": []}, "empty-file", 0),
        ("nan", {"score": [1.0, float("nan"), 1.0]}, "score-nan", 2),
        ("null-score", {"score": [1.0, 0.5, None]}, "score-not-number", 3),
        ("infinite", {"score": [1e39, 0.5, 1.0]}, "score-infinite", 1),
        ("text-for-score", {"score": ["a", "b", "c"]}, "score-not-number", 1),
        ("null-id", {"doc_id": ["d1", None, "d2"]}, "id-invalid", 2),
        ("empty-id", {"query_id": ["1", "", "2"]}, "id-invalid", 2),
        ("empty-doc-id", {"doc_id": ["d1", "", "d2"]}, "id-invalid", 2),
        ("float-ids", {"query_id": [1.0, 1.0, 2.0]}, "id-invalid", 1),
        ("twice", {"doc_id": ["d1", "d1", "d2"]}, "duplicate-document", 2),
        (
            "long-ids",
            {"query_id": repeated("x" * (1 << 20)), "doc_id": repeated("d"), "score": [1.0] * 1100},
            "parquet-too-large",
            0,
        ),
        ("rank-half", {"rank": [1.5, 2.0, 1.0]}, "rank-not-integer", 1),
        ("null-rank", {"rank": [1, 2, None]}, "rank-not-integer", 3),
    ):
        yield Malformed(f"{name}.parquet", parquet(**changes), code, line)


def corpus() -> list[Malformed]:
    """Return every malformed file."""
    return [
        *field_counts(),
        *scores(),
        *ranks(),
        *documents_and_queries(),
        *encodings(),
        *empty_and_damaged(),
        *parquet_files(),
        *formats(),
    ]
