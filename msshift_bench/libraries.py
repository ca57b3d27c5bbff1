"""Large libraries, each imported when one of its attributes is first used.

Other modules import these objects in place of the libraries. So ``--help`` and a list of systems
import no large library. A library that is not installed gives a one-line error.
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


_INSPECTED = ("__bases__", "__test__", "__wrapped__", "_mock_name")
"""Attributes that inspect and pytest read from every object; they must not cause an import."""


class Library:
    """Proxy of a module that is imported when an attribute is first read.

    Args:
        module: the module, e.g. ``sentence_transformers.util``.
        extra: the extra of this package that installs it; "" for a required dependency.
        what: the feature that needs it, for messages.

    Raises:
        MissingExtraError: when an attribute is read and the module is not installed; a
            ModuleNotFoundError for a required dependency.

    Examples:
        >>> json: Any = Library("json", extra="")
        >>> json.dumps([1])
        '[1]'
    """

    __slots__ = ("_required",)  # Setting an attribute fails: the library would not get it.

    def __init__(self, module: str, extra: str = "neural", what: str = "a neural system") -> None:
        self._required = (module, extra, what)

    def __getattr__(self, name: str) -> Any:
        if name in _INSPECTED:
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
