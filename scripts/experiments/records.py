"""What the sidecars of trained runs say, as tables in Markdown.

Usage: python -m scripts.experiments.records costs FOLDER ... | curves FOLDER ...

``costs`` counts trainings, seeds and hours, and names the digests of data and encoder; ``curves``
shows MRR@10 on the validation queries after so many steps. A folder holds run sets.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msshift_bench.baselines.systems.recipe import RANDOM
from msshift_bench.errors import MsShiftError, NotFoundError
from msshift_bench.output import Table, to_markdown
from msshift_bench.runs import find_run_sets, sidecar_path

SHORT_DIGEST = 8


def sidecars(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the sidecars of all runs of trained models in folders of run sets.

    Raises:
        NotFoundError: if there are none.
    """
    runs = [
        run
        for found in find_run_sets(folders)
        for by_group in found.runs.values()
        for run in by_group.values()
    ]
    read = [json.loads(sidecar_path(run).read_text("utf-8")) for run in runs]
    if not read:
        raise NotFoundError(f"no trained model in {', '.join(map(str, folders))}")
    return read


def costs(records: Iterable[dict[str, Any]]) -> Table:
    """Return a row per shift and system: trainings, seeds, hours of one thread, digests."""
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        kinds[record["shift"], record["system"]].append(record)

    def hours(several: list[dict[str, Any]], training: bool) -> str:
        seconds = 0.0
        for one in several:
            learning = one["seconds"].get("train", 0.0) + one["seconds"].get("negatives", 0.0)
            spent = learning if training else one["seconds"]["total"] - learning
            seconds += spent * one["hardware"]["torch_threads"]
        return f"{seconds / 3600:.1f}"

    def digests(values: Iterable[str]) -> str:
        return " ".join(sorted({f"`{value[:SHORT_DIGEST]}`" for value in values}))

    rows = [
        (
            shift,
            system,
            len(several),
            len({one["parameters"]["seed"] for one in several}),
            hours(several, training=True),
            hours(several, training=False),
            digests(one["data_digest"] for one in several),
            digests(one["encoder"]["weights_sha256"] for one in several)
            if several[0]["encoder"]
            else RANDOM,
        )
        for (shift, system), several in sorted(kinds.items())
    ]
    header = ("shift", "system", "trained", "seeds", "h training", "h search", "data", "encoder")
    return Table.plain("Trainings", header, rows, names=2)


def curves(records: Iterable[dict[str, Any]]) -> Table:
    """Return a row per model: MRR@10 x 100 on the validation queries after so many steps.

    Raises:
        NotFoundError: if a model was trained without validation, or after other steps than others.
    """
    histories = {}
    for record in records:
        model = f"without {record['held_out']}, seed {record['parameters']['seed']}"
        name = (record["system"], model)
        histories[name] = record["training"].get("history")
    steps = {tuple(history) if history else () for history in histories.values()}
    if len(steps) != 1 or () in steps:
        raise NotFoundError("these models were not all validated after the same steps")
    rows = [
        (*name, *(f"{100 * value:.1f}" for value in history.values()))
        for name, history in sorted(histories.items())
        if history
    ]
    title = "Validation, MRR@10 x 100 after so many steps"
    return Table.plain(title, ("system", "model", *steps.pop()), rows, names=2)


def main(arguments: list[str]) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m scripts.experiments.records")
    parser.add_argument("table", choices=["costs", "curves"])
    parser.add_argument("folders", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    try:
        table = {"costs": costs, "curves": curves}[given.table](sidecars(given.folders))
    except MsShiftError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(to_markdown(table))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
