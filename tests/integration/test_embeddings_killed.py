"""Killing the embedding of queries: the successor takes up what is there and ends the same."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from msshift_bench.encoders import embeddings
from msshift_bench.encoders.embeddings import embed_queries
from msshift_bench.encoders.models import EncoderSpec
from msshift_bench.mini import generator as mini
from msshift_bench.plumbing import reporting
from tests.support.forking import work_forked
from tests.support.tiny_encoder import make_tiny_encoder

pytestmark = [pytest.mark.slow, pytest.mark.neural]


def work(encoder: str, cache: Path, events: Connection) -> None:
    """Embed in a process of its own, in many small blocks; tell of every event."""
    embeddings._BLOCK = 64
    with reporting(lambda *event: events.send(event)):
        spec = EncoderSpec(encoder, max_length=24)
        embedded = embed_queries(dict(mini.queries(400)), spec, cache=cache)
    events.send(embedded.sha256)


class Attempt:
    """One process at work, and what it tells."""

    def __init__(self, encoder: Path, cache: Path) -> None:
        self.process, self.events = work_forked(work, str(encoder), cache)

    def kill_at(self, stage: str, done: int) -> None:
        """Kill it once it has told of so much of a stage."""
        while True:
            found, so_far, _ = self.events.recv()
            if found == stage and so_far >= done:
                break
        assert self.process.kill() != 0

    def finish(self) -> str:
        """Wait for its end and return the digest."""
        while not isinstance(event := self.events.recv(), str):
            continue
        assert self.process.wait() == 0
        return event


def test_a_killed_embedding_ends_in_the_same_bytes(tmp_path: Path) -> None:
    encoder, killed, undisturbed = (tmp_path / name for name in ("tiny", "killed", "undisturbed"))
    texts = [query.text for query in mini.queries(400)]
    make_tiny_encoder(encoder, texts, length=24, layers=1, hidden=32)
    expected = Attempt(encoder, undisturbed).finish()

    made: dict[Path, int] = {}
    for done in (150, 350):
        Attempt(encoder, killed).kill_at("embed", done)
        blocks = {path: path.stat().st_mtime_ns for path in killed.glob("*/blocks/*.npy")}
        assert made.items() < blocks.items()
        made = blocks
    assert Attempt(encoder, killed).finish() == expected

    assert [path.name for path in killed.iterdir()] == [path.name for path in undisturbed.iterdir()]
    for path in undisturbed.glob("*/*"):
        assert (killed / path.relative_to(undisturbed)).read_bytes() == path.read_bytes()
    assert not list(killed.glob("*/blocks"))
    assert not list(killed.rglob(".*"))
