"""A forkserver of multiprocessing that has libraries imported, and did not import them anew."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path

import pytest

from tests.support import forked_client
from tests.support.forking import NEURAL, client_of

__all__ = ["warm_forkserver"]

_LISTENER, _ALIVE = 100, 101
"""Descriptors in the forkserver, of which none is in use."""

_PROGRAM = f"""
import signal
from multiprocessing.forkserver import main
signal.alarm(0)
main({_LISTENER}, {_ALIVE}, [])
"""


@contextmanager
def warm_forkserver(libraries: Sequence[str] = NEURAL) -> Iterator[None]:
    """Let processes be forked from one that a server of `tests.support.forking` has forked.

    Args:
        libraries: the modules that are imported when they start.
    """
    alive, kept_open = os.pipe()
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind(f"{folder}/forkserver")
        listener.listen()
        streams = {2: 2, _LISTENER: listener.fileno(), _ALIVE: alive}
        *_, server = client_of(libraries)
        given = (_PROGRAM, ["-c"], str(Path.cwd()), os.environ, streams)
        with forked_client.request_process(server, *given) as ended:
            ended.readline()
            os.close(alive)
            patch.setattr(forkserver._forkserver, "ensure_running", lambda: None)
            patch.setattr(forkserver._forkserver, "_forkserver_address", f"{folder}/forkserver")
            patch.setattr(forkserver._forkserver, "_forkserver_alive_fd", kept_open)
            if libraries == NEURAL:
                # It logs which function calls it, and reads the source of pytest for that.
                rendezvous = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
                patch.setattr(f"{rendezvous}.get_method_name", lambda _depth=2: "")
            yield
            os.close(kept_open)
            assert int(ended.readline()) == 0
