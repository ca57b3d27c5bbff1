"""The tables of docs/experiments.md that no command of `msshift` prints, in Markdown.

- ``costs FOLDER ...`` counts trainings, seeds and hours, and names the data by digest, the encoder;
- ``curves FOLDER ...`` shows MRR@10 on the validation queries after so many steps;
- ``orders DATA RUNS ...`` puts the order of systems by Rel Loss beside the paper's, pair by pair:
  that of MS-Shift's means over the groups of the shift (ECIR 2023, Tables 2 and 3), and of minus
  Zhan et al.'s Delta over all queries (CIKM 2022, Table 7); the papers have neither seeds nor
  intervals;
- ``sizes DATA RUNS LESS_DATA LESS_RUNS`` compares models without the same groups, the latter of
  fewer training queries, on the same test queries; queries and seeds are random effects.

FOLDER and RUNS hold run sets: ``python -m scripts.experiments.tables costs WORK/runs/topics``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from msshift_bench import Settings, compare_run_sets, find_run_sets, open_dataset
from msshift_bench.analysis import load_published
from msshift_bench.arrays import Floats
from msshift_bench.data import Dataset
from msshift_bench.errors import MsShiftError, NotFoundError, UsageError
from msshift_bench.evaluation import (
    ALL_QUERIES,
    Opened,
    OpenedRunSet,
    score_opened,
    test_set_of_shift,
)
from msshift_bench.output import Table, show_p, show_percent, show_percent_interval, to_markdown
from msshift_bench.runs import RunSet, sidecar_path
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import (
    MEAN,
    SIGNIFICANT,
    Claim,
    Estimate,
    Figure,
    Figures,
    Inference,
    infer,
)

SHORT_DIGEST = 8

PAPER_NAME = {"splade": "splade-max"}
"""Our systems that MS-Shift calls otherwise."""

ZHAN_NAME = {"bi-encoder": "DR", "colbert": "ColBERT", "splade": "SPLADE", "monobert": "Reranker"}
"""Our systems as Zhan et al. call them."""

MEASURE = "RR@10"
MANY, FEW = "more", "less"


def sidecars(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the sidecars of all runs of trained models in folders of run sets.

    Raises:
        NotFoundError: if there are none.
    """
    runs = [
        run for found in find_run_sets(folders) if found.trained_per_group for run in found.files
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
            "pre-trained" if several[0]["encoder"] else "random",
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


def published(shift: str) -> dict[str, float]:
    """Return system -> a paper's Rel Loss on a shift: the mean over groups, or over all queries."""
    if shift == "resttest":
        table = load_published("interpolation_extrapolation")["resttest_msmarco_dev"]
        inter, extra = map(table["columns"].index, ("MRR@10 inter", "MRR@10 extra"))
        return {
            name: 1 - table[theirs][extra] / table[theirs][inter]
            for name, theirs in ZHAN_NAME.items()
        }
    tables = load_published("ms_shift_v2")
    rows = [*tables["topics"], *tables["wh_and_length"]]
    ours = {paper: own for own, paper in PAPER_NAME.items()}
    losses: dict[str, list[float]] = {}
    for row in rows:
        if row["group"] in SHIFTS[shift].groups:
            name = ours.get(row["system"], row["system"])
            losses.setdefault(name, []).append(row["rel_loss_pct"] / 100)
    return {name: mean(values) for name, values in losses.items()}


def verdict(difference: float, p: float, paper: float) -> str:
    """Say whether a difference has the sign of the paper's.

    Args:
        difference: ours, of the average Rel Loss of two systems.
        p: its p-value, corrected over all pairs.
        paper: the paper's difference.
    """
    if p > SIGNIFICANT:
        return "cannot tell"
    return "agrees" if difference * paper > 0 else "disagrees"


def orders_of(shift: str, differences: Figures) -> Table:
    """Return a row for each pair of systems: our difference and its test, the paper's, a verdict.

    Args:
        shift: the shift.
        differences: of the average Rel Loss of every two systems.

    Raises:
        KeyError: if the paper has no figures of a system.
    """
    paper = published(shift)
    rows = []
    for row in differences:
        assert row.p is not None
        theirs = paper[row.system] - paper[row.against]
        rows.append(
            (
                f"{row.system} - {row.against}",
                show_percent(row.value),
                show_percent_interval(row.interval),
                show_p(row.p),
                show_percent(theirs),
                verdict(row.number, row.p, theirs),
            )
        )
    header = ("pair", "difference", "interval", "p (holm)", "the paper's", "the paper's order")
    return Table.plain(f"{shift}: differences of average Rel Loss", header, rows)


def only_run_set(folder: Path) -> RunSet:
    """Return the run set of a folder.

    Raises:
        UsageError: if it holds several, or none with seeds.
    """
    found = find_run_sets(folder)
    if len(found) != 1 or not found[0].trained_per_group:
        raise UsageError(f"{folder} holds {len(found)} run sets; one of trained models is needed")
    return found[0]


def check_same_tests(first: Dataset, second: Dataset, run_set: RunSet) -> None:
    """Raise if two data sets differ in a test query of a shift, or in its judgements.

    Raises:
        UsageError: if they do.
    """
    one, other = (
        {
            group: {row.query_id: row.relevant for row in rows}
            for group, rows in dataset.test_sets(run_set.shift).items()
        }
        for dataset in (first, second)
    )
    if one != other:
        raise UsageError(f"{first.folder} and {second.folder} differ in their test queries")


def sizes_of(
    scores: Mapping[str, Mapping[str, Floats]], held_out: str, sizes: Sequence[int]
) -> Table:
    """Return a row for each group of test queries.

    Args:
        scores: `MANY` and `FEW` -> group of test queries -> scores of the models without a group,
            ``[seeds, queries]``.
        held_out: the group without which they were trained.
        sizes: how many training queries they had.
    """
    estimates = {
        group: [Estimate.mean(scores[name][group], name, group) for name in (MANY, FEW)]
        for group in scores[MANY]
    }
    claims = [
        Claim(Figure("out", group=group), more - less, "groups")
        for group, (more, less) in estimates.items()
    ]
    rows = [
        (
            f"{row.group} (held out)" if row.group == held_out else row.group,
            *(f"{100 * estimate.value:.1f}" for estimate in estimates[row.group]),
            f"{100 * row.number:z.1f}",
            show_percent_interval(row.interval),
            show_p(row.p),
        )
        for row in infer(claims, Inference())
    ]
    seeds = len(next(iter(scores[FEW].values())))
    header = (
        "test queries",
        *(f"trained on {size:,}" for size in sizes),
        "difference",
        "interval",
        "p (holm)",
    )
    return Table.plain(f"Without {held_out}, {seeds} seeds, MRR@10 x 100", header, rows)


def orders(data: Path, *runs: Path) -> Iterator[Table]:
    """Yield a table for each shift of the run sets."""
    averages = compare_run_sets(runs, data).figures.where(
        figure="rel_loss", group=(MEAN, ALL_QUERIES)
    )
    for (shift,), losses in averages.each("shift"):
        yield orders_of(shift, Figures([row for row in losses if row.against]))


def sizes(data: Path, runs: Path, less_data: Path, less_runs: Path) -> Iterator[Table]:
    """Yield a table for each held-out group of which both have models."""
    datasets = open_dataset(data), open_dataset(less_data)
    run_sets = only_run_set(runs), only_run_set(less_runs)
    check_same_tests(*datasets, run_sets[0])
    trained = [{group for group, _ in run_set.runs} for run_set in run_sets]
    common = [group for group in run_sets[0].shift.groups if all(group in one for one in trained)]
    if not common:
        raise UsageError(f"{runs} and {less_runs} have no held-out group in common")
    # Of some groups there may be no models.
    allow = ("partial", "identical")
    systems = {
        name: score_opened(
            Opened(
                [OpenedRunSet.of(run_set, test_set_of_shift(run_set.shift, dataset))],
                dataset.info,
                dataset,
            ),
            Settings(MEASURE),
            allow,
        ).scores[0]
        for name, run_set, dataset in zip((MANY, FEW), run_sets, datasets, strict=True)
    }
    for held_out in common:
        scores = {
            name: {
                group: part.of(MEASURE, [held_out], queries)
                for group, queries in part.groups.items()
            }
            for name, part in systems.items()
        }
        config = f"{run_sets[0].shift.name}-{held_out}"
        yield sizes_of(
            scores, held_out, [len(dataset.rows(config, "train")) for dataset in datasets]
        )


TABLES = {
    "costs": lambda *folders: [costs(sidecars(folders))],
    "curves": lambda *folders: [curves(sidecars(folders))],
    "orders": orders,
    "sizes": sizes,
}


def main(arguments: list[str]) -> int:
    """Print the tables of one kind."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.experiments.tables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("folders", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    count = len(given.folders)
    if (given.table == "sizes" and count != 4) or (given.table == "orders" and count < 2):
        parser.error(f"{given.table} takes other folders, see --help")
    try:
        for table in TABLES[given.table](*given.folders):
            print(to_markdown(table))
    except MsShiftError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
