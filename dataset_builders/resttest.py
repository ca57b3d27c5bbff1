"""The official buckets of ReSTTest: MS MARCO's development queries, cut into five.

Source: Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models (CIKM 2022), section 4: training and test queries are clustered into five buckets by their
embeddings; a model trained on the training queries of four is tested on the test queries of the
fifth, which it has to extrapolate to. The released files (`RESTTEST_URL`) hold the ids of the test
queries.

The release also holds buckets of TREC DL 2019 and 2020. They are not imported: their judgements are
graded and their queries differ, so that the groups of the shift would mix three test collections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msshift_bench.data import Collection, QrelColumns, sha256_of
from msshift_bench.dataset_builders.cut import Cut, cut_table
from msshift_bench.dataset_builders.official_release import RULE, OfficialRelease
from msshift_bench.errors import DataError, FindingLog, NotFoundError
from msshift_bench.records import Grouping, Qrel, Row
from msshift_bench.runs import read_qrels
from msshift_bench.shifts import get_shift

__all__ = ["RESTTEST_URL", "read_resttest"]

RESTTEST_URL = "https://github.com/jingtaozhan/extrapolate-eval"
"""The address of the buckets' release."""

_SHOWN = 5
"""How many ids an error spells out."""

Judged = Mapping[str, frozenset[Qrel]]


def read_resttest(folder: Path, collection: Collection | None = None) -> OfficialRelease:
    """Import the five buckets as the test sets of the shift ``resttest``.

    Args:
        folder: a checkout, which holds ``resttest_files``.
        collection: the source of the queries' texts, e.g. ``msmarco-passage/dev/small``. Without
            it the texts are empty, and the result says so.

    Returns:
        The shift with the split ``test``; group ``1`` holds the queries that a model trained on
        buckets 2 to 5 extrapolates to.

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
    extrapolated: dict[str, frozenset[Qrel]] = {}
    interpolated: dict[str, frozenset[Qrel]] = {}
    for group in shift.groups:
        held_out, others = (files[name] for name in _names(group))
        extrapolated[group] = frozenset(read_qrels(held_out))
        interpolated[group] = frozenset(read_qrels(others))
    _check_partition(extrapolated, interpolated, folder)

    relevant = {
        group: QrelColumns(*zip(*qrels, strict=True)).graded()
        for group, qrels in extrapolated.items()
    }
    labels = {query_id: group for group, judged in relevant.items() for query_id in judged}
    texts = dict.fromkeys(labels, "") if collection is None else _texts(collection, labels)
    rows = sorted(
        Row.judged(query_id, texts[query_id], group, relevant[group][query_id])
        for query_id, group in labels.items()
    )
    grouping = Grouping(shift.name, {}, RULE, {"upstream": RESTTEST_URL})
    return OfficialRelease(
        shifts=(Cut(grouping, cut_table({"test": rows}), ("test",)),),
        report={
            "upstream": RESTTEST_URL,
            "test_sets": {
                f"{shift.name}-{group}": {"queries": len(judged)}
                for group, judged in relevant.items()
            },
            "collection": None if collection is None else collection.name,
            "files": {name: sha256_of(files[name]) for name in sorted(files)},
        },
        texts=collection is not None,
    )


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
                message = f"query {query_id!r} is in bucket {first} already"
                findings.add("not-disjoint", message, held_out)
        if unjudged := sorted({qrel.query_id for qrel in qrels if qrel.relevance < 1}):
            message = f"{_few(unjudged)} with a passage that is not relevant"
            findings.add("not-relevant", message, held_out)
        rest = frozenset().union(*(q for other, q in extrapolated.items() if other != group))
        for code, differing, what in (
            ("missing-judgement", rest - interpolated[group], "of the other buckets are not here"),
            ("extra-judgement", interpolated[group] - rest, "are of no other bucket"),
        ):
            if differing:
                few = _few({qrel.query_id for qrel in differing})
                message = f"{len(differing)} judgements, of {few}, {what}"
                findings.add(code, message, others)
    findings.stop_if_any(DataError, f"the buckets in {folder} are no partition of the queries:")


def _texts(collection: Collection, query_ids: Mapping[str, str]) -> dict[str, str]:
    texts = {query_id: text for query_id, text in collection.queries if query_id in query_ids}
    if lacking := query_ids.keys() - texts.keys():
        raise DataError(
            f"{collection.name} lacks {len(lacking)} of the {len(query_ids)} queries: "
            f"{_few(lacking)}; give the collection that holds MS MARCO's development queries"
        )
    return texts


def _few(query_ids: Iterable[str]) -> str:
    ids = sorted(query_ids)
    return ", ".join(ids[:_SHOWN]) + (", ..." if len(ids) > _SHOWN else "")
