"""Annotation: people judge pairs of a test query and a training query.

They are asked how alike the two are (`SIMILARITY`), or whether one leaks the other (`LEAKAGE`).
`similar_pairs` recalls candidates for the first; what leaks is for `leakage` to find. `write_sheet`
writes a sheet to fill in, `read_annotations` reads what annotators say, checked against each other,
as `Annotations`; `similarity_labels` counts the first. The room may use `data`, `encoders`,
`errors`, `evaluation`, `output`, `plumbing`, `records`, `sampling`, `search`, `shifts`,
`similarity` and `stats`.
"""

from msshift_bench.annotation.labels import (
    AGREED,
    DIFFERENT,
    LEAKAGE,
    LEAKS,
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
    "LEAKS",
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
