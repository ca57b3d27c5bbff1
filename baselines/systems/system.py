"""What ranks, and what it makes: a system is its recipe, and a run one file of its rankings.

A system's fields decide the rankings, and its methods make them; a run holds what it ranks for, and
what there is of the file.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa

from msshift_bench.baselines.systems.shift_data import GivenTriples, ShiftData, Teacher
from msshift_bench.baselines.systems.sidecars import Facts, check_same, read_json
from msshift_bench.data import Collection, sha256_of
from msshift_bench.errors import DataError, UsageError
from msshift_bench.exclusions import Exclusions
from msshift_bench.plumbing import is_as_written, is_held, report_progress
from msshift_bench.records import Passage, Row
from msshift_bench.runs import model_path, sidecar_path
from msshift_bench.search import (
    Bm25,
    Bm25Parameters,
    PassageIds,
    Ranking,
    kept_index,
    warn_of_words,
)
from msshift_bench.settings import Table
from msshift_bench.shifts import Shift
from msshift_bench.words import words_of

_logger = logging.getLogger(__name__)

MODEL = "model"
"""The folder of a trained model, in the folder of a run's unfinished work."""

TRAINING_FACTS = "training.json"
"""The file of facts about a complete training, in the folder of its model."""

_PLAN = "plan.json"

_WEIGHTS = "weights_sha256"
"""The key, in a sidecar's facts of a training and in those of a kept model."""

State = Literal["complete", "running", "begun", "new"]
"""What there is of a run: all of it, or a part; ``running`` if another process makes it now."""


def no_rows(_split: str) -> tuple[Row, ...]:
    """Return no queries, as the data of a run that is not trained does."""
    return ()


class System(Table, ABC):
    """Whatever ranks the passages of a collection for queries.

    A subclass declares the fields that decide its rankings, with their types, as pydantic does:
    each is checked, recorded in the sidecar, and replaced by ``--set``. The first line of its
    docstring is what lists say of it.

    Attributes:
        name: the system's name.
        per_group: whether a model is made for every held-out group: `Run.train` then holds the
            training queries of the others, and `Run.triples` the data set's triples, if it has any.
        trains: whether `rank` trains on them; a system that was trained elsewhere gets none.
        keeps_models: whether a trained model is a folder that can be kept beside its run.
        training_queries: of one model for all groups: ``none`` if it is not trained, ``everything``
            if it was trained on queries of every group; "" if that is not known.

    Examples:
        >>> class First(System):
        ...     "One passage first, whatever is asked."
        ...     name = "first"
        ...     doc_id: str = "7"
        ...
        ...     def rank(self, run):
        ...         return ((query.query_id, {self.doc_id: 1.0}) for query in run.queries)
        >>> First(doc_id="9").parameters()["doc_id"]
        '9'
    """

    name: ClassVar[str]
    per_group: ClassVar[bool] = False
    trains: ClassVar[bool] = True
    keeps_models: ClassVar[bool] = False
    training_queries: ClassVar[str] = ""

    @abstractmethod
    def rank(self, run: Run) -> Iterable[tuple[str, Ranking]]:
        """Yield the query_id and a ranking, doc_id -> score, once for each of the run's queries.

        A query for which nothing is found gets an empty ranking. The doc_ids are the collection's,
        and the scores are finite; `checked_rankings` refuses anything else.

        It trains and encodes what is needed, and continues what an earlier process left in
        `Run.work`.
        """

    @classmethod
    def about(cls) -> str:
        """Return the first line of the docstring, without its full stop."""
        return (cls.__doc__ or cls.__name__).partition("\n")[0].rstrip(".")

    def run_set(self) -> str:
        """Return the name of its folder in a run set, unless a plan gives another."""
        return self.name

    def tag(self, name: str) -> str:
        """Return the run tag; if it does not begin with the runs' name, that is put before it.

        Args:
            name: the name of the runs' folder.
        """
        return name

    def starts_from(self) -> Mapping[str, object] | None:
        """Return what decides what a model starts from, beyond the fields; `None` for nothing."""
        return None

    def choose_triples(self, data: ShiftData, held_out: str | None) -> GivenTriples | None:
        """Return the data set's triples to train on; `None` to train on none of them.

        Args:
            data: the shift's part of the data set.
            held_out: the group that the model must not see; `None` if it is not trained.

        Raises:
            NotFoundError: if the system must train on triples that the data set lacks.
        """
        return data.triples(held_out) if self.per_group and self.trains else None

    def choose_teacher(self, data: ShiftData, held_out: str | None) -> Teacher | None:
        """Return who scores the triples of a model that learns a teacher's scores.

        Args:
            data: the shift's part of the data set.
            held_out: the group that the model must not see; `None` if it is not trained.

        Raises:
            NotFoundError: if there is no such teacher.
            UsageError: if it must not teach this model, which would learn of the group by it.
        """
        del data, held_out
        return None

    def replicates(self) -> list[int]:
        """Return the seeds of its models, where they exist already and no seeds are named."""
        return []

    def model_facts(self, shift: Shift, held_out: str | None) -> Mapping[str, object]:
        """Return what decides the model of one run, beyond the fields; JSON values.

        Args:
            shift: the shift.
            held_out: the group that the model must not see; `None` if it is not trained.

        Raises:
            NotFoundError: if there is no such model.
            UsageError: if it is not clear which model is meant.
        """
        del shift, held_out
        return {}

    def hardware(self) -> Mapping[str, object]:
        """Return the hardware that the system uses beyond processors; JSON values."""
        return {}

    def check_installed(self) -> None:
        """Check that the libraries that the system needs are installed.

        Raises:
            MissingExtraError: naming the extra.
        """

    def check(self, run: Run) -> None:
        """Check, before anything is written, that this machine has what a run needs besides.

        Raises:
            MissingError: saying what is missing, and what to do.
            DataError: if the data cannot be trained on.
        """

    def forget(self) -> None:
        """Remove what was kept from one run of a plan for the next, once all are made."""


@dataclass(kw_only=True)
class Run(Facts):
    """One run file. A system ranks for its queries; what is made for it stands in its work folder.

    Attributes:
        name: what messages call it, e.g. ``bi-encoder without short of length``.
        system: the system that makes it.
        shift: the shift.
        held_out: the group that the model must not have seen; `None` if it is not trained.
        collection: the collection to search.
        queries: the test queries of all groups, each once, sorted by query_id.
        rows: returns the queries of the split ``train`` or ``validation``, none of the held-out
            group; none if no group is held out, or the system does not train.
        triples: the data set's triples to train on; `None` if the system is not trained, or makes
            its own triples.
        teacher: who scores the triples; `None` if the model learns from judgements.
        work: the folder of unfinished work, which a later process may continue; it exists when the
            system is asked to rank.
        exclusions: the passages that must not count for a query: none is ranked or a negative.
        test_set: the extra test set that the queries are of; "" for those of the shift.
        shared: what the runs of a plan share, such as BM25's index.
        path: the run file.
        tag: its tag.
        identity: the facts that decide it: two runs that agree in them are the same. JSON values.
        also: the runs for extra test sets, which the same model makes.
        keep_model: whether the model is to stay, in a folder beside the run.
        gpus: how many GPUs its training takes, each by a process of its own.
        planned_state: what there was of it when its plan was checked.
        output_options: what the caller changes to have it written elsewhere, for messages.
    """

    name: str
    system: System
    shift: Shift
    collection: Collection
    work: Path
    held_out: str | None = None
    queries: tuple[Row, ...] = ()
    rows: Callable[[str], tuple[Row, ...]] = no_rows
    triples: GivenTriples | None = None
    teacher: Teacher | None = None
    exclusions: Exclusions = field(default_factory=Exclusions)
    test_set: str = ""
    shared: dict[Any, Any] = field(default_factory=dict)
    path: Path = Path()
    tag: str = ""
    identity: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[Run, ...] = ()
    keep_model: bool = False
    gpus: int = 1
    planned_state: State = "new"
    output_options: str = "--out or --name"

    # ---- what a system is given --------------------------------------------------------------

    @property
    def train(self) -> tuple[Row, ...]:
        """The training queries."""
        return self.rows("train")

    @property
    def validation(self) -> tuple[Row, ...]:
        """The validation queries."""
        return self.rows("validation")

    @property
    def words(self) -> str:
        """How texts are divided into words: as the data set's (`msshift_bench.words.WORDS`)."""
        return words_of(self.identity)

    def passages(self, stage: str = "passages") -> Iterator[Passage]:
        """Stream the passages of the collection; see `stream`."""
        return self.stream(self.collection, stage)

    def texts(self, rows: Mapping[str, int]) -> pa.Array:
        """Return the texts of some passages of the collection, as an Arrow array of strings.

        Args:
            rows: doc_id -> the place of its text, from 0 on without a gap.
        """
        texts: list[str | None] = [None] * len(rows)
        for passage in self.passages():
            row = rows.get(passage.doc_id)
            if row is not None:
                texts[row] = passage.text
        return pa.array(texts, pa.large_string())

    @property
    def _of_collection(self) -> dict[str, Any]:
        """What the runs of a plan share that search the same collection."""
        shared: dict[str, Any] = self.shared.setdefault(self.collection, {})
        return shared

    def bm25(self, parameters: Bm25Parameters | None = None) -> Bm25:
        """Return BM25's index of the collection; the runs of a plan share it.

        Args:
            parameters: its parameters; by default BM25's own, with the words of the data set.
        """
        chosen = parameters or Bm25Parameters(words=self.words)
        warn_of_words([row.text for row in self.queries], chosen.words)
        shared = self._of_collection
        index: Bm25 | None = shared.get("bm25")
        if index is None or index.parameters != chosen:
            index = kept_index(self.passages, self.passages_digest, chosen)
            shared |= {"bm25": index, "passages": self.facts["passages"]}
        self.facts.setdefault("passages", shared["passages"])
        return index

    def first_of_bm25(
        self, rows: Sequence[Row], depth: int, index: Bm25 | None = None
    ) -> Iterator[Ranking]:
        """Yield BM25's first passages for each query, none of them excluded.

        Args:
            rows: the queries.
            depth: the most passages of a ranking.
            index: the index; that of `bm25` by default.
        """
        found = (index or self.bm25()).search(
            (row.text for row in rows), depth=depth + self.exclusions.most(rows)
        )
        for row, ranking in zip(rows, found, strict=True):
            yield self.exclusions.left(row.query_id, ranking, depth)

    def passage_ids(self) -> PassageIds:
        """Return the doc_ids of the collection; the runs of a plan share them."""
        shared = self._of_collection
        ids: PassageIds | None = shared.get("ids")
        if ids is None:
            ids = PassageIds([passage.doc_id for passage in self.passages()])
            shared |= {"ids": ids, "passages": self.facts["passages"]}
        self.facts.setdefault("passages", shared["passages"])
        return ids

    def ranked(self, rankings: Iterable[Ranking], ids: PassageIds) -> Iterator[tuple[str, Ranking]]:
        """Pair the test queries with their rankings, and record the time of the search.

        Args:
            rankings: one for each of the test queries, in their order; empty if none is found.
            ids: the ids of the searched passages.
        """
        self.count_missing(ids)
        stage = f"search {self.test_set}".rstrip()
        with self.stage("search"):
            left = iter(rankings)
            for done, (row, ranking) in enumerate(zip(self.queries, left, strict=False), 1):
                yield row.query_id, ranking
                report_progress(stage, done, len(self.queries))
            if next(left, None) is not None:
                raise DataError(f"{self.name}: there are more rankings than queries")

    def count_missing(self, ids: PassageIds) -> None:
        """Record relevant passages that the collection lacks, and warn of them."""
        missing: dict[str, object] = {}
        # What is said of the training queries is said with the shift's own test queries.
        train = () if self.test_set else self.train
        for what, rows in (("test", self.queries), ("train", train)):
            if not rows:
                continue
            relevant = sorted({doc_id for row in rows for doc_id in row.relevant_doc_ids})
            missing[what] = count = ids.rows(relevant).count(None)
            if count:
                _logger.warning(
                    "%d of %d passages relevant to the %s queries of %s are not in %s",
                    count,
                    len(relevant),
                    what,
                    self.test_set or self.shift.name,
                    self.collection.name,
                )
        self.facts["relevant_not_in_collection"] = missing

    # ---- what there is of it -----------------------------------------------------------------

    @property
    def sidecar(self) -> Path:
        """The JSON file beside the run."""
        return sidecar_path(self.path)

    @property
    def plan(self) -> Path:
        """The file that says what the unfinished work is for."""
        return self.work / _PLAN

    @property
    def needs_model(self) -> bool:
        """Whether searching again takes the model that was trained for the run."""
        return self.system.per_group and self.system.trains and self.system.keeps_models

    @property
    def kept_model(self) -> Path:
        """The folder of the model, where it was kept."""
        return model_path(self.path)

    def is_complete(self) -> bool:
        """Return whether the run is there, whole, and the requested one.

        Raises:
            UsageError: if what is there was made differently, the sidecar was changed, or describes
                another run.
        """
        run, sidecar = self.path, self.sidecar
        if not sidecar.is_file():
            return False
        made_again = f"remove it and {run.name}, and the run is made again"
        recorded = read_json(sidecar, made_again)
        if not is_as_written(recorded):
            raise UsageError(f"{sidecar} was changed after it was written; {made_again}")
        check_same(
            recorded,
            self.identity,
            sidecar,
            f"Choose another {self.output_options}, or remove {sidecar} and {run.name}",
        )
        if not run.is_file():
            return False
        if sha256_of(run) != recorded.get("run_sha256"):
            raise UsageError(
                f"{run} is not the run that {sidecar.name} describes; remove both to make it again"
            )
        return True

    def lacking(self) -> list[Run]:
        """Return the runs for extra test sets that are to be made.

        Raises:
            UsageError: if one is there and was made differently.
        """
        return [run for run in self.also if not run.is_complete()]

    def state(self) -> State:
        """Check what is there of the run, and return what it is; nothing is written.

        Raises:
            UsageError: if it was made differently, nothing says what made it, or it is complete
                without the model that is to be kept, or that is to search an extra test set; or if
                the runs of other groups beside it were made by another recipe.
        """
        begun, complete = self.plan.exists(), self.is_complete()
        lacking = self.lacking()
        awaited = [run.path for run in lacking]
        if complete:
            if self.keep_model and not self._has_model():
                raise UsageError(
                    f"{self.path} is complete, and its model was not kept; remove the run to train "
                    f"again, or choose another {self.output_options}"
                )
            if not lacking:
                return "complete"
            if self.needs_model and not self._has_model():
                raise UsageError(
                    f"{self.path} is complete, was made without the test set "
                    f"{lacking[0].test_set}, and its model was not kept (--keep-model); remove the "
                    f"run to make both, or choose another {self.output_options}"
                )
        else:
            awaited.insert(0, self.path)
            self._check_recipe()
        for path in awaited:
            if path.exists() and not begun:
                raise UsageError(
                    f"{path} exists, and nothing says what made it; choose another "
                    f"{self.output_options}, or remove it"
                )
        if begun:
            check_same(
                read_json(self.plan),
                self.identity,
                self.plan,
                f"Choose another {self.output_options}, or remove the folder {self.work}",
            )
        if is_held(self.work):
            return "running"
        return "begun" if begun or complete else "new"

    def _check_recipe(self) -> None:
        """Check that the system's runs for other groups and seeds are those of the same recipe.

        Together they are one run set, whose loss would else be one of the recipe.

        Raises:
            UsageError: naming the differences.
        """
        if self.held_out is None:
            return
        beside = self.path.parent
        folder = beside if beside.name == self.shift.name else beside.parent
        for sidecar in (*sorted(folder.glob("*.run.json")), *sorted(folder.glob("*/*.run.json"))):
            recorded = read_json(sidecar)
            if sidecar == self.sidecar or not isinstance(recorded.get("parameters"), Mapping):
                continue
            recipe_of = partial(_recipe_of, seed=sidecar.parent == beside)
            cure = (
                f"Choose another {self.output_options}, or remove {sidecar} and its run: models of "
                "one system share a recipe"
            )
            check_same(recipe_of(recorded), recipe_of(self.identity), sidecar, cure)

    def _has_model(self) -> bool:
        """Return whether the model that made the complete run was kept.

        Raises:
            UsageError: if another model stands in its place, as one of a run that was removed.
        """
        if not self.kept_model.is_dir():
            return False
        training, facts = read_json(self.sidecar).get("training"), self.kept_model / TRAINING_FACTS
        weights = training.get(_WEIGHTS) if isinstance(training, dict) else None
        if weights is not None and facts.is_file() and read_json(facts).get(_WEIGHTS) != weights:
            raise UsageError(
                f"{self.kept_model} is not the model that made {self.path.name}, but one that was "
                "kept before; remove both to train again, or choose another "
                f"{self.output_options}"
            )
        return True


def _recipe_of(facts: Mapping[str, Any], *, seed: bool) -> dict[str, object]:
    """Return what the models of all groups share, of what decides a run."""
    return {
        "parameters": {k: v for k, v in facts["parameters"].items() if seed or k != "seed"},
        # The recipe names a folder or a file, which can hold another encoder by now.
        "encoder": facts.get("encoder"),
        "trained on the data set's triples": facts.get("released_triples") is not None,
    }
