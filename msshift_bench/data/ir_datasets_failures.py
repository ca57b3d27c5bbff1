"""What ir_datasets raises if it cannot give what is asked of it, in words."""

from __future__ import annotations

__all__ = ["IR_DATASETS_FAILURES", "reason_of"]

IR_DATASETS_FAILURES = (OSError, RuntimeError)
"""Errors of a download: of its one source, and of several."""


def reason_of(error: Exception) -> str:
    """Return the reason, which three libraries bury in each other's messages."""
    if isinstance(error, RuntimeError) and len(error.args) > 1:
        _, error = error.args[1][-1]  # The last source that it tried.
    # urllib3 names the last of its attempts, and requests buries that in its own message.
    reason = getattr(error.args[0], "reason", error) if error.args else error
    return str(reason).rpartition(": ")[2]
