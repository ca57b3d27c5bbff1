"""Heavy libraries, each imported when something of it is first asked for.

Modules import them from here as they would import the library itself. So none is imported by who
only lists systems, and one that is not installed is one sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msshift_bench.errors import require

__all__ = ["Library", "sentence_transformers", "tokenizers", "torch", "transformers"]


class Library:
    """A module of another package, in whose place it stands.

    Args:
        module: the module, e.g. ``sentence_transformers.util``.
        extra: the extra of this package that installs it.
        what: what needs it, for messages.

    Raises:
        MissingExtraError: when something of it is asked for, and it is not installed.

    Examples:
        >>> json: Any = Library("json")
        >>> json.dumps([1])
        '[1]'
    """

    __slots__ = ("_required",)  # So that nobody sets what only the library itself would see.

    def __init__(self, module: str, extra: str = "neural", what: str = "a neural system") -> None:
        self._required = (module, extra, what)

    def __getattr__(self, name: str) -> Any:
        return getattr(require(*self._required), name)


sentence_transformers: Any = Library("sentence_transformers")
tokenizers: Any = Library("tokenizers")
transformers: Any = Library("transformers")

if TYPE_CHECKING:
    import torch
else:
    torch = Library("torch")
