"""Results at S3, which moto's server plays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.engine import Engine, KeptArray
from msshift_bench.errors import IntegrityError, MissingError
from tests.engine.test_engine import carried_out, kept

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
        client.create_bucket(Bucket="results")
        client.close()
        yield
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_what_stands_at_s3_is_not_made_again(server: None, tmp_path: Path) -> None:
    expected = kept(Engine(), tmp_path)
    engine = Engine(store="s3://results/numbers")
    assert kept(engine, Path("nowhere")) == expected
    carried_out.clear()
    assert kept(engine, Path("nowhere")) == expected
    assert not carried_out
    assert not Path("nowhere").exists()


def test_a_misspelt_bucket_is_refused_and_not_made(server: None) -> None:
    result = KeptArray("s3://wrok/results", "a.npy")
    for _ in range(2):
        assert not result.stands()
        with pytest.raises(MissingError, match=r"s3://wrok/results cannot be used: FileNotFound"):
            result.write(np.arange(5))
    assert s3fs.S3FileSystem().ls("") == ["results"]


def test_an_array_stands_whole_or_not_at_all(server: None) -> None:
    result = KeptArray("s3://results/arrays", "a.npy")
    assert not result.stands()
    result.write(np.arange(5))
    # Another machine's listing of the folder would have been made before.
    assert result.stands()
    assert result.load().tolist() == [0, 1, 2, 3, 4]
    s3fs.S3FileSystem().pipe_file("results/arrays/a.npy", b"damaged")
    with pytest.raises(IntegrityError, match=r"s3://results/arrays/a\.npy was damaged"):
        result.load()
    result.remove()
    assert not result.stands()
