"""What a process does once before commands are forked from it: it is the last that it imports.

Every `msshift` makes the parser of its command anew, and pydantic's checks of its options and of
the manifest, which takes longer than what most of them do.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io

import matplotlib.figure
import typer.main

from msshift_bench import cli
from msshift_bench.baselines.systems.finding import our_systems
from msshift_bench.checked import check_json
from msshift_bench.data.manifest import Manifest
from msshift_bench.report.writing import PICTURE_FORMATS
from tests.support.commands import COMMANDS, leaves

typer.main.get_command = functools.cache(typer.main.get_command)
_made = {name: cli.make_app(name) for name in {words[0] for words in COMMANDS}}
for _app in _made.values():
    for _, _command in leaves(typer.main.get_command(_app)):
        for _parameter in _command.params:
            _parameter.get_runtime_param()
typer.main.get_command(cli.app)
cli.make_app = lambda word="": _made.get(word, cli.app)

our_systems()
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    cli.app(["verify", "--help"])
with contextlib.suppress(ValueError):
    check_json({}, Manifest, "", ValueError)

# Matplotlib reads its fonts for the first picture, and imports what writes a format.
for _format in PICTURE_FORMATS:
    _picture = matplotlib.figure.Figure()
    _picture.text(0, 0, "text")
    _picture.savefig(io.BytesIO(), format=_format)

# A collection in a forked process would touch, and so copy, all that it shares with this one.
gc.collect()
gc.freeze()
gc.set_threshold(50_000, 50, 50)
