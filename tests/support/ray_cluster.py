"""A Ray cluster of several nodes on this machine, each a process of ``ray start``."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["RayCluster", "ray_cluster"]

_SECONDS = 120
"""Within which a node must start."""


_ENVIRONMENT = {
    "PYTHONPATH": str(Path(__file__).parents[2]),  # Workers import the functions of tests.
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_worker_register_timeout_seconds": "300",
}


class RayCluster:
    """A cluster of one node of one processor, and the nodes that are added.

    Args:
        folder: a folder with a short path: the path of a socket has at most 107 characters.
        environment: variables of all nodes, such as those of Ray's tokens.

    Attributes:
        address: its ``host:port``.
        nodes: the processes of its nodes, the first node first.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, dict(environment)
        self.nodes: list[subprocess.Popen[bytes]] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}")
        self._start(*head, "--num-cpus=1")

    def add_node(self, processors: int) -> None:
        """Start a node."""
        self._start(f"--address={self.address}", f"--num-cpus={processors}")

    def remove_node(self) -> None:
        """Kill the last node, with all of its processes."""
        _kill(self.nodes.pop())

    def stop(self) -> None:
        """Kill all nodes."""
        while self.nodes:
            self.remove_node()

    def _start(self, *options: str) -> None:
        number = len(list(self._folder.glob("*.log")))
        log = self._folder / f"{number}.log"
        common = ("--node-ip-address=127.0.0.1", "--include-log-monitor=false")
        with log.open("wb") as output:
            node = subprocess.Popen(
                [
                    str(Path(sys.executable).with_name("ray")), "start", "--block",
                    *options, *common, f"--object-store-memory={80 << 20}", "--log-color=false",
                ],
                env={**os.environ, **_ENVIRONMENT, **self._environment},
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self.nodes.append(node)
        deadline = time.monotonic() + _SECONDS
        while b"Ray runtime started" not in log.read_bytes():
            if node.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"a node of Ray did not start: {log.read_text()}")
            time.sleep(0.1)


def _kill(node: subprocess.Popen[bytes]) -> None:
    """Kill the processes of a session: workers have groups of their own."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # It has just ended.
                if os.getsid(int(entry.name)) == node.pid:
                    os.kill(int(entry.name), signal.SIGKILL)
    node.wait()


@contextmanager
def ray_cluster(environment: Mapping[str, str] | None = None) -> Iterator[RayCluster]:
    """Start a cluster; end the connection and all nodes with the block.

    Args:
        environment: variables of all nodes, in addition to those of this process.
    """
    import ray

    folder = Path(tempfile.mkdtemp(prefix="ray"))
    cluster = None
    try:
        cluster = RayCluster(folder, environment or {})
        yield cluster
    finally:
        ray.shutdown()
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
