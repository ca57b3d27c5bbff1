"""Croissant metadata: a description by which other tools can load the data set.

Format: http://mlcommons.org/croissant/1.1, as the mlcroissant library validates and reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msshift_bench.data import Manifest, SplitEntry, cited
from msshift_bench.dataset_builders.licences import licence_address
from msshift_bench.dataset_builders.responsible_use import responsible_use
from msshift_bench.errors import IntegrityError
from msshift_bench.shifts import holds_triples, parse_config

__all__ = ["PUBLISHED", "render_croissant"]

PUBLISHED: Mapping[str, str] = {"2.0.0": "2026-11-21"}
"""Data version -> the day on which its building rules were published, not the day of a build."""

_FORMAT = "http://mlcommons.org/croissant/1.1"
_RESPONSIBLE_USE = "http://mlcommons.org/croissant/RAI/1.0"
_HOME = "https://github.com/naver/ms-marco-shift"
_CREATORS = ("Simon Lupart", "Thibault Formal", "Stéphane Clinchant")
_KEYWORDS = (
    "information retrieval",
    "passage ranking",
    "distribution shift",
    "zero-shot",
    "MS MARCO",
    "benchmark",
)
_ABOUT = (
    "MS-Shift cuts the queries of a collection into groups and asks how much a retriever loses on "
    "the queries of a group that was held out of its training."
)

_COLUMNS = {
    "query_id": "The query's id in the collection.",
    "text": "The query's text.",
    "group": "The group of the shift that the query is in.",
    "split": "The split that the query is in: train, validation or test; or unused.",
    "relevant_doc_ids": "The ids of the passages judged relevant to the query.",
    "relevances": "How relevant each of these passages was judged, from 1 on.",
    "positive_id": "The id of a passage judged relevant to the query.",
    "negative_id": "The id of a passage that BM25 ranks high and nobody judged relevant.",
}
_LISTS = frozenset({"relevant_doc_ids", "relevances"})
_INTEGERS = frozenset({"relevances"})

# What mlcroissant writes for version 1.1; it warns where one of these keys is missing.
_CONTEXT: Mapping[str, object] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}

_Json = dict[str, Any]


def render_croissant(manifest: Manifest) -> _Json:
    """Return the metadata of a data set as JSON values.

    Every Parquet file is a FileObject with its digest. Every split of every config is a RecordSet
    named ``<config>/<split>``; where it is spread over several files they form a FileSet of that
    config and split, read in the order of their names.

    Raises:
        IntegrityError: if the data set has a version that this package does not know.
    """
    if manifest.data_version not in PUBLISHED:
        raise IntegrityError(
            f"data version {manifest.data_version} is not known to this version of msshift-bench, "
            f"which knows {', '.join(PUBLISHED)}; use the version that built the data set"
        )
    splits = [
        (config, f"{config}/{split}", entry)
        for config, entries in manifest.configs.items()
        for split, entry in entries.items()
    ]
    return {
        "@context": dict(_CONTEXT),
        "@type": "sc:Dataset",
        "conformsTo": [_FORMAT, _RESPONSIBLE_USE],
        "name": "MS-Shift",
        "description": f"{_ABOUT} Edition {manifest.edition}, content {manifest.content_digest}, "
        f"made from {manifest.collection['name']}; passages are not part of it.",
        "license": licence_address(manifest),
        "url": _HOME,
        "version": manifest.data_version,
        "datePublished": PUBLISHED[manifest.data_version],
        "isLiveDataset": False,
        "inLanguage": "en",
        "keywords": list(_KEYWORDS),
        "creator": [{"@type": "sc:Person", "name": name} for name in _CREATORS],
        "citeAs": "\n".join(cited(manifest.shifts).values()),
        **{f"rai:{field}": text for field, text in responsible_use(manifest).items()},
        "distribution": [node for _, name, entry in splits for node in _files(name, entry)],
        "recordSet": [
            _record_set(config, name, entry, texts=manifest.texts) for config, name, entry in splits
        ],
    }


def _files(name: str, entry: SplitEntry) -> Iterator[_Json]:
    for file in entry.files:
        yield {
            "@type": "cr:FileObject",
            "@id": file.path,
            "name": file.path,
            "contentUrl": file.path,
            "contentSize": f"{file.bytes} B",
            "encodingFormat": "application/x-parquet",
            "sha256": file.sha256,
        }
    if len(entry.files) > 1:
        yield {
            "@type": "cr:FileSet",
            "@id": _file_set(name),
            "name": _file_set(name),
            "encodingFormat": "application/x-parquet",
            "includes": [file.path for file in entry.files],
        }


def _file_set(name: str) -> str:
    return f"{name}-files"


def _record_set(config: str, name: str, entry: SplitEntry, *, texts: bool) -> _Json:
    if len(entry.files) == 1:
        files = {"fileObject": {"@id": entry.files[0].path}}
    else:
        files = {"fileSet": {"@id": _file_set(name)}}
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"{_about(config)} {entry.rows} rows.",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column}",
                "name": column,
                "description": _COLUMNS[column],
                "dataType": "sc:Integer" if column in _INTEGERS else "sc:Text",
                **({"isArray": True, "arrayShape": "-1"} if column in _LISTS else {}),
                "source": {**files, "extract": {"column": column}},
            }
            for column in _columns(config, texts=texts)
        ],
    }


def _about(config: str) -> str:
    if holds_triples(config):
        return "Training triples: a query, a relevant passage, a negative."
    shift, held_out = parse_config(config)
    if held_out is None:
        return f"{shift.title}: all queries of the shift, with their splits."
    if shift.by_size:
        return f"{shift.title}: the experiment that trains on the {held_out} set."
    return f"{shift.title}: the experiment that holds {held_out} out of training."


def _columns(config: str, *, texts: bool) -> Sequence[str]:
    if holds_triples(config):
        return ("query_id", "positive_id", "negative_id")
    _, held_out = parse_config(config)
    left_out = {*(() if texts else ("text",)), *(() if held_out is None else ("split",))}
    columns = ("query_id", "text", "group", "split", "relevant_doc_ids", "relevances")
    return tuple(column for column in columns if column not in left_out)
