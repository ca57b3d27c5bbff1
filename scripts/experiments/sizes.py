"""What the size of a training set changes, as a table in Markdown.

Usage: python -m scripts.experiments.sizes DATA RUNS LESS_DATA LESS_RUNS

RUNS and LESS_RUNS hold one run set each, of one shift: models without the same groups, the latter
trained on fewer queries. Both are scored on the same test queries, and compared as two systems are:
queries and seeds are random effects.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msshift_bench import Settings, find_run_sets, open_dataset
from msshift_bench.arrays import Floats
from msshift_bench.data import Dataset
from msshift_bench.errors import MsShiftError, UsageError
from msshift_bench.evaluation import Checks, Scores, score_run_sets
from msshift_bench.output import Table, show_p, show_percent_interval, to_markdown
from msshift_bench.runs import RunSet
from msshift_bench.stats import Claim, Estimate, Figure, Inference, infer

MEASURE = "RR@10"
MANY, FEW = "more", "less"


def only_run_set(folder: Path) -> RunSet:
    """Return the run set of a folder.

    Raises:
        UsageError: if it holds several, or none with seeds.
    """
    found = find_run_sets(folder)
    if len(found) != 1 or not found[0].runs:
        raise UsageError(f"{folder} holds {len(found)} run sets; one of trained models is needed")
    return found[0]


def trained(run_set: RunSet) -> set[str]:
    """Return the held-out groups of which there are models, of any seed."""
    return {group for runs in run_set.runs.values() for group in runs}


def trained_on(dataset: Dataset, config: str) -> int:
    """Return the number of training queries of a config."""
    return len(dataset.rows(config, "train"))


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


def scores_of(run_set: RunSet, dataset: Dataset) -> Scores:
    """Return the scores of models; of some groups there may be none."""
    checks = Checks(allow=("partial", "identical"))
    (scores,) = score_run_sets([run_set], dataset, Settings(MEASURE), checks)
    return scores


def compared(
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


def main(arguments: list[str]) -> int:
    """Print a table for each held-out group of which both have models."""
    parser = argparse.ArgumentParser(prog="python -m scripts.experiments.sizes")
    for name in ("data", "runs", "less_data", "less_runs"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args(arguments)
    try:
        datasets = open_dataset(given.data), open_dataset(given.less_data)
        run_sets = only_run_set(given.runs), only_run_set(given.less_runs)
        check_same_tests(*datasets, run_sets[0])
        groups = run_sets[0].shift.groups
        common = [group for group in groups if all(group in trained(one) for one in run_sets)]
        if not common:
            raise UsageError(f"{given.runs} and {given.less_runs} have no held-out group in common")
        systems = {
            name: scores_of(run_set, dataset)
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
            sizes = [trained_on(dataset, config) for dataset in datasets]
            print(to_markdown(compared(scores, held_out, sizes)))
    except MsShiftError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
