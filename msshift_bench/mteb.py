"""Tasks of MTEB: one for each test set of a built data set, which any of its models can run."""

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
"""Passages that are made columns together."""


def mteb_tasks(
    data: Dataset | str | Path = DATASET_NAME,
    collection: Collection | str | Path | None = None,
    shifts: ShiftNames = (),
) -> list[Any]:
    """Return the retrieval tasks of MTEB 2 for the test sets of a data set.

    ``mteb.evaluate(model, tasks, cache=None, prediction_folder=folder)`` runs a model on them. The
    name of the folder must be ``model_meta.model_name_as_path()``; a model that was trained without
    a group is named ``org/model@without-<group>``. `evaluate_run_sets` reads what was predicted.

    Args:
        data: the built data set; see `open_dataset`.
        collection: the collection that it was built from, or what `open_collection` takes; not
            needed if the collection is generated.
        shifts: only these; all of the data set, if empty.

    Returns:
        A task for each test set: ``msshift-wh-words-who`` has the test queries of ``who``. Passages
        are read once, when the first task needs them, and held in memory for all.

    Raises:
        MissingExtraError: if MTEB is not installed.
        NotFoundError: if there is no such data set or collection.
        UsageError: if the data set was built from another collection; and, from a task, if its
            prediction file is another model's.
        UnknownNameError: for a shift that the data set does not hold.

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
    """Return the metadata of a task's class; MTEB drops the metadata of an object."""
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
    """Return the passages as MTEB reads them, with titles apart."""
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
    """Return the class of the tasks, which needs MTEB."""

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
            """Run a model, unless its predictions would be added to those of another model."""
            path = prediction_folder and prediction_folder / self.prediction_file_name
            if path and path.exists():
                earlier = json.loads(path.read_text("utf-8")).get(MTEB_META, {}).get("model_name")
                if earlier != model.mteb_model_meta.name:
                    raise UsageError(
                        f"{path} has predictions of {earlier}, and MTEB would add those of "
                        f"{model.mteb_model_meta.name} under that name; give each model a "
                        "prediction_folder of its own"
                    )
            return super().evaluate(model, *args, prediction_folder=prediction_folder, **options)

    return ShiftTask
