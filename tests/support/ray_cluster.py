"""A Ray cluster of several nodes on this machine, of as few processes as Ray needs for tasks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.forking import NEURAL, client_of

__all__ = ["add_node", "ray_cluster"]

_AGENT = """
while [ $# -gt 0 ]; do
    case $1 in
        --node-id=*) node=${1#*=} ;;
        --session-dir=*) session=${1#*=} ;;
        --listen-port=*) ports="metrics_agent metrics_export dashboard_agent_listen" ;;
    esac
    shift
done
for port in $ports; do
    printf -- -1 >"$session/$port$node"
    mv "$session/$port$node" "$session/${port}_port_$node"
done
exec cat >/dev/null
"""
"""Stands for a node's agents: it says that they have no ports, and ends with the node."""

_START = """
import os, sys
worker = [word for word in sys.argv[1:] if not word.startswith("--language=")]
client = {client!r}
os.posix_spawn(client[0], [*client, *worker], os.environ, setsid=True)
"""
"""Starts a worker. Its node may kill this process, and none that the server still has to answer."""

_WORKER = """
import runpy, signal, sys
signal.alarm(0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Is a worker, for as long as the cluster needs it."""


@contextmanager
def ray_cluster() -> Iterator[Any]:
    """Start a cluster of a node of one processor, which cannot be removed.

    Its workers are forked from a process that has imported what tasks need. What Ray imports for
    its dashboard and for environments of tasks, which tests have no use for, takes longer than
    all that they do: nothing of that is started.

    Yields:
        A ``ray.cluster_utils.Cluster``.
    """
    os.environ["RAY_raylet_start_wait_time_s"] = "120"  # noqa: SIM112
    os.environ["RAY_worker_register_timeout_seconds"] = "300"  # noqa: SIM112
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray._private import services
    from ray.cluster_utils import Cluster

    # The path of a socket has at most 107 characters, and pytest's folders are too deep.
    folder = Path(tempfile.mkdtemp(prefix="ray"))
    # Ray writes down the address of its last cluster in a folder that it expects to find.
    (folder / "ray").mkdir()
    (folder / "agent.sh").write_text(_AGENT)
    (folder / "worker.py").write_text(_WORKER)
    client = [*client_of(NEURAL), str(folder / "worker.py")]
    (folder / "start.py").write_text(_START.format(client=client))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", str(folder))
        patch.setattr(services, "start_api_server", lambda *_, **__: (None, None))
        agent = ["/bin/sh", str(folder / "agent.sh")]
        of_agents = "_build_python_executable_command_memory_profileable"
        patch.setattr(services, of_agents, lambda *_: agent)
        cluster = Cluster(
            initialize_head=True,
            head_node_args={
                **_node(1),
                "include_log_monitor": False,
                "no_monitor": True,
                "temp_dir": str(folder),
            },
        )
        try:
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def add_node(cluster: Any, processors: int) -> None:
    """Add a node to a cluster."""
    cluster.add_node(**_node(processors))


def _node(processors: int) -> dict[str, Any]:
    return {
        "num_cpus": processors,
        "object_store_memory": 80 << 20,
        "setup_worker_path": f"{os.environ['RAY_TMPDIR']}/start.py",
        "runtime_env_agent_port": 65535,
    }
