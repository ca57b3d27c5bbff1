"""Types of arrays that every room uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Ints", "Vectors"]

Floats = NDArray[np.float64]
"""Scores, sums and probabilities."""

Ints = NDArray[np.int64]
"""Counts and positions."""

Vectors = NDArray[np.float32]
"""Embeddings, one a row, and their scores."""
