"""Libraries that are imported only when something of them is used."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

from msshift_bench.errors import MissingExtraError
from msshift_bench.libraries import Library


def test_introspection_imports_nothing() -> None:
    program = (
        "import inspect, sys\n"
        "from msshift_bench.libraries import Library\n"
        "library = Library('wave', '')\n"
        "assert inspect.unwrap(library) is library\n"
        "assert not inspect.isclass(library) and not hasattr(library, '__bases__')\n"
        "assert 'wave' not in sys.modules\n"
        "assert library.open and 'wave' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_library_that_is_not_installed_is_named_when_it_is_used() -> None:
    library: Any = Library("no_such_library", "neural", "a test")
    assert inspect.unwrap(library) is library
    with pytest.raises(MissingExtraError, match="a test needs"):
        _ = library.anything
