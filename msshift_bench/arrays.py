"""Types of arrays that all modules use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Ints", "Vectors"]

Floats = NDArray[np.float64]
"""Scores, sums and probabilities."""

Ints = NDArray[np.int64]
"""Counts, indices, and rankings as packed integers (`search.ranking.pack`)."""

Vectors = NDArray[np.float32]
"""Embeddings, one per row; and scores of passages."""
