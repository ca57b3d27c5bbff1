"""A Ray cluster of several nodes on this machine, which starts on a busy machine, too."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

__all__ = ["add_node", "ray_cluster"]

_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")


@contextmanager
def ray_cluster() -> Iterator[Any]:
    """Start a cluster of a node of one processor, which cannot be removed.

    Yields:
        A ``ray.cluster_utils.Cluster``.
    """
    os.environ["RAY_raylet_start_wait_time_s"] = "120"  # noqa: SIM112
    os.environ["RAY_worker_register_timeout_seconds"] = "300"  # noqa: SIM112
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    # The path of a socket has at most 107 characters, and pytest's folders are too deep.
    folder = Path(tempfile.mkdtemp(prefix="ray"))
    # Ray writes down the address of its last cluster in a folder that it expects to find.
    (folder / "ray").mkdir()
    os.environ["RAY_TMPDIR"] = str(folder)
    node_id = uuid4().hex + uuid4().hex[:24]
    writer = threading.Thread(target=_write_for_head, args=(folder, node_id), daemon=True)
    writer.start()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            **_node(node_id),
            "include_dashboard": False,
            "include_log_monitor": False,
            "temp_dir": str(folder),
        },
    )
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        del os.environ["RAY_TMPDIR"]
        shutil.rmtree(folder, ignore_errors=True)


def add_node(cluster: Any, processors: int) -> None:
    """Add a node to a cluster."""
    node_id = uuid4().hex + uuid4().hex[:24]
    _write_ports(Path(cluster.head_node.get_session_dir_path()), node_id)
    cluster.add_node(**_node(node_id, processors))


def _node(node_id: str, processors: int = 1) -> dict[str, Any]:
    return {
        "num_cpus": processors,
        "object_store_memory": 80 << 20,
        "env_vars": {"RAY_OVERRIDE_NODE_ID_FOR_TESTING": node_id},
        "runtime_env_agent_port": _free_port(),
    }


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("", 0))
        return int(taken.getsockname()[1])


def _write_ports(session: Path, node_id: str) -> None:
    """Say, in place of a node's agent, that it has no ports: a node waits 15 s for that, and dies.

    On a busy machine the agent takes longer to import what it does not need (ray-project/ray
    issue 65983).
    """
    for name in _PORTS:
        (session / f"{name}_{node_id}").write_text("-1")


def _write_for_head(folder: Path, node_id: str) -> None:
    while not (sessions := list(folder.glob("session_2*"))):
        time.sleep(0.01)
    _write_ports(sessions[0], node_id)
