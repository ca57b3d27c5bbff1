"""The folder of files that the package can make again."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder", "cache_root"]


def cache_root() -> Path:
    """Return the folder that holds all cached data, whether or not it is there.

    It is ``$MSSHIFT_CACHE``, or else ``$XDG_CACHE_HOME/msshift``, or else ``~/.cache/msshift``. As
    in the XDG Base Directory Specification 0.8, an empty variable counts as not set.
    """
    if own := os.environ.get("MSSHIFT_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "msshift"
    return Path.home() / ".cache" / "msshift"


def cache_folder(kind: str) -> Path:
    """Return the folder that holds one kind of cached data; nothing is created.

    Args:
        kind: the kind of data, e.g. ``"embeddings"``.
    """
    return cache_root() / kind
