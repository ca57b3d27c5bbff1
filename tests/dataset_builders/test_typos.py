"""Typing errors: what the rule makes, how edits are told, and that both agree with upstream's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from msshift_bench.data import Variant
from msshift_bench.dataset_builders import typos
from tests.support.golden import Golden

SOME_WORDS = ("the", "of", "what", "is", "cat", "aaa", "Bbb", "don't", "a-b", "x", "2019", "u.s.a")
words = st.sampled_from(SOME_WORDS) | st.text(st.sampled_from("abetz'-_*@.?"), min_size=1)


@settings(max_examples=150)
@given(st.lists(words, min_size=1, max_size=6).map(" ".join), st.text(max_size=5))
@example("aaa", "1")
@example("what is the", "1")
def test_one_edit_in_one_word_that_is_long_enough_and_no_stop_word(text: str, key: str) -> None:
    variant = typos.misspell(text, typos.KeyedDraws(key))
    assert variant == typos.misspell(text, typos.KeyedDraws(key))
    edit = typos.find_edit(text, variant)
    if not typos.words_to_misspell(text):
        assert variant == text
        return
    assert edit.kind in typos.EDITS
    word = typos.words_to_misspell(" ".join(text.split()))[edit.word]
    assert len(word[1]) >= 3
    assert word[1].lower() not in ("the", "what", "don't")
    # What stands before and behind the word stays as it is.
    assert variant.startswith(text[: text.index(word[1])])
    assert variant.endswith(word.string[word.end(1) :])
    assert edit.place < len(word[1]) + (edit.kind == "insert")
    assert (edit.letter in typos.LETTERS) or edit.kind in ("insert", "substitute", "neighbour")


def test_which_words_are_edited() -> None:
    text = "What's the U.S.A. _____ 'Bethel at_home to 2019?"
    edited = [word[1] for word in typos.words_to_misspell(text)]
    assert edited == ["What's", "Bethel", "at_home", "2019"]


@pytest.mark.parametrize(
    ("text", "variant", "edit"),
    [
        ("cheap flight", "Cheap  flight ", typos.Edit("unchanged")),
        ("cheap flight", "hceap flight", typos.Edit("swap", 0, 0)),
        ("cheap flight", "cheap flght", typos.Edit("delete", 2, 1)),
        ("the hello", "the helo", typos.Edit("delete", 3, 0)),
        ("cheap flight", "cheap fllight", typos.Edit("insert", 2, 1, "l")),
        ("cheap flight", "cheapp flight", typos.Edit("insert", 5, 0, "p")),
        ("cheap flight", "cheap flught", typos.Edit("neighbour", 2, 1, "u")),
        ("cheap flight", "cheap flxght", typos.Edit("substitute", 2, 1, "x")),
        ("the flight", "thx flight", typos.Edit("other")),
        ("cheap flight", "cheep flught", typos.Edit("other")),
    ],
)
def test_edits_are_told_from_the_texts(text: str, variant: str, edit: typos.Edit) -> None:
    assert typos.find_edit(text, variant) == edit


def test_neighbouring_keys_are_letters_and_no_letter_is_its_own() -> None:
    assert "".join(typos.NEIGHBOURS) == "qwertyuiopasdfghjklzxcvbnm"
    assert all(
        set(beside) <= set(typos.LETTERS) - {key} for key, beside in typos.NEIGHBOURS.items()
    )


def test_a_variant_depends_on_seed_copy_and_query_alone() -> None:
    queries = {str(n): f"cheap flights number {n} to rome" for n in range(40)}
    made = typos.make_variants("typos", queries.items(), copies=2)
    assert made[:40] == typos.make_variants("typos", reversed(queries.items()))
    assert {one.method for one in made} == {"typos-1", "typos-2"}
    assert sum(a.text == b.text for a, b in zip(made[:40], made[40:], strict=True)) < 10
    few = {query_id: queries[query_id] for query_id in ("7", "31")}
    assert set(typos.make_variants("typos", few.items(), copies=2)) < set(made)
    assert made[:40] != typos.make_variants("typos", queries.items(), seed=1)


def test_a_comparison_finds_edits_of_another_rule_and_none_of_the_same() -> None:
    texts = {str(n): f"cheap flights number {n} to rome" for n in range(300)}
    first = typos.make_variants("typos", texts.items())
    same = typos.make_variants("typos", texts.items(), seed=1)
    assert all(test.p > 0.01 for test in typos.compare_edits(texts, first, same))
    clipped = [Variant(i, text.replace("cheap", "chea"), "clip") for i, text in texts.items()]
    found = {test.statistic: test for test in typos.compare_edits(texts, first, clipped)}
    assert all(found[statistic].p < 1e-9 for statistic in ("kind", "place", "word"))
    assert (found["kind"].second, found["place"].second) == ({"delete": 300}, {"4": 300})
    assert found["letter"].p == 1  # No letter was typed.
    # By hand: two files of 30 edits, 20 and 10 swaps.
    edits = {"swap": "hceap", "delete": "cheap"[1:]}

    def side(swaps: int) -> list[Variant]:
        kinds = ["swap"] * swaps + ["delete"] * (30 - swaps)
        return [Variant("q", edits[kind], str(n)) for n, kind in enumerate(kinds)]

    test = typos.compare_edits({"q": "cheap"}, side(20), side(10))[0]
    assert (test.chi_squared, test.df) == (pytest.approx(4 * 25 / 15), 1)
    assert test.p == pytest.approx(0.00982, abs=1e-5)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout as upstream lays it out, with two variants of one set of queries."""
    folder = tmp_path / "data" / "dl2019"
    folder.mkdir(parents=True)
    variants = {"": "cheap", ".typo1": "chep", ".typo2": "cheap", ".typo10": "cyeap"}
    for name, text in variants.items():
        (folder / f"queries.dl2019{name}.tsv").write_text(f"1\t{text} flights\n2\twhat is\n")
    (folder / "queries.dl2019.typo1.ms.tsv").write_text("corrected\n")
    return folder


def test_published_variants_are_imported(checkout: Path, tmp_path: Path) -> None:
    texts, variants = typos.import_variants(tmp_path, "dl2019")
    assert texts == {"1": "cheap flights", "2": "what is"}
    assert [one.method for one in variants] == ["typo1"] * 2 + ["typo2"] * 2 + ["typo10"] * 2
    counts = typos.describe_edits(texts, variants).facts["edits"]
    assert counts["typo1"] == dict.fromkeys(typos.EDIT_KINDS, 0) | {"delete": 1, "unchanged": 1}
    assert counts["typo2"] == dict.fromkeys(typos.EDIT_KINDS, 0) | {"unchanged": 2}
    copy = tmp_path / "older" / "queries.dl2019.typo1.tsv"
    copy.parent.mkdir()
    copy.write_bytes((checkout / copy.name).read_bytes())
    assert typos.import_variants(tmp_path, "dl2019") == (texts, variants)


def test_what_cannot_be_made_or_imported(checkout: Path, tmp_path: Path, golden: Golden) -> None:
    odd, older = tmp_path / "odd", tmp_path / "data" / "older"
    odd.mkdir()
    older.mkdir()
    for name, text in (("", "1\tcheap\n2\twhat is\n"), (".typo2", "1\tcheap\n3\tother\n")):
        (odd / f"queries.dl2019{name}.tsv").write_text(text)
    (older / "queries.dl2019.typo1.tsv").write_text("1\tchaep flights\n2\twhat is\n")
    refusals = {
        "no shift": partial(typos.make_variants, "typo", []),
        "no copies": partial(typos.make_variants, "typos", [], copies=0),
        "no set": partial(typos.import_variants, checkout, "dl19"),
        "no checkout": partial(typos.import_variants, tmp_path / "nowhere", "dl2019"),
        "two that differ": partial(typos.import_variants, tmp_path / "data", "dl2019"),
        "other queries": partial(typos.import_variants, odd, "dl2019"),
    }
    golden.check_refusals("no-typos.txt", refusals)


@pytest.mark.realdata
@pytest.mark.extended
def test_ours_differ_from_the_published_ones_in_no_statistic(real_data: Path) -> None:
    for name, count in (("dl2019", 43), ("dl2020", 54), ("dev.small", 6980)):
        texts, published = typos.import_variants(real_data / "query-typos", name)
        assert (len(texts), len(published)) == (count, 10 * count)
    chosen = [one for one in published if one.method in ("typo1", "typo10")]
    counts = typos.describe_edits(texts, chosen).facts["edits"]
    unchanged = {method: found["unchanged"] for method, found in counts.items()}
    assert unchanged == {"typo1": 5, "typo10": 5}
    assert sum(found["other"] for found in counts.values()) == 1
    assert all(counts["typo1"].values())
    ours = typos.make_variants("typos", texts.items(), copies=2)
    tests = typos.compare_edits(texts, ours, published[: 2 * 6980])
    assert [test.p > 0.05 / len(tests) for test in tests] == [True] * 4
