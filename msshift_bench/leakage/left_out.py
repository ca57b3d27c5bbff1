"""Which test queries to leave out of figures, since they leaked into the training queries."""

from __future__ import annotations

from pathlib import Path

from msshift_bench.data import Dataset, TestSet, open_dataset
from msshift_bench.errors import DataError
from msshift_bench.evaluation import LeftOut
from msshift_bench.leakage.found import read_candidates, read_found
from msshift_bench.shifts import DATASET_NAME, get_shift

__all__ = ["read_left_out"]


def read_left_out(
    candidates: str | Path, known: Dataset | TestSet | str | Path = DATASET_NAME
) -> LeftOut:
    """Read which test queries leaked; `evaluate_run_sets` and `score_runs` leave them out.

    Args:
        candidates: what `find_leakage` wrote, the folder or its ``candidates.parquet``.
        known: the data set whose test queries are scored, or a test set.

    Returns:
        The ids of these queries, and what found them.

    Raises:
        NotFoundError: if there is no such file or data set.
        CollectionError: if the file holds no candidates.
        DataError: if it was made for other test queries.
    """
    leaked = {pair.test_id: pair.test_text for pair in read_candidates(candidates)}
    texts = dict.fromkeys(known.judged, "") if isinstance(known, TestSet) else _texts(known)
    strangers = [test_id for test_id in leaked if test_id not in texts]
    changed = [
        test_id for test_id, text in leaked.items() if texts.get(test_id) and texts[test_id] != text
    ]
    for wrong, why in (
        (strangers, "are not among those that are scored"),
        (changed, "have other texts than those that are scored"),
    ):
        if wrong:
            shown = ", ".join(wrong[:3]) + (", ..." if len(wrong) > 3 else "")
            raise DataError(
                f"{candidates} was made for other test queries: {len(wrong)} of the {len(leaked)} "
                f"that it says leaked {why} ({shown}); search the data set's with 'msshift leakage "
                "find'"
            )
    searched = frozenset(read_found(Path(candidates)).get("test_ids", ()))
    return LeftOut(frozenset(leaked), str(candidates), searched or None)


def _texts(data: Dataset | str | Path) -> dict[str, str]:
    """Return query_id -> text of all test queries; "" in a data set of ids only."""
    dataset = open_dataset(data)
    return {
        row.query_id: row.text or ""
        for name in dataset.manifest.shifts
        for rows in dataset.test_sets(get_shift(name)).values()
        for row in rows
    }
