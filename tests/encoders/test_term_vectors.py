"""Vectors of terms: which texts are near, and that their bits do not depend on the machine."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.encoders import EncoderSpec, embed_queries, embeddings, models as encoder_models
from msshift_bench.encoders.models import find_encoder
from msshift_bench.encoders.term_vectors import DIMENSIONS, term_vectors
from msshift_bench.errors import DataError, MissingExtraError, UsageError
from msshift_bench.mini import generator as mini

QUERIES = dict(mini.queries())
MINI = tuple(QUERIES.values())


GOLDEN = "e2f3378af5949fb713cc097c117edfe1f8445d2537d196152faabffd437833ef"
"""No machine may change the bytes: these are of numpy 2.4.6 and scipy 1.17.1 on x86-64."""


def test_rows_are_the_golden_ones_have_length_one_and_belong_to_their_texts() -> None:
    vectors = term_vectors(MINI)
    assert (vectors.shape, vectors.dtype) == ((len(MINI), DIMENSIONS), np.float32)
    assert hashlib.sha256(vectors.astype("<f4").tobytes()).hexdigest() == GOLDEN
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-5)
    order = random.Random(1).sample(range(len(MINI)), len(MINI))
    shuffled = term_vectors([MINI[place] for place in order])
    assert shuffled.tobytes() == vectors[order].tobytes()


@pytest.mark.extended
def test_hash_seed_and_threads_do_not_change_vectors() -> None:
    # The test above has the seed and the threads of this process.
    script = (
        "import hashlib; from msshift_bench import mini; "
        "from msshift_bench.encoders.term_vectors import term_vectors; "
        "vectors = term_vectors([query.text for query in mini.queries()]); "
        "print(hashlib.sha256(vectors.tobytes()).hexdigest())"
    )
    environment = {"PYTHONHASHSEED": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.check_output([sys.executable, "-c", script], env=environment, text=True)
    assert done == f"{GOLDEN}\n"


def test_terms_that_never_meet_come_close_through_their_neighbours() -> None:
    """Cars and planes are never in one query, but engines and wings tell who belongs to whom."""
    ground = ["car engine", "car wheel", "car brake", "lorry engine", "lorry wheel", "lorry brake"]
    water = ["boat sail", "boat anchor", "boat mast", "ship sail", "ship anchor", "ship mast"]
    others = [f"filler{n % 50} padding{n % 49}" for n in range(1000)]
    car, lorry, boat, ship = 0, 3, 6, 9
    vectors = term_vectors([*ground, *water, *dict.fromkeys(others)]).astype(np.float64)
    alike = vectors @ vectors.T
    assert min(alike[car, lorry + 1], alike[boat, ship + 1]) > 0.8
    assert max(alike[car, boat], alike[lorry, ship]) < 0.3


def test_texts_without_a_shared_term_get_vectors() -> None:
    for texts in (["alone"], ["?!"], ["same word", "same phrase"]):
        vectors = term_vectors(texts)
        assert vectors.shape == (len(texts), DIMENSIONS)
        assert np.isfinite(vectors).all()


# ---- embeddings without a model of one's own ------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "value", "message"),
    [
        ([], 1.0, "the tokenizer finds no token in the text 'how': remove"),
        ([5], np.nan, "terrible gives the text 'how' a vector that is not finite: remove"),
    ],
)
def test_queries_that_an_encoder_cannot_embed(
    tokens: list[int], value: float, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = encoder_models.EncoderSource(tmp_path, "0" * 64, {})
    encoder = encoder_models.Encoder(
        lambda texts: [tokens if text == "how" else [6, 7] for text in texts],
        lambda ids: np.where(ids[:, :1] == 5, value, 1.0).astype(np.float32),
    )
    monkeypatch.setattr(embeddings, "find_encoder", lambda _: source)
    monkeypatch.setattr(embeddings, "load_encoder", lambda *_: encoder)
    with pytest.raises(DataError, match=message):
        embed_queries({"1": "why", "2": "how"}, EncoderSpec("terrible"), cache=tmp_path)
    with pytest.raises(DataError, match="no queries to embed"):
        embed_queries({}, EncoderSpec("terms"), cache=tmp_path)


def test_terms_need_no_model_and_the_default_cache_is_that_of_embeddings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "load_encoder", None)
    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path))
    embedded = embed_queries(QUERIES, EncoderSpec("terms"))
    assert len(list((tmp_path / "embeddings").glob("*/vectors.npy"))) == 1
    texts = sorted(set(QUERIES.values()))
    expected = term_vectors(texts)[[texts.index(QUERIES[query]) for query in embedded.query_ids]]
    assert embedded.vectors.tobytes() == expected.tobytes()
    assert embedded.facts["encoder"] == "terms"
    assert "libraries" not in embedded.facts
    assert embed_queries(QUERIES, EncoderSpec("terms")).sha256 == embedded.sha256


def test_options_and_what_is_installed_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="at least 3 tokens"):
        EncoderSpec("terms", max_length=2)
    monkeypatch.setattr(encoder_models, "_LIBRARIES", ("a-library-that-is-nowhere",))
    with pytest.raises(MissingExtraError, match=r"needs the 'neural' extra"):
        find_encoder(EncoderSpec("org/any"))
