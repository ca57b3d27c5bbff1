"""Build the benchmark's data set from a collection, or import it from released files.

The papers use 1,600 validation queries for early stopping; no shift trains or tests on them
(MS-Shift, section 4). The files of 2022 do not list them. An import samples them by keyed hash from
the joined training queries (see `release`) that are in no test set and no training set.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Collection as Sized, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from msshift_bench.data import Collection, Manifest, open_collection, record_source
from msshift_bench.dataset_builders.cut import (
    VALIDATION_SIZE,
    SampleSizes,
    ShiftSplits,
    cut_shift,
    cut_table,
    ids_and_texts,
    make_nano,
    queries_table,
    sample,
    sample_validation,
)
from msshift_bench.dataset_builders.groups import Labels, read_question_words, shift_of_rule
from msshift_bench.dataset_builders.provenance import MS_SHIFT, decide_licence
from msshift_bench.dataset_builders.release import OfficialRelease, read_official
from msshift_bench.dataset_builders.write import check_dataset_target, write_dataset
from msshift_bench.dataset_builders.zhan import RULE, read_resttest
from msshift_bench.errors import (
    CollectionError,
    DataError,
    FindingLog,
    MissingError,
    NotFoundError,
    UnknownNameError,
    UsageError,
    check_name,
)
from msshift_bench.exclusions import Exclusions, ExclusionsSource
from msshift_bench.plumbing import check_folder, counted, numbered_lines, values_by_key
from msshift_bench.records import OTHERS, Row
from msshift_bench.search import warn_of_words
from msshift_bench.shifts import (
    DATASET_NAME,
    LISTED_SHIFTS,
    SHIFTS,
    SIZED,
    Shift,
    ShiftNames,
    as_list,
    get_shift,
    known_shifts,
    shift_names,
)
from msshift_bench.words import WORDS, words_fact

Builder = Callable[..., Any]
"""The function that `Shift.builder` names.

It takes query_id -> text, and options by name, and returns a `Grouping`. The builder of a shift
with sizes takes a `queries_table` and the validation queries; it returns a `ShiftSplits` per size.
"""


_DEFAULTS = SampleSizes()

_COMMON = frozenset(("queries", "validation", "collection", "seed", "set_aside", "words"))
"""The parameters of builders that `build_dataset` sets; all others are options of the user."""


def default_shifts() -> tuple[str, ...]:
    """Return the names of MS-Shift's own shifts, which are built by default."""
    return tuple(name for name, shift in SHIFTS.items() if shift.in_ms_shift)


def build_dataset(
    collection: Collection | str | Path,
    shifts: ShiftNames,
    folder: str | Path = DATASET_NAME,
    *,
    options: Mapping[str, Mapping[str, object]] | None = None,
    samples: SampleSizes = _DEFAULTS,
    texts: bool = True,
    licence: str | None = None,
    overwrite: bool = False,
    exclude: ExclusionsSource = None,
    words: str = "whitespace",
) -> Manifest:
    """Cut a collection's queries by each shift and write the data set.

    Args:
        collection: the collection of queries, qrels and passages, or an argument of
            `open_collection`. The passages are checked, and the manifest counts the relevant ones
            that are missing. Passages of ir_datasets are not read.
        shifts: the shifts to build, e.g. ``["length", "wh-words"]``. A shift with sizes is named
            with its size: ``restrain-14k``.
        folder: the folder to write.
        options: shift -> options of its builder, by name. Every shift has the option ``rule``. For
            topics and ReSTTest, see `topics.group_by_topic` and `topics.group_by_bucket`. All
            sizes of ``restrain`` share its options, of which ``test_sets`` is required; see
            `zhan.resample_training`. The rule of ``wh-words`` may be a file of question words
            (`groups.read_question_words`). A new name with the option ``labels``, a file for
            `Labels.read`, defines a shift by these labels.
        samples: how many queries are sampled for each purpose.
        texts: whether rows contain the queries' texts; `hydrate_dataset` restores them.
        licence: the collection's licence, if it is not known (`provenance.decide_licence`): an id
            such as ``cc-by-4.0``, or the terms in one line.
        overwrite: replace an earlier build even if that loses shifts, triples, other files, or the
            data set of another collection.
        exclude: passages that must not count for a query, in judgements, triples and runs:
            ``own-id``, the passage with the query's own id, or a file of lines ``query_id doc_id``.
            The manifest records it. A query without any other relevant passage is removed.
        words: how texts are divided into words, here and in later commands: ``whitespace``;
            ``characters``, where each Chinese character, kana, or letter of Thai, Lao, Burmese or
            Khmer is a word; or ``unicode``, runs of letters and digits
            (`msshift_bench.words.WORDS`). The manifest records it.

    Returns:
        The manifest of the written data set.

    Raises:
        UnknownNameError: for an unknown shift, rule, option or way to divide texts.
        UsageError: if no shift is named, a shift cannot be built, or no shift takes the test
            queries; if a size is below 1, or a group has fewer training queries than requested; if
            the folder must not be replaced, or the collection has another licence; or for
            ``own-id``, if most passages with a query's id are not this query.
        NotFoundError: if there is no such collection or file.
        CollectionError: if passages, queries, qrels, or a file of test queries, labels, question
            words or exclusions, are malformed.
        DataError: if a group is too small, or no query has a relevant passage.
        MissingError: if the encoder is missing; the message lists the shifts that need no encoder.

    Examples:
        >>> manifest = build_dataset("mini:300", ["length"], "built")
        >>> list(manifest.configs)
        ['length', 'length-short', 'length-long']
        >>> len(load_dataset("built", "length-short", split="train"))
        135
    """
    check_name("words", words, WORDS)
    options, labels = _with_files(options or {})
    known = known_shifts([part.shift.name for part in labels.values()])
    building = [get_shift(name) for name in shift_names(shifts, known=known)]
    if not building:
        raise UsageError(f"no shift is given; name one or more of {', '.join(LISTED_SHIFTS)}")
    chosen = [shift for shift in building if not shift.by_size]
    sizes = values_by_key((shift.family, shift.train_size) for shift in building if shift.by_size)
    if unused := [n for n in options if n not in (*sizes, *(shift.name for shift in chosen))]:
        for name in unused:
            family = (SIZED.get(name) or get_shift(name, known)).family
            if family in sizes:
                raise UsageError(
                    f"options are given for {name}, but all sizes of {family} share their options; "
                    f"give them for {family}"
                )
        raise UsageError(
            f"options are given for {', '.join(unused)}, which is not being built; "
            "remove them, or name the shift"
        )
    for name, values in options.items():
        if (rule := values.get("rule")) and name not in labels:
            shift_of_rule(name, str(rule))  # Now, before hours of work on other shifts.
    for name in sizes:
        if not options.get(name, {}).get("test_sets"):
            raise UsageError(f"{name} has no test queries; give them with --test-set FOLDER")
        _check_sized(chosen, samples, texts=texts)
    check_folder(Path(folder))
    collection = open_collection(collection)
    names = [shift.name for shift in building]
    check_dataset_target(Path(folder), names, collection=collection.name, overwrite=overwrite)
    licence_id = decide_licence({"name": collection.name, "layout": collection.layout}, licence)
    exclusions = Exclusions.of(exclude)
    if exclusions:
        exclusions.check(collection.queries, collection.passages(), collection.name)
    table = queries_table(collection, exclusions)
    queries = ids_and_texts(table)
    warn_of_words(queries.values(), words)
    given_tests = _given_tests(samples, chosen, collection, queries)
    seed = samples.seed
    validation = sample_validation(
        queries, size=samples.validation_size, seed=seed, reserved=given_tests
    )
    passages = _passage_facts(collection, table)
    common = {
        "collection": collection,
        "seed": seed,
        "set_aside": validation | given_tests,
        "words": words,
    }
    cuts = []
    for shift in chosen:
        validation_ids, tests = (
            validation,
            given_tests if given_tests and shift.takes_tests else None,
        )
        if shift.name in labels and labels[shift.name].has_splits:
            validation_ids, tests = (
                labels[shift.name].ids_of(split).intersection(queries)
                for split in ("validation", "test")
            )
        cut = cut_shift(
            _group(shift, options.get(shift.name, {}), common, chosen, queries),
            table,
            validation_ids,
            test_size=samples.test_size or shift.test_size,
            train_size=samples.train_size,
            tests=tests,
            reserved=given_tests,
            seed=seed,
        )
        cuts.append(cut)
    for name, train_sizes in sizes.items():
        with_sizes = {**options[name], "sizes": train_sizes}
        cuts += _group(SIZED[name], with_sizes, common, chosen, table, validation)
    manifest = write_dataset(
        Path(folder),
        [make_nano(cut, seed=seed) for cut in cuts] if samples.nano else cuts,
        edition="rebuilt",
        collection={
            **collection.provenance(),
            "licence": licence_id,
            "queries_without_relevant_passage": len(collection.queries) - len(queries),
            **({"passages": passages} if passages else {}),
            **({"queries_emptied": len(collection.relevant) - len(table)} if exclusions else {}),
        },
        parameters={
            "seed": seed,
            "validation_size": samples.validation_size,
            "nano": samples.nano,
            **samples.resized,
            **({"test_queries": _describe(given_tests)} if given_tests else {}),
            **words_fact(words),
        },
        texts=texts,
        overwrite=overwrite,
        exclusions=exclusions,
    )
    return record_source(manifest, collection)


def _with_files(
    options: Mapping[str, Mapping[str, object]],
) -> tuple[Mapping[str, Mapping[str, object]], dict[str, Labels]]:
    """Return the options with the files of labels and question words read, and shift -> labels."""
    rule = str(options.get("wh-words", {}).get("rule", "word"))
    if rule not in SHIFTS["wh-words"].rules and Path(rule).is_file():
        options = {
            **options,
            "wh-words": {
                **options["wh-words"],
                "rule": "word",
                "question_words": read_question_words(rule),
            },
        }
    labels = {
        name: Labels.read(name, str(values["labels"]))
        for name, values in options.items()
        if "labels" in values
    }
    opened = {name: {**options[name], "labels": part} for name, part in labels.items()}
    return {**options, **opened}, labels


def _passage_facts(collection: Collection, queries: pa.Table) -> dict[str, int]:
    """Check the passages; return the numbers of all, of relevant, and of missing relevant passages.

    No system can retrieve a missing passage, so its judgement lowers every score without notice.
    For ir_datasets it reads no passages and returns `{}`: ir_datasets checks its downloads.

    Raises:
        CollectionError: if passages are malformed.
    """
    if collection.layout == "ir_datasets":
        return {}
    absent = set(pc.list_flatten(queries["relevant_doc_ids"]).unique().to_pylist())
    relevant, rows = len(absent), 0
    for passage in counted(collection.passages(), "passages"):
        rows += 1
        absent.discard(passage.doc_id)
    return {"rows": rows, "relevant": relevant, "relevant_absent": len(absent)}


def _given_tests(
    samples: SampleSizes, shifts: Sequence[Shift], collection: Collection, usable: Sized[str]
) -> frozenset[str]:
    """Return the ids of the given test queries; an empty set if they are to be sampled.

    It raises UsageError if they are empty, or contradict the shifts or test size.
    """
    test_queries = samples.test_queries
    if test_queries is None:
        return frozenset()
    takers = [shift.name for shift in SHIFTS.values() if shift.takes_tests]
    sampling = [shift.name for shift in shifts if not shift.takes_tests]
    if len(sampling) == len(shifts):
        raise UsageError(
            f"test queries are given for {', '.join(sampling)}, but only {', '.join(takers)} can "
            f"take them; name one of these, or remove the test queries"
        )
    if samples.test_size is not None and not sampling:
        raise UsageError(
            f"both test queries and a test size, {samples.test_size}, are given; give one of them"
        )
    if isinstance(test_queries, frozenset):
        if not test_queries:
            raise UsageError("the set of test queries is empty; give some, or None to sample them")
        return test_queries
    return _read_test_queries(Path(test_queries).expanduser(), collection, usable)


def _read_test_queries(path: Path, collection: Collection, usable: Sized[str]) -> frozenset[str]:
    """Read the ids of test queries, one per line.

    Args:
        path: the file, which may be compressed. In lines with tabs, as in ``queries.tsv``, the
            first column is the id.
        collection: the collection of the queries.
        usable: the ids of its queries that have a relevant passage.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if the file is empty, or if a query is repeated, is not in the collection,
            or has no relevant passage; the error lists all such lines.
    """
    findings = FindingLog()
    lines: dict[str, int] = {}
    for line, text in numbered_lines(path, findings):
        query_id = text.partition("\t")[0]
        first = lines.setdefault(query_id, line)
        if first != line:
            message, fix = f"query {query_id!r} repeats line {first}", "keep one line per query"
            findings.add("repeated-id", message, str(path), line, fix)
        elif query_id not in collection.queries:
            message = f"{collection.name} has no query {query_id!r}"
            fix = "begin the line with a query_id of the collection"
            findings.add("unknown-query", message, str(path), line, fix)
        elif query_id not in usable:
            message = f"query {query_id!r} has no relevant passage in {collection.name}"
            fix = "remove this query: without a relevant passage it cannot be scored"
            findings.add("unjudged-query", message, str(path), line, fix)
    if not lines:
        findings.add(
            "no-queries", "the file is empty", str(path), fix="write one query_id per line"
        )
    findings.stop_if_any(CollectionError, f"the test queries in {path} cannot be used:")
    return frozenset(lines)


def _check_sized(others: Sequence[Shift], samples: SampleSizes, *, texts: bool) -> None:
    """Raise UsageError if an option contradicts a shift with sizes; `others` have no sizes."""
    if not texts:
        raise UsageError(
            "--ids-only cannot be used for a shift with sizes: its test queries are not in the "
            "collection, and 'msshift import' could not restore their texts. Remove --ids-only, or "
            "build the other shifts alone"
        )
    if not others and (samples.resized or samples.test_queries is not None):
        raise UsageError(
            "a shift with sizes takes its training size from its name, and its test queries from "
            "--test-set; remove --train-size, --test-size and --test-queries"
        )


def _group(
    shift: Shift,
    options: Mapping[str, object],
    common: Mapping[str, object],
    chosen: Sequence[Shift],
    *queries: object,
) -> Any:
    """Call a shift's builder (`Builder`), and return its result; unknown options raise an error.

    Args:
        shift: the shift.
        options: the user's options for this shift.
        common: parameter -> argument, for all builders with this parameter.
        chosen: the shifts without sizes that are being built, for an error message.
        queries: the builder's positional arguments.
    """
    module, function = shift.builder.split(":")
    builder: Builder = getattr(importlib.import_module(module), function)
    parameters = inspect.signature(builder).parameters
    for name in options:
        if name not in parameters or name in _COMMON:
            accepted = [parameter for parameter in parameters if parameter not in _COMMON]
            raise UnknownNameError(f"option of the shift {shift.name}", name, accepted)
    keywords = {**common, **{name: value for name, value in options.items() if value is not None}}
    try:
        return builder(*queries, **{k: v for k, v in keywords.items() if k in parameters})
    except MissingError as error:
        others = [other.name for other in chosen if not other.takes_encoder]
        if not (shift.takes_encoder and others):
            raise
        raise MissingError(
            f"{error}. Nothing was built; to build without an encoder, name only the shifts "
            f"{', '.join(others)}"
        ) from error


def _describe(query_ids: Sized[str]) -> dict[str, object]:
    """Return the manifest's facts on given test queries: their number and a digest of their ids."""
    joined = "".join(f"{query_id}\n" for query_id in sorted(query_ids))
    return {"queries": len(query_ids), "sha256": hashlib.sha256(joined.encode()).hexdigest()}


_SEED = 0
"""The seed of the validation queries."""

_MS_MARCO = {"name": "msmarco-passage", "layout": "ir_datasets", "text": "raw"}
"""The default collection of the released ids."""


def import_official(
    sources: Sequence[str | Path],
    folder: str | Path = DATASET_NAME,
    *,
    collection: Collection | str | Path | None = None,
    shifts: ShiftNames = (),
    nano: bool = False,
    texts: bool = True,
    overwrite: bool = False,
) -> Manifest:
    """Write a data set of the released test sets and training sets, unchanged.

    The releases contain no validation queries. If training queries are imported, some unused
    queries become validation queries; see `_add_validation`. The manifest's parameters contain
    their number.

    Args:
        sources: checkouts of the MS-Shift release (with ``EVAL``) and of ReSTTest (with
            ``resttest_files``), at least one.
        folder: the folder to write.
        collection: MS MARCO's queries, or an argument of `open_collection`. It provides the texts
            of ReSTTest, whose release has none, and the ids of MS-Shift's training queries, whose
            file has none.
        shifts: the shifts to import; if empty, all shifts of the sources.
        nano: write a small part of every split; see `cut.make_nano`.
        texts: whether rows contain the queries' texts.
        overwrite: replace an earlier build even if that loses data; see `build_dataset`.

    Returns:
        The manifest of the written data set.

    Raises:
        NotFoundError: if a source is neither release, or there is no such collection.
        UnknownNameError: for a shift that is in no source.
        UsageError: if `sources` is empty, a collection is needed and not given, two sources contain
            the same shift, or the folder must not be replaced.
        DataError: if a file fails a check, or the collection has no query of the releases.

    Examples:
        >>> manifest = import_official(["ms-marco-shift"], "official")
        >>> manifest.edition, list(manifest.shifts)
        ('official-2022', ['topics', 'wh-words', 'length'])
    """
    if collection is not None:
        collection = open_collection(collection)
    releases = [_read(Path(source).expanduser(), collection) for source in as_list(sources)]
    if not releases:
        raise UsageError(
            "sources is empty; give the folder of a checkout of MS-Shift or ReSTTest, or several"
        )
    validated, validation = _add_validation(releases)
    if collection is not None:
        _check_collection(collection, validated)
    cuts = {}
    for cut in validated:
        if cut.shift.name in cuts:
            raise UsageError(f"two sources contain the shift {cut.shift.name}; give one of them")
        cuts[cut.shift.name] = cut
    wanted = shift_names(shifts, cuts, "shift in these sources")
    chosen = [cut for name, cut in cuts.items() if not wanted or name in wanted]
    if texts and collection is None and any(cut.shift.name == "resttest" for cut in chosen):
        raise UsageError(
            "resttest is released without texts; give the collection of its queries, or write ids "
            "only with --ids-only"
        )
    manifest = write_dataset(
        Path(folder),
        [make_nano(cut, seed=0) if nano else cut for cut in chosen],
        edition=RULE,
        collection={
            **(_MS_MARCO if collection is None else collection.provenance()),
            "licence": MS_SHIFT,
        },
        parameters={
            "nano": nano,
            "validation": dict(validation),
            "releases": [dict(release.report) for release in releases],
        },
        texts=texts,
        overwrite=overwrite,
    )
    return record_source(manifest, collection)


def _add_validation(
    releases: Sequence[OfficialRelease],
) -> tuple[Sequence[ShiftSplits], Mapping[str, object]]:
    """Add the same validation queries to all shifts that have training queries.

    No validation query has the id or the text of a training or test query of any shift. The sample
    does not depend on the shifts that are written.

    Args:
        releases: all releases that are imported together.

    Returns:
        The shifts, in the given order, and the manifest's facts on the validation queries:
        ``queries``, their number, with ``sampled_from`` and ``seed``, or, if it is 0, the reason
        ``why``. If no query is free to sample, no shift has the split ``validation``.
    """
    cuts = [cut for release in releases for cut in release.shifts]
    joined = {id_: row for release in releases for id_, row in release.joined.items()}
    if not joined:
        return cuts, {"queries": 0, "why": "no training queries were joined to a collection"}
    used_ids, used_texts = (
        {value for cut in cuts for value in cut.table[name].to_pylist()}
        for name in ("query_id", "text")
    )
    free = [
        query_id
        for query_id, row in joined.items()
        if query_id not in used_ids and row.text not in used_texts
    ]
    if not free:
        why = "every joined query is trained on or tested with in some shift"
        return cuts, {"queries": 0, "why": why}
    sampled = sample(free, VALIDATION_SIZE, seed=_SEED, purpose="validation")
    chosen = [(query_id, joined[query_id]) for query_id in sorted(sampled)]

    def validated(cut: ShiftSplits) -> ShiftSplits:
        name = cut.shift.name
        rows = [
            Row.judged(query_id, row.text, row.groups.get(name, OTHERS), row.relevant)
            for query_id, row in chosen
        ]
        table = pa.concat_tables([cut.table, cut_table({"validation": rows})]).sort_by("query_id")
        return replace(cut, table=table)

    facts = {"queries": len(chosen), "sampled_from": len(free), "seed": _SEED}
    cuts = [
        validated(cut) if release.joined else cut for release in releases for cut in release.shifts
    ]
    return cuts, facts


def _check_collection(collection: Collection, cuts: Sequence[ShiftSplits]) -> None:
    """Raise DataError if no query of the releases is in the collection with the same text."""
    texts = collection.queries
    rows = (row for cut in cuts for row in cut.values("query_id", "text"))
    if not any(texts.get(query_id) == text for query_id, text in rows):
        raise DataError(
            f"{collection.name} contains none of the released queries; give MS MARCO, their "
            "collection, or remove --collection and MSSHIFT_COLLECTION (in Python, collection)"
        )


def _read(source: Path, collection: Collection | None) -> OfficialRelease:
    """Read a checkout of MS-Shift or ReSTTest; NotFoundError if the folder is neither."""
    if (source / "EVAL").is_dir():
        return read_official(source, collection)
    if (source / "resttest_files").is_dir():
        cut, report = read_resttest(source, collection)
        return OfficialRelease((cut,), report)
    if not source.is_dir():
        raise NotFoundError(f"there is no folder {source}; give the folder of a checkout")
    raise NotFoundError(
        f"{source} contains neither EVAL nor resttest_files; give a checkout of MS-Shift or "
        "ReSTTest. 'msshift import FOLDER' also takes a data set of ids only, or a checkout of "
        "CharacterBERT-DR with queries.*.typo*.tsv"
    )
