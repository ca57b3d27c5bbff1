"""Re-rankers that compare words: what they start from, and what they say of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.errors import NotFoundError, UsageError

pytestmark = pytest.mark.neural

KNRM = neural_systems()["knrm"]


@pytest.fixture
def recipe() -> Any:
    return open_system("knrm", "mini")


def test_word_vectors_are_known_by_their_digest(recipe: Any, tmp_path: Path) -> None:
    file = tmp_path / "glove.txt"
    with pytest.raises(NotFoundError, match=rf"no word vectors {file}: .*in the format of GloVe"):
        KNRM.check_encoder(recipe.changed(encoder=str(file)))
    file.write_text("red 1 0\n")
    given = recipe.changed(encoder=str(file))
    given.check_encoder()
    facts = given.starts_from()
    assert facts == {
        "file_sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "seen": "what its word vectors were learnt from is not recorded",
    }
    file.write_text("red 0 1 # another\n")
    assert given.starts_from() != facts
    # Vectors that are learnt from the passages follow from recipe and collection.
    assert recipe.starts_from() is None
    with pytest.raises(UsageError, match="words have vectors that are learnt, encoder = 'coll"):
        recipe.changed(encoder="random")


def test_a_folder_that_holds_no_saved_model(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=rf"{tmp_path}: knrm is saved with a file words.json"):
        KNRM.load_model(tmp_path)
