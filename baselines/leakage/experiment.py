"""The leakage experiment: models trained with and without leakage, and what that changes.

Source: Froebe et al. (SPIRE 2022), section 4. `experiment_material` says what is trained on what;
here models are trained, score BM25's first passages, and are thrown away. Scores are kept, so that
a killed experiment goes on and ends in the same bytes.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from msshift_bench.arrays import Floats
from msshift_bench.baselines.leakage.material import Experiment, Material, make_material
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.systems.recipe import BM25, find_recipe, parse_recipe
from msshift_bench.baselines.systems.shift_data import GivenTriples
from msshift_bench.baselines.systems.sidecars import check_same, read_json
from msshift_bench.baselines.systems.system import Run
from msshift_bench.baselines.training.backbones import quiet_libraries
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.data import Collection, TripleStream, open_collection
from msshift_bench.errors import DataError, UnknownNameError
from msshift_bench.evaluation import Result
from msshift_bench.leakage import KINDS_OF_LEAKAGE, leakage_experiment
from msshift_bench.plumbing import (
    hold_unfinished,
    report_progress,
    write_json,
    write_parquet,
)
from msshift_bench.records import Row
from msshift_bench.shifts import get_shift

__all__ = ["run_leakage_experiment"]

_logger = logging.getLogger(__name__)

_PLAN, _RESULT = "plan.json", "result.json"

_ENCODER = "encoder"

_INITIAL = b"initial_weights_sha256"

_BATCHES = 4
"""The fewest batches of a training set."""


def run_leakage_experiment(
    collection: Collection | str | Path,
    experiment: Experiment,
    out: str | Path,
) -> Result:
    """Train systems with and without leakage, and compare what they rank.

    The folder gets the training sets (``sets``), the scores (``scores``), ``plan.json`` and
    ``result.json``. After a kill, the same call goes on.

    Args:
        collection: the passages, and the training queries with their judgements; see
            `open_collection`.
        experiment: what is trained on what, and tested on what.
        out: the folder to write.

    Raises:
        UnknownNameError: for an unknown system, recipe or tier.
        UsageError: if a size is smaller than the leak, or the folder holds another experiment.
        DataError: if there are too few queries, or models of a system and seed did not start from
            the same weights.
        MissingError: if the libraries are not installed.
    """
    folder, kinds = Path(out), neural_systems()
    for system in experiment.systems:
        if system not in kinds:
            raise UnknownNameError("system", system, kinds)
    recipes = {
        system: _recipe(system, experiment.recipe, experiment.epochs)
        for system in experiment.systems
    }
    collection = open_collection(collection)
    material = make_material(collection, experiment)
    facts = {
        **material.facts,
        "systems": list(experiment.systems),
        "recipes": {system: recipe.digest() for system, recipe in recipes.items()},
        "encoders": {system: recipe.starts_from() for system, recipe in recipes.items()},
        "sizes": list(experiment.sizes),
        "leaked": experiment.leaked,
        "seeds": list(experiment.seeds),
        "epochs": experiment.epochs,
    }
    with hold_unfinished(folder / ".work", folder), quiet_libraries():
        plan = folder / _PLAN
        if plan.exists():
            check_same(read_json(plan), facts, plan, "Give another --out, or remove the folder")
        else:
            write_json(plan, facts)
        runs = [
            _Run(folder, system, kind, size, seed)
            for system in experiment.systems
            for seed in experiment.seeds
            for size in experiment.sizes
            for kind in KINDS_OF_LEAKAGE
        ]
        scores = {}
        initial: dict[tuple[str, int], str] = {}
        for done, run in enumerate(runs):
            if not run.scores.exists():
                _logger.info("%s (%d of %d)", run.name, done + 1, len(runs))
                run.make(recipes[run.system], material, collection)
            scores[run.system, run.kind, run.size, run.seed] = run.read(material, initial)
            report_progress("trainings", done + 1, len(runs))
    leaks = {
        kind: [pair for pair in material.sets[kind, experiment.sizes[0]] if pair.topic]
        for kind in KINDS_OF_LEAKAGE[1:]
    }
    result = leakage_experiment(scores, material.topics, leaks, facts)
    write_json(folder / _RESULT, result.to_json())
    return result


def _recipe(system: str, recipe: str | Path, epochs: int) -> Neural:
    """Return a system's recipe for pairs of a relevant passage and another."""
    chosen: Neural = parse_recipe(neural_systems()[system], find_recipe(system, recipe))
    return chosen.changed(
        steps=None,
        epochs=epochs,
        negatives=BM25,
        negatives_depth=chosen.negatives_depth or 100,
        negatives_per_query=1,
        negatives_pool=1,
        teacher=None,
        validation=None,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """One training, and the scores of its model."""

    folder: Path
    system: str
    kind: str
    size: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.system} with {self.kind}, {self.size} instances, seed {self.seed}"

    @property
    def scores(self) -> Path:
        return (
            self.folder
            / "scores"
            / self.system
            / f"{self.kind}-{self.size}-seed{self.seed}.parquet"
        )

    def read(self, material: Material, initial: dict[tuple[str, int], str]) -> list[Floats]:
        """Return the scores of each topic's passages.

        Args:
            material: the topics.
            initial: (system, seed) -> the digest of the weights that its models start from; filled
                by the first of them.

        Raises:
            DataError: if this model started from others.
        """
        table = pq.read_table(self.scores)
        start = (table.schema.metadata or {}).get(_INITIAL, b"").decode()
        if initial.setdefault((self.system, self.seed), start) != start:
            raise DataError(
                f"{self.scores}: its model started from other weights than those of {self.system} "
                f"with seed {self.seed} before it; was the encoder changed in between? Remove "
                f"{self.scores.parent}, and run the command again"
            )
        values = np.asarray(table["score"], np.float64)
        ends = np.cumsum([len(topic.doc_ids) for topic in material.topics])[:-1]
        return np.split(values, ends)

    def make(self, recipe: Neural, material: Material, collection: Collection) -> None:
        """Train and score, going on from what a killed process left."""
        pairs = material.sets[self.kind, self.size]
        ids = _distinct_ids([pair.query_id for pair in pairs])
        train = tuple(
            Row.judged(name, pair.text, "", dict.fromkeys(material.relevant(pair), 1))
            for name, pair in zip(ids, pairs, strict=True)
        )
        triples = _write_set(
            self.folder / "sets" / f"{self.kind}-{self.size}.parquet",
            {
                "query_id": ids,
                "positive_id": [pair.relevant for pair in pairs],
                "negative_id": [pair.other for pair in pairs],
            },
        )
        # Pairs that share a passage meet in different batches, so that a small set needs several.
        batch = max(2, min(recipe.batch_size, len(pairs) // _BATCHES))
        steps = recipe.changed(batch_size=batch, accumulate=1).steps_of(len(pairs))
        chosen = recipe.changed(
            seed=self.seed,
            batch_size=batch,
            accumulate=recipe.accumulate if batch == recipe.batch_size else 1,
            warmup_steps=min(recipe.warmup_steps, steps // 10),
        )
        # What the model starts from is the same for all trainings of a system and seed.
        work = self.folder / ".work" / f"{self.system}-seed{self.seed}"
        mark = work / "training.json"
        if not mark.exists() or mark.read_text() != self.name:
            _clear(work)
            work.mkdir(parents=True, exist_ok=True)
            mark.write_text(self.name)
        run = Run(
            name=self.name,
            system=chosen,
            shift=get_shift("length"),
            collection=collection,
            rows={"train": train, "validation": ()}.__getitem__,
            triples=triples,
            work=work,
        )
        model, facts = chosen.trained(run)
        found = chosen.search.score(
            model,
            [topic.text for topic in material.topics],
            material.texts,
            material.places,
        )
        write_parquet(
            self.scores,
            pa.table(
                {
                    "topic": [topic.query_id for topic in material.topics for _ in topic.doc_ids],
                    "doc_id": [doc_id for topic in material.topics for doc_id in topic.doc_ids],
                    "score": pa.array(np.concatenate(list(found)), pa.float32()),
                }
            ).replace_schema_metadata(
                {
                    _INITIAL: facts["initial_weights_sha256"],
                    "weights_sha256": facts["weights_sha256"],
                }
            ),
        )
        _clear(work)


def _distinct_ids(names: Sequence[str]) -> list[str]:
    """Return ids that differ: the second pair of a topic is another query to the trainer."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}~{seen[name]}")
    return found


def _write_set(path: Path, columns: dict[str, list[str]]) -> GivenTriples:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_parquet(path, pa.table(columns))
    rows = len(columns["query_id"])
    triples = TripleStream((path,), rows)
    return GivenTriples(path.stem, triples.digest(), path.parent, lambda: triples)


def _clear(work: Path) -> None:
    """Remove what a training left, but not what the next one may start from."""
    for entry in work.iterdir() if work.exists() else ():
        if entry.name == _ENCODER:
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
