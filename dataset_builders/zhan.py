"""The resampling of Zhan et al.: ReSTTest's released buckets, and ReSTrain's training sets.

Source: Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models (CIKM 2022).

ReSTTest (section 4): training and test queries are clustered into five buckets by their embeddings.
A model is trained on the training queries of four buckets, and tested on the test queries of the
fifth, to which it has to extrapolate. The released files (`RESTTEST_URL`) contain the ids of the
test queries, MS MARCO's development queries. Released buckets of TREC DL 2019 and 2020 are not
imported: their judgements are graded and their queries differ.

ReSTrain (section 4.1.2): the interpolation training set contains every test query's top I training
queries. The extrapolation training set contains all training queries except every test query's top
E. I and E follow from the requested size. Queries with the same rank are cut by cosine, so that
sizes are exact. Both sets come from one order of the training queries. For each test query, all
training queries are ranked by their cosine with it. A training query's rank is the best of these.
The order is by rank, then by the cosine at this rank, then by query_id. Its first N queries are the
interpolation set of size N, its last N queries the extrapolation set. So a larger set contains all
smaller ones.
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
"""The address of the repository of released buckets."""

RULE = EDITIONS[1]
"""The rule of an imported grouping: labels by the authors of the release."""

Judged = Mapping[str, frozenset[Qrel]]


def read_resttest(
    folder: Path, collection: Collection | None = None
) -> tuple[ShiftSplits, dict[str, object]]:
    """Import the five buckets as the test sets of the shift ``resttest``.

    Args:
        folder: a checkout with a folder ``resttest_files``.
        collection: the collection of the queries' texts, e.g. ``msmarco-passage/dev/small``.
            Without it the texts are empty.

    Returns:
        The shift with the split ``test``, and the manifest's facts on the import: JSON values. A
        model trained on buckets 2 to 5 has to extrapolate to the queries of group ``1``.

    Raises:
        NotFoundError: if the folder is not a checkout, or a bucket's file is missing.
        CollectionError: if a file is malformed.
        DataError: if the buckets are not a partition of the queries, or their files contradict each
            other. Also if a relevance is below 1, or the collection lacks queries.
    """
    shift = get_shift("resttest")
    files = {name: folder / name for group in shift.groups for name in _names(group)}
    missing = [name for name, path in files.items() if not path.is_file()]
    if missing:
        raise NotFoundError(
            f"{folder} is not a checkout of ReSTTest: it lacks {len(missing)} of {len(files)} "
            f"files ({missing[0]}, ...). Run 'git clone {RESTTEST_URL}' and give the folder that "
            "contains resttest_files"
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
    """Check that every query is in one bucket, and each interpolation file has all other buckets.

    Raises:
        DataError: if not, or if a relevance is below 1; the error lists the queries.
    """
    findings = FindingLog()
    bucket_of: dict[str, str] = {}
    for group, qrels in extrapolated.items():
        held_out, others = (str(folder / name) for name in _names(group))
        for query_id in sorted({qrel.query_id for qrel in qrels}):
            first = bucket_of.setdefault(query_id, group)
            if first != group:
                findings.add(
                    "not-disjoint", f"query {query_id!r} is also in bucket {first}", held_out
                )
        if unjudged := sorted({qrel.query_id for qrel in qrels if qrel.relevance < 1}):
            message = f"queries have a passage with relevance below 1: {first_few(unjudged)}"
            findings.add("not-relevant", message, held_out)
        rest = frozenset().union(*(q for other, q in extrapolated.items() if other != group))
        for code, differing, error in (
            ("missing-judgement", rest - interpolated[group], "of other buckets are missing"),
            ("extra-judgement", interpolated[group] - rest, "are not of another bucket"),
        ):
            if differing:
                few = first_few({qrel.query_id for qrel in differing})
                findings.add(code, f"{len(differing)} judgements, of {few}, {error}", others)
    findings.stop_if_any(DataError, f"the buckets in {folder} are not a partition of the queries:")


def _texts(collection: Collection, query_ids: Mapping[str, str]) -> dict[str, str]:
    texts = {
        query_id: text for query_id, text in collection.queries.items() if query_id in query_ids
    }
    if lacking := query_ids.keys() - texts.keys():
        raise DataError(
            f"{collection.name} lacks {len(lacking)} of the {len(query_ids)} queries: "
            f"{first_few(lacking)}; choose a collection with MS MARCO's development queries"
        )
    return texts


_BLOCK = 8192
"""Training queries that a thread processes at a time."""
_TESTS = 32
"""Test queries whose scores are in memory at a time."""
_REACH = 2
"""The largest distance, in bins, of two scores whose order the rounding error may change."""


@dataclass(frozen=True, slots=True)
class NeighbourOrder:
    """Training queries in the order of their nearness to any test query.

    Attributes:
        order: shape (n,): row numbers of the training queries, the nearest first.
        ranks: shape (n,): the best rank of each training query, by row number, for any test query,
            from 1.
        cosines: shape (n,): its cosine with this test query.
    """

    order: Ints
    ranks: Ints
    cosines: Floats

    def depths(self, size: int) -> dict[str, int]:
        """Return ``I`` and ``E`` of the two training sets of `size` queries each.

        ``I`` is the last rank in the interpolation set; not all queries of this rank may be in it.
        The extrapolation set contains none of the ``E`` nearest neighbours of any test query; ``E``
        may be 0.
        """
        last, first = (int(self.ranks[self.order[place]]) for place in (size - 1, -size))
        return {"I": last, "E": first - 1}


def rank_by_best_cosine(train: Vectors, test: Vectors) -> NeighbourOrder:
    """Order the training queries by the best rank that each has for any test query; see the module.

    Ranks are exact: they compare 64-bit distances of vectors of length 1, summed in a fixed order.
    So the result does not depend on threads, blocks or processors.

    Args:
        train: shape (n, d); earlier rows win ties; may be a memory map.
        test: shape (m, d), m at least 1. A row of zeros has cosine 0 with all rows.
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
        for rows, new, distances in list(map_in_threads(decide, range(len(rounded[tests])))):
            nearer = new < ranks[rows]
            nearer |= (new == ranks[rows]) & (distances < nearest[rows])
            ranks[rows[nearer]], nearest[rows[nearer]] = new[nearer], distances[nearer]
        report_progress("compare", min(tests.stop, len(test)) * count, count * len(test))
    return NeighbourOrder(np.lexsort((np.arange(count), nearest, ranks)), ranks, 1 - nearest / 2)


def _nearer(
    train: Vectors, centre: Floats, scores: Vectors, known: Ints
) -> tuple[Ints, Ints, Floats]:
    """Return the training queries whose best known rank a test query may equal or improve.

    All others have a 32-bit score below the score at their known rank, by more than the rounding
    error.

    Args:
        train: shape (n, d): the training queries' vectors.
        centre: shape (d,): the test query's vector, of length 1 or 0.
        scores: shape (n,): their products in 32 bits.
        known: shape (n,): the best rank so far of each training query.

    Returns:
        Their row numbers, their ranks for this test query, and their squared distances to it. Ranks
        are by 32-bit score; scores that are equal within the rounding error are ranked by 64-bit
        distance.
    """
    count = len(scores)
    ascending = np.sort(scores)
    # Twice the error, and half of it more for the subtraction in 32 bits, in `rows` and `bins`.
    error = np.float32(2.5 * product_error(train.shape[1]))
    rows = np.flatnonzero(scores >= ascending[count - np.minimum(known, count)] - error)
    bins = ((scores + np.float32(1.01)) / error).astype(np.int32) + _REACH
    marked = np.zeros(int(bins.max()) + _REACH + 1, bool)
    for reach in range(-_REACH, _REACH + 1):
        marked[bins[rows] + reach] = True
    close = np.flatnonzero(marked[bins])
    squared = np.empty(len(close))
    for part in slices(len(close), _BLOCK):
        exact = unit_rows(train[close[part]])
        places = np.arange(len(exact))
        distances = squared_distances(exact, places, centre[np.newaxis], np.zeros_like(places))
        # A row of zeros has cosine 0 with all vectors, like a vector at a right angle.
        distances[~exact.any(axis=1)] = 2
        squared[part] = distances if centre.any() else 2
    ranks = np.empty(len(close), np.int64)
    ranks[np.argsort(squared, kind="stable")] = np.arange(1, len(close) + 1)
    for values, sign in ((ascending, 1), (np.sort(scores[close]), -1)):
        ranks += sign * (len(values) - np.searchsorted(values, scores[close], side="right"))
    chosen = np.searchsorted(close, rows)
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
        validation: the ids of the validation queries.
        collection: the queries' collection.
        set_aside: the ids of queries that are never trained on: the validation queries, and given
            test queries of other shifts.
        rule: ``nearest`` is the only one.
        test_sets: folders of test queries, at least one: ``queries.tsv`` and ``qrels.tsv``, whose
            judgements may be graded. Several folders form one test set.
        sizes: at least one number of training queries of a set, each 1 or more.
        encoder: see `embed_for_groups`.
        pooling: see `embed_for_groups`.
        words: see `embed_for_groups`.

    Returns:
        A shift per size, the smallest first, e.g. ``restrain-14k``.

    Raises:
        UnknownNameError: if there is no such rule or pooling.
        NotFoundError: if there is no such folder or encoder.
        CollectionError: if a test set is malformed.
        UsageError: if a size is too large; the message contains the largest possible size.
        DataError: if test queries are among `queries` or in two test sets, or if none has a
            relevant passage.
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
            f"restrain: two disjoint sets of {max(sizes):,} training queries need "
            f"{2 * max(sizes):,} queries, but only {len(ids):,} can be trained on; give a size of "
            f"at most {len(ids) // 2:,}"
        )
    queried = {
        **{f"{_TRAIN}{query_id}": text for query_id, text in trainable},
        **{f"{_TEST}{row.query_id}": row.text for row in tests},
    }
    embeddings = embed_for_groups(
        queried, collection, encoder=encoder, pooling=pooling, words=words
    )
    row_of = {query_id: row for row, query_id in enumerate(embeddings.query_ids)}
    near = rank_by_best_cosine(
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
        summary = {
            group: {"mean": round(float(part.mean()), 4), "largest": round(float(part.max()), 4)}
            for group, part in cosines.items()
        }
        grouping = Grouping(
            shift.name,
            dict.fromkeys(query_ids, OTHERS) | group_of,
            rule,
            {"embedding": embeddings.facts, **near.depths(size)},
            found={"cosine with a test query": summary},
        )
        groups = pa.array(map(group_of.get, query_ids), pa.string())
        splits = pc.if_else(pc.equal(groups, OTHERS), "validation", "train")
        table = queries.add_column(2, "group", groups).add_column(3, "split", splits)
        table = pa.concat_tables([table.filter(pc.is_valid(groups)), tested]).sort_by("query_id")
        requested = {"train_size": size, "test_queries": len(tests), "candidates": len(ids)}
        cuts.append(ShiftSplits(grouping, table, requested))
    return tuple(cuts)


_TRAIN, _TEST = "train/", "test/"
"""Prefixes that distinguish a training query and a test query with the same id."""


def _read_tests(folders: Sequence[str | Path]) -> tuple[Row, ...]:
    """Return the test queries that have a relevant passage, sorted by query_id.

    No such query, or a query in two folders, raises DataError.
    """
    rows: dict[str, Row] = {}
    for folder in folders:
        extra, _ = read_test_folder("test", Path(folder).expanduser())
        for row in extra.rows:
            if row.query_id in rows:
                raise DataError(
                    f"query {row.query_id!r} of {extra.folder} is also in another test set; "
                    "give test sets without common queries"
                )
            rows[row.query_id] = row
    usable = tuple(rows[query_id] for query_id in sorted(rows) if rows[query_id].relevant_doc_ids)
    if not usable:
        raise DataError(
            f"no test query of {', '.join(map(str, folders))} has a relevant passage (relevance 1 "
            "or more); add judgements to qrels.tsv"
        )
    return usable


def _check_apart(ids: Sequence[str], tests: Sequence[Row], collection: Collection) -> None:
    shared = {row.query_id for row in tests}.intersection(ids)
    if shared:
        raise DataError(
            f"{len(shared)} of the {len(tests)} test queries are queries with a relevant passage "
            f"of {collection.name}, and could be trained on: {first_few(shared, 3)}; remove their "
            "judgements from the collection's qrels (--qrels FILE)"
        )
