"""Files of variants of queries, and the test sets that they make."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.data import Variant, read_extra_tests, read_variants, write_variants
from msshift_bench.errors import CollectionError, DataError


def test_malformed_variants_are_named_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "typed.tsv"
    path.write_text("1\tcheap\ta\n1\tchaep\ta\n2\t \ta\n3\tx\ttwo words\n4\tx\ta#b\n5\tx\n")
    with pytest.raises(CollectionError) as caught:
        read_variants(path)
    for expected in (
        ":2: query '1' has a variant by a already",
        ":3: the variant of query '2' has no text",
        ":4: 'two words' is not a method's name",
        ":5: 'a#b' is not a method's name",
        ":6: 2 tab-separated fields where 3 were expected",
    ):
        assert expected in str(caught.value)
    path.write_text("")
    with pytest.raises(CollectionError, match="the file holds no variant"):
        read_variants(path)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "typed.tsv"
    with pytest.raises(DataError, match="the variant of query '1' holds a tab or a line break"):
        write_variants(path, [Variant("1", "cheap\nflights", "a")])
    odd = Variant("1", "che\x85ap \u2028 flights\x0c", "a")
    write_variants(path, [odd])
    assert read_variants(path) == (odd,)


def test_a_file_or_a_folder_of_variants_is_a_test_set(tmp_path: Path) -> None:
    path, folder = tmp_path / "typed.tsv", tmp_path / "dl19"
    write_variants(path, [Variant("1", "cheap", "a")])
    (of_file,) = read_extra_tests({"typed": path})
    assert (of_file.needs_shift, len(of_file.variants)) == (True, 1)
    assert repr(of_file) == "<TestSet typed: 0 queries, 1 variants>"
    folder.mkdir()
    (folder / "queries.tsv").write_text("2\twhat\n")
    (folder / "qrels.tsv").write_text("2 0 d 1\n")
    path.rename(folder / "variants.tsv")
    with pytest.raises(CollectionError, match=r"variants\.tsv:1: there is no query '1'"):
        read_extra_tests({"dl19": folder})
    write_variants(folder / "variants.tsv", [Variant("2", "waht", "a")])
    (of_folder,) = read_extra_tests({"dl19": folder})
    assert not of_folder.needs_shift
    assert {query: dict(docs) for query, docs in of_folder.judged.items()} == {
        "2": {"d": 1}, "2#a": {"d": 1},
    }  # fmt: skip
