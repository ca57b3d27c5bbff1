"""Heavy libraries, each imported when something of it is first asked for.

Modules import them from here as they would import the library itself. So none is imported by who
only asks for help or lists systems, and one that is not installed is one sentence.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from msshift_bench.errors import require

__all__ = [
    "Library",
    "compute",
    "numpy",
    "parquet",
    "pyarrow",
    "sentence_transformers",
    "tokenizers",
    "torch",
    "transformers",
]


_ASKED_OF_EVERY_OBJECT = ("__bases__", "__test__", "__wrapped__", "_mock_name")
"""Names that inspect and pytest ask every object for; the answer needs no import."""


class Library:
    """A module of another package, in whose place it stands.

    Args:
        module: the module, e.g. ``sentence_transformers.util``.
        extra: the extra of this package that installs it; "" if the package does.
        what: what needs it, for messages.

    Raises:
        MissingExtraError: when something of it is asked for, and it is not installed.

    Examples:
        >>> json: Any = Library("json", extra="")
        >>> json.dumps([1])
        '[1]'
    """

    __slots__ = ("_required",)  # So that nobody sets what only the library itself would see.

    def __init__(self, module: str, extra: str = "neural", what: str = "a neural system") -> None:
        self._required = (module, extra, what)

    def __getattr__(self, name: str) -> Any:
        if name in _ASKED_OF_EVERY_OBJECT:
            raise AttributeError(name)
        module, extra, what = self._required
        library = require(module, extra, what) if extra else import_module(module)
        return getattr(library, name)


sentence_transformers: Any = Library("sentence_transformers")
tokenizers: Any = Library("tokenizers")
transformers: Any = Library("transformers")

if TYPE_CHECKING:
    import numpy
    import pyarrow
    import torch
    from pyarrow import compute, parquet
else:
    numpy, pyarrow = Library("numpy", ""), Library("pyarrow", "")
    compute, parquet = Library("pyarrow.compute", ""), Library("pyarrow.parquet", "")
    torch = Library("torch")
