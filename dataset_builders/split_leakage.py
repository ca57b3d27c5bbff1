"""How many test queries of a built data set have near-duplicates in training, in its manifest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from msshift_bench.data import Dataset, Manifest, SplitRows, open_dataset
from msshift_bench.dataset_builders.sealing import amend_dataset
from msshift_bench.encoders import OWN, TERMS
from msshift_bench.errors import MissingError, UsageError
from msshift_bench.leakage import TIERS, find_leakage
from msshift_bench.plumbing import Progress, in_line, silent
from msshift_bench.shifts import SHIFTS

__all__ = ["add_split_leakage"]


def add_split_leakage(
    data: Dataset | str | Path,
    *,
    encoder: str = TERMS,
    pooling: str = OWN,
    threshold: float | None = None,
    progress: Progress = silent,
) -> Manifest:
    """Count each experiment's test queries that its training queries leak, in card and manifest.

    The manifest gets ``near_duplicates`` for every shift: the encoder, the threshold, and per
    experiment the tiers that compare texts with the test queries that each finds. The splits stay
    as they are; the data set is replaced as a whole.

    Args:
        data: the built data set; see `open_dataset`.
        encoder: as `find_leakage` takes it.
        pooling: likewise.
        threshold: likewise.
        progress: called with ``(stage, done, total)``.

    Returns:
        The new manifest.

    Raises:
        NotFoundError: if there is no built data set, or no such encoder.
        MissingError: if it holds ids only.
        UsageError: if it has no training queries, another process is writing it, or has built it
            anew meanwhile.

    Example:
        >>> manifest = add_split_leakage("msshift")
        >>> manifest.shifts["length"]["near_duplicates"]["test_queries"]["short"]
        {'same-text': 0, 'same-normalised': 0, 'same-words': 0, 'near-duplicate': 0, 'any': 0}
    """
    dataset = open_dataset(data)
    if not dataset.manifest.texts:
        raise MissingError(
            f"{dataset.folder} holds ids only, no texts of queries; "
            f"'msshift hydrate {dataset.folder}' puts them back"
        )
    counted: dict[str, dict[str, Any]] = {}
    for name in dataset.manifest.shifts:
        for config, group in SHIFTS[name].configs.items():
            if "train" not in dataset.manifest.configs[config]:
                continue
            found = find_leakage(
                *(_texts(dataset.rows(config, split)) for split in ("train", "test")),
                encoder=encoder,
                pooling=pooling,
                threshold=threshold,
                progress=in_line(progress, config),
            )
            facts = counted.setdefault(
                name,
                {
                    "encoder": found.facts["encoder"],
                    "threshold": found.facts["threshold"],
                    "test_queries": {},
                },
            )
            # What words were counted in differs between experiments.
            facts["encoder"].pop("counted_in", None)
            facts["test_queries"][group] = {
                tier: found.count(tier).topics for tier in TIERS[:-1]
            } | {"any": found.count(*TIERS[:-1]).topics}
    if not counted:
        raise UsageError(f"{dataset.folder} has no training queries, so that nothing can leak")
    with amend_dataset(dataset) as amendment:
        amendment.check_same(dataset, "its test queries were compared")
        shifts = {
            name: {**facts, **({"near_duplicates": counted[name]} if name in counted else {})}
            for name, facts in amendment.manifest.shifts.items()
        }
        amendment.manifest = replace(amendment.manifest, shifts=shifts)
    return amendment.manifest


def _texts(rows: SplitRows) -> dict[str, str]:
    columns = (rows.table[name].to_pylist() for name in ("query_id", "text"))
    return dict(zip(*columns, strict=True))
