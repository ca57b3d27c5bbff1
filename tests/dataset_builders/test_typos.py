"""Typing errors: what the rule makes, how edits are told, and that both agree with upstream's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from msshift_bench.dataset_builders import typos
from tests.support.refusals import check_refusals

SOME_WORDS = ("the", "of", "what", "is", "cat", "aaa", "Bbb", "don't", "a-b", "x", "2019", "u.s.a")
words = st.sampled_from(SOME_WORDS) | st.text(st.sampled_from("abetz'-_*@.?"), min_size=1)


@settings(max_examples=150)
@given(st.lists(words, min_size=1, max_size=6).map(" ".join), st.text(max_size=5))
@example("aaa", "1")
@example("what is the", "1")
def test_one_edit_in_one_word_that_is_long_enough_and_no_stop_word(text: str, key: str) -> None:
    variant = typos.misspell(text, typos.KeyedDraws(key))
    assert variant == typos.misspell(text, typos.KeyedDraws(key))
    words = typos.words_to_misspell(text)
    if not words:
        assert variant == text
        return
    kind = typos.find_edit(text, variant)
    assert kind in typos.EDITS
    # The text before and behind one of the words is unchanged, and the word has one edit.
    before_and_behind = [(text[: word.start(1)], text[word.end(1) :]) for word in words]
    edited = [
        variant[len(before) : len(variant) - len(behind)]
        for before, behind in before_and_behind
        if variant.startswith(before) and variant.endswith(behind)
    ]
    assert edited
    longer = {"insert": 1, "delete": -1}.get(kind, 0)
    assert len(variant) == len(text) + longer
    assert all(len(word[1]) >= 3 for word in words)
    assert not {word[1].lower() for word in words} & {"the", "what", "don't"}


def test_which_words_are_edited() -> None:
    text = "What's the U.S.A. _____ 'Bethel at_home to 2019?"
    edited = [word[1] for word in typos.words_to_misspell(text)]
    assert edited == ["What's", "Bethel", "at_home", "2019"]


@pytest.mark.parametrize(
    ("text", "variant", "kind"),
    [
        ("cheap flight", "Cheap  flight ", "unchanged"),
        ("cheap flight", "hceap flight", "swap"),
        ("cheap flight", "cheap flght", "delete"),
        ("the hello", "the helo", "delete"),
        ("cheap flight", "cheap fllight", "insert"),
        ("cheap flight", "cheapp flight", "insert"),
        ("cheap flight", "cheap flught", "neighbour"),
        ("cheap flight", "cheap flxght", "substitute"),
        ("the flight", "thx flight", "other"),
        ("cheap flight", "cheep flught", "other"),
    ],
)
def test_edits_are_told_from_the_texts(text: str, variant: str, kind: str) -> None:
    assert typos.find_edit(text, variant) == kind


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


def test_what_cannot_be_made_or_imported(checkout: Path, tmp_path: Path) -> None:
    odd, older = tmp_path / "odd", tmp_path / "data" / "older"
    odd.mkdir()
    older.mkdir()
    for name, text in (("", "1\tcheap\n2\twhat is\n"), (".typo2", "1\tcheap\n3\tother\n")):
        (odd / f"queries.dl2019{name}.tsv").write_text(text)
    (older / "queries.dl2019.typo1.tsv").write_text("1\tchaep flights\n2\twhat is\n")
    refusals = {
        "UnknownNameError 'typo'": partial(typos.make_variants, "typo", []),
        "UsageError 0 1": partial(typos.make_variants, "typos", [], copies=0),
        "UnknownNameError 'dl19'": partial(typos.import_variants, checkout, "dl19"),
        "NotFoundError nowhere": partial(typos.import_variants, tmp_path / "nowhere", "dl2019"),
        "DataError queries.dl2019.typo1.tsv": partial(
            typos.import_variants, tmp_path / "data", "dl2019"
        ),
        "CollectionError [other-queries] queries.dl2019.typo2.tsv 1": partial(
            typos.import_variants, odd, "dl2019"
        ),
    }
    check_refusals(refusals)


@pytest.mark.realdata
@pytest.mark.extended
def test_published_variants_have_one_edit_each(real_data: Path) -> None:
    for name, count in (("dl2019", 43), ("dl2020", 54), ("dev.small", 6980)):
        texts, published = typos.import_variants(real_data / "query-typos", name)
        assert (len(texts), len(published)) == (count, 10 * count)
    chosen = [one for one in published if one.method in ("typo1", "typo10")]
    counts = typos.describe_edits(texts, chosen).facts["edits"]
    unchanged = {method: found["unchanged"] for method, found in counts.items()}
    assert unchanged == {"typo1": 5, "typo10": 5}
    assert sum(found["other"] for found in counts.values()) == 1
    assert all(counts["typo1"].values())
