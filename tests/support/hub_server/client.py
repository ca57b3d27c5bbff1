"""Running the real clients against the loopback Hub, each in a process of its own.

They read ``HF_ENDPOINT`` and the like once, when they are imported.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msshift_bench.data.dataset import open_dataset
from msshift_bench.data.manifest import read_manifest
from tests.support.forking import run_forked
from tests.support.hub_server.server import TOKEN, LoopbackHub

__all__ = ["client_environment", "load_rows", "python", "rows_of"]

_OURS = ("HF_", "HUGGING", "MSSHIFT_", "XDG_")

_WITHOUT_TORCH = {"USE_TORCH": "0"}
"""Where there is torch, `datasets` imports it to stream, for seconds, and does not use it."""


def client_environment(home: Path, hub: LoopbackHub | None, token: str = TOKEN) -> dict[str, str]:
    """Return an environment whose caches lie under `home`; offline, if there is no `hub`."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
    return {
        **inherited,
        "HF_HOME": str(home / "hf"),
        "MSSHIFT_CACHE": str(home / "msshift-cache"),
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "NO_PROXY": "127.0.0.1,localhost",
        **({"HF_ENDPOINT": hub.url} if hub else {"HF_HUB_OFFLINE": "1"}),
        **({"HF_TOKEN": token} if token else {}),
    }


def python(
    script: str, folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder and return what came of it."""
    return run_forked(script, ["-c"], folder, {**environment, **_WITHOUT_TORCH})


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


def rows_of(folder: Path, *configs: str) -> dict[str, dict[str, list[dict[str, Any]]]]:
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
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return config -> split -> rows as the plain datasets library loads them.

    Args:
        name: the first argument of `datasets.load_dataset`.
        configs: each is loaded with all its splits.
        folder: where the process runs.
        environment: of the process.
        kwargs: further arguments of `datasets.load_dataset`.
    """
    arguments = ["-c", json.dumps([name, configs, kwargs])]
    done = run_forked(_LOAD, arguments, folder, {**environment, **_WITHOUT_TORCH})
    assert done.returncode == 0, done.stderr
    loaded: dict[str, dict[str, list[dict[str, Any]]]] = json.loads(done.stdout)
    return loaded
