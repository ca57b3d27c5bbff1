"""A Ray cluster of several nodes on this machine, each a process of ``ray start``."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

__all__ = ["RayCluster", "ray_cluster"]

_SECONDS = 120
"""Within which a node must start."""


_ENVIRONMENT = {
    "PYTHONPATH": str(Path(__file__).parents[2]),  # Workers import the functions of tests.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_worker_register_timeout_seconds": "300",
}


_OPTIONS = (
    "--block", "--disable-usage-stats", "--include-log-monitor=false", "--log-color=false",
    f"--object-store-memory={80 << 20}", "--min-worker-port=0", "--max-worker-port=0",
    "--metrics-export-port=0", "--dashboard-agent-listen-port=0", "--dashboard-agent-grpc-port=0",
)  # fmt: skip
"""The options of each node; 0 is any free port."""


class RayCluster:
    """A cluster of one node of one processor, and the nodes that are added.

    Args:
        folder: a folder with a short path: the path of a socket has at most 107 characters.
        environment: variables of the first node.

    Attributes:
        address: its ``host:port``.
        folder: the folder; as ``RAY_TMPDIR`` it lets Ray's address ``auto`` find the cluster.
        nodes: the processes of its nodes, the first node first.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.nodes: list[subprocess.Popen[bytes]] = []
        port = _free_port()
        self.address = f"127.0.0.1:{port}"
        head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}")
        self._start((*head, "--num-cpus=1"), environment)

    def add_node(self, processors: int, environment: Mapping[str, str] | None = None) -> None:
        """Start a node.

        Args:
            processors: its processors.
            environment: variables in addition to those of this process.
        """
        self._start((f"--address={self.address}", f"--num-cpus={processors}"), environment or {})

    def remove_node(self) -> None:
        """Kill the last node, with all of its processes."""
        _kill(self.nodes.pop())

    def stop(self) -> None:
        """Kill all nodes."""
        while self.nodes:
            self.remove_node()

    def _start(self, options: Sequence[str], environment: Mapping[str, str]) -> None:
        log = self.folder / f"node{len(list(self.folder.glob('node*.log')))}.log"
        # A head node requires the token that it finds in HOME.
        own = {"RAY_TMPDIR": str(self.folder), "HOME": str(self.folder)}
        variables = {**_ENVIRONMENT, **own, **environment}
        command = [str(Path(sys.executable).with_name("ray")), "start", *options, *_OPTIONS]
        with log.open("wb") as output:
            node = subprocess.Popen(
                command,
                env={**os.environ, **variables},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.nodes.append(node)
        deadline = time.monotonic() + _SECONDS
        while b"Ray runtime started" not in log.read_bytes():
            if node.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"a node of Ray did not start: {log.read_text()}")
            time.sleep(0.1)


def _free_port() -> int:
    """Return a free port below those that the kernel gives to a server that asks for any.

    A server of another cluster would otherwise be given the port before this cluster's first node
    listens there, and Ray's servers share a port.
    """
    ports = random.SystemRandom()  # Tests in random order seed the other generator.
    while True:
        port = ports.randrange(15_000, 32_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


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
        environment: variables of the first node, in addition to those of this process.
    """
    import ray

    folder = Path(tempfile.mkdtemp(prefix="ray"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster = RayCluster(folder, environment or {})
        stack.callback(cluster.stop)
        stack.callback(ray.shutdown)
        yield cluster
