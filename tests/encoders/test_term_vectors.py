from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

from msshift_bench.encoders.term_vectors import DIMENSIONS, term_vectors
from msshift_bench.mini import generator as mini
from tests.support.mini_rows import domains

MINI = tuple(query.text for query in mini.queries())


def test_rows_have_length_one_and_belong_to_their_texts() -> None:
    vectors = term_vectors(MINI)
    assert vectors.shape == (len(MINI), DIMENSIONS)
    assert vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-5)
    order = random.Random(1).sample(range(len(MINI)), len(MINI))
    shuffled = term_vectors([MINI[place] for place in order])
    assert shuffled.tobytes() == vectors[order].tobytes()


def test_the_bytes_are_the_golden_ones() -> None:
    """No machine may change them; these were made with numpy 2.4.6 and scipy 1.17.1 on x86-64."""
    digest = hashlib.sha256(term_vectors(MINI).astype("<f4").tobytes()).hexdigest()
    assert digest == "e2f3378af5949fb713cc097c117edfe1f8445d2537d196152faabffd437833ef"


@pytest.mark.slow
def test_a_hash_seed_plays_no_part() -> None:
    script = (
        "import hashlib; from msshift_bench import mini; "
        "from msshift_bench.encoders.term_vectors import term_vectors; "
        "texts = [query.text for query in mini.queries(200)]; "
        "print(hashlib.sha256(term_vectors(texts).tobytes()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        ).stdout
        for seed, threads in (("1", "1"), ("2", "2"))
    }
    assert len(found) == 1


def test_terms_that_never_meet_come_close_through_their_neighbours() -> None:
    """Cars and planes are never in one query, but engines and wings tell who belongs to whom."""
    ground = [
        f"{name} {part}" for name in ("car", "lorry") for part in ("engine", "wheel", "brake")
    ]
    water = [f"{name} {part}" for name in ("boat", "ship") for part in ("sail", "anchor", "mast")]
    others = [f"filler{n % 50} padding{n % 49}" for n in range(1000)]
    car, lorry, boat, ship = 0, 3, 6, 9
    vectors = term_vectors([*ground, *water, *dict.fromkeys(others)]).astype(np.float64)
    alike = vectors @ vectors.T
    assert min(alike[car, lorry + 1], alike[boat, ship + 1]) > 0.8
    assert max(alike[car, boat], alike[lorry, ship]) < 0.3


@pytest.mark.parametrize("texts", [["alone"], ["?!"], ["same word", "same phrase"]])
def test_texts_without_a_telling_term_get_vectors(texts: list[str]) -> None:
    vectors = term_vectors(texts)
    assert vectors.shape == (len(texts), DIMENSIONS)
    assert np.isfinite(vectors).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_clusters_of_mini_keep_to_its_domains(seed: int) -> None:
    """Its five domains are what topics of it must find; none of its words is told which."""
    domain_of = np.array(list(domains().values()))
    centroids, labels = kmeans2(term_vectors(MINI).astype(float), 100, minit="++", rng=seed)
    pure, main = 0, []
    for cluster in range(100):
        domain, count = Counter(domain_of[labels == cluster].tolist()).most_common(1)[0]
        main.append(domain)
        pure += count
    assert pure / len(MINI) > 0.98
    distances = cdist(centroids, centroids)
    np.fill_diagonal(distances, np.inf)
    nearest = distances.argmin(axis=1)
    same = [main[cluster] == main[other] for cluster, other in enumerate(nearest)]
    assert np.mean(same) > 0.95
