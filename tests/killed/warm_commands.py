"""What a process does once before commands are forked from it: it is the last that it imports.

Every `msshift` makes Typer's tree of commands anew, which takes as long as what many of them do.
"""

from __future__ import annotations

import functools
import gc

import typer.main

from msshift_bench.cli import app

typer.main.get_command = functools.cache(typer.main.get_command)
typer.main.get_command(app)

# A collection in a forked process would touch, and so copy, all that it shares with this one.
gc.collect()
gc.freeze()
