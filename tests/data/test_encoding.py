"""Texts whose UTF-8 bytes were read as Latin-1 are recognised, others are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msshift_bench.data import is_double_encoded


@given(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]))
def test_every_character_beyond_ascii_is_recognised_once_its_bytes_are_read_as_latin_1(
    character: str,
) -> None:
    assert is_double_encoded(f"a {character.encode().decode('latin-1')} b")


@given(st.text(st.characters(max_codepoint=0x7F)))
def test_plain_ascii_is_not(text: str) -> None:
    assert not is_double_encoded(text)


@pytest.mark.parametrize("text", ["café", "naïve façade", "“quoted”", "10 °C ± 2", "ÄÖÜ"])
def test_ordinary_accents_are_not(text: str) -> None:
    assert not is_double_encoded(text)
