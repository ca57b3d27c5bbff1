"""Audits: what a release holds, whose oddities are known, and what a built data set leaks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msshift_bench import find_leakage, load_dataset
from msshift_bench.cli import app
from msshift_bench.data import read_manifest
from msshift_bench.dataset_builders.audit import audit_release
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import Samples
from msshift_bench.errors import CollectionError, NotFoundError, UnknownNameError
from msshift_bench.output import Account
from tests.conftest import Build, Command, WriteFolder
from tests.support.official_checkout import training_file, write_checkout

# File name -> query_id -> text. Group 1 repeats a text of group 0 in other letters.
SETS = {
    "0": {"1": "Blue  whale", "2": "blue whale", "3": "red fox"},
    "1": {"4": "BLUE WHALE", "3": "red fox"},
    "2": {"5": " "},
    "3": {"6": "same text", "7": "same text"},
    "4": {"8": "fox"},
    "wha": {"10": "what is a whole", "11": "whatever", "12": "how or what"},
    "how": {"12": "how or what", "13": "which show", "14": "shower"},
    "who": {"13": "which show", "15": "where"},
    "short": {"20": "a  b c d e", "21": "a b"},
    "long": {"22": "a b c d e f", "20": "a  b c d e"},
}
# Ids beside those with text, and passages other than the usual one.
ORPHANS = {"0": ("54", "100"), "who": ("3",)}
RELEVANT = {("1", "3"): {"d2": 1, "d1": 1}, ("4", "8"): {"d1": 0}}


@pytest.fixture
def release(tmp_path: Path) -> Path:
    groups = {}
    for name, queries in SETS.items():
        judged = (*queries, *ORPHANS.get(name, ()))
        qrel = {query_id: RELEVANT.get((name, query_id), {"d1": 1}) for query_id in judged}
        lines = "".join(f"{query_id}\t{text}\n" for query_id, text in queries.items())
        groups[f"C{name}" if name.isdigit() else name] = lines, qrel
    return write_checkout(tmp_path, **groups)


@pytest.fixture
def audit(release: Path) -> Account:
    return audit_release(release)


def add_training(release: Path, *lines: str) -> None:
    (release / "TRAIN").mkdir()
    (release / "TRAIN" / "queries_clustering.tsv").write_text(training_file(*lines))


FIGURES = {
    ("test_sets", "topics-C0"): (3, 5, ["100", "54"], 0, 0, 0, 0),
    ("test_sets", "topics-C1"): (2, 2, [], 0, 1, 0, 0),
    ("test_sets", "topics-C2"): (1, 1, [], 0, 0, 1, 0),
    ("test_sets", "topics-C3"): (2, 2, [], 0, 0, 0, 1),
    ("test_sets", "topics-C4"): (1, 1, [], 1, 0, 0, 0),
    # queries, substring, word, only inside ("whatever"), no word, first by substring and by word
    ("wh_words", "wha"): (3, 3, 2, 1, 1, 2, 1),
    ("wh_words", "how"): (3, 3, 1, 2, 1, 2, 1),  # "which show" has a word of another group
    ("wh_words", "who"): (2, 2, 2, 0, 0, 2, 2),
    # "a  b c d e" has six words by single spaces and five by white space.
    ("length", "short"): (2, 1, 0),
    ("length", "long"): (2, 0, 1),
}


def test_counts(audit: Account) -> None:
    for (table, row), expected in FIGURES.items():
        assert tuple(audit.facts[table][row].values()) == expected, row
    facts = audit.facts
    assert list(facts["test_sets"])[-2:] == ["length-short", "length-long"]
    shared = (facts["by_id"]["topics-C0"], facts["by_text"]["topics-C0"])
    assert [counts["topics-C1"] for counts in shared] == [1, 2]
    assert [counts["topics-C0"] for counts in shared] == [3, 2]
    assert facts["by_text"]["topics-C1"]["topics-C0"] == 2
    assert len(facts["by_id"]) == len(facts["by_id"]["length-long"]) == 10


def test_errata(audit: Account) -> None:
    assert list(audit.facts["errata"].values()) == [
        3,  # orphans
        17,  # different queries
        1,  # query 3 has another relevant passage in topic 1
        1,  # query 3 in two topics
        *(1, 0, 1),  # wha and how: 12; wha and who; how and who: 13
        1,  # short and long: 20
        3,  # short or long: 20, 21, 22
        0,
    ]
    pairs = [f"in both {one}" for one in ("wha and how", "wha and who", "how and who")]
    assert list(audit.facts["errata"])[4:7] == pairs


def test_training_queries_that_are_test_queries(release: Path) -> None:
    assert audit_release(release).facts["trained_on"] is None
    add_training(
        release,
        "red fox\t4\t1\t3\t0\t0\t0",
        "same text\t5\t1\t3\t0\t0\t1",
        '"whatever"\t0\t1\t3\t1\t0\t1',
        "Fox\t0\t1\t3\t0\t0\t1",
    )
    audit = audit_release(release)
    assert audit.facts["training_rows"] == 4
    trained_on = audit.facts["trained_on"]
    found = {train: {t: n for t, n in row.items() if n} for train, row in trained_on.items()}
    assert {train: row for train, row in found.items() if row} == {
        "topics-C4": {"topics-C0": 1, "topics-C1": 1},
        "topics-C0": {"wh-words-wha": 1},
        "length-short": {"topics-C3": 2, "wh-words-wha": 1},
    }
    assert audit.tables[-1].title.startswith("Test queries (columns)")
    assert "training file: 4 queries, matched by their exact text" in audit.notes


def test_what_cannot_be_audited(release: Path) -> None:
    with pytest.raises(NotFoundError, match="no checkout of the official release"):
        audit_release(release / "EVAL")
    add_training(release, "red fox\t9\t1\t3\t0\t0\t0")
    with pytest.raises(CollectionError, match="topic_cluster is '9'"):
        audit_release(release)


def run(*arguments: str | Path) -> str:
    line = ["import", *map(str, arguments), "--check"]
    result = CliRunner().invoke(app, line, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_the_command_prints_text_markdown_and_json(release: Path, audit: Account) -> None:
    text, markdown = run(release), run(release, "--format", "markdown")
    for table in audit.tables:
        assert table.title in text
        assert f"**{table.title}**" in markdown
    assert "| topics-C0 | 3 | 5 | 2: 100, 54 | 0 | 0 | 0 | 0 |" in markdown
    assert "no TRAIN/queries_clustering.tsv" in text
    found = json.loads(run(release, "--format", "json"))
    assert found == audit.facts
    assert found["test_sets"]["topics-C0"]["orphans"] == ["100", "54"]
    assert found["trained_on"] is None
    assert len(found["files"]) == 20
    with pytest.raises(UnknownNameError, match="format 'word'"):
        run(release, "--format", "word")


def test_card_and_manifest_say_it(build_once: Build) -> None:
    folder: Path = build_once("mini:300", "length")
    assert read_manifest(folder).shifts["length"]["same_words"] == {"short": 0, "long": 0}
    said = "in the experiment that holds their group out: short 0, long 0."
    assert said in (folder / "README.md").read_text()


def test_near_duplicates_are_added_to_card_and_manifest(
    tsv_folder: WriteFolder, tmp_path: Path, msshift: Command
) -> None:
    short = [f"cheap flights {place}" for place in "abcdefgh"]
    texts = [*short, *(f"how much do {text} cost on a monday" for text in short)]
    # Each long query has its double among the short ones: one word less.
    texts += [f"very {text} rome in the spring time" for text in short]
    lines = "".join(f"q{place}\t{text}\n" for place, text in enumerate(texts))
    judged = "".join(f"q{place} 0 d1 1\n" for place in range(len(texts)))
    folder, collection = tmp_path / "msshift", tsv_folder(queries=lines, qrels=judged)
    samples = Samples(test_size=3, validation_size=0)
    build_dataset(collection, ["length"], folder, samples=samples)
    before = read_manifest(folder)
    done = msshift("leakage", "find", "--threshold", "0.2", "--format", "json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)["splits"]["length"]
    assert facts["threshold"] == 0.2
    assert facts["encoder"]["encoder"] == "terms"
    after = read_manifest(folder)
    assert after.shifts["length"].pop("near_duplicates") == facts
    assert (after.shifts, after.content_digest) == (before.shifts, before.content_digest)
    for group, counts in facts["test_queries"].items():
        splits = load_dataset(folder, f"length-{group}")
        found = find_leakage(splits["train"], splits["test"], threshold=0.2)
        assert counts["any"] == found.count().topics > 0
    assert "(a cosine of at least 0.2 under `terms`): short " in (folder / "README.md").read_text()
    assert msshift("verify", "msshift").returncode == 0


def test_the_data_set_that_the_variable_names_is_the_one_that_is_looked_at(
    msshift: Command, build_once: Build, tmp_path: Path
) -> None:
    folder = shutil.copytree(build_once("mini:300", "length"), tmp_path / "elsewhere")
    (tmp_path / "msshift").touch()  # no folder, and none of this command's business
    done = msshift("leakage", "find", "--format", "json", MSSHIFT_HOME=str(folder))
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["splits"]) == ["length"]
