"""Chromium without a window."""

from __future__ import annotations

import shutil

__all__ = ["FLAGS", "find_chromium"]

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip


def find_chromium() -> str | None:
    """Return the path of Chromium; `None` if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)
