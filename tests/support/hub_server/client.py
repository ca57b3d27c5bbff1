"""The environment and the programs of the Hub's clients, which read ``HF_ENDPOINT`` at import."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msshift_bench.data.dataset import open_dataset
from msshift_bench.data.manifest import read_manifest
from tests.support.command_line import Done, run_python
from tests.support.hub_server.server import TOKEN, LoopbackHub

Rows = dict[str, dict[str, list[dict[str, Any]]]]


def client_environment(home: Path, hub: LoopbackHub | None, token: str = TOKEN) -> dict[str, str]:
    """Return an environment with caches below `home`; offline without a `hub`."""
    foreign = ("HF_", "HUGGING", "MSSHIFT_", "XDG_")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
        "HF_HOME": str(home / "hf"),
        "MSSHIFT_CACHE": str(home / "msshift-cache"),
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_XET": "1",
        # With torch installed, `datasets` imports it to stream, for seconds, without using it.
        "USE_TORCH": "0",
        **({"HF_ENDPOINT": hub.url} if hub else {"HF_HUB_OFFLINE": "1"}),
        **({"HF_TOKEN": token} if token else {}),
    }


def python(program: str, folder: Path, environment: Mapping[str, str], *arguments: str) -> Done:
    """Run a program in a fresh interpreter with only these variables."""
    return run_python(program, folder, {**dict.fromkeys(os.environ), **environment}, arguments)


_LOAD = """
import datasets, json, sys
name, configs, kwargs = json.loads(sys.argv[1])
loaded = {config: datasets.load_dataset(name, config, **kwargs) for config in configs}
print(json.dumps({c: {s: list(rows) for s, rows in of.items()} for c, of in loaded.items()}))
"""


def rows_of(folder: Path, *configs: str) -> Rows:
    """Return config -> split -> rows as this package loads them; by default of all configs."""
    data, known = open_dataset(folder), read_manifest(folder).configs
    return {c: {s: data.table(c, s).to_pylist() for s in known[c]} for c in configs or known}


def load_rows(
    name: str, configs: list[str], folder: Path, environment: Mapping[str, str], **kwargs: Any
) -> Rows:
    """Return config -> split -> rows as `datasets.load_dataset(name, config, **kwargs)` does."""
    done = python(_LOAD, folder, environment, json.dumps([name, configs, kwargs]))
    assert done.returncode == 0, done.stderr
    loaded: Rows = json.loads(done.stdout)
    return loaded
