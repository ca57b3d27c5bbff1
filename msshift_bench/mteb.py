"""MTEB tasks, one for each test set of a built data set; all MTEB models can run them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from msshift_bench.data import Collection, Dataset, open_dataset, open_source
from msshift_bench.errors import UsageError
from msshift_bench.libraries import Library
from msshift_bench.plumbing import batches
from msshift_bench.runs import MTEB_META, task_name
from msshift_bench.shifts import DATASET_NAME, Shift, ShiftNames, get_shift, shift_names

_mteb: Any = Library("mteb", "mteb", "tasks of MTEB")
_datasets: Any = Library("datasets", "mteb", "tasks of MTEB")

_BATCH = 100_000
"""Number of passages that are converted to columns together."""


def mteb_tasks(
    data: Dataset | str | Path = DATASET_NAME,
    collection: Collection | str | Path | None = None,
    shifts: ShiftNames = (),
) -> list[Any]:
    """Return MTEB 2 retrieval tasks for the test sets of a data set.

    ``mteb.evaluate(model, tasks, cache=None, prediction_folder=folder)`` runs a model on them. The
    folder must have the name ``model_meta.model_name_as_path()``. A model that was trained without
    a group must have the name ``org/model@without-<group>``. `evaluate_run_sets` reads the
    predictions.

    Args:
        data: the built data set; see `open_dataset`.
        collection: the collection that the data set was built from, or an argument of
            `open_collection`; not needed for a generated collection.
        shifts: the shifts to include; by default all shifts of the data set.

    Returns:
        A task for each test set; e.g. ``msshift-wh-words-who`` has the test queries of ``who``.
        The first task that runs reads the passages, and all tasks share them in memory.

    Raises:
        MissingExtraError: if MTEB is not installed.
        NotFoundError: if the data set or the collection does not exist.
        UsageError: if the data set was built from another collection; or, when a task runs, if its
            prediction file is from another model.
        UnknownNameError: for a shift that is not in the data set.

    Examples:
        >>> tasks = mteb_tasks("msshift", shifts="wh-words")
        >>> [task.metadata.name for task in tasks]
        ['msshift-wh-words-wha', 'msshift-wh-words-how', 'msshift-wh-words-who']
    """
    dataset = open_dataset(data)
    names = shift_names(shifts, dataset.manifest.shifts) or [*dataset.manifest.shifts]
    task, source = _task_class(), open_source(dataset, collection)
    dataset.check_built_from(source)
    corpus = cache(partial(_corpus, source))
    values = [
        (dataset, shift, test, source, corpus)
        for shift in map(get_shift, names)
        for test in shift.tested
    ]
    return [
        type(task.__name__, (task,), {"metadata": _metadata(*value[:3]), "data": value})()
        for value in values
    ]


def _metadata(dataset: Dataset, shift: Shift, test: str) -> Any:
    """Return the metadata for the class of a task: MTEB ignores metadata of an instance."""
    return _mteb.TaskMetadata(
        name=task_name(shift, test),
        description=f"MS-Shift, {shift.name}: the test queries of {test}.",
        dataset={"path": str(dataset.folder), "revision": dataset.info.content_digest},
        type="Retrieval",
        category="t2t",
        eval_langs=["eng-Latn"],
        main_score="mrr_at_10",
    )


def _corpus(source: Collection) -> Any:
    """Return the passages as a dataset for MTEB; the column of titles has "" for no title."""
    rows = (
        {
            "id": passage.doc_id,
            "title": getattr(passage.text, "heading", ""),
            "text": str(getattr(passage.text, "body", passage.text)),
        }
        for passage in source.passages()
    )
    parts = [pa.Table.from_pylist(batch) for batch in batches(rows, _BATCH)]
    return _datasets.Dataset(pa.concat_tables(parts))


@cache
def _task_class() -> Any:
    """Return the base class of the tasks; a function, since its definition imports MTEB."""

    class ShiftTask(_mteb.abstasks.AbsTaskRetrieval):  # type: ignore[misc]
        """Retrieval for the test queries of one group of a shift."""

        data: tuple[Dataset, Shift, str, Collection, Callable[[], Any]]

        def load_data(self, *_: Any, **__: Any) -> None:
            """Read the queries, their relevant passages, and all passages."""
            dataset, shift, test, source, corpus = self.data
            rows = dataset.test_sets(shift)[test]
            texts = {} if all(row.text for row in rows) else source.queries
            split = {
                "corpus": corpus(),
                "queries": _datasets.Dataset.from_list(
                    [{"id": row.query_id, "text": row.text or texts[row.query_id]} for row in rows]
                ),
                "relevant_docs": {row.query_id: row.relevant for row in rows},
                "top_ranked": None,
            }
            self.dataset, self.data_loaded = {"default": {"test": split}}, True

        def evaluate(
            self, model: Any, *args: Any, prediction_folder: Path | None = None, **options: Any
        ) -> Any:
            """Return MTEB's result of a model.

            Raises:
                UsageError: if the prediction file is from another model.
            """
            path = prediction_folder and prediction_folder / self.prediction_file_name
            if path and path.exists():
                earlier = json.loads(path.read_text("utf-8")).get(MTEB_META, {}).get("model_name")
                if earlier != model.mteb_model_meta.name:
                    raise UsageError(
                        f"{path} contains predictions of {earlier}, and MTEB would add predictions "
                        f"of {model.mteb_model_meta.name} under that name; use one "
                        "prediction_folder per model"
                    )
            return super().evaluate(model, *args, prediction_folder=prediction_folder, **options)

    return ShiftTask
