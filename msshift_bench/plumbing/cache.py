"""Where the package keeps what it can make again."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(kind: str) -> Path:
    """Return the folder that holds one kind of cached data; nothing is created.

    It is ``$MSSHIFT_CACHE/<kind>``; where that variable is not set, ``$XDG_CACHE_HOME/msshift``
    takes its place, and ``~/.cache/msshift`` where that is not set either. As in the XDG Base
    Directory Specification 0.8, an empty variable counts as not set.

    Args:
        kind: what is kept, e.g. ``"embeddings"``.
    """
    if own := os.environ.get("MSSHIFT_CACHE"):
        root = Path(own).expanduser()
    elif shared := os.environ.get("XDG_CACHE_HOME"):
        root = Path(shared).expanduser() / "msshift"
    else:
        root = Path.home() / ".cache" / "msshift"
    return root / kind
