"""A system's scores on a shift, query by query: what losses and comparisons are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from msshift_bench.arrays import Ints
from msshift_bench.evaluation.scored_runs import ScoredRun, answered_by_all
from msshift_bench.shifts import Shift
from msshift_bench.stats import Contributions, GroupScores, Interval

__all__ = ["SystemScores"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SystemScores:
    """A system's per-query scores on all test queries of a shift, not yet averaged.

    Attributes:
        system: the system's name.
        shift: the shift.
        query_ids: the test queries of all groups, each once.
        groups: group -> positions of its test queries in `query_ids`.
        runs: the scored run files.
        missing_files: ``(seed, held-out group)`` of the run files that are not there.
    """

    system: str
    shift: Shift
    query_ids: tuple[str, ...]
    groups: Mapping[str, Ints]
    runs: tuple[ScoredRun, ...]
    missing_files: tuple[tuple[int | None, str], ...] = ()

    def __repr__(self) -> str:
        size = f"{len(self.runs)} runs, {len(self.query_ids):,} queries"
        return f"<SystemScores: {self.system} on {self.shift.name}, {size}>"

    def ids_of(self, group: str) -> tuple[str, ...]:
        """Return the ids of a group's test queries."""
        return tuple(self.query_ids[position] for position in self.groups[group])

    def group_scores(self, measure: str, counted: Mapping[str, Ints]) -> dict[str, GroupScores]:
        """Return group -> the scores for its loss, without groups that have no loss.

        Args:
            measure: one of the measures that the runs were scored by.
            counted: group -> positions of those of its queries that count.
        """
        by_model: dict[str, dict[int | None, ScoredRun]] = {}
        for run in self.runs:
            if run.held_out is not None:
                by_model.setdefault(run.held_out, {})[run.seed] = run
        # With replicates a loss uses only models that every seed has, so that the figures of all
        # seeds are means over the same models.
        seeds = list(dict.fromkeys(run.seed for run in self.runs))
        models = [held_out for held_out, runs in by_model.items() if len(runs) == len(seeds)]
        new_to = {group: self.shift.unseen_by(group) for group in counted}
        return {
            group: GroupScores(
                [
                    [by_model[m][s].scores[measure][queries] for m in models if m != new_to[group]]
                    for s in seeds
                ],
                [by_model[new_to[group]][s].scores[measure][queries] for s in seeds],
            )
            for group, queries in counted.items()
            if new_to[group] in models and len(models) > 1
        }

    @property
    def trained_per_group(self) -> bool:
        """Whether there is a run of a model that was trained without a group."""
        return any(run.held_out is not None for run in self.runs)

    def untrained_scores(self, measure: str, counted: Mapping[str, Ints]) -> dict[str, GroupScores]:
        """Return group -> the scores of the one run of a system that was not trained per group.

        Args:
            measure: one of the measures that the run was scored by.
            counted: group -> positions of those of its queries that count.
        """
        (run,) = self.runs
        return {
            group: GroupScores.untrained(run.scores[measure][queries])
            for group, queries in counted.items()
        }

    def counted(self, missing: str) -> dict[str, Ints]:
        """Return group -> positions of those of its queries that count.

        Args:
            missing: the policy for missing queries; with ``skip``, queries that a run lacks do not
                count.
        """
        if missing != "skip":
            return dict(self.groups)
        return {
            group: answered_by_all(self.runs, queries) for group, queries in self.groups.items()
        }

    def mean_intervals(
        self, measure: str, counted: Mapping[str, Ints], confidence: float
    ) -> dict[tuple[str | None, str], Interval]:
        """Return (held-out group, group) -> the interval of the model's mean on the group.

        It counts queries, and seeds where there are several. Cells of fewer than two queries have
        none.

        Args:
            measure: one of the measures that the runs were scored by.
            counted: group -> positions of those of its queries that count.
            confidence: the confidence level.
        """
        by_model: dict[str | None, list[ScoredRun]] = {}
        for run in self.runs:
            by_model.setdefault(run.held_out, []).append(run)
        found = {}
        for held_out, runs in by_model.items():
            for group, queries in counted.items():
                scores = np.stack([run.scores[measure][queries] for run in runs])
                largest = float(np.abs(scores).max(initial=0.0))
                known = Contributions.of([scores], largest).uncertainty() if queries.size else None
                if known is not None:
                    found[held_out, group] = known.interval(float(scores.mean()), confidence)
        return found

    def restricted_to(self, query_ids: Iterable[str]) -> SystemScores:
        """Return the same scores for some of the queries; groups left empty are dropped."""
        wanted = frozenset(query_ids)
        keep = np.array([query_id in wanted for query_id in self.query_ids], np.bool_)
        groups = {group: queries[keep[queries]] for group, queries in self.groups.items()}
        return SystemScores(
            self.system,
            self.shift,
            self.query_ids,
            {group: queries for group, queries in groups.items() if queries.size},
            self.runs,
            self.missing_files,
        )
