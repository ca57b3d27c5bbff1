from __future__ import annotations

import hashlib
import json

import pytest

from msshift_bench.data.digests import rows_digest
from msshift_bench.records import Row

ROWS = [
    Row("1", 'what is a "gondola"', "wha", ("d1", "d2"), (1, 3)),
    Row("2", "tab\t, newline\n, NUL\0, DEL\x7f, back\\slash, slash/", "how", (), ()),
    Row("3", "caf\N{LATIN SMALL LETTER E WITH ACUTE} \u2028 \U0001f6f6", "who", ("é",), (2,)),
    Row("4", "", "others", ("",), (1,)),
]


def reference(rows: list[tuple[object, ...]]) -> str:
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def test_the_canonical_form_of_a_row_is_json() -> None:
    splits = ["train", "test", "test", "validation"]
    assert rows_digest(ROWS) == reference(list(ROWS))
    with_splits: list[tuple[object, ...]] = [(*r, s) for r, s in zip(ROWS, splits, strict=True)]
    assert rows_digest(ROWS, splits) == reference(with_splits)


def test_every_row_needs_a_split_where_there_are_any() -> None:
    with pytest.raises(ValueError, match="zip"):
        rows_digest(ROWS, ["train"])
