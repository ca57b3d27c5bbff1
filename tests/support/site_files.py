"""What the files of a built page hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def registered(script: Path) -> Any:
    """Return what a data script registers."""
    text = script.read_text("ascii")
    arguments = text.removeprefix("msshift.register(").removesuffix(");\n")
    _, value = json.loads(f"[{arguments}]")
    return value
