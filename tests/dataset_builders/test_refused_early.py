"""What builders refuse before they read a collection or write a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.dataset_builders.build import build_dataset, import_official
from msshift_bench.dataset_builders.cut import SampleSizes
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import CollectionError, NotFoundError, UnknownNameError, UsageError


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_beyond_64_bits_is_refused(tmp_path: Path, seed: int) -> None:
    with pytest.raises(UsageError, match=f"{seed} .*64 bits.*; give"):
        SampleSizes(seed=seed)
    with pytest.raises(UsageError, match=f"{seed} .*64 bits.*; give"):
        add_triples(tmp_path, "mini:300", seed=seed)
    assert SampleSizes(seed=2**64 - 1).seed == 2**64 - 1
    assert SampleSizes(seed=-(2**63)).seed == -(2**63)


def test_an_unknown_rule_is_refused_before_the_collection_is_opened(tmp_path: Path) -> None:
    options = {"length": {"rule": "split-comma"}}
    with pytest.raises(UnknownNameError, match=r"'split-comma'.*split-space"):
        build_dataset(
            str(tmp_path / "absent"), ["topics", "length"], tmp_path / "out", options=options
        )
    assert not list(tmp_path.iterdir())


def test_a_release_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no folder .*nowhere; give the folder of a checkout"):
        import_official(tmp_path / "nowhere", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_an_import_of_no_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^sources is empty; give the folder of a checkout"):
        import_official([], tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_file_without_question_words_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("\n")
    options = {"wh-words": {"rule": str(path)}}
    with pytest.raises(CollectionError, match=r"fix: .*wha, how, who") as error:
        build_dataset("mini:300", ["wh-words"], tmp_path / "out", options=options)
    assert [finding.code for finding in error.value.findings] == ["empty-file"]
    assert not (tmp_path / "out").exists()
