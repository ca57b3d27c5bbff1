"""Labels of queries for slices, from a file or from the groups of a shift."""

from __future__ import annotations

from pathlib import Path

from msshift_bench.data.dataset import Dataset, open_dataset
from msshift_bench.data.reading import COLUMN_NAMES, read_table
from msshift_bench.errors import CollectionError, FindingLog, UnknownNameError
from msshift_bench.plumbing import tsv_rows
from msshift_bench.shifts import DATASET_NAME


def read_labels(by: str | Path, data: Dataset | str | Path = DATASET_NAME) -> dict[str, str]:
    r"""Return query_id -> label; ``{}`` for an empty file.

    Args:
        by: a file of two tab-separated columns, query_id and label, with or without a header. Or
            the name of a shift of the data set, or a unique prefix of the name: the labels are then
            the shift's groups, and `OTHERS`. A query in two groups gets the group of its first row.
        data: the built data set; only read for a shift.

    Raises:
        UnknownNameError: if `by` is neither a file nor a shift, or a prefix of several shifts.
        CollectionError: if the file is malformed, labels a query twice, or has an empty label.
        NotFoundError: if the data set does not exist.
        IntegrityError: if a file of the data set is missing or was changed.

    Examples:
        >>> Path("labels.tsv").write_text("q1\teasy\nq2\thard\n")
        16
        >>> read_labels("labels.tsv")
        {'q1': 'easy', 'q2': 'hard'}
    """
    if Path(by).is_file():
        return _read_file(Path(by))
    dataset, name = open_dataset(data), str(by)
    shifts = dataset.manifest.shifts
    matching = [name] if name in shifts else [s for s in shifts if name and s.startswith(name)]
    if len(matching) != 1:
        raise UnknownNameError("file or shift to break results down by", name, shifts)
    labels: dict[str, str] = {}
    for row in dataset.rows(matching[0], "queries"):
        labels.setdefault(row.query_id, row.group)
    return labels


def _read_file(path: Path) -> dict[str, str]:
    def problem_of(query_id: str, label: str, is_repeated: bool) -> tuple[str, ...]:
        if is_repeated:
            fix = "keep one label per query"
            return "repeated-id", f"query_id {query_id!r} is repeated with label {label!r}", fix
        if not label.strip():
            return "empty-text", f"query {query_id!r} has no label", "add a label, or remove it"
        return ()

    findings = FindingLog()
    rows = (
        (str(path), line, query_id, label)
        for line, (query_id, label) in tsv_rows(path, ("query_id", "label"), findings)
        if line > 1 or query_id.lower() not in COLUMN_NAMES
    )
    labels = read_table(rows, findings, problem_of)
    findings.stop_if_any(CollectionError, f"the labels in {path} are malformed:")
    return labels
