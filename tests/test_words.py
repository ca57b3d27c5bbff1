"""How texts are divided into words: rules for any text, and other tools on the same texts."""

# ruff: noqa: RUF001 (full-width letters)

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given, strategies as st

from msshift_bench.errors import UnknownNameError
from msshift_bench.search import Bm25Parameters
from msshift_bench.words import WORDS, divide, find_words, words_fact

DIVIDING = pytest.mark.parametrize("words", ["characters", "unicode"])
SCRIPTS = "ab9_ 北京天気のグ々〇กรุงเทพខ្មែရန်ह िन्दी한글é\u0301,.?-'\n"
TEXTS = st.text() | st.text(st.sampled_from(SCRIPTS))


@pytest.mark.parametrize(
    ("text", "characters", "unicode"),
    [
        ("iPhone 15多少钱?", "iPhone 15 多 少 钱", "iPhone 15多少钱"),
        ("T恤 C语言 2008年", "T 恤 C 语 言 2008 年", "T恤 C语言 2008年"),
        ("東京の天気は?", "東 京 の 天 気 は", "東京の天気は"),
        ("がぎ・グー々〇", "が ぎ グ ー 々 〇", "がぎ グー々〇"),
        ("ｶﾅ ＡＢＣ１２", "ｶ ﾅ ＡＢＣ１２", "ｶﾅ ＡＢＣ１２"),
        ("กรุงเทพ ๒๕", "ก รุ ง เ ท พ ๒ ๕", "กรุงเทพ ๒๕"),
        ("ភាសាខ្មែរ", "ភា សា ខ្ មែ រ", "ភាសាខ្មែរ"),
        ("မြန်မာ", "မြ န် မာ", "မြန်မာ"),
        ("हिन्दी में", "हिन्दी में", "हिन्दी में"),
        ("한국어 텍스트", "한국어 텍스트", "한국어 텍스트"),
        ("what's 3.5-fold?", "what s 3 5 fold", "what s 3 5 fold"),
        ("、。！ ", "", ""),
    ],
)
def test_scripts_are_divided(text: str, characters: str, unicode: str) -> None:
    assert divide(text, "characters") == characters
    assert divide(text, "unicode") == unicode
    assert divide(text, "whitespace") == text
    assert find_words(text, "whitespace") == text.split()


def is_of_word(letter: str) -> bool:
    """Return whether a letter is a letter, a digit, an underscore or a mark."""
    is_mark = unicodedata.category(letter)[0] == "M" and letter < "\U00020000"
    return letter.isalnum() or letter == "_" or is_mark


@DIVIDING
@given(text=TEXTS)
@example("\u0301中\u0301文a\u0301")
def test_words_hold_every_letter_once_and_nothing_else(words: str, text: str) -> None:
    found = find_words(text, words)
    assert "".join(found) == "".join(filter(is_of_word, text))
    assert all(found)
    assert divide(divide(text, words), words) == divide(text, words)
    position = 0
    for word in found:
        position = text.index(word, position) + len(word)


@given(text=TEXTS)
def test_characters_divide_the_words_of_unicode_further(text: str) -> None:
    parts = [
        part for word in find_words(text, "unicode") for part in find_words(word, "characters")
    ]
    assert parts == find_words(text, "characters")


@given(text=TEXTS)
def test_unicode_finds_the_words_of_python_where_there_is_no_mark(text: str) -> None:
    bare = "".join(letter for letter in text if unicodedata.category(letter)[0] != "M")
    assert find_words(bare, "unicode") == re.findall(r"\w+", bare)


def tokens(text: str, words: str = "whitespace") -> list[str]:
    """Return the words that BM25 counts in a text, without stop words and stems."""
    tokenizer = Bm25Parameters(stemmer="none", stop_words="none", words=words).tokenizer()
    (ids,) = tokenizer.streaming_tokenize([text], allow_empty=False)
    known = {number: word for word, number in tokenizer.get_vocab_dict().items()}
    return [known[number] for number in ids]


@given(text=st.text(st.sampled_from("aBc9_ .,-'éß中文\n")))
def test_unicode_finds_the_tokens_of_bm25s_and_single_letters(text: str) -> None:
    by_unicode = tokens(text, words="unicode")
    assert by_unicode == find_words(text.lower(), "unicode")
    assert [word for word in by_unicode if len(word) > 1] == tokens(text)


@pytest.mark.parametrize("text", ["हिन्दी में", "กรุงเทพ"])
def test_bm25s_cuts_words_at_marks_and_unicode_does_not(text: str) -> None:
    assert tokens(text, words="unicode") == text.split()
    assert tokens(text) != text.split()


def test_an_unknown_way_is_refused() -> None:
    for call in (find_words, divide):
        with pytest.raises(UnknownNameError, match=r"character.*characters"):
            call("北京", "character")


def test_only_a_choice_is_a_fact() -> None:
    assert [words_fact(words) for words in WORDS] == [
        {},
        {"words": "characters"},
        {"words": "unicode"},
    ]
    assert "words" not in Bm25Parameters().parameters()
    assert Bm25Parameters(words="unicode").parameters()["words"] == "unicode"
