"""Programs in two processes that train together, as torchrun starts them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.support.forking import NEURAL, Done, client_of, run_forked

__all__ = ["run_together"]

_LAUNCHER = "from torch.distributed.run import main\nmain()\n"


def run_together(program: str, arguments: Sequence[str | Path], folder: Path) -> Done:
    """Run a program in two processes, each forked when torchrun starts it.

    Args:
        program: its source.
        arguments: what follows its name in `sys.argv`.
        folder: where the source is written to, and the working directory.
    """
    (folder / "program.py").write_text(program, "utf-8")
    client = [*client_of(NEURAL), folder / "program.py", *arguments]
    launcher = ["torchrun", "--nproc_per_node", "2", "--standalone", "--no-python"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return run_forked(_LAUNCHER, [*launcher, *map(str, client)], folder, environment, NEURAL)
