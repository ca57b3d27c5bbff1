"""Test queries and groups in the training set of a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from msshift_bench.data import Dataset, TestSet
from msshift_bench.records import Row
from msshift_bench.search import sorted_words
from msshift_bench.shifts import Shift, get_shift

OWN_SPLIT = "msshift"
"""Trained on the data set's training split for each held-out group."""
NONE = "none"
"""Not trained."""
EVERYTHING = "everything"
"""Trained on queries of every group, without a list; maybe also on test queries."""

GroupState = Literal["seen", "unseen", "unknown"]
"""Whether a model's training set has queries of a group."""
SEEN: GroupState = "seen"
UNSEEN: GroupState = "unseen"
UNKNOWN: GroupState = "unknown"


def group_states(shift: Shift, model: str, training: str) -> dict[str, GroupState]:
    """Return group -> ``seen``, ``unseen`` or ``unknown``: whether its queries were in training.

    Args:
        shift: the shift; the result is empty if its groups are training sets.
        model: the group that the model was trained without, or ``all``.
        training: its training queries: `OWN_SPLIT`, `NONE` or `EVERYTHING`. For any other text,
            such as the path of a list, the groups are unknown.

    Examples:
        >>> from msshift_bench import SHIFTS
        >>> group_states(SHIFTS["length"], "short", "msshift")
        {'short': 'unseen', 'long': 'seen'}
    """
    groups = () if shift.by_size else shift.tested
    if training == OWN_SPLIT:
        return {g: UNSEEN if shift.out_model(g) == model else SEEN for g in groups}
    return dict.fromkeys(groups, {EVERYTHING: SEEN, NONE: UNSEEN}.get(training, UNKNOWN))


class TrainedQueries(NamedTuple):
    """Counts of a test set's queries that are, or are similar to, a model's training queries.

    Attributes:
        test: the test set's name.
        shift: the name of the shift that the model was trained for.
        model: the group that it was trained without, or its training set.
        queries: number of queries of the test set.
        ids: number with the id of a training query, and with its words if both texts are known.
        words: number with the words of a training query, in any order, case and accents ignored.
        trained: number of queries counted in `ids` or `words`.
        passages: number that share a relevant passage with a training query.
    """

    test: str
    shift: str
    model: str
    queries: int
    ids: int
    words: int
    trained: int
    passages: int

    @property
    def counts(self) -> str:
        """The model and the count `trained`, in words."""
        trained = get_shift(self.shift).training_of(self.model)
        return f"the model {trained} trained on {self.trained:,}"


def count_trained(
    test_set: TestSet, shift: str, model: str, dataset: Dataset, train: Iterable[Row] | None = None
) -> TrainedQueries | None:
    """Return counts of the queries of a test set that a model trained on.

    Split ``train`` of config ``length-short`` has the training queries of the model trained without
    ``short``.

    Args:
        test_set: the test set; its variants do not count. Without texts only ids are compared; if
            it has another collection, only words are compared.
        shift: the shift that the model was trained for.
        model: the group that it was trained without, or its training set.
        dataset: the data set that it was trained on.
        train: the model's training queries; by default the split ``train`` of its config.

    Returns:
        The counts; `None` if the data set has no training queries of the model.

    Raises:
        IntegrityError: if the file of the split is missing or was changed.
    """
    config = f"{shift}-{model}"
    if train is None and "train" not in dataset.manifest.configs.get(config, {}):
        return None
    rows = list(dataset.rows(config, "train") if train is None else train)
    shares_ids = test_set.collection is None
    known = {
        row.query_id: sorted_words(row.text, dataset.words) if row.text else "" for row in rows
    }
    passages = {doc_id for row in rows for doc_id in row.relevant_doc_ids}
    variants = {variant.run_id for variant in test_set.variants}
    texts = {row.query_id: row.text for row in test_set.rows}
    words_of = {
        query_id: sorted_words(texts.get(query_id, ""), dataset.words)
        for query_id in test_set.judged
        if query_id not in variants
    }
    met = set(known.values()) - {""}
    by_words = {query_id for query_id, words in words_of.items() if words in met}
    by_id = {
        query_id
        for query_id, words in words_of.items()
        if shares_ids and query_id in known and (not words or known[query_id] in ("", words))
    }
    sharing = [
        query_id
        for query_id in words_of
        if shares_ids
        and any(doc in passages for doc, grade in test_set.judged[query_id].items() if grade >= 1)
    ]
    counts = len(words_of), len(by_id), len(by_words), len(by_id | by_words), len(sharing)
    return TrainedQueries(test_set.name, shift, model, *counts)
