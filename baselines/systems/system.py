"""`System`, which ranks passages, and `Run`, one run file that a system makes.

A system's fields determine the rankings, and its methods compute them. A run has the queries, the
collection and the training data of the system, and the state of its file.
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
from msshift_bench.plumbing import checksum_matches, is_locked, report_progress
from msshift_bench.records import Passage, Row
from msshift_bench.runs import model_path, sidecar_path
from msshift_bench.search import (
    Bm25,
    Bm25Parameters,
    PassageIds,
    Ranking,
    cached_index,
    warn_of_words,
)
from msshift_bench.settings import Table
from msshift_bench.shifts import Shift
from msshift_bench.words import words_of

_logger = logging.getLogger(__name__)

MODEL = "model"
"""The name of a trained model's folder, in the folder of a run's unfinished work."""

TRAINING_FACTS = "training.json"
"""The file with the facts of a complete training, in the folder of its model."""

_PLAN = "plan.json"

_WEIGHTS = "weights_sha256"
"""The key of the weights' digest, in a sidecar's training facts and in a kept model's facts."""

State = Literal["complete", "running", "begun", "new"]
"""The state of a run's files; ``running`` if another process is making the run.

``begun`` if there is unfinished work, or if only runs for extra test sets are missing.
"""


def no_rows(_split: str) -> tuple[Row, ...]:
    """Return no queries: the `Run.rows` of a run without training."""
    return ()


class System(Table, ABC):
    """Base class of all systems: a system ranks the passages of a collection for queries.

    A subclass declares the fields that determine its rankings, with their types, like a pydantic
    model. Each field is checked, recorded in the sidecar, and can be set with ``--set``. The first
    line of the docstring describes the system in lists.

    Attributes:
        name: the system's name.
        per_group: whether there is a model for each held-out group. `Run.train` then has the
            training queries of the other groups, and `Run.triples` the data set's triples, if any.
        trains: whether `rank` trains a model; if not, `Run.train` is empty and `Run.triples`
            `None`.
        keeps_models: whether a trained model is a folder that can be kept next to its run.
        training_queries: for one model for all groups: ``none`` if it is not trained,
            ``everything`` if it was trained on queries of all groups; "" if unknown.

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
        """Yield (query_id, ranking) once for each query of a run; a ranking is doc_id -> score.

        A query for which nothing is found gets an empty ranking. The doc_ids must be in the
        collection, and the scores finite; see `checked_rankings`.

        The method also trains the model and encodes the passages. It continues the unfinished work
        of an earlier process in `Run.work`.
        """

    @classmethod
    def about(cls) -> str:
        """Return the first line of the docstring, without its full stop."""
        return (cls.__doc__ or cls.__name__).partition("\n")[0].rstrip(".")

    def run_set(self) -> str:
        """Return the name of the system's run set, which a plan can replace."""
        return self.name

    def tag(self, name: str) -> str:
        """Return the run tag; if it does not begin with `name`, the plan adds it in front.

        Args:
            name: the name of the runs' folder.
        """
        return name

    def initial_encoder_facts(self) -> Mapping[str, object] | None:
        """Return the facts of the initial encoder that the fields lack, such as digests, or `None`.

        The facts are JSON values.
        """
        return None

    def choose_triples(self, data: ShiftData, held_out: str | None) -> GivenTriples | None:
        """Return the data set's triples to train on; `None` to train without them.

        Args:
            data: the shift's part of the data set.
            held_out: the held-out group; ``nothing`` for a training with all groups, `None` for a
                system without held-out groups.

        Raises:
            NotFoundError: if the system needs triples and the data set has none.
        """
        return data.triples(held_out) if self.per_group and self.trains else None

    def choose_teacher(self, data: ShiftData, held_out: str | None) -> Teacher | None:
        """Return the teacher whose scores the model learns; `None` if it learns from judgements.

        Args:
            data: the shift's part of the data set.
            held_out: see `choose_triples`.

        Raises:
            NotFoundError: if the teacher does not exist.
            UsageError: if the teacher was trained with the held-out group or on other data.
        """
        del data, held_out
        return None

    def replicates(self) -> list[int]:
        """Return the seeds of a plan that names no seeds; empty for no replicates."""
        return []

    def model_facts(self, shift: Shift, held_out: str | None) -> Mapping[str, object]:
        """Return the facts that determine the model of one run, in addition to the fields, or `{}`.

        The facts are JSON values, such as the digest of the model's files.

        Args:
            shift: the shift.
            held_out: see `choose_triples`.

        Raises:
            NotFoundError: if the model does not exist.
            UsageError: if it is not clear which model to use.
        """
        del shift, held_out
        return {}

    def hardware(self) -> Mapping[str, object]:
        """Return facts about hardware other than CPUs that the system uses; JSON values."""
        return {}

    def check_installed(self) -> None:
        """Check that the libraries that the system needs are installed.

        Raises:
            MissingExtraError: if a library is missing; the message names the extra to install.
        """

    def check(self, run: Run) -> None:
        """Check that this machine can make a run; called before anything is written.

        Raises:
            MissingError: if e.g. a GPU is missing; the message contains a fix.
            UsageError: if an option, such as the number of GPUs, does not apply.
            DataError: if the model cannot be trained on the data.
        """

    def forget(self) -> None:
        """Remove data kept between the runs of a plan; called after all runs were made."""


@dataclass(kw_only=True)
class Run(Facts):
    """One run file, with the inputs of the system that makes it.

    Attributes:
        name: the run's name in messages, e.g. ``bi-encoder without short of length``.
        system: the system that makes the run.
        shift: the shift.
        held_out: the group that the model was trained without, or its training set for
            `Shift.by_size`; `None` if no group is held out.
        collection: the collection to search.
        queries: the test queries of all groups, each once, sorted by query_id.
        rows: returns the queries of the split ``train`` or ``validation``, none of the held-out
            group; no queries if the system does not train.
        triples: the data set's triples to train on; `None` if the system is not trained, or makes
            its own triples.
        teacher: scores the triples; `None` if the model learns from judgements.
        work: the folder of unfinished work, which a later process can continue; it exists when
            `System.rank` is called.
        exclusions: passages that are never ranked for a query, and never its negatives.
        test_set: the name of the queries' extra test set; "" for the shift's own test queries.
        shared: data that the runs of a plan share, such as BM25's index.
        path: the run file.
        tag: the run tag.
        identity: the facts that determine the run: runs with equal facts are equal. JSON values.
        also: the runs for extra test sets, made with the same model.
        keep_model: whether to keep the model, in a folder next to the run.
        gpus: GPUs for the training, with one process each.
        planned_state: the state of the run when its plan was checked.
        output_options: the options that change where the run is written, for messages.
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

    # ---- inputs of the system ----------------------------------------------------------------

    @property
    def train(self) -> tuple[Row, ...]:
        """The training queries; none if the system does not train."""
        return self.rows("train")

    @property
    def validation(self) -> tuple[Row, ...]:
        """The validation queries; may be empty."""
        return self.rows("validation")

    @property
    def words(self) -> str:
        """The data set's way to divide texts into words, one of `msshift_bench.words.WORDS`."""
        return words_of(self.identity)

    def passages(self, stage: str = "passages") -> Iterator[Passage]:
        """Yield the passages of the collection; see `stream`."""
        return self.stream(self.collection, stage)

    def texts(self, rows: Mapping[str, int]) -> pa.Array:
        """Return the texts of passages of the collection, as an Arrow array of strings.

        Args:
            rows: doc_id -> index of its text in the array, from 0 to len(rows) - 1; null if the
                collection lacks it.
        """
        texts: list[str | None] = [None] * len(rows)
        for passage in self.passages():
            row = rows.get(passage.doc_id)
            if row is not None:
                texts[row] = passage.text
        return pa.array(texts, pa.large_string())

    @property
    def _shared_of_collection(self) -> dict[str, Any]:
        """The data that the runs of a plan share for this collection."""
        shared: dict[str, Any] = self.shared.setdefault(self.collection, {})
        return shared

    def bm25(self, parameters: Bm25Parameters | None = None) -> Bm25:
        """Return BM25's index of the collection; the runs of a plan share it.

        Args:
            parameters: the parameters of the index; by default BM25's defaults, with the words of
                the data set.

        Raises:
            DataError, MissingExtraError: see `cached_index`.
        """
        chosen = parameters or Bm25Parameters(words=self.words)
        warn_of_words([row.text for row in self.queries], chosen.words)
        shared = self._shared_of_collection
        index: Bm25 | None = shared.get("bm25")
        if index is None or index.parameters != chosen:
            index = cached_index(self.passages, self.passages_digest, chosen)
            shared |= {"bm25": index, "passages": self.facts["passages"]}
        self.facts.setdefault("passages", shared["passages"])
        return index

    def bm25_rankings(
        self, rows: Sequence[Row], depth: int, index: Bm25 | None = None
    ) -> Iterator[Ranking]:
        """Yield BM25's ranking for each query, in order, without excluded passages.

        Args:
            rows: the queries.
            depth: most passages per ranking.
            index: the index; by default the index of `bm25`.
        """
        rankings = (index or self.bm25()).search(
            (row.text for row in rows), depth=depth + self.exclusions.most(rows)
        )
        for row, ranking in zip(rows, rankings, strict=True):
            yield self.exclusions.left(row.query_id, ranking, depth)

    def passage_ids(self) -> PassageIds:
        """Return the doc_ids of the collection; the runs of a plan share them."""
        shared = self._shared_of_collection
        ids: PassageIds | None = shared.get("ids")
        if ids is None:
            ids = PassageIds([passage.doc_id for passage in self.passages()])
            shared |= {"ids": ids, "passages": self.facts["passages"]}
        self.facts.setdefault("passages", shared["passages"])
        return ids

    def ranked(self, rankings: Iterable[Ranking], ids: PassageIds) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) for each test query, and record the time of the search.

        Args:
            rankings: a ranking for each test query, in their order; empty if nothing is found.
            ids: the doc_ids of the searched passages.

        Raises:
            DataError: if there are more rankings than queries; fewer are an error in
                `checked_rankings`.
        """
        self.count_missing(ids)
        stage = f"search {self.test_set}".rstrip()
        with self.stage("search"):
            left = iter(rankings)
            for done, (row, ranking) in enumerate(zip(self.queries, left, strict=False), 1):
                yield row.query_id, ranking
                report_progress(stage, done, len(self.queries))
            if next(left, None) is not None:
                raise DataError(
                    f"{self.name}: there are more rankings than the {len(self.queries)} queries; "
                    "return exactly one ranking per query, in their order"
                )

    def count_missing(self, ids: PassageIds) -> None:
        """Record the number of relevant passages not among `ids`; if above 0, log a warning."""
        missing: dict[str, object] = {}
        # Training queries are counted once, with the shift's own test queries.
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

    # ---- state of the run's files ------------------------------------------------------------

    @property
    def sidecar(self) -> Path:
        """The JSON file next to the run, with its facts."""
        return sidecar_path(self.path)

    @property
    def plan(self) -> Path:
        """The file with the identity of the run that the unfinished work belongs to."""
        return self.work / _PLAN

    @property
    def needs_model(self) -> bool:
        """Whether a search of another test set needs the model that was trained for the run."""
        return self.system.per_group and self.system.trains and self.system.keeps_models

    @property
    def kept_model(self) -> Path:
        """The folder in which the model is kept; it exists only if the model was kept."""
        return model_path(self.path)

    def is_complete(self) -> bool:
        """Return whether the run file and its sidecar exist; both are then as requested.

        Raises:
            UsageError: if the run was made differently, the sidecar was changed, or the sidecar
                describes another run file.
        """
        run, sidecar = self.path, self.sidecar
        if not sidecar.is_file():
            return False
        fix = f"remove it and {run.name} to make the run again"
        recorded = read_json(sidecar, fix)
        if not checksum_matches(recorded):
            raise UsageError(f"{sidecar} was changed after it was written; {fix}")
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
        """Return the runs for extra test sets that are not complete.

        Raises:
            UsageError: if such a run exists and was made differently.
        """
        return [run for run in self.also if not run.is_complete()]

    def state(self) -> State:
        """Check the existing files of the run, and return its state; nothing is written.

        Raises:
            UsageError: if the run was made differently, or its file exists without sidecar and
                unfinished work. Also if the run is complete, but its model was not kept and is
                needed, for `keep_model` or an extra test set. Also if runs of other groups have
                another recipe.
        """
        begun, complete = self.plan.exists(), self.is_complete()
        lacking = self.lacking()
        missing = [run.path for run in lacking]
        if complete:
            if self.keep_model and not self._has_model():
                raise UsageError(
                    f"{self.path} is complete, but its model was not kept; remove the run to train "
                    f"again, or choose another {self.output_options}"
                )
            if not lacking:
                return "complete"
            if self.needs_model and not self._has_model():
                raise UsageError(
                    f"{self.path} is complete without the test set {lacking[0].test_set}, and its "
                    "model was not kept (--keep-model); remove the run to make both, or choose "
                    f"another {self.output_options}"
                )
        else:
            missing.insert(0, self.path)
            self._check_recipe()
        for path in missing:
            if path.exists() and not begun:
                raise UsageError(
                    f"{path} exists, but has no sidecar that describes it; choose another "
                    f"{self.output_options}, or remove it"
                )
        if begun:
            check_same(
                read_json(self.plan),
                self.identity,
                self.plan,
                f"Choose another {self.output_options}, or remove the folder {self.work}",
            )
        if is_locked(self.work):
            return "running"
        return "begun" if begun or complete else "new"

    def _check_recipe(self) -> None:
        """Check that the system's runs for other groups and seeds have the same recipe.

        The runs form one run set. Otherwise its loss could be caused by the recipe.

        Raises:
            UsageError: if a recipe differs; the message has the differences.
        """
        if self.held_out is None:
            return
        parent = self.path.parent
        folder = parent if parent.name == self.shift.name else parent.parent
        for sidecar in (*sorted(folder.glob("*.run.json")), *sorted(folder.glob("*/*.run.json"))):
            recorded = read_json(sidecar)
            if sidecar == self.sidecar or not isinstance(recorded.get("parameters"), Mapping):
                continue
            recipe_of = partial(_recipe_of, seed=sidecar.parent == parent)
            fix = (
                f"Choose another {self.output_options}, or remove {sidecar} and its run: all "
                "models of a system must have the same recipe"
            )
            check_same(recipe_of(recorded), recipe_of(self.identity), sidecar, fix)

    def _has_model(self) -> bool:
        """Return whether the model that made the complete run was kept.

        Raises:
            UsageError: if its folder contains another model, e.g. the model of a removed run.
        """
        if not self.kept_model.is_dir():
            return False
        training, facts = read_json(self.sidecar).get("training"), self.kept_model / TRAINING_FACTS
        weights = training.get(_WEIGHTS) if isinstance(training, dict) else None
        if weights is not None and facts.is_file() and read_json(facts).get(_WEIGHTS) != weights:
            raise UsageError(
                f"{self.kept_model} is not the model that made {self.path.name}, but an earlier "
                "model; remove both to train again, or choose another "
                f"{self.output_options}"
            )
        return True


def _recipe_of(facts: Mapping[str, Any], *, seed: bool) -> dict[str, object]:
    """Return the facts that are equal in all runs of a run set; `seed` includes the seed."""
    return {
        "parameters": {k: v for k, v in facts["parameters"].items() if seed or k != "seed"},
        # The parameters name the encoder's folder, whose content may have changed.
        "encoder": facts.get("encoder"),
        "trained on the data set's triples": facts.get("released_triples") is not None,
    }
