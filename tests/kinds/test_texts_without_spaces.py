"""Texts in scripts without spaces between words: a warning at every door that counts words."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

import msshift_bench as ms
from msshift_bench.errors import MsShiftError
from tests.support.command_line import run_msshift

LETTERS = "甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未申酉"
TEXTS = {"Chinese": "北京天气怎样", "Japanese": "東京の天気はどうですか", "Thai": "อากาศในกรุงเทพ"}
WARNING = "are a single word"


def queries_in(script: str) -> dict[str, str]:
    return {str(n): f"{TEXTS[script]}{letter}" for n, letter in enumerate(LETTERS)}


def write_queries(path: Path, queries: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{query_id}\t{text}\n" for query_id, text in queries.items()))
    return path


def write_collection(folder: Path, chinese: int) -> Path:
    """Write a collection of 40 long queries in English, and some in Chinese."""
    texts = {f"e{n}": f"how many of the {n} hotels in rome are cheap" for n in range(40)}
    texts |= {f"c{n}": f"{TEXTS['Chinese']}{chr(0x4E00 + n)}" for n in range(chinese)}
    folder.mkdir()
    write_queries(folder / "queries.tsv", texts)
    write_queries(folder / "collection.tsv", {key: f"{text} yes" for key, text in texts.items()})
    (folder / "qrels.tsv").write_text("".join(f"{key} 0 {key} 1\n" for key in texts))
    return folder


DOORS: dict[str, Callable[[dict[str, str], str], object]] = {
    "set_similarity": lambda q, words: ms.set_similarity(q, q, words=words),
    "set_similarity, unseen words": lambda q, words: ms.set_similarity(
        q, q, "unseen-words", words=words
    ),
    "set_similarity, terms": lambda q, words: ms.set_similarity(
        q, q, "nearest-query", encoder="terms", words=words
    ),
    "find_leakage": lambda q, words: ms.find_leakage(q, q, words=words),
}


@pytest.mark.parametrize("script", TEXTS)
@pytest.mark.parametrize("door", DOORS)
def test_functions_warn_of_texts_without_spaces(
    caplog: pytest.LogCaptureFixture, door: str, script: str
) -> None:
    queries = queries_in(script)
    with caplog.at_level(logging.WARNING), suppress(MsShiftError):
        DOORS[door](queries, "whitespace")
    assert [record.message.partition(", e.g.")[0] for record in caplog.records] in (
        [f"20 of 20 queries {WARNING}"],
        [f"40 of 40 queries {WARNING}"],
    )


@pytest.mark.parametrize("door", DOORS)
def test_nothing_warns_of_words_between_spaces(caplog: pytest.LogCaptureFixture, door: str) -> None:
    segmented = {key: " ".join(text) for key, text in queries_in("Chinese").items()}
    single = {key: f"hotel{key}" for key in segmented}
    for queries in (segmented, single):
        with caplog.at_level(logging.WARNING), suppress(MsShiftError):
            DOORS[door](queries, "whitespace")
    assert not caplog.records


@pytest.mark.parametrize("words", ["characters", "unicode"])
@pytest.mark.parametrize("door", DOORS)
def test_only_characters_silence_the_warning(
    caplog: pytest.LogCaptureFixture, door: str, words: str
) -> None:
    with caplog.at_level(logging.WARNING), suppress(MsShiftError):
        DOORS[door](queries_in("Chinese"), words)
    assert (WARNING in caplog.text) == (words == "unicode")


@pytest.mark.parametrize("words", ["whitespace", "characters", "unicode"])
@pytest.mark.parametrize("door", DOORS)
def test_functions_warn_of_marks_within_words(
    caplog: pytest.LogCaptureFixture, door: str, words: str
) -> None:
    hindi = {key: f"दिल्ली में मौसम {text}" for key, text in queries_in("Chinese").items()}
    with caplog.at_level(logging.WARNING), suppress(MsShiftError):
        DOORS[door](hindi, words)
    assert ("--words unicode" in caplog.text) == (words == "whitespace")


COMMANDS = (
    "build length --collection collection --out built",
    "run bm25 --collection few --extra-test zh=extra",
    "similarity --train queries.tsv --test queries.tsv",
    "leakage find --train queries.tsv --test queries.tsv",
    "annotate --train queries.tsv --test queries.tsv --encoder terms --out sheet.csv",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Queries in Chinese, a collection of them, a data set with few, and an extra test set."""
    folder = tmp_path_factory.mktemp("spaces")
    write_queries(folder / "queries.tsv", queries_in("Chinese"))
    write_collection(folder / "collection", 160)
    few = write_collection(folder / "few", 30)
    ms.build_dataset(ms.open_collection(few), ["length"], folder / "msshift")
    (folder / "extra").mkdir()
    write_queries(folder / "extra" / "queries.tsv", queries_in("Chinese"))
    (folder / "extra" / "qrels.tsv").write_text("0 0 c0 1\n1 0 c1 1\n")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_warn_of_texts_without_spaces(
    world: Path, tmp_path: Path, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    for path in world.iterdir():
        (tmp_path / path.name).symlink_to(path)
    done = run_msshift(command.split(), tmp_path)
    assert WARNING in caplog.text + done.stderr
    assert "--words characters" in caplog.text + done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_without_any_document_is_refused_when_it_is_written(tmp_path: Path) -> None:
    for run in ({}, {"q1": {}, "q2": {}}):
        with pytest.raises(ms.MsShiftError, match="no query has a document"):
            ms.write_run(tmp_path / "empty.run", run)
    assert not list(tmp_path.iterdir())
