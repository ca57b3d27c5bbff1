"""The manifest of a built data set: its configs, source data and digests."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from msshift_bench.checked import (
    STRICT,
    Checked,
    Count,
    Digest,
    GroupName,
    Line,
    Listed,
    Name,
    Text,
    check_json,
    check_value,
    valid_name,
)
from msshift_bench.errors import Finding, IntegrityError, NotFoundError, UsageError, quoted
from msshift_bench.plumbing import CHECKSUM, checksum_matches, with_checksum, write_json
from msshift_bench.shifts import LISTED_SHIFTS, SHIFTS, LabelledShift, has_triples, known_shifts
from msshift_bench.words import WHITESPACE

DATA_VERSION = "2.0.0"
"""The version of the building rules; it changes if rows of the same input change."""

MANIFEST_NAME = "manifest.json"
CARD_NAME = "README.md"
CROISSANT_NAME = "croissant.json"

_SCHEMA = 3
_BALANCED_WITHIN = 0.01

_MAX_MEMBERS = Field(max_length=10_000)
"""Limit of the number of members of a table or list."""

_CURE = "restore the original file, or build again ('msshift build --overwrite')"

_DESCRIBING = 3
"""The number of top terms in the description of a topic."""

BIBTEX: Mapping[str, str] = MappingProxyType(
    {
        "Lupart2023MsShift": """\
@inproceedings{Lupart2023MsShift,
  title={MS-Shift: An Analysis of MS MARCO Distribution Shifts on Neural Retrieval},
  author={Simon Lupart and Thibault Formal and St{\\'e}phane Clinchant},
  booktitle={ECIR},
  year={2023},
  note={arXiv:2205.02870}
}""",
        "Zhan2022Extrapolation": """\
@inproceedings{Zhan2022Extrapolation,
  title={Evaluating Interpolation and Extrapolation Performance of Neural Retrieval Models},
  author={Jingtao Zhan and Xiaohui Xie and Jiaxin Mao and Yiqun Liu and Jiafeng Guo and Min Zhang
    and Shaoping Ma},
  booktitle={CIKM},
  year={2022}
}""",
    }
)
"""Citation key -> entry."""


class _Facts(Checked):
    """The manifest's facts about every shift; further facts depend on the shift."""

    model_config = ConfigDict(extra="allow")

    rule: Name
    rows: Annotated[dict[Name, Annotated[dict[Name, Count], _MAX_MEMBERS]], _MAX_MEMBERS]
    balanced: bool | None
    groups: Annotated[dict[GroupName, Line], _MAX_MEMBERS] | None = None


class _Rows(Checked):
    model_config = ConfigDict(extra="allow")

    rows: Count
    sha256: Digest


class _Source(Checked):
    """The manifest's facts about every collection; further facts depend on the build."""

    model_config = ConfigDict(extra="allow")

    name: Name
    text: Name = "raw"
    queries: _Rows | None = None
    qrels: _Rows | None = None
    licence: Name | None = None


def _conforms_to(model: type[Checked]) -> AfterValidator:
    """Return a validator that checks an object with a model and keeps its further members."""

    def check(value: Mapping[str, Any]) -> Mapping[str, Any]:
        model.model_validate(value)
        return value

    return AfterValidator(check)


def _with_groups(shifts: Any) -> Any:
    """Return the facts of shifts, with a `LabelledShift` as the name of each shift of labels."""
    if not isinstance(shifts, Mapping):
        return shifts

    def named(name: str, facts: Any) -> str:
        groups = facts.get("groups") if isinstance(facts, Mapping) else None
        if name in SHIFTS or not isinstance(groups, Mapping) or not re.fullmatch(r"\w+", name):
            return name
        return LabelledShift(name, groups)

    return {named(name, facts): facts for name, facts in shifts.items()}


_Shift = Annotated[Any, valid_name("shift", SHIFTS, LISTED_SHIFTS)]
"""The name of a shift, which stays a `LabelledShift`."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a split.

    Attributes:
        path: relative to the data set's folder, with ``/``.
        rows: number of rows.
        bytes: size of the file in bytes.
        sha256: SHA-256 of the file; equal after a rebuild with the same version of pyarrow.
    """

    __pydantic_config__: ClassVar = STRICT

    path: Name
    rows: Count
    bytes: Count
    sha256: Digest


@dataclass(frozen=True, slots=True)
class SplitEntry:
    """One split of one config.

    Attributes:
        files: its files, in the order of their rows.
        rows: number of rows.
        digest: SHA-256 of the canonical rows with texts, equal after a rebuild or
            `hydrate_dataset`.
        ids_digest: SHA-256 of the canonical rows with empty texts, for data sets without texts. For
            triples, which have no texts, the two digests are equal.
        arrow_bytes: size of the rows in memory in bytes, as in the library datasets.
    """

    __pydantic_config__: ClassVar = STRICT

    files: Annotated[tuple[FileEntry, ...], Listed, _MAX_MEMBERS]
    rows: Count
    digest: Digest
    ids_digest: Digest
    arrow_bytes: Count


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts about a built data set.

    Attributes:
        data_version: `DATA_VERSION` of the build.
        edition: ``rebuilt`` or ``official-2022``.
        content_digest: one digest over all queries; see `content_digest`.
        texts: whether the rows have the queries' texts; false after ``--ids-only``.
        collection: name, layout, text variant, licence, and counts and digests of queries and
            qrels.
        parameters: seed and requested sizes; ``exclude`` if the build excluded passages; ``words``
            if texts are not divided into words by white space.
        shifts: shift -> rule, the builder's parameters and further results, rows by group and
            place (`PLACES`), and whether the training sets are balanced; see `is_balanced`; `None`
            without training queries. A shift of labels also has ``groups``: group -> description;
            its name is a `LabelledShift`.
        configs: config -> split -> entry.
        files: path -> SHA-256 of every other file: the card, the Croissant metadata, the clusters.
        written_with: package -> version; not part of any digest.
    """

    __pydantic_config__: ClassVar = STRICT

    data_version: Name
    edition: Name
    content_digest: Digest
    texts: bool
    collection: Annotated[Mapping[str, Any], _conforms_to(_Source)]
    parameters: Mapping[str, Any]
    shifts: Annotated[
        Mapping[_Shift, Annotated[Mapping[str, Any], _conforms_to(_Facts)]],
        BeforeValidator(_with_groups),
    ]
    configs: Annotated[
        Mapping[Name, Annotated[Mapping[Name, SplitEntry], _MAX_MEMBERS]], _MAX_MEMBERS
    ]
    written_with: Annotated[Mapping[Name, Text], _MAX_MEMBERS]
    files: Annotated[Mapping[Name, Digest], _MAX_MEMBERS]

    def paths(self) -> set[str]:
        """Return the paths of all files, manifest included, relative to the data set's folder."""
        entries = (entry for splits in self.configs.values() for entry in splits.values())
        return {MANIFEST_NAME, *self.files, *(file.path for e in entries for file in e.files)}

    def without_texts(self) -> list[str]:
        """Return the configs of queries with a digest of rows without texts.

        A data set of ids that was built with texts still has digests of its texts.
        """
        return [
            config
            for config, splits in self.configs.items()
            if not has_triples(config)
            and any(entry.rows and entry.digest == entry.ids_digest for entry in splits.values())
        ]

    def describe_groups(self, shift: str) -> Mapping[str, str]:
        """Return group -> its first 3 top terms, question words, or else its description.

        Topics need their top terms: C2 of another collection is another topic.

        Raises:
            KeyError: if the data set lacks the shift.
        """
        top_terms = self.shifts[shift].get("found", {}).get("terms", {})
        described = {group: ", ".join(terms[:_DESCRIBING]) for group, terms in top_terms.items()}
        described |= {
            group: ", ".join(words)
            for group, words in self.shifts[shift].get("parameters", {}).get("words", {}).items()
        }
        return {**known_shifts(self.shifts)[shift].groups, **described}


def is_balanced(sizes: Mapping[str, int]) -> bool:
    """Return whether groups, at least one, have equal numbers of training queries, within 1%.

    Otherwise a model trained without a large group also has fewer queries. Builds have exactly
    equal numbers, unless they use all queries. The release's lists may lack a few queries.
    """
    return min(sizes.values()) >= (1 - _BALANCED_WITHIN) * max(sizes.values())


@dataclass(frozen=True, slots=True)
class DataInfo:
    """Facts about the data of figures.

    Attributes:
        data_version: the version of the building rules; "" for test sets made by hand.
        edition: ``rebuilt`` or ``official-2022``.
        content_digest: the data set's content digest.
        collection: the collection's name.
        training: shift with training queries -> ``balanced`` (see `is_balanced`), and ``queries``:
            group -> number of training queries.
        exclude: description of the passages that the build excluded; "" for none.
        groups: shift -> group -> a description of its queries; see `Manifest.describe_groups`.
        words: the rule that divides texts into words, a name in `msshift_bench.words.WORDS`.
    """

    data_version: str = ""
    edition: str = ""
    content_digest: str = ""
    collection: str = ""
    training: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exclude: str = ""
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    words: str = WHITESPACE


def content_digest(configs: Mapping[str, Mapping[str, SplitEntry]]) -> str:
    """Return one SHA-256 over the digests of all splits, in the order of their names.

    It identifies the queries of figures. It does not depend on triples, nor on whether the data set
    has texts.
    """
    lines = (
        f"{config}/{split} {splits[split].digest}\n"
        for config, splits in sorted(configs.items())
        for split in sorted(splits)
        if not has_triples(config)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_collection_name(name: str) -> None:
    """Check that the name of a collection is valid in a manifest.

    Raises:
        UsageError: if `read_manifest` would not accept it.
    """

    def refuse(findings: list[Finding]) -> UsageError:
        problem = findings[0].message
        return UsageError(
            f"{quoted(name)} cannot be a collection's name: the {problem}; rename the folder"
        )

    check_value({"name": name}, _Source, "", refuse)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``manifest.json`` into `folder`, atomically and with a checksum."""
    write_json(folder / MANIFEST_NAME, with_checksum({"schema": _SCHEMA, **asdict(manifest)}))


def has_manifest(folder: Path) -> bool:
    """Return whether a folder has a data set's manifest, maybe damaged or of another version.

    Other programs also write files named ``manifest.json``.
    """
    try:
        raw = json.loads((folder / MANIFEST_NAME).read_bytes())
    except FileNotFoundError:
        return False
    except (ValueError, RecursionError):
        return True  # Damaged, so maybe a manifest.
    return isinstance(raw, dict) and not raw.keys().isdisjoint(("content_digest", "configs"))


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a built data set.

    Raises:
        NotFoundError: if the folder or its manifest does not exist.
        IntegrityError: if this version cannot read the manifest, with the JSON path of every wrong
            field; or if it was changed after it was written.
    """
    path = folder / MANIFEST_NAME
    try:
        raw = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise NotFoundError(
            f"no built data set at {folder} (no {MANIFEST_NAME}); "
            "make a data set with 'msshift build'"
        ) from None
    except ValueError as error:
        raise IntegrityError(f"{path} is not JSON: {error}; {_CURE}") from None
    except RecursionError:
        raise IntegrityError(f"{path} is not JSON: nested too deep; {_CURE}") from None
    is_unchanged = isinstance(raw, dict) and checksum_matches(raw)
    schema = raw.pop("schema", None) if isinstance(raw, dict) else None
    if schema != _SCHEMA:
        raise IntegrityError(
            f"{path} has schema {schema!r}, but this version reads schema {_SCHEMA}; build the "
            "data set again ('msshift build --overwrite')"
        )
    raw.pop(CHECKSUM, None)
    changed = f"{path} was changed, or another version wrote it; {_CURE}:"
    manifest = check_json(raw, Manifest, path, partial(IntegrityError, changed))
    if not is_unchanged:
        raise IntegrityError(f"{path} was changed: its {CHECKSUM} does not match; {_CURE}")
    return manifest


def cited(shifts: Iterable[str]) -> dict[str, str]:
    """Return the papers to cite for known shifts: citation key -> BibTeX entry."""
    return {SHIFTS[shift].citation: BIBTEX[SHIFTS[shift].citation] for shift in shifts}
