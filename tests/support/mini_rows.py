"""The queries of `mini` as rows of a data set."""

from msshift_bench.mini.generator import DEFAULT_SIZE, DOMAINS, qrels, queries
from msshift_bench.records import Row


def mini_rows(size: int) -> list[Row]:
    """Return all queries of a `mini` of this size as rows of one group, sorted."""
    relevant: dict[str, list[str]] = {}
    for qrel in qrels(size):
        relevant.setdefault(qrel.query_id, []).append(qrel.doc_id)
    return sorted(
        Row.judged(q.query_id, q.text, "g", dict.fromkeys(relevant[q.query_id], 1))
        for q in queries(size)
    )


def domains(size: int = DEFAULT_SIZE) -> dict[str, str]:
    """Return query_id -> domain, in the order of the queries: that of all relevant passages."""
    return {row.query_id: DOMAINS[int(row.doc_id) % len(DOMAINS)] for row in qrels(size)}
