"""Two nodes of a Ray cluster, with and without tokens, as `ray start` starts them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import Build, Command

pytestmark = [pytest.mark.cluster, pytest.mark.extended]

pytest.importorskip("ray", reason="needs Ray: pip install 'msshift-bench[cluster]'")

TOKEN = "0123456789abcdef" * 4

NEEDS = "requires its token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to what `ray get-auth"


class TwoNodes(NamedTuple):
    """A cluster.

    Attributes:
        folder: its own folder: HOME with a token, and where `auto` looks.
        address: its address.
        tokens: whether it requires the token.
    """

    folder: Path
    address: str
    tokens: bool

    def variables(self, **changes: str) -> dict[str, str]:
        """Return the variables of a shell whose user may have a token."""
        home = str(self.folder / "home")
        return {"HOME": home, "RAY_TMPDIR": str(self.folder), **changes}


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port


@pytest.fixture(scope="module", params=[True, False], ids=["tokens on", "tokens off"])
def cluster(request: pytest.FixtureRequest) -> Iterator[TwoNodes]:
    # The path of a socket has at most 107 characters, and pytest's folders are too deep.
    folder = Path(tempfile.mkdtemp(prefix="ray"))
    (folder / "home" / ".ray").mkdir(parents=True)
    (folder / "nobody").mkdir()
    (folder / "home" / ".ray" / "auth_token").write_text(TOKEN)
    nodes = TwoNodes(folder, f"127.0.0.1:{free_port()}", request.param)
    port = nodes.address.partition(":")[2]
    common = ["--block", "--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats"]
    common += ["--min-worker-port=0", "--max-worker-port=0", "--metrics-export-port=0"]
    common += ["--dashboard-agent-listen-port=0", "--dashboard-agent-grpc-port=0"]
    head = ["--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false"]
    # `ray start --head` requires a token that it finds; other nodes send it only if they are told.
    modes = (
        [{}, {"RAY_AUTH_MODE": "token"}] if nodes.tokens else [{"RAY_AUTH_MODE": "disabled"}] * 2
    )
    started: list[subprocess.Popen[bytes]] = []
    try:
        for arguments, mode in zip((head, [f"--address={nodes.address}"]), modes, strict=True):
            with (folder / f"node{len(started)}.log").open("wb") as log:
                node = subprocess.Popen(
                    [str(Path(sys.executable).with_name("ray")), "start", *arguments, *common],
                    env={**os.environ, **nodes.variables(**mode)}, stdout=log, stderr=log,
                )  # fmt: skip
            started.append(node)
            deadline = time.monotonic() + 120
            while b"Ray runtime started" not in Path(log.name).read_bytes():
                assert node.poll() is None, Path(log.name).read_text()
                assert time.monotonic() < deadline
                time.sleep(0.2)
        yield nodes
    finally:
        for node in reversed(started):
            node.terminate()  # It ends what it has started, and nothing else.
            node.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def search(script: Command, build_once: Build, cluster: TwoNodes, ray: str, **changes: str) -> str:
    """Search by BM25 on a cluster; return the run file's name, or the last line of stderr."""
    data = build_once("mini:300", "length")
    address = cluster.address if ray == "host:port" else ray
    out = "-".join([ray.partition(":")[0], *changes])
    done = script(
        *("run", "bm25", "--shift", "length", "--collection", "mini:300", "--data", data),
        *("--ray", address, "--out", out), **cluster.variables(**changes),
    )  # fmt: skip
    assert "gcs_client.cc" not in done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode:
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"error: the Ray cluster at {address} requires its token")
    return done.stdout or done.stderr


def test_both_addresses_work_or_name_the_token(
    script: Command, build_once: Build, cluster: TwoNodes
) -> None:
    given = (script, build_once, cluster)
    assert "bm25/length.run.gz" in search(*given, "auto")
    plain = search(*given, "host:port")
    if not cluster.tokens:
        assert "bm25/length.run.gz" in plain
        assert "bm25/length.run.gz" in search(*given, "host:port", RAY_AUTH_MODE="token")
        return
    assert NEEDS in plain
    assert "bm25/length.run.gz" in search(*given, "host:port", RAY_AUTH_MODE="token")
    wrong = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN[::-1]}
    nobody = {"HOME": str(cluster.folder / "nobody")}
    assert NEEDS in search(*given, "host:port", **wrong)
    assert NEEDS in search(*given, "host:port", RAY_AUTH_MODE="token", **nobody)
    assert NEEDS in search(*given, "auto", **nobody)
