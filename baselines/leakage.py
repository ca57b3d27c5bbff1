"""The leakage experiment: train models with and without leakage, and compare their rankings.

Source: Froebe et al. (SPIRE 2022), section 4. `make_inputs` chooses the training sets, the test
topics and the passages to score. Each model is trained, scores BM25's first passages, and is
deleted. Scores are kept in files, so an interrupted experiment continues and ends in the same
bytes.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from msshift_bench.arrays import Floats
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.systems.recipe import BM25, read_recipe
from msshift_bench.baselines.systems.shift_data import GivenTriples
from msshift_bench.baselines.systems.sidecars import Facts, check_same, read_json
from msshift_bench.baselines.systems.system import Run
from msshift_bench.baselines.training.backbones import quiet_libraries
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.data import (
    Collection,
    TripleStream,
    open_collection,
    read_test_folder,
    sha256_of,
)
from msshift_bench.dataset_builders.negatives import sample_negatives
from msshift_bench.errors import DataError, UsageError, check_name
from msshift_bench.evaluation import Result
from msshift_bench.leakage import (
    CANDIDATES_NAME,
    LEAKAGE_KINDS,
    NEAR_TIER,
    RerankedTopic,
    TrainingPair,
    leakage_experiment,
    make_training_sets,
    read_candidates,
    tiers_up_to,
)
from msshift_bench.plumbing import (
    counted,
    lock_unfinished,
    report_progress,
    sha256_of_parts,
    values_by_key,
    write_json,
    write_parquet,
)
from msshift_bench.records import Row
from msshift_bench.sampling import keyed_hash
from msshift_bench.search import Bm25, cached_index, content_words
from msshift_bench.shifts import get_shift

_logger = logging.getLogger(__name__)

_PLAN, _RESULT = "plan.json", "result.json"

_ENCODER = "encoder"

_INITIAL = b"initial_weights_sha256"

_BATCHES = 4
"""The fewest batches per round of a training, where a batch has at least 2 pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """The systems, training sets and test topics of a leakage experiment.

    Attributes:
        systems: names in `neural_systems`.
        sizes: instances per training set, each size a separate training. An instance is a query
            with one passage; a pair of a relevant and another passage makes two instances. Sizes
            are even and at least `leaked`.
        leaked: how many instances of a training set leak; an even number, at least 2.
        seeds: the seeds of the trainings.
        recipe: a recipe's name, the same for all systems, or the file of a recipe for one system.
        epochs: how many times a training uses each pair.
        test: the folder of the test topics, with ``queries.tsv`` and ``qrels.tsv``. By default the
            topics are drawn from the collection's queries. Only training sets of the kind ``test``
            contain topics.
        found: the folder or file that `msshift leakage find` wrote for these topics and training
            queries. Queries in it, or with a topic's text, never count as queries without leakage.
            Missing leaking queries are made from the topics' words.
        tier: the tier of the leaking queries; stricter tiers are included.
        topics: how many topics to draw, if `test` is `None`.
        depth: how many of BM25's first passages are reranked, and are candidates for negatives.

    Raises:
        UsageError: without a system, a size or a seed.
    """

    systems: Sequence[str]
    sizes: Sequence[int]
    leaked: int
    seeds: Sequence[int]
    recipe: str | Path = "mini"
    epochs: int = 1
    test: str | Path | None = None
    found: str | Path | None = None
    tier: str = NEAR_TIER
    topics: int = 50
    depth: int = 100

    def __post_init__(self) -> None:
        for name in ("systems", "sizes", "seeds"):
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))
        if not (self.systems and self.sizes and self.seeds):
            raise UsageError("an experiment needs at least one system, one size and one seed")


@dataclass(frozen=True, slots=True)
class ExperimentInputs:
    """The topics, training sets and passages of an experiment.

    Attributes:
        topics: the test topics with the passages to score.
        sets: (kind, size) -> the pairs of a training set; the kinds are `LEAKAGE_KINDS`.
        judged: query_id -> doc_ids of the relevant passages, for training queries and topics.
        texts: the texts of all passages to score, sorted by doc_id.
        places: for each topic, the indices in `texts` of its passages, in the order of its doc_ids.
        facts: digests, counts and parameters that describe the inputs; JSON values.
    """

    topics: tuple[RerankedTopic, ...]
    sets: Mapping[tuple[str, int], tuple[TrainingPair, ...]]
    judged: Mapping[str, tuple[str, ...]]
    texts: Sequence[str]
    places: Sequence[npt.NDArray[np.int64]]
    facts: Mapping[str, Any]


def make_inputs(collection: Collection, experiment: Experiment) -> ExperimentInputs:
    """Return the topics, training sets and passages of an experiment.

    Args:
        collection: the passages, and the training queries with their judgements.
        experiment: the parameters.

    Raises:
        UnknownNameError: if the tier does not exist.
        UsageError: if a number of instances is odd or below 2, or a size is below `leaked`.
        NotFoundError: if the folder of test topics, or `found`, does not exist.
        DataError: if there are too few queries or passages, or the test topics or `found` are
            malformed.
    """
    sizes, leaked, depth = experiment.sizes, experiment.leaked, experiment.depth
    test, found, tier = experiment.test, experiment.found, experiment.tier
    tiers = tiers_up_to(tier)
    record = Facts()
    bm25 = cached_index(partial(record.stream, collection), record.passages_digest)
    rows = _judged_rows(collection, bm25)
    tests, judged = _topics(collection, rows, test, experiment.topics, bm25)
    test_ids, test_texts = {row.query_id for row in tests}, {row.text for row in tests}
    candidates = [] if found is None else read_candidates(found)
    suspects = {candidate.train_id for candidate in candidates}
    by_id = {row.query_id: row for row in rows if row.query_id not in test_ids}
    accepted: dict[str, str] = {}
    for candidate in candidates:
        train_id, test_id = candidate.train_id, candidate.test_id
        if candidate.tier in tiers and train_id in by_id and test_id in test_ids:
            accepted.setdefault(train_id, test_id)
    near = [by_id[train_id] for train_id in sorted(accepted)]
    leaking = [
        _pair(row, other, accepted[row.query_id])
        for row, (other,) in _with_negatives(bm25, near, 1, depth)
    ]
    lacking = max(0, leaked // 2 - len(leaking))
    planted = [
        TrainingPair(
            row.query_id, row.text, row.relevant_doc_ids[0], other, row.group, planted=True
        )
        for row, (other,) in _with_negatives(bm25, _planted(tests, lacking), 1, depth)
    ]
    free = [
        row for row in by_id.values() if row.query_id not in suspects and row.text not in test_texts
    ]
    drawn = sorted(free, key=lambda row: _key(row.query_id))[: max(sizes) // 2]
    others = [_pair(row, other) for row, (other,) in _with_negatives(bm25, drawn, 1, depth)]
    topic_pairs, judged_other = _topic_pairs(bm25, tests, judged, depth)
    sets = make_training_sets(
        sizes, leaked, others=others, leaking=[*leaking, *planted], topics=topic_pairs
    )
    leaks = [pair for kind in ("leaked", "test") for pair in sets[kind, sizes[0]] if pair.topic]
    scored = _scored_topics(bm25, tests, leaks, depth)
    doc_ids = sorted({doc_id for topic in scored for doc_id in topic.doc_ids})
    index = {doc_id: number for number, doc_id in enumerate(doc_ids)}
    texts = [""] * len(doc_ids)
    for passage in counted(collection.passages(), "passages"):
        if passage.doc_id in index:
            texts[index[passage.doc_id]] = passage.text
    used = [pair for pair in sets["leaked", sizes[0]] if pair.topic]
    return ExperimentInputs(
        scored,
        sets,
        {row.query_id: row.relevant_doc_ids for row in (*rows, *tests)},
        texts,
        [np.array([index[doc_id] for doc_id in topic.doc_ids], np.int64) for topic in scored],
        {
            "collection": collection.name,
            "queries_sha256": collection.queries_digest,
            "material_sha256": _material_digest(scored, texts, sets),
            "found_sha256": None if found is None else _digest(Path(found)),
            "tier": tier,
            "topics": len(tests),
            "depth": depth,
            "leaking_pairs": len(used),
            "planted_pairs": sum(pair.planted for pair in used),
            "test_pairs": leaked // 2,
            "judged_not_relevant": sum(
                (pair.query_id, pair.other) in judged_other
                for pair in sets["test", sizes[0]]
                if pair.topic
            ),
        },
    )


def _key(query_id: str) -> bytes:
    return keyed_hash(query_id, "leakage-experiment")


def _digest(found: Path) -> str:
    return sha256_of(found / CANDIDATES_NAME if found.is_dir() else found)


def _material_digest(
    topics: Iterable[RerankedTopic],
    texts: Iterable[str],
    sets: Mapping[tuple[str, int], Iterable[TrainingPair]],
) -> str:
    parts = chain(
        ((t.query_id, t.text, sorted(t.relevant.items()), t.doc_ids) for t in topics),
        texts,
        ((key, *sets[key]) for key in sorted(sets)),
    )
    return sha256_of_parts(repr(part).encode() for part in parts)


def _judged_rows(collection: Collection, bm25: Bm25) -> list[Row]:
    graded = collection.relevant
    return [
        row
        for query_id, text in collection.queries.items()
        if (row := _row(query_id, text, graded.get(query_id, {}), bm25))
    ]


def _row(query_id: str, text: str, judged: Mapping[str, int], bm25: Bm25) -> Row | None:
    relevant = bm25.ids.held([doc_id for doc_id, grade in judged.items() if grade >= 1])
    held = {doc_id: judged[doc_id] for doc_id in relevant}
    return Row.judged(query_id, text, "", held) if held else None


def _topics(
    collection: Collection, rows: Sequence[Row], test: str | Path | None, count: int, bm25: Bm25
) -> tuple[list[Row], Mapping[str, Mapping[str, int]]]:
    """Return the test topics, and query_id -> doc_id -> relevance of all judged passages.

    Topics without a relevant passage in the collection are skipped.

    Raises:
        DataError: if no topic has a relevant passage in the collection.
    """
    if test is None:
        chosen = sorted(rows, key=lambda row: _key(f"topic {row.query_id}"))[:count]
        graded = collection.relevant
        return sorted(chosen), {row.query_id: graded[row.query_id] for row in chosen}
    extra, _ = read_test_folder("test", Path(test).expanduser())
    judged = [_row(row.query_id, row.text, extra.judged[row.query_id], bm25) for row in extra.rows]
    topics = [row for row in judged if row is not None]
    if not topics:
        raise DataError(
            f"no topic of {test} has a relevant passage in {collection.name}; give topics that "
            "were judged on this collection"
        )
    return topics, extra.judged


def _with_negatives(
    bm25: Bm25, rows: Sequence[Row], count: int, depth: int
) -> Iterator[tuple[Row, tuple[str, ...]]]:
    """Yield each query with `count` of BM25's first `depth` passages that are not relevant.

    If there are fewer, random passages are added.
    """
    return zip(rows, sample_negatives(bm25, rows, count=count, depth=depth, seed=0), strict=True)


def _pair(row: Row, other: str, topic: str = "") -> TrainingPair:
    return TrainingPair(row.query_id, row.text, row.relevant_doc_ids[0], other, topic)


def _planted(topics: Sequence[Row], count: int) -> list[Row]:
    """Return at most `count` queries of a topic's words: reversed, then sorted; two per topic.

    The group of a query is its topic's id.
    """
    planted = []
    for turn, is_sorted in enumerate((False, True), 1):
        for row in sorted(topics, key=lambda row: _key(f"planted {row.query_id}")):
            words = content_words(row.text) or row.text.split()
            planted.append(
                row._replace(
                    query_id=f"planted-{turn}-{row.query_id}",
                    text=" ".join(sorted(words) if is_sorted else reversed(words)),
                    group=row.query_id,
                )
            )
    return planted[:count]


def _topic_pairs(
    bm25: Bm25, topics: Sequence[Row], judged: Mapping[str, Mapping[str, int]], depth: int
) -> tuple[list[TrainingPair], set[tuple[str, str]]]:
    """Return two pairs per topic, and the (query_id, doc_id) that are judged not relevant."""
    pairs, not_relevant = [], set()
    for row, drawn in _with_negatives(bm25, topics, 2, depth):
        doc_ids = sorted(doc_id for doc_id, grade in judged[row.query_id].items() if grade < 1)
        held = bm25.ids.held(doc_ids)
        not_relevant |= {(row.query_id, doc_id) for doc_id in held}
        relevant = row.relevant_doc_ids
        for turn, other in enumerate([*held, *drawn][:2]):
            pairs.append(
                TrainingPair(
                    row.query_id, row.text, relevant[turn % len(relevant)], other, row.query_id
                )
            )
    return pairs, not_relevant


def _scored_topics(
    bm25: Bm25, topics: Sequence[Row], leaks: Iterable[TrainingPair], depth: int
) -> tuple[RerankedTopic, ...]:
    leaked = values_by_key(
        (pair.topic, doc) for pair in leaks for doc in (pair.relevant, pair.other)
    )
    scored = []
    for row, ranking in zip(
        topics, bm25.search((row.text for row in topics), depth=depth), strict=True
    ):
        first = tuple(ranking)
        behind = sorted(set(leaked.get(row.query_id, ())) - set(first))
        scored.append(
            RerankedTopic(
                row.query_id, row.text, row.relevant, (*first, *behind), len(first), depth
            )
        )
    return tuple(scored)


def run_leakage_experiment(
    collection: Collection | str | Path, experiment: Experiment, out: str | Path
) -> Result:
    """Train systems with and without leakage, and return how their rankings differ.

    The folder `out` gets the training sets (``sets``), the scores (``scores``), ``plan.json`` and
    ``result.json``. If the process is killed, the same call continues.

    Args:
        collection: the passages, and the training queries with their judgements; see
            `open_collection`.
        experiment: the systems, training sets and test topics.
        out: the folder to write.

    Raises:
        UnknownNameError: if a system, recipe or tier does not exist.
        UsageError: if a number of instances or a recipe is invalid, the folder contains another
            experiment, or another process writes to it.
        DataError: if there are too few queries, a training fails, or models of a system and seed
            started from different weights.
        MissingError: if a library, the collection, or a file of `experiment` is missing.
    """
    folder, kinds = Path(out), neural_systems()
    for system in experiment.systems:
        check_name("system", system, kinds)
    recipes = {
        system: _recipe(system, experiment.recipe, experiment.epochs)
        for system in experiment.systems
    }
    collection = open_collection(collection)
    material = make_inputs(collection, experiment)
    facts = {
        **material.facts,
        "systems": list(experiment.systems),
        "recipes": {system: recipe.digest() for system, recipe in recipes.items()},
        "encoders": {system: recipe.initial_encoder_facts() for system, recipe in recipes.items()},
        "sizes": list(experiment.sizes),
        "leaked": experiment.leaked,
        "seeds": list(experiment.seeds),
        "epochs": experiment.epochs,
    }
    with lock_unfinished(folder / ".work", folder), quiet_libraries():
        plan = folder / _PLAN
        if plan.exists():
            check_same(read_json(plan), facts, plan, "Give another --out, or remove the folder")
        else:
            write_json(plan, facts)
        runs = [
            _LeakageRun(folder, system, kind, size, seed)
            for system in experiment.systems
            for seed in experiment.seeds
            for size in experiment.sizes
            for kind in LEAKAGE_KINDS
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
        for kind in LEAKAGE_KINDS[1:]
    }
    result = leakage_experiment(scores, material.topics, leaks, facts)
    write_json(folder / _RESULT, result.to_json())
    return result


def _recipe(system: str, recipe: str | Path, epochs: int) -> Neural:
    """Return a system's recipe, changed to train on pairs for `epochs`, without early stopping."""
    chosen: Neural = read_recipe(neural_systems()[system], recipe)
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
class _LeakageRun:
    """One training of the experiment, and the file of its model's scores."""

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

    def read(self, material: ExperimentInputs, initial: dict[tuple[str, int], str]) -> list[Floats]:
        """Return an array per topic: the scores of its passages, in the order of its doc_ids.

        Args:
            material: the topics.
            initial: (system, seed) -> the digest of the initial weights; the first training of a
                system and seed adds it.

        Raises:
            DataError: if the initial weights of this training differ from `initial`.
        """
        table = pq.read_table(self.scores.absolute())
        start = (table.schema.metadata or {}).get(_INITIAL, b"").decode()
        if initial.setdefault((self.system, self.seed), start) != start:
            raise DataError(
                f"{self.scores}: the initial weights differ from earlier models of {self.system} "
                f"with seed {self.seed}; perhaps the encoder was changed. Remove "
                f"{self.scores.parent}, and run the command again"
            )
        values = np.asarray(table["score"], np.float64)
        return np.split(values, np.cumsum([len(topic.doc_ids) for topic in material.topics])[:-1])

    def make(self, recipe: Neural, material: ExperimentInputs, collection: Collection) -> None:
        """Train the model and write its scores; continue the training of a killed process."""
        pairs = material.sets[self.kind, self.size]
        ids = list(_distinct_ids([pair.query_id for pair in pairs]))
        judged = [material.judged[pair.topic if pair.planted else pair.query_id] for pair in pairs]
        train = tuple(
            Row.judged(name, pair.text, "", dict.fromkeys(relevant, 1))
            for name, pair, relevant in zip(ids, pairs, judged, strict=True)
        )
        triples = _write_set(
            self.folder / "sets" / f"{self.kind}-{self.size}.parquet",
            {
                "query_id": ids,
                "positive_id": [pair.relevant for pair in pairs],
                "negative_id": [pair.other for pair in pairs],
            },
        )
        # Pairs that share a passage are put into different batches: a small set needs several.
        batch = max(2, min(recipe.batch_size, len(pairs) // _BATCHES))
        steps = recipe.changed(batch_size=batch, accumulate=1).steps_of(len(pairs))
        chosen = recipe.changed(
            seed=self.seed,
            batch_size=batch,
            accumulate=recipe.accumulate if batch == recipe.batch_size else 1,
            warmup_steps=min(recipe.warmup_steps, steps // 10),
        )
        # All trainings of a system and seed start from the same encoder, kept in this folder.
        work = self.folder / ".work" / f"{self.system}-seed{self.seed}"
        current = work / "training.json"
        if not current.exists() or current.read_text() != self.name:
            _clear(work)
            work.mkdir(parents=True, exist_ok=True)
            current.write_text(self.name)
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
        scores = chosen.search.score(
            model, [topic.text for topic in material.topics], material.texts, material.places
        )
        write_parquet(
            self.scores,
            pa.table(
                {
                    "topic": [topic.query_id for topic in material.topics for _ in topic.doc_ids],
                    "doc_id": [doc_id for topic in material.topics for doc_id in topic.doc_ids],
                    "score": pa.array(np.concatenate(list(scores)), pa.float32()),
                }
            ).replace_schema_metadata(
                {
                    _INITIAL: facts["initial_weights_sha256"],
                    "weights_sha256": facts["weights_sha256"],
                }
            ),
        )
        _clear(work)


def _distinct_ids(names: Sequence[str]) -> Iterator[str]:
    """Yield the names in order, with a suffix ``~2`` etc. for repeated ones.

    The trainer needs different ids for the pairs of one topic.
    """
    seen: Counter[str] = Counter()
    for name in names:
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name}~{seen[name]}"


def _write_set(path: Path, columns: dict[str, list[str]]) -> GivenTriples:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_parquet(path, pa.table(columns))
    triples = TripleStream((path,), len(columns["query_id"]))
    return GivenTriples(path.stem, triples.digest(), path.parent, lambda: triples)


def _clear(work: Path) -> None:
    """Remove all files of a training except the initial encoder."""
    for entry in work.iterdir() if work.exists() else ():
        if entry.name == _ENCODER:  # the initial encoder
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
