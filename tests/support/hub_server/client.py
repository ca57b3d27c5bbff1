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

__all__ = ["client_environment", "load_rows", "python", "rows_of"]

Rows = dict[str, dict[str, list[dict[str, Any]]]]


def client_environment(home: Path, hub: LoopbackHub | None, token: str = TOKEN) -> dict[str, str]:
    """Return an environment with caches below `home`; offline without a `hub`."""
    foreign = ("HF_", "HUGGING", "MSSHIFT_", "XDG_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {
        **inherited,
        "HF_HOME": str(home / "hf"),
        "MSSHIFT_CACHE": str(home / "msshift-cache"),
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "NO_PROXY": "127.0.0.1",
        # With torch installed, `datasets` imports it to stream, for seconds, without using it.
        "USE_TORCH": "0",
        **({"HF_ENDPOINT": hub.url} if hub else {"HF_HUB_OFFLINE": "1"}),
        **({"HF_TOKEN": token} if token else {}),
    }


def python(program: str, folder: Path, environment: Mapping[str, str]) -> Done:
    """Run a program in a fresh interpreter with only these variables."""
    return run_python(program, folder, {**dict.fromkeys(os.environ), **environment})


_LOAD = """
import json, sys
import datasets
name, configs, kwargs = json.loads(sys.argv[1])
loaded = {}
for config in configs:
    splits = datasets.load_dataset(name, config, **kwargs)
    loaded[config] = {split: list(rows) for split, rows in splits.items()}
print(json.dumps(loaded))
"""


def rows_of(folder: Path, *configs: str) -> Rows:
    """Return config -> split -> rows as this package loads them; by default of all configs."""
    return {
        config: {
            split: open_dataset(folder).table(config, split).to_pylist()
            for split in read_manifest(folder).configs[config]
        }
        for config in configs or read_manifest(folder).configs
    }


def load_rows(
    name: str, configs: list[str], folder: Path, environment: Mapping[str, str], **kwargs: Any
) -> Rows:
    """Return config -> split -> rows as `datasets.load_dataset(name, config, **kwargs)` does."""
    arguments = [json.dumps([name, configs, kwargs])]
    done = run_python(_LOAD, folder, {**dict.fromkeys(os.environ), **environment}, arguments)
    assert done.returncode == 0, done.stderr
    loaded: Rows = json.loads(done.stdout)
    return loaded
