"""Checkouts of the release of 2022, made up: small ones, in its exact format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msshift_bench.data.collection import Collection
from msshift_bench.dataset_builders.groups import question_matcher
from msshift_bench.dataset_builders.release import LENGTH_CUT, TRAINING_COLUMNS
from msshift_bench.records import Query

__all__ = ["training_file", "write_checkout", "write_mini_checkout", "write_resttest"]

_FILES = {
    **{f"C{n}": str(n) for n in range(5)},
    **{group: group for group in ("wha", "how", "who", "short", "long")},
}
_TOPICS = [f"C{n}" for n in range(5)]
_WORDS = ["wha", "how", "who"]
_LENGTHS = ["short", "long"]


def write_checkout(
    folder: Path, training: str | None = None, **groups: tuple[str, Mapping[str, Any] | str]
) -> Path:
    """Write a checkout with one query in each test set.

    Args:
        folder: where to.
        training: the text of the training file; the checkout has none without it.
        **groups: group -> the text of its queries' file, and its qrels as JSON values or text.
    """
    for group, name in _FILES.items():
        only = (f"t-{group}\ttest {group}\n", {f"t-{group}": {"d1": 1}})
        queries, qrel = groups.get(group, only)
        for kind, text in (
            (f"queries/queries_{name}.tsv", queries),
            (f"qrel/qrel_{name}.json", qrel if isinstance(qrel, str) else json.dumps(qrel)),
        ):
            path = folder / "EVAL" / kind
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if training is not None:
        (folder / "TRAIN").mkdir(exist_ok=True)
        (folder / "TRAIN" / "queries_clustering.tsv").write_text(training, encoding="utf-8")
    return folder


def write_resttest(folder: Path, queries: Mapping[str, str]) -> Path:
    """Write a checkout of ReSTTest, whose buckets "1" to "5" hold one query each.

    Args:
        folder: where to.
        queries: bucket -> the id of its query, to which passage ``d<id>`` is relevant.
    """
    for bucket, own in queries.items():
        place = folder / f"resttest_files/msmarco-passage/bucket-{bucket}"
        place.mkdir(parents=True)
        (place / "extrapolate.dev-qrel.txt").write_text(f"{own}\t0\td{own}\t1\n")
        others = "".join(f"{one}\t0\td{one}\t1\n" for one in queries.values() if one != own)
        (place / "interpolate.dev-qrel.txt").write_text(others)
    return folder


def training_file(*lines: str) -> str:
    """Return the text of a training file: its header line, then the lines."""
    return "".join(f"{line}\n" for line in ("\t".join(TRAINING_COLUMNS), *lines))


def write_mini_checkout(
    folder: Path, collection: Collection, *, tested: int = 8, trained_share: float = 0.75
) -> Path:
    """Write a checkout whose queries are those of a collection that have a relevant passage.

    Topics are drawn by a query's place, the other groups by the release's rules. Each group tests
    with its first queries; of the rest the training file names all, and flags the first part of
    them to be trained on in every shift, so that some are left for validation.

    Args:
        folder: where to.
        collection: e.g. ``open_collection("mini:500")``.
        tested: test queries of each group; no query is in two test sets.
        trained_share: the share of the other queries that is trained on, 0 to 1.
    """
    relevant = collection.relevant
    usable = [Query(*query) for query in collection.queries.items() if query[0] in relevant]
    labelled = [(query, _labels(place, query.text)) for place, query in enumerate(usable)]
    taken: set[str] = set()
    sets = {}
    for group in _FILES:
        members = [q for q, groups in labelled if group in groups and q.query_id not in taken]
        chosen = members[:tested]
        taken.update(query.query_id for query in chosen)
        sets[group] = (
            "".join(f"{query.query_id}\t{query.text}\n" for query in chosen),
            {q.query_id: dict.fromkeys(relevant[q.query_id], 1) for q in chosen},
        )
    rest = [one for one in labelled if one[0].query_id not in taken]
    trained = round(len(rest) * trained_share)
    lines = (_line(q.text, groups, trained=n < trained) for n, (q, groups) in enumerate(rest))
    return write_checkout(folder, training_file(*lines), **sets)


def _labels(place: int, text: str) -> list[str]:
    """Return a query's topic (every sixth has none), question word (or none) and length."""
    topic = [f"C{place % 6}"] if place % 6 < len(_TOPICS) else []
    word = [g for g in _WORDS if g in question_matcher("substring")(text)][:1]
    return [*topic, *word, "short" if len(text.split(" ")) < LENGTH_CUT else "long"]


def _line(text: str, groups: Sequence[str], *, trained: bool) -> str:
    fields = [text]
    for names in (_TOPICS, _WORDS, _LENGTHS):
        cluster = next((n for n, name in enumerate(names) if name in groups), len(names))
        fields += [str(cluster), str(int(trained and cluster < len(names)))]
    return "\t".join(fields)
