"""Re-rankers that compare words: what they start from, and what they say of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines.finding import neural_systems
from msshift_bench.baselines.recipe_files import load_recipe
from msshift_bench.errors import NotFoundError, UsageError

pytestmark = pytest.mark.neural

KNRM = neural_systems()["knrm"]


@pytest.fixture
def recipe() -> Any:
    return load_recipe(KNRM, "knrm", "mini")


def test_word_vectors_are_known_by_their_digest(recipe: Any, tmp_path: Path) -> None:
    file = tmp_path / "glove.txt"
    with pytest.raises(NotFoundError, match=rf"no word vectors {file}: .*in the format of GloVe"):
        KNRM.check_encoder(recipe.changed(encoder=str(file)))
    file.write_text("red 1 0\n")
    given = recipe.changed(encoder=str(file))
    given.check_encoder()
    facts = given.encoder_facts()
    assert facts == {
        "file_sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "seen": "what its word vectors were learnt from is not recorded",
    }
    file.write_text("red 0 1 # another\n")
    assert given.encoder_facts() != facts
    # Vectors that are learnt from the passages follow from recipe and collection.
    assert recipe.encoder_facts() is None
    with pytest.raises(UsageError, match="words have vectors that are learnt, encoder = 'coll"):
        recipe.changed(encoder="random")


def test_a_folder_that_holds_no_saved_model(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=rf"{tmp_path}: knrm is saved with a file words.json"):
        KNRM.load_model(tmp_path)


def test_the_work_is_that_of_comparing_words(recipe: Any) -> None:
    shape = recipe.shape()
    assert (shape.bytes, shape.layer_weights) == (4 * 5000 * 32, 0)
    work = recipe.work(shape, passages=60, queries=7, examples=1000)
    pair = 2 * recipe.query_length * recipe.passage_length * 32
    # A relevant passage and three others for each of 16 queries, 300 times.
    assert work.training == 3 * pair * 300 * 16 * 4
    # No query has more candidates than there are passages.
    assert work.searching == pair * 7 * 60
    assert work.index_bytes == 0
