"""Two nodes of a Ray cluster, with and without tokens: a command works or names the token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import Build, Command
from tests.support.lanes import needs
from tests.support.ray_cluster import RayCluster, ray_cluster

pytestmark = [needs("ray", "cluster"), pytest.mark.cluster, pytest.mark.extended]
pytestmark += [pytest.mark.filterwarnings("default")]

TOKEN = "0123456789abcdef" * 4

NEEDS = "requires a token: set RAY_AUTH_MODE=token"


class TwoNodes(NamedTuple):
    """A cluster, HOME of a user who has a token, and whether the cluster requires it."""

    cluster: RayCluster
    home: Path
    tokens: bool


@pytest.fixture(scope="module", params=[True, False], ids=["tokens on", "tokens off"])
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoNodes]:
    home = tmp_path_factory.mktemp("home")
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text(TOKEN)
    # A head node requires a token that it finds; other nodes send it only with the variable.
    first = {"HOME": str(home)} | ({} if request.param else {"RAY_AUTH_MODE": "disabled"})
    with ray_cluster(first) as cluster:
        mode = "token" if request.param else "disabled"
        cluster.add_node(1, {"HOME": str(home), "RAY_AUTH_MODE": mode})
        yield TwoNodes(cluster, home, request.param)


def search(script: Command, data: Path, nodes: TwoNodes, ray: str, **changes: str) -> str:
    """Search by BM25 on a cluster; return the name of the run file, or the error's line."""
    address = nodes.cluster.address if ray == "host:port" else ray
    variables = {"HOME": str(nodes.home), "RAY_TMPDIR": str(nodes.cluster.folder), **changes}
    done = script(
        *("run", "bm25", "--shift", "length", "--collection", "mini:300", "--data", data),
        *("--ray", address, "--out", "-".join([ray.partition(":")[0], *changes])), **variables,
    )  # fmt: skip
    assert "gcs_client.cc" not in done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode:
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"error: the Ray cluster at {address} requires a token")
    return done.stdout or done.stderr


def test_both_addresses_work_or_name_the_token(
    script: Command, build_once: Build, nodes: TwoNodes, tmp_path: Path
) -> None:
    given = (script, build_once("mini:300", "length"), nodes)
    assert "bm25/length.run.gz" in search(*given, "auto")
    plain = search(*given, "host:port")
    assert (NEEDS if nodes.tokens else "bm25/length.run.gz") in plain
    assert "bm25/length.run.gz" in search(*given, "host:port", RAY_AUTH_MODE="token")
    if nodes.tokens:
        wrong = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN[::-1]}
        nobody = {"HOME": str(tmp_path)}
        assert NEEDS in search(*given, "host:port", **wrong)
        assert NEEDS in search(*given, "host:port", RAY_AUTH_MODE="token", **nobody)
        assert NEEDS in search(*given, "auto", **nobody)
