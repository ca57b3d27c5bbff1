"""The documentation of entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from msshift_bench.data import cited
from msshift_bench.irds.catalogue import Split

__all__ = ["Documentation"]


@dataclass(frozen=True, slots=True)
class Documentation:
    """The text on ir_datasets' pages for a data set: a few keys and HTML."""

    split: Split

    def documentation(self) -> Mapping[str, object]:
        """Return the page of one entry."""
        split, manifest = self.split, self.split.dataset.manifest
        collection = manifest.collection
        entries = cited([split.shift.name])
        return {
            "pretty_name": f"MS-Shift: {split.dataset_id.removeprefix('msshift/')}",
            "desc": (
                f"<p>\n{escape(_sentence(split))}\n</p>\n"
                f"<ul>\n  <li>Documents: passages of <kbd>{escape(collection['name'])}</kbd>, not "
                "part of the data set</li>\n"
                f"  <li>Queries: {escape(split.shift.description)}</li>\n"
                f"  <li>Edition {escape(manifest.edition)}, data version "
                f"{escape(manifest.data_version)}, content "
                f"<kbd>{escape(manifest.content_digest)}</kbd></li>\n</ul>"
            ),
            "official_measures": ["RR@10"],
            "bibtex_ids": list(entries),
            "bibtex": "\n".join(entries.values()),
        }


def _sentence(split: Split) -> str:
    about = f"{split.shift.title} ({split.shift.name})"
    if split.group is None:
        return f"{about}: all queries of the shift, each with its group and its split."
    described = split.dataset.manifest.describe_groups(split.shift.name)
    held_out = f"{split.group} ({described[split.group]})"
    if split.shift.by_size and split.name != "validation":
        if split.name == "train":
            return f"{about}, {split.group}: {described[split.group]}."
        return f"{about}: the test queries, for a model that was trained on the {split.group} set."
    match split.name:
        case "train":
            return f"{about}: the training queries of all groups but {held_out}."
        case "test":
            return f"{about}: the test queries of {held_out}, which is held out of training."
        case _:
            return f"{about}, {held_out} held out: the queries that no shift trains or tests on."
