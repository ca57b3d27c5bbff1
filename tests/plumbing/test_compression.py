"""A file is refused if `gzip -t`, `bzip2 -t`, `xz -t` or `zstd -t` refuses it."""

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
    """Return the decompressed bytes, or `None` if the file is damaged."""
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


SPOILED: tuple[Callable[[bytes], bytes], ...] = (
    lambda second: second[:-1],
    lambda second: second[: len(second) // 2],
    lambda second: second[:7],
    lambda second: second[:1],
    lambda second: b"X" + second[1:],
    lambda _: b"xyz",
    lambda _: b"x",
    lambda second: ZEROS[:3] + second,
    lambda _: ZEROS + b"xyz",
)
"""The second stream -> its bytes after damage."""


@pytest.mark.parametrize("name", FORMATS)
def test_damage_after_the_first_stream_is_noticed(name: str) -> None:
    compress = COMPRESSORS[name]
    for number, spoil in enumerate(SPOILED):
        assert read(compress(FIRST) + spoil(compress(SECOND))) is None, number


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


def test_only_xz_is_padded_with_zeros_in_fours_after_a_stream() -> None:
    compress = COMPRESSORS["xz"]
    assert read(compress(FIRST) + ZEROS + compress(SECOND) + ZEROS * 40_000) == FIRST + SECOND
    assert read(compress(FIRST) + ZEROS * 40_000 + compress(SECOND)) == FIRST + SECOND
    for zeros in (1, 2, 3, 5, 1 << 16 | 1):
        assert read(compress(FIRST) + bytes(zeros)) is None
        assert read(compress(FIRST) + bytes(zeros) + compress(SECOND)) is None
    for name in ("gz", "bz2", "zst"):
        assert read(COMPRESSORS[name](FIRST) + ZEROS) is None


def test_skippable_frames_of_zstd_are_skipped() -> None:
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
def test_a_pipe_is_read_to_its_end(tmp_path: Path, name: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = b"q1 0 d1 1\n" * 40_000
    data = text if name is None else COMPRESSORS[name](text)

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            file.write(data[:1])  # A reader must not take this for the end.
            file.write(data[1:])

    writer = threading.Thread(target=write)
    writer.start()
    with open_stream(pipe) as stream:
        assert stream.read() == text
    writer.join()


def test_a_folder_and_a_missing_file_are_not_called_damaged(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "_RATIO_FROM", 100_000)
    path = tmp_path / "run"
    path.write_bytes(COMPRESSORS[name](b"q1 Q0 d1 1 1.5 tag\n" * 5_000))
    with open_stream(path) as stream:
        assert len(stream.read()) == 95_000
    path.write_bytes(COMPRESSORS[name](b"q1 Q0 d1 1 1.5 tag\n" * 60_000))
    assert path.stat().st_size * 200 < 1_140_000
    with (
        pytest.raises(DamagedInputError, match="more than 200 times the size"),
        open_stream(path) as stream,
    ):
        stream.read()
