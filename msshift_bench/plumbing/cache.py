"""The folder of files that the package can make again."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(kind: str) -> Path:
    """Return the folder that holds one kind of cached data; nothing is created.

    It is ``$MSSHIFT_CACHE/<kind>``. If that variable is not set, ``$XDG_CACHE_HOME/msshift`` takes
    its place, or else ``~/.cache/msshift``. As in the XDG Base Directory Specification 0.8, an
    empty variable counts as not set.

    Args:
        kind: the kind of data, e.g. ``"embeddings"``.
    """
    if own := os.environ.get("MSSHIFT_CACHE"):
        root = Path(own).expanduser()
    elif shared := os.environ.get("XDG_CACHE_HOME"):
        root = Path(shared).expanduser() / "msshift"
    else:
        root = Path.home() / ".cache" / "msshift"
    return root / kind
