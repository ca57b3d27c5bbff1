"""The data set card: the README.md that people read and `datasets.load_dataset` obeys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msshift_bench.manifest import SplitEntry
from msshift_bench.shifts import DATASET_NAME, SHIFTS, Shift, parse_config

__all__ = ["render_card"]

_FEATURES = (("query_id", "dtype: string"), ("text", "dtype: string"), ("group", "dtype: string"))
_LAST_FEATURE = ("relevant_doc_ids", "list: string")

_ABOUT = """\
# MS-Shift

MS-Shift cuts queries into groups and asks how much a retriever loses on the queries of a group
that was held out of its training. For every group of a shift, train a model on the config that
holds the group out, run it on the `test` queries of all groups of the shift, and compare on each
group the models that saw it in training (Avg In) with the one that did not (Out):
Rel Loss = (Avg In - Out) / Avg In.

## Load

```python
from datasets import load_dataset

held_out = load_dataset("{name}", "{example}")
held_out["train"]  # the training queries of the other groups: what you may train on
held_out["test"]  # the test queries of the held-out group: zero-shot
held_out["validation"]  # queries that no shift touches
```

Rows hold `query_id`, `text`, `group` and `relevant_doc_ids`. A config that is named like a shift
(`{shift}`) holds all its queries, with their `split`. Passages are not part of the data set: ids
refer to the collection named below.
"""

_LICENCE = """\
## Licence and citation

MS MARCO is for non-commercial research; passages are not redistributed here. MS-Shift's labels are
licensed CC BY-NC-SA 4.0. If you use them, cite:

> Simon Lupart, Thibault Formal, Stéphane Clinchant: MS-Shift: An Analysis of MS MARCO Distribution
> Shifts on Neural Retrieval. ECIR 2023.
"""


def render_card(
    *,
    data_version: str,
    edition: str,
    digest: str,
    collection: Mapping[str, object],
    parameters: Mapping[str, object],
    shifts: Mapping[str, Mapping[str, Any]],
    configs: Mapping[str, Mapping[str, SplitEntry]],
) -> str:
    """Return the text of the card.

    The description of every config carries the data version and the content digest: the datasets
    library keys its cache by the card's contents and would otherwise serve the rows of an earlier
    build from the same folder.

    Args:
        data_version: the version of the building rules.
        edition: ``rebuilt`` or ``official-2022``.
        digest: the content digest of the whole build.
        collection: what the manifest says of the collection.
        parameters: seed and requested sizes.
        shifts: shift -> rule, parameters, and rows by group and split.
        configs: config -> split -> entry.
    """
    first = SHIFTS[next(iter(shifts))]
    parts = [
        *_front_matter(configs, f"MS-Shift {data_version}, {edition}, content {digest}"),
        "",
        _ABOUT.format(name=DATASET_NAME, example=next(iter(first.configs)), shift=first.name),
        "## What is in it",
        "",
        f"- data version {data_version}, edition `{edition}`, content `{digest}`",
        f"- collection `{collection['name']}` (text: {collection['text']})",
        f"- parameters: {_inline(parameters)}",
        "",
    ]
    for name, facts in shifts.items():
        parts += _shift_section(SHIFTS[name], facts)
    parts.append(_LICENCE)
    return "\n".join(parts)


def _front_matter(
    configs: Mapping[str, Mapping[str, SplitEntry]], description: str
) -> Sequence[str]:
    lines = [
        "---",
        "license: cc-by-nc-sa-4.0",
        "language: [en]",
        "task_categories: [text-retrieval]",
        "pretty_name: MS-Shift",
        "configs:",
    ]
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split, entry in splits.items():
            lines += [f"  - split: {split}", f"    path: {entry.file}"]
    lines.append("dataset_info:")
    for config, splits in configs.items():
        _, held_out = parse_config(config)
        columns = (*_FEATURES, *([] if held_out else [("split", "dtype: string")]), _LAST_FEATURE)
        lines += [f"- config_name: {config}", f"  description: {json.dumps(description)}"]
        lines.append("  features:")
        for column, kind in columns:
            lines += [f"  - name: {column}", f"    {kind}"]
        lines.append("  splits:")
        for split, entry in splits.items():
            lines += [f"  - name: {split}", f"    num_examples: {entry.rows}"]
            lines.append(f"    num_bytes: {entry.arrow_bytes}")
        lines.append(f"  download_size: {sum(entry.bytes for entry in splits.values())}")
        lines.append(f"  dataset_size: {sum(entry.arrow_bytes for entry in splits.values())}")
    return [*lines, "---"]


def _shift_section(shift: Shift, facts: Mapping[str, Any]) -> Sequence[str]:
    counts = facts["rows"]
    return [
        f"### {shift.title} (`{shift.name}`)",
        "",
        f"{shift.description[0].upper()}{shift.description[1:]}; rule `{facts['rule']}`, "
        f"{_inline(facts['parameters'])}.",
        "",
        "| group | what | train | validation | test |",
        "|---|---|---|---|---|",
        *(
            f"| {group} | {about} | {counts[group]['train']} | {counts[group]['validation']} "
            f"| {counts[group]['test']} |"
            for group, about in shift.groups.items()
        ),
        "",
    ]


def _inline(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {json.dumps(value)}" for key, value in values.items())
