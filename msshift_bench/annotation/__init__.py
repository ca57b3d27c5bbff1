"""Annotation: people judge pairs of a test query and a training query.

Annotators judge how similar the two queries are (`SIMILARITY`), or whether the training query leaks
the test query (`LEAKAGE`). `similar_pairs` recalls candidates for `SIMILARITY`; `leakage` finds
candidates for `LEAKAGE`. `write_sheet` writes a sheet to fill in. `read_annotations` reads filled
sheets, checks them against each other, and returns `Annotations`. `similarity_labels` counts the
labels of `SIMILARITY`. The room may use `data`, `encoders`, `errors`, `evaluation`, `output`,
`plumbing`, `records`, `sampling`, `search`, `shifts`, `similarity` and `stats`.
"""

from msshift_bench.annotation.labels import (
    AGREED,
    DIFFERENT,
    LEAKAGE,
    LEAKAGE_QUESTION,
    REFORMULATIONS,
    SIMILARITY,
    UNTYPED,
    Annotations,
    Pair,
    Question,
    Verdict,
    agreement_table,
    agreements,
    similarity_labels,
)
from msshift_bench.annotation.sheets import (
    check_not_filled,
    check_sheet,
    read_annotations,
    similar_pairs,
    write_sheet,
)

__all__ = [
    "AGREED",
    "DIFFERENT",
    "LEAKAGE",
    "LEAKAGE_QUESTION",
    "REFORMULATIONS",
    "SIMILARITY",
    "UNTYPED",
    "Annotations",
    "Pair",
    "Question",
    "Verdict",
    "agreement_table",
    "agreements",
    "check_not_filled",
    "check_sheet",
    "read_annotations",
    "similar_pairs",
    "similarity_labels",
    "write_sheet",
]
