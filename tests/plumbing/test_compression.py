"""What `gzip -t`, `bzip2 -t`, `xz -t` and `zstd -t` say of a file is what reading it says."""

from __future__ import annotations

import io
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.errors import CollectionError, NotFoundError, RunError, UsageError
from msshift_bench.plumbing import compression
from msshift_bench.plumbing.compression import DamagedInputError, decompressed
from msshift_bench.plumbing.reading import open_stream
from msshift_bench.runs import Judgements, judge_run, read_qrels
from tests.support.compressing import COMPRESSORS, SKIPPABLE

FORMATS = list(COMPRESSORS)
FIRST, SECOND = b"q1 Q0 d1 1 2 t\n" * 50, b"q2 Q0 d2 1 1 t\n" * 50
ZEROS = bytes(4)


def read(data: bytes) -> bytes | None:
    """What the file holds, or `None` if it is damaged."""
    try:
        return decompressed(io.BytesIO(data)).read()
    except DamagedInputError:
        return None


@pytest.mark.parametrize("name", FORMATS)
def test_all_streams_of_a_file_are_read(name: str) -> None:
    compress = COMPRESSORS[name]
    assert read(compress(FIRST) + compress(SECOND)) == FIRST + SECOND
    assert read(compress(b"") + compress(FIRST) + compress(b"") * 2) == FIRST
    assert read(b"".join(compress(b"%d\n" % number) for number in range(2_000))) == b"".join(
        b"%d\n" % number for number in range(2_000)
    )


SPOILED: dict[str, Callable[[bytes], bytes]] = {
    "the last byte is gone": lambda second: second[:-1],
    "half is gone": lambda second: second[: len(second) // 2],
    "its first bytes": lambda second: second[:7],
    "its first byte": lambda second: second[:1],
    "another magic": lambda second: b"X" + second[1:],
    "garbage": lambda second: b"xyz",
    "one byte": lambda second: b"x",
    "three zeros before": lambda second: ZEROS[:3] + second,
    "zeros and garbage": lambda second: ZEROS + b"xyz",
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("how", SPOILED)
def test_what_cannot_be_read_behind_the_first_stream_is_damage(name: str, how: str) -> None:
    compress = COMPRESSORS[name]
    assert read(compress(FIRST) + SPOILED[how](compress(SECOND))) is None


@pytest.mark.parametrize("name", ["gz", "bz2", "xz"])
def test_a_changed_bit_in_any_of_many_streams_is_seen(name: str) -> None:
    """zstd as pyarrow writes it has no checksum, so that there is nothing to see it by."""
    compress = COMPRESSORS[name]
    streams = [compress(b"q%d Q0 d1 1 2 t\n" % number * 9) for number in range(20)]
    sound = b"".join(streams)
    whole = read(sound)
    assert whole is not None
    rng = random.Random(12)
    for _ in range(300):
        data = bytearray(sound)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        assert read(bytes(data)) in (None, whole)


def test_xz_may_be_padded_with_zeros_in_fours_anywhere_behind_a_stream() -> None:
    compress = COMPRESSORS["xz"]
    assert read(compress(FIRST) + ZEROS + compress(SECOND) + ZEROS * 40_000) == FIRST + SECOND
    assert read(compress(FIRST) + ZEROS * 40_000 + compress(SECOND)) == FIRST + SECOND
    for zeros in (1, 2, 3, 5, 1 << 16 | 1):
        assert read(compress(FIRST) + bytes(zeros)) is None
        assert read(compress(FIRST) + bytes(zeros) + compress(SECOND)) is None


@pytest.mark.parametrize("name", ["gz", "bz2", "zst"])
def test_only_xz_has_padding(name: str) -> None:
    assert read(COMPRESSORS[name](FIRST) + ZEROS) is None


def test_frames_of_zstd_that_are_to_be_skipped_are() -> None:
    compress = COMPRESSORS["zst"]
    assert read(SKIPPABLE + compress(FIRST)) == FIRST
    assert read(compress(FIRST) + SKIPPABLE + compress(SECOND) + SKIPPABLE) == FIRST + SECOND
    assert read(SKIPPABLE) == b""
    assert read(compress(FIRST) + SKIPPABLE[:-1]) is None


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [1, 13, 4096, 1 << 20])
def test_reading_in_pieces_gives_the_same_bytes(name: str, size: int) -> None:
    compress = COMPRESSORS[name]
    whole = random.Random(1).randbytes(300_000) + bytes(600_000)
    if size < 4096:
        whole = whole[:3000]
    stream = decompressed(io.BytesIO(compress(whole) + compress(FIRST)))
    assert b"".join(iter(lambda: stream.read(size), b"")) == whole + FIRST


def test_runs_and_qrels_of_several_streams_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    judgements = Judgements.from_qrels({"q1": {"d1": 1}, "q2": {"d2": 1}})
    for name, compress in COMPRESSORS.items():
        first, second = compress(b"q1 Q0 d1 1 2 t\n"), compress(b"q2 Q0 d2 1 1 t\n")
        padding = ZEROS if name == "xz" else b""
        path.write_bytes(first + padding + second)
        assert judge_run(path, judgements).report.lines == 2
        path.write_bytes(first + padding + second[:-1])
        with pytest.raises(RunError, match="truncated-input"):
            judge_run(path, judgements)
        first, second = compress(b"q1 0 d1 1\n"), compress(b"q2 0 d2 1\n")
        path.write_bytes(first + padding + second)
        assert len(read_qrels(path)) == 2
        path.write_bytes(first + padding + second[:-1])
        with pytest.raises(CollectionError, match="truncated-input"):
            read_qrels(path)


@pytest.mark.parametrize("name", [None, *FORMATS])
def test_a_pipe_is_read_as_it_comes(tmp_path: Path, name: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = b"q1 0 d1 1\n" * 40_000
    data = text if name is None else COMPRESSORS[name](text)

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            file.write(data[:1])  # whoever reads must not take this for all there is
            file.write(data[1:])

    writer = threading.Thread(target=write)
    writer.start()
    with open_stream(pipe) as stream:
        assert stream.read() == text
    writer.join()


def test_what_is_no_file_is_no_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"), open_stream(tmp_path):
        pass
    with pytest.raises(NotFoundError, match="no file"), open_stream(tmp_path / "none"):
        pass


def test_an_error_of_the_disk_is_not_called_damage() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 100:
                raise OSError(5, "Input/output error")
            return super().read(min(size or 101, 101))

    for compress in COMPRESSORS.values():
        data = compress(random.Random(1).randbytes(100_000))
        with pytest.raises(OSError, match="Input/output error"):
            decompressed(Broken(data)).read()


@pytest.mark.extended
@pytest.mark.parametrize("name", COMPRESSORS)
def test_what_holds_far_more_than_was_stored_is_a_bomb(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "_RATIO_FROM", 100_000)
    path = tmp_path / "run"
    path.write_bytes(COMPRESSORS[name](b"q1 Q0 d1 1 1.5 tag\n" * 5_000))
    with open_stream(path) as stream:
        assert len(stream.read()) == 95_000
    path.write_bytes(COMPRESSORS[name](b"q1 Q0 d1 1 1.5 tag\n" * 500_000))
    assert path.stat().st_size * 200 < 9_500_000
    with (
        pytest.raises(DamagedInputError, match="more than 200 times its size"),
        open_stream(path) as stream,
    ):
        stream.read()
