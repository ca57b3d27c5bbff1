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
from msshift_bench.dataset_builders.cut import SampleSizes
from msshift_bench.errors import CollectionError, NotFoundError, UnknownNameError
from tests.conftest import Build, Command, WriteFolder
from tests.support.golden import Golden
from tests.support.official_checkout import training_file, write_checkout

# File name -> query_id -> text. Group 1 repeats a text of group 0 in other letters, "whatever" and
# "shower" hold a word inside another, and "a  b c d e" has six words by single spaces, else five.
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


TRAINING = training_file(
    "red fox\t4\t1\t3\t0\t0\t0",
    "same text\t5\t1\t3\t0\t0\t1",
    '"whatever"\t0\t1\t3\t1\t0\t1',
    "Fox\t0\t1\t3\t0\t0\t1",
)


def run(*arguments: str | Path) -> str:
    line = ["import", *map(str, arguments), "--check"]
    result = CliRunner().invoke(app, line, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_what_a_release_holds_is_printed(release: Path, golden: Golden) -> None:
    audit = audit_release(release)
    text = run(release)
    assert all(table.title in text for table in audit.tables)
    assert "no TRAIN/queries_clustering.tsv" in text
    found = json.loads(run(release, "--format", "json"))
    assert found == audit.facts
    assert found["test_sets"]["topics-C0"]["orphans"] == ["100", "54"]
    assert found["trained_on"] is None
    assert len(found["files"]) == 20
    with pytest.raises(UnknownNameError, match="format 'word'"):
        run(release, "--format", "word")
    (release / "TRAIN").mkdir()
    (release / "TRAIN" / "queries_clustering.tsv").write_text(TRAINING)
    golden.check("audit-trained.md", run(release, "--format", "markdown"))
    audit = audit_release(release)
    assert audit.facts["training_rows"] == 4
    assert audit.facts["trained_on"]["length-short"]["topics-C3"] == 2
    with pytest.raises(NotFoundError, match="git clone"):
        audit_release(release / "EVAL")
    (release / "TRAIN" / "queries_clustering.tsv").write_text(TRAINING + "red\t9\t1\t3\t0\t0\t0\n")
    with pytest.raises(CollectionError, match=r"topic_cluster.*'9'"):
        audit_release(release)


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
    samples = SampleSizes(test_size=3, validation_size=0)
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
