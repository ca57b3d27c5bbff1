"""The files that describe a data set to people and programs: its card and Croissant metadata.

The card is a README.md; `load_dataset` reads the configs from its front matter. The metadata follow
http://mlcommons.org/croissant/1.1, as the mlcroissant library validates and reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msshift_bench.data import Manifest, SplitEntry, cited
from msshift_bench.dataset_builders.provenance import (
    LICENCES,
    TITLES,
    UNKNOWN,
    licence_of,
    licence_terms,
    responsible_use,
)
from msshift_bench.errors import IntegrityError
from msshift_bench.output import Table
from msshift_bench.records import PLACES
from msshift_bench.shifts import (
    DATASET_NAME,
    SHIFTS,
    Shift,
    has_triples,
    known_shifts,
    parse_config,
)
from msshift_bench.stats import (
    ASSUMED_CORRELATION,
    ASSUMED_DEVIATION,
    POWER,
    PUBLISHED_LOSS,
    SIGNIFICANT,
    detectable_rel_loss,
    queries_to_detect,
)

_STRING = {"dtype": "string"}
_TYPES = {
    **dict.fromkeys(("query_id", "text", "group", "split"), _STRING),
    "relevant_doc_ids": {"list": "string"},
    "relevances": {"list": "int64"},
}

_ABOUT = """\
# MS-Shift

MS-Shift cuts queries into groups and measures how much a retriever loses on the queries of a group
that was held out of its training. For every group of a shift, train a model on the config that
holds the group out. Run each model on the `test` queries of all groups of the shift. On each group,
compare the models that were trained with it (Avg In) with the model that was not (Out):
Rel Loss = (Avg In - Out) / Avg In.

## Load

```python
from datasets import load_dataset

held_out = load_dataset("{name}", "{example}")
{splits}
```

A row contains `query_id`, `text`, `group`, `relevant_doc_ids` and, in the same order, `relevances`:
the level of relevance of each passage, from 1. A config with a shift's name (`{shift}`) contains
all its queries, with their `split`. Queries with the split `unused` are in no experiment, so that
all groups have the same number of training queries. Passages are not part of the data set: ids
refer to the collection named below.
"""

_SPLITS = {
    "train": "the training queries of the other groups: train on these only",
    "test": "the test queries of the held-out group: zero-shot",
    "validation": "queries that no shift trains or tests on",
}

_SPLITS_BY_SIZE = {
    **_SPLITS,
    "train": "this training set: train on it only",
    "test": "the test queries, the same for both training sets",
}

_BY_SIZE = """\
The groups of this shift are training sets. The name of a config contains the set in its `train`
split; both configs have the same `test` split. Avg In is the score of the model trained on the
queries near the test queries; Out is the score of the model trained on the queries far from them.
"""

_UNBALANCED = """\
**Unbalanced**: the groups have different numbers of training queries, so a loss also depends on the
size of the training set. Do not compare the results with results on equal training sets.
"""

_IDS_ONLY = """\
This copy holds ids only. `msshift import FOLDER --collection C` restores the queries' texts from
your own copy of the collection, and checks that they equal the original texts.
"""

_NEVER_TEXTS = """\
This copy holds ids only, and was imported without the texts of all queries. To get a copy with
texts, import it again with the collection that contains them.
"""

_TRIPLES_NOTE = """\
A config `<config>-triples` contains training triples for the `train` split of `<config>`:
`query_id`, `positive_id`, `negative_id`. Negatives are sampled from BM25's ranking, without the
passages that are judged relevant. If several passages are relevant to a query, each of its triples
takes the next of them in turn.
"""

_LICENCE = """\
## Licence and citation

{terms}

If you use this data set, cite:

```bibtex
{entries}
```
"""


def render_card(manifest: Manifest, folder: Path) -> str:
    """Return the text of the card.

    The description of every config contains the data version and the digests of its splits. The
    datasets library uses the card's text as the key of its cache. Without the digests it would
    return the rows of an earlier build in the same folder.

    Args:
        manifest: the manifest; its digests of the card and other files are not read.
        folder: the folder of the data set, for the texts of example queries.
    """
    first = SHIFTS[next(iter(manifest.shifts))]
    example = next(iter(first.configs))
    lines = [
        f'held_out["{s}"]  # {comment}'
        for s, comment in (_SPLITS_BY_SIZE if first.by_size else _SPLITS).items()
        if s in manifest.configs[example]
    ]
    collection = manifest.collection
    parts = [
        *_front_matter(manifest),
        "",
        _ABOUT.format(
            name=DATASET_NAME, example=example, shift=first.name, splits="\n".join(lines)
        ),
    ]
    if not manifest.texts:
        parts.append(_NEVER_TEXTS if manifest.without_texts() else _IDS_ONLY)
    if any(map(has_triples, manifest.configs)):
        parts.append(_TRIPLES_NOTE)
    parts += [
        "## Contents",
        "",
        f"- data version {manifest.data_version}, edition `{manifest.edition}`, "
        f"content `{manifest.content_digest}`",
        f"- collection `{collection['name']}` (text: {collection['text']})",
        f"- parameters: {_inline(manifest.parameters)}",
        *_official_validation(manifest),
        "",
    ]
    for name, facts in manifest.shifts.items():
        parts += _shift_section(SHIFTS[name], manifest)
        if "terms" in facts.get("found", {}):
            parts += _topics_section(facts["found"], _example_texts(manifest, folder, name))
    parts += [*(f"- {line}" for line in explain_detectable(manifest.shifts, "`detects`")), ""]
    entries = "\n".join(cited(manifest.shifts).values())
    parts += [
        "## Origin, uses and limits",
        "",
        *(f"- **{TITLES[field]}**: {text}" for field, text in responsible_use(manifest).items()),
        "",
        _LICENCE.format(terms=licence_terms(manifest), entries=entries),
    ]
    return "\n".join(parts)


def _official_validation(manifest: Manifest) -> Sequence[str]:
    """Return the card's lines on the validation queries of an imported data set; else []."""
    facts = manifest.parameters.get("validation")
    if facts is None:
        return []
    if not facts["queries"]:
        return [
            f"- no validation queries: the release has none, and {facts['why']}; models trained on "
            "this data cannot use early stopping"
        ]
    return [
        f"- {facts['queries']} validation queries, the same for every shift: the release has "
        "none; msshift-bench sampled these by the keyed hash of their ids "
        f"(seed {facts['seed']}) from the {facts['sampled_from']} joined training queries that are "
        "in no test set and no training set of any shift"
    ]


def _front_matter(manifest: Manifest) -> Sequence[str]:
    """Return the lines of the YAML front matter: one per field and config, with JSON values."""
    licence = licence_of(manifest)
    licensed = {"license": licence}
    if licence not in (*LICENCES, UNKNOWN):
        licensed = {"license": "other", "license_name": licence}
    head = {**licensed, "language": ["en"], "task_categories": ["text-retrieval"]}
    configs, infos, shifts = ["configs:"], ["dataset_info:"], known_shifts(manifest.shifts)
    for config, splits in manifest.configs.items():
        files = {
            "config_name": config,
            "data_files": [
                {"split": split, "path": [file.path for file in entry.files]}
                for split, entry in splits.items()
            ],
        }
        digests = ", ".join(f"{split} {entry.digest}" for split, entry in splits.items())
        facts = {
            "config_name": config,
            "description": f"MS-Shift {manifest.data_version}, {manifest.edition}: {digests}",
            "features": [
                {"name": column, **kind}
                for column, kind in _columns(config, shifts, texts=manifest.texts).items()
            ],
            "splits": [
                {"name": split, "num_examples": entry.rows, "num_bytes": entry.arrow_bytes}
                for split, entry in splits.items()
            ],
            "download_size": sum(file.bytes for e in splits.values() for file in e.files),
            "dataset_size": sum(entry.arrow_bytes for entry in splits.values()),
        }
        configs.append(f"- {json.dumps(files)}")
        infos.append(f"- {json.dumps(facts)}")
    fields = {**head, "pretty_name": "MS-Shift"}
    lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
    return ["---", *lines, *configs, *infos, "---"]


def _shift_section(shift: Shift, manifest: Manifest) -> Sequence[str]:
    facts = manifest.shifts[shift.name]
    counts = facts["rows"]
    return [
        f"### {shift.title} (`{shift.name}`)",
        "",
        f"{shift.description[0].upper()}{shift.description[1:]}; rule `{facts['rule']}`, "
        f"{_inline(facts['parameters'])}.",
        "",
        f"| group | description | {' | '.join(PLACES)} | detects |",
        "|---|---|" + "---|" * len(PLACES) + "---|",
        *(
            f"| {group} | {about} | {' | '.join(str(counts[group][p]) for p in PLACES)} | "
            f"{show_detectable(counts[group]['test'])} |"
            for group, about in manifest.describe_groups(shift.name).items()
        ),
        "",
        *([_BY_SIZE] if shift.by_size else []),
        *_near_training(facts, by_size=shift.by_size),
        *([_UNBALANCED] if facts["balanced"] is False else []),
        *([f"Triples: {_inline(facts['triples'])}.", ""] if "triples" in facts else []),
    ]


def _near_training(facts: Mapping[str, Any], *, by_size: bool) -> Sequence[str]:
    """Return the card's lines on test queries similar to training queries; [] if not counted."""
    where = "in each training set" if by_size else "in the experiment that holds their group out"
    lines = []
    if "same_words" in facts:
        each = ", ".join(f"{group} {count}" for group, count in facts["same_words"].items())
        lines += [
            "Test queries with the same words as a training query, regardless of spelling and "
            f"order, {where}: {each}.",
            "",
        ]
    if "near_duplicates" in facts:
        near = facts["near_duplicates"]
        each = ", ".join(f"{group} {found['any']}" for group, found in near["test_queries"].items())
        lines += [
            f"Test queries with a near-duplicate among the training queries, {where} (a cosine of "
            f"at least {near['threshold']} under `{near['encoder']['encoder']}`): {each}.",
            "",
        ]
    return lines


def _topics_section(found: Mapping[str, Any], texts: Mapping[str, str]) -> Sequence[str]:
    """Return the card's lines on each topic: its top terms and example queries, if in `texts`."""
    lines = []
    for group, query_ids in found["examples"].items():
        # In JSON a query may have line breaks, which would end the list.
        examples = "; ".join(" ".join(texts[i].splitlines()) for i in query_ids if i in texts)
        terms = ", ".join(found["terms"][group])
        lines.append(f"- **{group}**: {terms}" + (f". For example: {examples}" if examples else ""))
    lines += [
        "",
        "A query's margin is 1 - d1/d2, where d1 and d2 are its distances to the nearest and "
        f"second-nearest centroid of a cluster: {_inline(found['margins'])}.",
        "",
    ]
    return lines


def _example_texts(manifest: Manifest, folder: Path, shift: str) -> Mapping[str, str]:
    import pyarrow.parquet as pq

    if not manifest.texts:
        return {}
    wanted = {i for ids in manifest.shifts[shift]["found"]["examples"].values() for i in ids}
    (entry,) = manifest.configs[shift].values()
    table = pq.read_table(
        [(folder / file.path).absolute() for file in entry.files],
        columns=["query_id", "text"],
        filters=[("query_id", "in", wanted)],
    )
    return dict(zip(table["query_id"].to_pylist(), table["text"].to_pylist(), strict=True))


def _inline(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {json.dumps(value)}" for key, value in values.items())


def _columns(config: str, shifts: Mapping[str, Shift], *, texts: bool) -> dict[str, dict[str, str]]:
    """Return column -> its type, in the form of the card's front matter.

    A config of triples has three columns of ids. A held-out config has no column ``split``, and
    without `texts` there is no column ``text``.
    """
    if has_triples(config):
        return dict.fromkeys(("query_id", "positive_id", "negative_id"), _STRING)
    _, held_out = parse_config(config, shifts)
    columns = dict(_TYPES)
    if not texts:
        del columns["text"]
    if held_out is not None:
        del columns["split"]
    return columns


def show_detectable(queries: int) -> str:
    """Return the smallest Rel Loss that `queries` test queries can detect, e.g. ``2.3%``.

    It is ``-`` if they can detect none.
    """
    loss = detectable_rel_loss(queries)
    return "-" if loss is None else f"{loss:.1%}"


def shift_tables(shifts: Mapping[str, Any]) -> list[Table]:
    """Return tables of a manifest's shifts: rows by group and split, and any top terms."""
    tables = []
    for name, facts in shifts.items():
        rows = [
            (group, *(counts[place] for place in PLACES), show_detectable(counts["test"]))
            for group, counts in facts["rows"].items()
        ]
        unbalanced = ", unbalanced" if facts["balanced"] is False else ""
        title = f"{name} (rule {facts['rule']}{unbalanced})"
        tables.append(Table.plain(title, ("group", *PLACES, "detects"), rows))
        if "terms" in facts.get("found", {}):
            terms = [(group, ", ".join(words)) for group, words in facts["found"]["terms"].items()]
            tables.append(Table.plain(f"{name}: top terms", ("group", "terms"), terms, names=2))
    return tables


def explain_detectable(shifts: Mapping[str, Any], column: str) -> Sequence[str]:
    """Return notes on the assumptions of `show_detectable`, and on any groups with too few queries.

    Args:
        shifts: a manifest's shifts.
        column: the name of the table column with the values of `show_detectable`.
    """
    lines = [
        f"{column}: the smallest Rel Loss that a two-sided test at {SIGNIFICANT:.0%} finds in "
        f"{POWER:.0%} of cases. It assumes that the standard deviation of scores over queries is "
        f"{ASSUMED_DEVIATION:g} x Avg In, and that Avg In and Out have a correlation of "
        f"{ASSUMED_CORRELATION:g}. It ignores the variance between seeds"
    ]
    needed = queries_to_detect(PUBLISHED_LOSS)
    small = {
        shift: [group for group, counts in facts["rows"].items() if counts["test"] < needed]
        for shift, facts in shifts.items()
    }
    named = [f"{shift} {', '.join(groups)}" for shift, groups in small.items() if groups]
    if named:
        lines.append(
            f"too small to detect {PUBLISHED_LOSS:.1%}, the median of MS-Shift's published losses "
            f"(it needs {needed} test queries): {'; '.join(named)}"
        )
    return lines


PUBLISHED: Mapping[str, str] = {"2.0.0": "2026-11-21"}
"""Data version -> publication date of its building rules; it is not the date of a build."""

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
_SUMMARY = (
    "MS-Shift cuts the queries of a collection into groups and measures how much a retriever loses "
    "on the queries of a group that was held out of its training."
)

_COLUMNS = {
    "query_id": "The query's id in the collection.",
    "text": "The query's text.",
    "group": "The query's group of the shift.",
    "split": "The query's split: train, validation or test; or unused.",
    "relevant_doc_ids": "The ids of the passages judged relevant to the query.",
    "relevances": "The level of relevance of each of these passages, from 1.",
    "positive_id": "The id of a passage judged relevant to the query.",
    "negative_id": "The id of a passage that BM25 ranks high and that is not judged relevant.",
}

# The context that mlcroissant writes for version 1.1; it warns about missing keys.
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


def render_croissant(manifest: Manifest) -> dict[str, Any]:
    """Return the metadata of a data set as JSON values.

    Every Parquet file is a FileObject with its digest. Every split of every config is a RecordSet
    named ``<config>/<split>``. Several files of one split form a FileSet, which is read in the
    order of the file names.

    Raises:
        IntegrityError: if this package does not know the data set's version.
    """
    if manifest.data_version not in PUBLISHED:
        raise IntegrityError(
            f"data version is {manifest.data_version}, expected {', '.join(PUBLISHED)}; use the "
            "version of msshift-bench that built the data set"
        )
    licence, shifts = licence_of(manifest), known_shifts(manifest.shifts)
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
        "description": f"{_SUMMARY} Edition {manifest.edition}, content {manifest.content_digest}, "
        f"made from {manifest.collection['name']}; passages are not part of it.",
        "license": LICENCES.get(licence, licence),
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
            _record_set(config, name, entry, shifts, texts=manifest.texts)
            for config, name, entry in splits
        ],
    }


def _files(name: str, entry: SplitEntry) -> Iterator[dict[str, Any]]:
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
            "@id": f"{name}-files",
            "name": f"{name}-files",
            "encodingFormat": "application/x-parquet",
            "includes": [file.path for file in entry.files],
        }


def _record_set(
    config: str, name: str, entry: SplitEntry, shifts: Mapping[str, Shift], *, texts: bool
) -> dict[str, Any]:
    files = {"fileSet": {"@id": f"{name}-files"}}
    if len(entry.files) == 1:
        files = {"fileObject": {"@id": entry.files[0].path}}
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"{_about(config, shifts)} {entry.rows} rows.",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column}",
                "name": column,
                "description": _COLUMNS[column],
                "dataType": "sc:Integer" if "int64" in kind.values() else "sc:Text",
                **({"isArray": True, "arrayShape": "-1"} if "list" in kind else {}),
                "source": {**files, "extract": {"column": column}},
            }
            for column, kind in _columns(config, shifts, texts=texts).items()
        ],
    }


def _about(config: str, shifts: Mapping[str, Shift]) -> str:
    if has_triples(config):
        return "Training triples: a query, a relevant passage, a negative."
    shift, held_out = parse_config(config, shifts)
    if held_out is None:
        return f"{shift.title}: all queries of the shift, with their splits."
    if shift.by_size:
        return f"{shift.title}: the experiment that trains on the {held_out} set."
    return f"{shift.title}: the experiment that holds {held_out} out of training."
