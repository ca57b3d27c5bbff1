"""The digests by which boards know test sets."""

from __future__ import annotations

from pathlib import Path

from msshift_bench.data import digest_of_test_sets
from msshift_bench.data.dataset import open_dataset
from msshift_bench.shifts import get_shift


def data_digest(shift: str, folder: Path) -> str:
    """Return the digest of the test sets that a built data set has for a shift."""
    rows = open_dataset(folder).test_sets(get_shift(shift)).items()
    return digest_of_test_sets({group: [row.query_id for row in part] for group, part in rows})
