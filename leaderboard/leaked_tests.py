"""Test queries that leaked into the training queries that a submission declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from msshift_bench.data import Dataset
from msshift_bench.leaderboard.submission import Submission, Training, TrainingIds
from msshift_bench.leaderboard.trained_on import ONE_MODEL, listed_ids
from msshift_bench.leaderboard.verdict import Verdict
from msshift_bench.leakage import TIERS, find_leakage
from msshift_bench.schema import Place
from msshift_bench.shifts import SHIFTS, Shift

__all__ = ["LEAK_TIERS", "check_leaked", "leaked_share", "with_leaked"]

LEAK_TIERS = TIERS[:-1]
"""The tiers that count: those that compare texts, near-duplicates by the encoder `terms`."""


def with_leaked(submission: Submission, folder: Path, dataset: Dataset) -> Training:
    """Return a submission's training, with how many zero-shot test queries leaked into it.

    A model whose training queries are not declared, or lie outside of the data set so that their
    texts are not known, has no count.

    Args:
        submission: a submission that the gate accepts.
        folder: the folder of its lists.
        dataset: the data set that it was scored on.

    Raises:
        NotFoundError: if a list is missing.
        SubmissionError: if a file is no list of query ids.
    """
    texts = _texts(dataset)
    queries = {
        shift: {
            held_out: replace(
                claimed, leaked=_leaked(claimed, SHIFTS[shift], held_out, folder, dataset, texts)
            )
            for held_out, claimed in models.items()
        }
        for shift, models in submission.training.queries.items()
    }
    return replace(submission.training, queries=queries)


def check_leaked(
    verdict: Verdict, submission: Submission, data: Mapping[str, Dataset], wanted: str
) -> None:
    """Check counts of leaked test queries where the data are at hand.

    Args:
        verdict: the gate's verdict on the submission.
        submission: the submission.
        data: shift -> a data set with the same test queries.
        wanted: what it takes to check the other shifts.
    """
    place = Place(str(verdict.folder), findings=verdict.findings).at("training").at("queries")
    for shift, models in submission.training.queries.items():
        claims = {group: one for group, one in models.items() if one.leaked is not None}
        what = f"the test queries that leaked on {shift}"
        if not claims:
            continue
        sizes = _sizes(submission, shift)
        for held_out, claimed in claims.items():
            groups = {group: sizes[group] for group in _zero_shot(SHIFTS[shift], held_out)}
            leaked = claimed.leaked or {}
            if leaked.keys() != groups.keys() or any(leaked[g] > groups[g] for g in groups):
                place.at(shift).at(held_out).at("leaked").wrong(
                    "wrong-leak",
                    f"{claimed.leaked} of the zero-shot test queries {groups}",
                    "write null: the gate fills it in",
                )
        if not verdict.accepted:
            return
        if shift not in data:
            verdict.unchecked[what] = wanted
            continue
        verdict.checked.append(what)
        texts = _texts(data[shift])
        for held_out, claimed in claims.items():
            found = _leaked(claimed, SHIFTS[shift], held_out, verdict.folder, data[shift], texts)
            if found != claimed.leaked:
                place.at(shift).at(held_out).at("leaked").wrong(
                    "wrong-leak",
                    f"{claimed.leaked}, and the gate finds {found}",
                    "write null: the gate fills it in",
                )


def leaked_share(submission: Submission, shift: str) -> tuple[int, int] | None:
    """Return how many zero-shot test queries of a shift leaked, and of how many.

    Returns:
        Both summed over the models; `None` if one of them has no count.
    """
    models = submission.training.queries.get(shift, {})
    wanted = SHIFTS[shift].groups if submission.training.per_group else (ONE_MODEL,)
    counts = [models[held_out].leaked for held_out in wanted if held_out in models]
    known = [count for count in counts if count is not None]
    if submission.report is None or len(known) < len(wanted):
        return None
    sizes = _sizes(submission, shift)
    total = sum(sizes[group] for count in known for group in count)
    return sum(sum(count.values()) for count in known), total


def _sizes(submission: Submission, shift: str) -> Mapping[str, int]:
    """Return group -> the number of its test queries, by the report."""
    systems = () if submission.report is None else submission.report.systems
    return {
        group: count
        for system in systems
        if system.shift == shift
        for group, count in system.test_queries.items()
    }


def _zero_shot(shift: Shift, held_out: str) -> list[str]:
    """Return the groups whose test queries are zero-shot to a model."""
    return [group for group in shift.tested if held_out in (ONE_MODEL, shift.unseen_by(group))]


def _texts(dataset: Dataset) -> dict[str, str]:
    """Return query_id -> text of all queries of a data set; empty for one of ids only."""
    if not dataset.manifest.texts:
        return {}
    return {
        row.query_id: row.text
        for shift in dataset.manifest.shifts
        for row in dataset.rows(shift, "queries")
    }


def _leaked(
    claimed: TrainingIds,
    shift: Shift,
    held_out: str,
    folder: Path,
    dataset: Dataset,
    texts: Mapping[str, str],
) -> dict[str, int] | None:
    place = Place(str(folder))
    ids = listed_ids(claimed, shift, held_out, folder, dataset, place)
    if ids is None or not texts or any(query_id not in texts for query_id in ids):
        return None
    tests = dataset.test_sets(shift)
    groups = {
        group: [row.query_id for row in tests[group]] for group in _zero_shot(shift, held_out)
    }
    if not ids or not groups:
        return dict.fromkeys(groups, 0)
    found = find_leakage(
        {query_id: texts[query_id] for query_id in ids},
        {query_id: texts[query_id] for members in groups.values() for query_id in members},
    )
    leaked = {one.test_id for one in found.pairs if one.tier in LEAK_TIERS}
    return {group: len(leaked.intersection(members)) for group, members in groups.items()}
