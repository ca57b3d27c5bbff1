"""Shards in a bucket of an S3 server: moto's, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.errors import IntegrityError, MissingError
from msshift_bench.shards import ShardStore, choose_engine, using_engine
from tests.shards.test_map_shards import Powers, carry_out

s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
moto_server = pytest.importorskip("moto.server", reason="moto is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    """Start a server; what knows how to reach S3 reaches this one."""
    import boto3

    server = moto_server.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        client = boto3.client("s3")
        client.create_bucket(Bucket="shards")
        client.close()
        yield
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture
def bucket(server: None, request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty folder of a bucket."""
    return f"s3://shards/{request.node.name}"


def test_s3(bucket: str, tmp_path: Path) -> None:
    expected = carry_out(tmp_path)
    with using_engine(choose_engine("local", place=bucket)):
        assert carry_out(Path("nowhere")) == expected
        made = Powers.made
        assert carry_out(Path("nowhere")) == expected
        assert Powers.made == made
    assert not Path("nowhere").exists()


def test_a_misspelt_bucket_is_refused_and_not_made(server: None) -> None:
    store = ShardStore("s3://wrok/shards")
    for _ in range(2):
        assert not store.stands("a.npy")
        with pytest.raises(MissingError, match=r"s3://wrok/shards cannot be used: FileNotFound.*"):
            store.write("a.npy", np.arange(5))
    assert s3fs.S3FileSystem().ls("") == ["shards"]


def test_processes_write_to_s3(bucket: str, tmp_path: Path) -> None:
    expected = carry_out(tmp_path)
    with using_engine(choose_engine("local", workers=2, place=bucket)):
        assert carry_out(Path("nowhere")) == expected


def test_an_array_stands_whole_or_not_at_all(bucket: str) -> None:
    store = ShardStore(bucket).within("arrays")
    assert not store.stands("a.npy")
    store.write("a.npy", np.arange(5))
    # Another machine's listing of the folder would have been made before.
    assert ShardStore(bucket).within("arrays").stands("a.npy")
    assert store.load("a.npy").tolist() == [0, 1, 2, 3, 4]
    store.write_bytes("a.npy", b"damaged")
    with pytest.raises(IntegrityError, match=f"{bucket}/arrays/a.npy was damaged"):
        store.load("a.npy")
    store.remove("a.npy")
    assert not store.stands("a.npy")
