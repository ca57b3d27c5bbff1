"""The resampling of Zhan et al.: ReSTTest's released buckets, and ReSTrain's training sets.

Source: Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models (CIKM 2022).

ReSTTest (section 4): training and test queries are clustered into five buckets by their embeddings;
a model trained on the training queries of four is tested on the test queries of the fifth, which it
has to extrapolate to. The released files (`RESTTEST_URL`) hold the ids of the test queries, MS
MARCO's development queries. The release also holds buckets of TREC DL 2019 and 2020. They are not
imported: their judgements are graded and their queries differ, so that the groups of the shift
would mix three test collections.

ReSTrain (section 4.1.2): the interpolation training set holds every test query's top I training
queries, the extrapolation training set all but every test query's top E. I and E follow from the
size that is asked for; the last rank is cut by cosine, so that sizes are exact. Both come from one
order of the training queries. A query's rank is its best place in the rankings of all training
queries by their cosine with a test query. The order is by rank, then by that cosine, then by
query_id. Its first N are the interpolation set of size N, its last N the extrapolation set. So sets
of larger sizes hold those of smaller ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from msshift_bench.arrays import Floats, Ints, Vectors
from msshift_bench.data import Collection, read_test_folder, sha256_of
from msshift_bench.dataset_builders.clusters import embed_for_groups
from msshift_bench.dataset_builders.cut import ShiftSplits, cut_table
from msshift_bench.dataset_builders.groups import shift_of_rule
from msshift_bench.dataset_builders.kmeans import squared_distances
from msshift_bench.encoders import EncoderSpec
from msshift_bench.errors import DataError, FindingLog, NotFoundError, UsageError, first_few
from msshift_bench.plumbing import in_parallel, map_in_threads, report_progress, slices
from msshift_bench.records import OTHERS, Grouping, Qrel, Row
from msshift_bench.runs import read_qrels
from msshift_bench.shifts import EDITIONS, get_shift
from msshift_bench.similarity import product_error, unit_rows

RESTTEST_URL = "https://github.com/jingtaozhan/extrapolate-eval"
"""The address of the buckets' release."""

RULE = EDITIONS[1]
"""The rule of an imported grouping: the labels of the release's authors."""

Judged = Mapping[str, frozenset[Qrel]]


def read_resttest(
    folder: Path, collection: Collection | None = None
) -> tuple[ShiftSplits, dict[str, object]]:
    """Import the five buckets as the test sets of the shift ``resttest``.

    Args:
        folder: a checkout, which holds ``resttest_files``.
        collection: the source of the queries' texts, e.g. ``msmarco-passage/dev/small``. Without
            it the texts are empty.

    Returns:
        The shift with the split ``test``; group ``1`` holds the queries that a model trained on
        buckets 2 to 5 extrapolates to. And the manifest's facts on the import: JSON values.

    Raises:
        NotFoundError: if the folder is no checkout, or a bucket's file is missing.
        CollectionError: if a file is malformed.
        DataError: if the buckets are no partition of the queries, or the two files of a bucket
            contradict the others'; if the collection lacks queries.
    """
    shift = get_shift("resttest")
    files = {name: folder / name for group in shift.groups for name in _names(group)}
    missing = [name for name, path in files.items() if not path.is_file()]
    if missing:
        raise NotFoundError(
            f"{folder} is no checkout of ReSTTest: it lacks {len(missing)} of {len(files)} files "
            f"({missing[0]}, ...); get one with 'git clone {RESTTEST_URL}' and give the folder "
            "that holds resttest_files"
        )
    extrapolated, interpolated = (
        {group: frozenset(read_qrels(files[_names(group)[number]])) for group in shift.groups}
        for number in (0, 1)
    )
    _check_partition(extrapolated, interpolated, folder)
    labels: dict[str, str] = {}
    relevant: dict[str, dict[str, int]] = {}
    for group, qrels in extrapolated.items():
        for query_id, doc_id, relevance in qrels:
            relevant.setdefault(query_id, {})[doc_id] = relevance
            labels[query_id] = group
    texts = dict.fromkeys(labels, "") if collection is None else _texts(collection, labels)
    rows = sorted(
        Row.judged(query_id, texts[query_id], group, relevant[query_id])
        for query_id, group in labels.items()
    )
    tested = Counter(labels.values())
    grouping = Grouping(shift.name, {}, RULE, {"upstream": RESTTEST_URL})
    report: dict[str, object] = {
        "upstream": RESTTEST_URL,
        "test_sets": {
            f"{shift.name}-{group}": {"queries": tested[group]} for group in shift.groups
        },
        "collection": None if collection is None else collection.name,
        "files": {name: sha256_of(files[name]) for name in sorted(files)},
    }
    return ShiftSplits(grouping, cut_table({"test": rows})), report


def _names(group: str) -> tuple[str, str]:
    bucket = f"resttest_files/msmarco-passage/bucket-{group}"
    return f"{bucket}/extrapolate.dev-qrel.txt", f"{bucket}/interpolate.dev-qrel.txt"


def _check_partition(extrapolated: Judged, interpolated: Judged, folder: Path) -> None:
    """Check that every query is in one bucket, and that each bucket's other file holds the rest.

    Raises:
        DataError: naming the queries that contradict this.
    """
    findings = FindingLog()
    bucket_of: dict[str, str] = {}
    for group, qrels in extrapolated.items():
        held_out, others = (str(folder / name) for name in _names(group))
        for query_id in sorted({qrel.query_id for qrel in qrels}):
            first = bucket_of.setdefault(query_id, group)
            if first != group:
                findings.add(
                    "not-disjoint", f"query {query_id!r} is in bucket {first} already", held_out
                )
        if unjudged := sorted({qrel.query_id for qrel in qrels if qrel.relevance < 1}):
            message = f"{first_few(unjudged)} with a passage that is not relevant"
            findings.add("not-relevant", message, held_out)
        rest = frozenset().union(*(q for other, q in extrapolated.items() if other != group))
        for code, differing, what in (
            ("missing-judgement", rest - interpolated[group], "of the other buckets are not here"),
            ("extra-judgement", interpolated[group] - rest, "are of no other bucket"),
        ):
            if differing:
                few = first_few({qrel.query_id for qrel in differing})
                findings.add(code, f"{len(differing)} judgements, of {few}, {what}", others)
    findings.stop_if_any(DataError, f"the buckets in {folder} are no partition of the queries:")


def _texts(collection: Collection, query_ids: Mapping[str, str]) -> dict[str, str]:
    texts = {
        query_id: text for query_id, text in collection.queries.items() if query_id in query_ids
    }
    if lacking := query_ids.keys() - texts.keys():
        raise DataError(
            f"{collection.name} lacks {len(lacking)} of the {len(query_ids)} queries: "
            f"{first_few(lacking)}; give the collection that holds MS MARCO's development queries"
        )
    return texts


_BLOCK = 8192
"""Training queries that a thread computes with at a time."""
_TESTS = 32
"""Test queries whose scores are in memory at a time."""
_REACH = 2
"""Scores that the rounding error may swap lie at most so many bins apart."""


@dataclass(frozen=True, slots=True)
class NeighbourOrder:
    """Training queries in the order of how near they are to any test query.

    Attributes:
        order: shape (n,): their rows, the nearest first.
        ranks: shape (n,): the best rank of each row among a test query's neighbours, from 1 on.
        cosines: shape (n,): its cosine at that rank.
    """

    order: Ints
    ranks: Ints
    cosines: Floats

    def depths(self, size: int) -> dict[str, int]:
        """Return I and E of the two sets of a size.

        ``I`` is the rank that fills the interpolation set, of which the last may be in it in part;
        ``E`` is how many nearest neighbours of every test query the extrapolation set lacks at
        least.
        """
        last, first = (int(self.ranks[self.order[place]]) for place in (size - 1, -size))
        return {"I": last, "E": first - 1}


def order_by_nearness(train: Vectors, test: Vectors) -> NeighbourOrder:
    """Rank all training queries for every test query, exactly.

    Args:
        train: shape (n, d), the rows in the order that decides between equals; may be a memory map.
        test: shape (m, d).

    Returns:
        The order. Cosines are decided by 64-bit distances of vectors of length 1, summed in a fixed
        order, so that threads, blocks and processors change nothing. 32-bit products say for which
        pairs that is needed.
    """
    count = len(train)
    centres = unit_rows(test)
    rounded = centres.astype(np.float32)
    ranks = np.full(count, count + 1, np.int64)
    nearest = np.full(count, np.inf)
    scores = np.empty((_TESTS, count), np.float32)

    def multiply(part: slice) -> None:
        exact = unit_rows(train[part]).astype(np.float32)
        scores[: len(rounded[tests]), part] = rounded[tests] @ exact.T

    def decide(place: int) -> tuple[Ints, Ints, Floats]:
        return _nearer(train, centres[tests][place], scores[place], ranks)

    report_progress("compare", 0, count * len(test))
    for tests in slices(len(test), _TESTS):
        in_parallel(multiply, slices(count, _BLOCK))
        for rows, found, distances in list(map_in_threads(decide, range(len(rounded[tests])))):
            nearer = found < ranks[rows]
            nearer |= (found == ranks[rows]) & (distances < nearest[rows])
            ranks[rows[nearer]], nearest[rows[nearer]] = found[nearer], distances[nearer]
        report_progress("compare", min(tests.stop, len(test)) * count, count * len(test))
    return NeighbourOrder(np.lexsort((np.arange(count), nearest, ranks)), ranks, 1 - nearest / 2)


def _nearer(
    train: Vectors, centre: Floats, scores: Vectors, known: Ints
) -> tuple[Ints, Ints, Floats]:
    """Return the training queries that may rank as well for a test query as is known of them.

    Who scores less in 32 bits than the score at its known rank, by more than the rounding error,
    ranks behind it. The more test queries have been compared, the fewer are left: for 256 among
    30,000, the distances of all in 64 bits would take more than twice the CPU seconds.

    Args:
        train: the training queries' vectors.
        centre: the test query's vector of length 1, or 0.
        scores: their products in 32 bits.
        known: shape (n,): the best rank so far of each training query.

    Returns:
        Their rows, their ranks for this test query, and their squared distances to it. Before one
        of them stand those that score more by twice the error, and of those that score about the
        same the ones that are nearer by 64-bit distances.
    """
    count = len(scores)
    ascending = np.sort(scores)
    # Twice the error, and half of it more for the subtraction in 32 bits, here and in the bins.
    error = np.float32(2.5 * product_error(train.shape[1]))
    rows = np.flatnonzero(scores >= ascending[count - np.minimum(known, count)] - error)
    bins = ((scores + np.float32(1.01)) / error).astype(np.int32) + _REACH
    marked = np.zeros(int(bins.max()) + _REACH + 1, bool)
    for reach in range(-_REACH, _REACH + 1):
        marked[bins[rows] + reach] = True
    about = np.flatnonzero(marked[bins])
    squared = np.empty(len(about))
    for part in slices(len(about), _BLOCK):
        exact = unit_rows(train[about[part]])
        here = np.arange(len(exact))
        distances = squared_distances(exact, here, centre[np.newaxis], np.zeros_like(here))
        # A row of zeros is as far from all as one at a right angle: its cosine is 0.
        distances[~exact.any(axis=1)] = 2
        squared[part] = distances if centre.any() else 2
    ranks = np.empty(len(about), np.int64)
    ranks[np.argsort(squared, kind="stable")] = np.arange(1, len(about) + 1)
    for values, sign in ((ascending, 1), (np.sort(scores[about]), -1)):
        ranks += sign * (len(values) - np.searchsorted(values, scores[about], side="right"))
    chosen = np.searchsorted(about, rows)
    return rows, ranks[chosen], squared[chosen]


def resample_training(
    queries: pa.Table,
    validation: frozenset[str],
    *,
    collection: Collection,
    set_aside: frozenset[str] = frozenset(),
    rule: str = "nearest",
    test_sets: Sequence[str | Path],
    sizes: Sequence[int],
    encoder: str | EncoderSpec | None = None,
    pooling: str | None = None,
    words: str = "whitespace",
) -> tuple[ShiftSplits, ...]:
    """Make the interpolation and the extrapolation training set of every size.

    Args:
        queries: the collection's queries that have a relevant passage; see `queries_table`.
        validation: those that validate.
        collection: their collection.
        set_aside: those that train nothing: these, and given test queries of other shifts.
        rule: ``nearest`` is the only one.
        test_sets: folders of test queries, at least one: ``queries.tsv`` and ``qrels.tsv``, whose
            judgements may be graded. Several are one test set together.
        sizes: training queries of each set, 1 or more.
        encoder: see `embed_for_groups`.
        pooling: see there.
        words: see there.

    Returns:
        A shift per size, the smallest first, e.g. ``restrain-14k``.

    Raises:
        UnknownNameError: if there is no such rule or pooling.
        NotFoundError: if there is no such folder or encoder.
        CollectionError: if a test set is malformed.
        UsageError: if a size cannot be reached; the message says how many can.
        DataError: if test queries are among the training queries, or stand in two test sets.
    """
    family = shift_of_rule("restrain", rule)
    tests = _read_tests(test_sets)
    query_ids = queries["query_id"].to_pylist()
    rows = zip(query_ids, queries["text"].to_pylist(), strict=True)
    trainable = [(query_id, text) for query_id, text in rows if query_id not in set_aside]
    ids = [query_id for query_id, _ in trainable]
    _check_apart(query_ids, tests, collection)
    if 2 * max(sizes) > len(ids):
        raise UsageError(
            f"restrain: two sets of {max(sizes):,} training queries without a common one need "
            f"{2 * max(sizes):,}, and {len(ids):,} have a relevant passage and do not validate; "
            f"ask for at most {len(ids) // 2:,}"
        )
    queried = {
        **{f"{_TRAIN}{query_id}": text for query_id, text in trainable},
        **{f"{_TEST}{row.query_id}": row.text for row in tests},
    }
    embeddings = embed_for_groups(
        queried, collection, encoder=encoder, pooling=pooling, words=words
    )
    row_of = {query_id: row for row, query_id in enumerate(embeddings.query_ids)}
    near = order_by_nearness(
        embeddings.vectors[[row_of[f"{_TRAIN}{query_id}"] for query_id in ids]],
        embeddings.vectors[[row_of[f"{_TEST}{row.query_id}"] for row in tests]],
    )
    tested = cut_table({"test": tests})
    cuts = []
    for size in sorted(set(sizes)):
        shift = family.of_size(size)
        sets = dict(zip(shift.groups, (near.order[:size], near.order[-size:]), strict=True))
        group_of = dict.fromkeys(validation, OTHERS)
        for group, places in sets.items():
            group_of |= {ids[place]: group for place in places.tolist()}
        cosines = {group: near.cosines[places] for group, places in sets.items()}
        found = {
            group: {"mean": round(float(of.mean()), 4), "largest": round(float(of.max()), 4)}
            for group, of in cosines.items()
        }
        grouping = Grouping(
            shift.name,
            dict.fromkeys(query_ids, OTHERS) | group_of,
            rule,
            {"embedding": embeddings.facts, **near.depths(size)},
            found={"cosine with a test query": found},
        )
        groups = pa.array(map(group_of.get, query_ids), pa.string())
        splits = pc.if_else(pc.equal(groups, OTHERS), "validation", "train")
        table = queries.add_column(2, "group", groups).add_column(3, "split", splits)
        table = pa.concat_tables([table.filter(pc.is_valid(groups)), tested]).sort_by("query_id")
        requested = {"train_size": size, "test_queries": len(tests), "candidates": len(ids)}
        cuts.append(ShiftSplits(grouping, table, requested))
    return tuple(cuts)


_TRAIN, _TEST = "train/", "test/"
"""What tells a training query from a test query of the same id while both are embedded."""


def _read_tests(folders: Sequence[str | Path]) -> tuple[Row, ...]:
    """Return the test queries that have a relevant passage, sorted by query_id."""
    rows: dict[str, Row] = {}
    for folder in folders:
        extra, _ = read_test_folder("test", Path(folder).expanduser())
        for row in extra.rows:
            if row.query_id in rows:
                raise DataError(
                    f"query {row.query_id!r} of {extra.folder} stands in another test set, too; "
                    "give test sets without common queries"
                )
            rows[row.query_id] = row
    found = tuple(rows[query_id] for query_id in sorted(rows) if rows[query_id].relevant_doc_ids)
    if not found:
        raise DataError("no test query has a relevant passage (relevance 1 or more)")
    return found


def _check_apart(ids: Sequence[str], tests: Sequence[Row], collection: Collection) -> None:
    shared = {row.query_id for row in tests}.intersection(ids)
    if shared:
        raise DataError(
            f"{len(shared)} of the {len(tests)} test queries are queries with a relevant passage "
            f"of {collection.name}, which could be trained on: {first_few(shared, 3)}; take their "
            "judgements out of the collection's qrels (--qrels FILE)"
        )
