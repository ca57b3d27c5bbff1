"""Trainings in parts, before each of which, but the first, the model finds its own negatives.

Source: Zhan et al., "Optimizing Dense Retrieval Model Training with Hard Negatives" (SIGIR 2021),
section 4.1 (STAR): a model that was warmed up on BM25's negatives ranks all passages for the
training queries once, and goes on with negatives from the top of its own rankings.
"""

from __future__ import annotations

import hashlib
import shutil
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from msshift_bench.baselines.systems.recipe import MINED, Recipe
from msshift_bench.baselines.systems.system import Run, no_rows
from msshift_bench.baselines.training.training_data import (
    OwnNegatives,
    TrainingData,
    TrainingPart,
    make_training_data,
)
from msshift_bench.dataset_builders.negatives import ranked_negatives
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import in_line
from msshift_bench.search import PassageIds

__all__ = ["KnownParts", "TriplesInParts", "training_material"]


@dataclass(frozen=True, slots=True)
class KnownParts:
    """The triples of a training's first parts, in a sequence that is as long as the training.

    The trainer asks for a batch before it needs it. So the first batch after the last part that is
    known has any triples: training stops before it meets them.

    Attributes:
        parts: the triples of each part that is known.
        size: the triples of the whole training.
    """

    parts: Sequence[TrainingData]
    size: int

    @property
    def columns(self) -> tuple[str, ...]:
        """See `TrainingData.columns`."""
        return self.parts[0].columns

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: int) -> dict[str, Any]:
        ends = list(accumulate(len(part) for part in self.parts))
        number = bisect_right(ends, place)
        if number == len(ends):
            return self.parts[-1][-1]
        return self.parts[number][place - ends[number]]


class TriplesInParts:
    """The triples of a training, made part by part: those of one part only, in most trainings.

    What took more than BM25 to make stays in the folder of the run's work for a later process.

    Args:
        run: the training queries and the collection.
        recipe: the recipe, which ranks as well if the model finds negatives.

    Attributes:
        first: the triples of the first part.
    """

    def __init__(
        self,
        run: Run,
        recipe: Recipe,
    ) -> None:
        self._run = run
        self._recipe = recipe
        kept = self._kept(0)
        self.first = self._make(TrainingPart(parts=recipe.parts)) if kept is None else kept
        self._steps = recipe.steps_of(self.first.examples)
        self._parts = [self.first]
        if self._steps < recipe.parts:
            raise UsageError(
                f"{self._steps} steps cannot be cut into {recipe.parts} parts; lower "
                "negatives_refreshes, or train for more steps"
            )

    def ends(self) -> list[int]:
        """Return the last step of each part."""
        parts = self._recipe.parts
        return [TrainingPart(number, parts).bounds(self._steps)[1] for number in range(parts)]

    def known(self) -> KnownParts:
        """Return what training meets, as far as it is made."""
        return KnownParts(tuple(self._parts), self._steps * self._recipe.batch_size)

    def facts(self) -> dict[str, object]:
        """Return what decides what the model learns from, for the sidecar."""
        digests = [part.digest for part in self._parts]
        facts: dict[str, object] = {"examples": self.first.examples, "triples_sha256": digests[0]}
        if self._recipe.parts > 1:
            whole = hashlib.sha256("".join(digests).encode()).hexdigest()
            facts |= {"triples_sha256": whole, "parts_sha256": digests}
        if self._run.teacher is not None:
            scores = [part.scores_digest for part in self._parts]
            facts["teacher"] = {**self._run.teacher.facts, "scores_sha256": scores}
        return facts

    def find_next(self, load: Callable[[Path], Any], model: Path) -> None:
        """Make the triples of the next part, with negatives that the model finds.

        Args:
            load: returns the model in a folder, as it searches.
            model: the folder of the model at the end of the part before.
        """
        number, parts = len(self._parts), self._recipe.parts
        made = self._kept(number)
        if made is None:
            work = self._run.work / f"mining-{number}"
            with self._run.stage("mining"), in_line("mine"):
                found = self._find_negatives(load(model), work)
                made = self._make(TrainingPart(number, parts, self._steps, found))
            shutil.rmtree(work)
        self._parts.append(made)

    def _folder(self, number: int) -> Path:
        return self._run.work / "parts" / str(number)

    def _kept(self, number: int) -> TrainingData | None:
        folder = self._folder(number)
        return TrainingData.load(folder) if folder.exists() else None

    def _make(self, part: TrainingPart) -> TrainingData:
        run = self._run
        made = make_training_data(run, self._recipe, part)
        if part.parts > 1 or run.teacher is not None:
            folder = self._folder(part.number)
            folder.parent.mkdir(exist_ok=True)
            made.save(folder)
        return made

    def _find_negatives(self, model: Any, work: Path) -> OwnNegatives:
        """Let the model rank all passages for the training queries, and choose from the top."""
        work.mkdir(exist_ok=True)
        run, recipe = self._run, self._recipe
        assert recipe.negatives_depth is not None

        # Passages that the collection lacks were counted when BM25's negatives were made.
        queries = tuple(row._replace(relevant_doc_ids=()) for row in run.train)
        asked = replace(run, queries=queries, rows=no_rows, work=work, facts={}, seconds={})
        search: Any = recipe.search.changed(depth=recipe.negatives_depth)
        ids = PassageIds([passage.doc_id for passage in run.passages("")])
        found = search.rank(model, asked)
        pools = ranked_negatives(
            ids,
            run.train,
            (ranking for _, ranking in found),
            count=recipe.negatives_pool,
            seed=recipe.seed,
        )
        return OwnNegatives(ids, pools)


def training_material(run: Run, recipe: Recipe) -> str:
    """Say which triples and whose scores a model learns from."""
    released, negatives = run.triples, recipe.negatives
    if released:
        triples = f"the data set's {released.config}, SHA-256 {released.sha256[:12]}"
    elif negatives == MINED:
        triples = "triples made by the recipe, with BM25's negatives"
    else:
        triples = f"triples made by the recipe, negatives = {negatives!r}"
    if negatives == MINED:
        often = recipe.negatives_refreshes
        triples += f"; then on negatives that it finds itself, {often} time{'s'[: often > 1]}"
    taught = f"; it learns the scores of {recipe.teacher}" if run.teacher else ""
    return triples + taught
