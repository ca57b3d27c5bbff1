"""Test queries of the words of a training query: counted per experiment, in card and manifest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from msshift_bench import find_leakage, load_dataset
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from tests.conftest import Build, Command, WriteFolder


def test_card_and_manifest_say_it(build_once: Build) -> None:
    folder: Path = build_once("mini:300", "length")
    facts = json.loads((folder / "manifest.json").read_text())["shifts"]["length"]
    assert facts["same_words"] == {"short": 0, "long": 0}
    assert (
        "in the experiment that holds their group out: short 0, long 0."
        in (folder / "README.md").read_text()
    )


def test_near_duplicates_are_added_to_card_and_manifest(
    tsv_folder: WriteFolder, tmp_path: Path, msshift: Command
) -> None:
    short = [f"cheap flights {place}" for place in "abcdefgh"]
    texts = [*short, *(f"how much do {text} cost on a monday" for text in short)]
    # Each long query has its double among the short ones: one word less.
    texts += [f"very {text} rome in the spring time" for text in short]
    lines = "".join(f"q{place}\t{text}\n" for place, text in enumerate(texts))
    judged = "".join(f"q{place} 0 d1 1\n" for place in range(len(texts)))
    folder = tmp_path / "msshift"
    build_dataset(
        open_collection(tsv_folder(queries=lines, qrels=judged)),
        ["length"],
        folder,
        test_size=3,
        validation_size=0,
    )
    before = json.loads((folder / "manifest.json").read_text())
    done = msshift("leakage", "find", "--threshold", "0.2", "--format", "json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)["length"]
    assert facts["threshold"] == 0.2
    assert facts["encoder"]["encoder"] == "terms"
    after = json.loads((folder / "manifest.json").read_text())
    assert after["shifts"]["length"].pop("near_duplicates") == facts
    assert after["shifts"] == before["shifts"]
    assert after["content_digest"] == before["content_digest"]
    for group, counts in facts["test_queries"].items():
        found = find_leakage(
            load_dataset(folder, f"length-{group}", split="train"),
            load_dataset(folder, f"length-{group}", split="test"),
            threshold=0.2,
        )
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
    assert list(json.loads(done.stdout)) == ["length"]
