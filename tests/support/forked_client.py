"""Asks a server for a process. Run as a script, it is that process to whoever started it.

It stands apart, with few imports, because a line of sh starts it for every command: `json`,
`pathlib` and `typing` would double the time that it takes.
"""

from __future__ import annotations

import os
import resource
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO, Any

__all__ = ["request_process"]


def request_process(
    address: str,
    program: str,
    arguments: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    streams: Mapping[int, int | None],
) -> IO[str]:
    """Have the server at an address fork a process that runs a program.

    Args:
        address: the server's socket.
        program: the program's source.
        arguments: its `sys.argv`.
        folder: its working directory.
        environment: all of its environment.
        streams: number of a standard stream -> the descriptor here that it is there; `None` closes
            it. Those that are left out are the server's.

    Returns:
        A stream that says the number of the process, and then its exit code, each in a line.
    """
    files = {number: file for number, file in streams.items() if file is not None}
    request: dict[str, Any] = {
        "program": program,
        "arguments": list(arguments),
        "folder": folder,
        "environment": dict(environment),
        "streams": list(files),
        "closed": [number for number, file in streams.items() if file is None],
        "file_size": resource.getrlimit(resource.RLIMIT_FSIZE),
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"\n"], list(files.values()))
        stream = connection.makefile("rw")
    stream.write(f"{request!a}\n")
    stream.flush()
    return stream


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _main() -> None:
    streams = {number: number if _is_open(number) else None for number in range(3)}
    # The socket must not become one of the streams that are closed.
    for _ in range(3):
        os.open(os.devnull, os.O_RDONLY)
    address, program, *arguments = sys.argv[1:]
    with open(program, encoding="utf-8") as file:  # noqa: PTH123
        source = file.read()
    environment = dict(os.environ)
    given, folder = [program, *arguments], os.getcwd()  # noqa: PTH109
    with request_process(address, source, given, folder, environment, streams) as answer:
        answer.readline()
        code = int(answer.readline())
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    _main()
