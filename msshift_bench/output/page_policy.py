"""What a page that opens from the disk may run."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

__all__ = ["script_policy"]


def script_policy(scripts: Iterable[str]) -> str:
    """Return the sources that a content security policy allows: these inline scripts only."""
    digests = (base64.b64encode(hashlib.sha256(one.encode()).digest()) for one in scripts)
    return " ".join(f"'sha256-{digest.decode()}'" for digest in digests)
