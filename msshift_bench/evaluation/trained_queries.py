"""Test queries that a model trained on: by their ids, their words, and their relevant passages.

What a model learned by heart is no measure of what it can. The data set knows the training queries
of each experiment: config ``length-short`` holds, as split ``train``, what the model without short
was trained on.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from msshift_bench.data import Dataset, TestSet, open_dataset
from msshift_bench.errors import NotFoundError
from msshift_bench.search import sorted_words
from msshift_bench.shifts import DATASET_NAME, get_shift

__all__ = ["TrainedQueries", "count_trained", "find_dataset"]


class TrainedQueries(NamedTuple):
    """How many queries of a test set are, or are like, training queries of a model.

    Attributes:
        test: the test set's name.
        shift: the name of the shift that the model was trained for.
        model: the group that it was trained without, or its training set.
        queries: how many queries the test set has.
        ids: how many have the id of a training query, and its words where both texts are known.
        words: how many have the words of a training query, in any order and spelling.
        trained: how many have either.
        passages: how many share a relevant passage with a training query.
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
        """What was counted, in words."""
        trained = get_shift(self.shift).training_of(self.model)
        return f"the model {trained} trained on {self.trained:,}"


def find_dataset(data: Dataset | str | Path) -> Dataset | None:
    """Return the data set; `None` if none was named and there is none in the usual places.

    Raises:
        NotFoundError: if the one that was named does not exist.
        IntegrityError: if its manifest cannot be read.
    """
    try:
        return open_dataset(data)
    except NotFoundError:
        if str(data) != DATASET_NAME:
            raise
        return None


def count_trained(
    test_set: TestSet, shift: str, model: str, dataset: Dataset
) -> TrainedQueries | None:
    """Count the queries of a test set that a model trained on.

    Args:
        test_set: the test set; its variants do not count. Without texts only ids are compared.
        shift: the shift that the model was trained for.
        model: the group that it was trained without, or its training set.
        dataset: the data set that it was trained on.

    Returns:
        The counts; `None` if the data set holds no training queries of the model.
    """
    config = f"{shift}-{model}"
    if "train" not in dataset.manifest.configs.get(config, {}):
        return None
    rows = list(dataset.rows(config, "train"))
    known = {row.query_id: sorted_words(row.text) if row.text else "" for row in rows}
    passages = {doc_id for row in rows for doc_id in row.relevant_doc_ids}
    variants = {variant.run_id for variant in test_set.variants}
    texts = {row.query_id: row.text for row in test_set.rows}
    words_of = {
        query_id: sorted_words(texts.get(query_id, ""))
        for query_id in test_set.judged
        if query_id not in variants
    }
    met = set(known.values()) - {""}
    by_words = {query_id for query_id, words in words_of.items() if words in met}
    by_id = {
        query_id
        for query_id, words in words_of.items()
        if query_id in known and (not words or known[query_id] in ("", words))
    }
    sharing = [
        query_id
        for query_id in words_of
        if any(doc in passages for doc, grade in test_set.judged[query_id].items() if grade >= 1)
    ]
    trained = len(by_id | by_words)
    counts = len(words_of), len(by_id), len(by_words), trained, len(sharing)
    return TrainedQueries(test_set.name, shift, model, *counts)
