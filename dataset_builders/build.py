"""Build the benchmark's data set from a collection, or from released files: ``msshift build``.

The papers stop training early by 1,600 validation queries that no shift touches (MS-Shift, section
4); the files of 2022 do not say which. An import samples them by keyed hash from the joined
training queries (see `release`) that no test set and no training set of the release holds.
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

from msshift_bench.data import Collection, Manifest, note_source, open_collection
from msshift_bench.dataset_builders.cut import (
    VALIDATION_SIZE,
    Samples,
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
    get_shift,
    known_shifts,
    several,
    shift_names,
)
from msshift_bench.words import WORDS, words_fact

Builder = Callable[..., Any]
"""The function that `Shift.builder` names.

It takes queries, and options by name, and returns their `Grouping`; that of a shift that comes in
sizes takes a `queries_table` and the validation queries, and returns a `ShiftSplits` for each size.
"""


_DEFAULTS = Samples()

_COMMON = frozenset(("queries", "validation", "collection", "seed", "set_aside", "words"))
"""The parameters of builders that a build fills in; all others are options."""


def default_shifts() -> tuple[str, ...]:
    """Return the names of the shifts that are built if none is named: those of MS-Shift itself."""
    return tuple(name for name, shift in SHIFTS.items() if shift.in_ms_shift)


def build_dataset(
    collection: Collection | str | Path,
    shifts: ShiftNames,
    folder: str | Path = DATASET_NAME,
    *,
    options: Mapping[str, Mapping[str, object]] | None = None,
    samples: Samples = _DEFAULTS,
    texts: bool = True,
    licence: str | None = None,
    overwrite: bool = False,
    exclude: ExclusionsSource = None,
    words: str = "whitespace",
) -> Manifest:
    """Cut a collection's queries by each shift and write the data set.

    Args:
        collection: the source of queries and qrels, or what `open_collection` takes. Its passages
            are checked, and the relevant ones that it lacks counted: the manifest's collection
            says so under ``passages``. Those of ir_datasets are not read.
        shifts: the shifts to build, e.g. ``["length", "wh-words"]``; those that come in sizes by
            the name with one: ``restrain-14k``.
        folder: the folder to write.
        options: shift -> options of its builder by name: ``rule`` for every shift, and for topics
            and ReSTTest those of `topics.group_by_topic` and `topics.group_by_bucket`, and for
            ``restrain``, all sizes of which share them, those of `zhan.resample_training`:
            ``test_sets`` is needed. The rule of ``wh-words`` may also be a file of question words
            (`groups.read_question_words`). A name with the option ``labels``, a file that
            `Labels.read` takes, is a shift of these labels.
        samples: how many queries are sampled for each purpose.
        texts: whether rows hold the queries' texts; `hydrate_dataset` puts them back.
        licence: the collection's licence, if it is not known (`provenance.decide_licence`): an id
            such as ``cc-by-4.0``, or the terms in one line.
        overwrite: replace an earlier build even if that loses shifts, triples, files that are no
            part of it, or the data set of another collection.
        exclude: passages that must not count for a query, in judgements, triples, and runs for the
            data set: ``own-id``, the passage with the query's own id, or a file of lines
            ``query_id doc_id``. The manifest records it. A query of which every relevant passage
            is excluded is left out.
        words: how texts are divided into words, in all that follows from words, here and in later
            commands: ``whitespace``; ``characters``, where each Chinese character, kana, or letter
            of Thai, Lao, Burmese or Khmer is a word; or ``unicode``, runs of letters and digits
            (`msshift_bench.words.WORDS`). The manifest records it.

    Returns:
        The manifest of what was written.

    Raises:
        UnknownNameError: for a shift, rule, option or way to divide texts that does not exist.
        UsageError: for ``own-id`` where most passages with the id of a query are not this query;
            for no shift or one that cannot be built, a size below 1, a group that has
            fewer training queries than are requested, test queries that no shift takes, a folder
            that must not be replaced, or a licence other than the collection's own.
        NotFoundError: if there is no file of test queries.
        CollectionError: if passages, queries, qrels or the file of test queries are malformed.
        DataError: if a group is too small.
        MissingError: if there is no such encoder, or none at hand; it names the shifts that need
            none.

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
        raise UsageError(f"no shift is named; there are {', '.join(LISTED_SHIFTS)}")
    chosen = [shift for shift in building if not shift.by_size]
    sizes = values_by_key((shift.family, shift.train_size) for shift in building if shift.by_size)
    if unused := [n for n in options if n not in (*sizes, *(shift.name for shift in chosen))]:
        for name in unused:
            family = (SIZED.get(name) or get_shift(name, known)).family
            if family in sizes:
                raise UsageError(f"all sizes share their options: give {family}'s, not {name}'s")
        raise UsageError(f"options are given for {', '.join(unused)}, which is not being built")
    for name, values in options.items():
        if (rule := values.get("rule")) and name not in labels:
            shift_of_rule(name, str(rule))  # Here, and not after hours of other shifts.
    for name in sizes:
        if not options.get(name, {}).get("test_sets"):
            raise UsageError(f"{name} needs the test queries: --test-set FOLDER")
        _check_sized(chosen, samples, texts=texts)
    check_folder(Path(folder))
    collection = open_collection(collection)
    names = [shift.name for shift in building]
    check_dataset_target(Path(folder), names, collection=collection.name, overwrite=overwrite)
    decided = decide_licence({"name": collection.name, "layout": collection.layout}, licence)
    exclusions = Exclusions.of(exclude)
    if exclusions:
        exclusions.check(collection.queries, collection.passages(), collection.name)
    table = queries_table(collection, exclusions)
    queries = ids_and_texts(table)
    warn_of_words(queries.values(), words)
    given = _given_tests(samples, chosen, collection, queries)
    seed = samples.seed
    validation = sample_validation(queries, size=samples.validation_size, seed=seed, reserved=given)
    passages = _passage_facts(collection, table)
    common = {
        "collection": collection,
        "seed": seed,
        "set_aside": validation | given,
        "words": words,
    }
    cuts = []
    for shift in chosen:
        apart, tests = validation, given if given and shift.takes_tests else None
        if shift.name in labels and labels[shift.name].has_splits:
            apart, tests = (
                labels[shift.name].ids_of(split).intersection(queries)
                for split in ("validation", "test")
            )
        cut = cut_shift(
            _group(shift, options.get(shift.name, {}), common, chosen, queries),
            table,
            apart,
            test_size=samples.test_size or shift.test_size,
            train_size=samples.train_size,
            tests=tests,
            reserved=given,
            seed=seed,
        )
        cuts.append(cut)
    for name, of_size in sizes.items():
        asked = {**options[name], "sizes": of_size}
        cuts += _group(SIZED[name], asked, common, chosen, table, validation)
    manifest = write_dataset(
        Path(folder),
        [make_nano(cut, seed=seed) for cut in cuts] if samples.nano else cuts,
        edition="rebuilt",
        collection={
            **collection.provenance(),
            "licence": decided,
            "queries_without_relevant_passage": len(collection.queries) - len(queries),
            **({"passages": passages} if passages else {}),
            **({"queries_emptied": len(collection.relevant) - len(table)} if exclusions else {}),
        },
        parameters={
            "seed": seed,
            "validation_size": samples.validation_size,
            "nano": samples.nano,
            **samples.resized,
            **({"test_queries": _describe(given)} if given else {}),
            **words_fact(words),
        },
        texts=texts,
        overwrite=overwrite,
        exclusions=exclusions,
    )
    return note_source(manifest, collection)


def _with_files(
    options: Mapping[str, Mapping[str, object]],
) -> tuple[Mapping[str, Mapping[str, object]], dict[str, Labels]]:
    """Return the options with files of labels and question words read, and shift -> its labels."""
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
    """Check the passages, and count those relevant to a query, and the ones that are not there.

    A judgement of a passage that the collection lacks can be met by no system, and silently lowers
    every figure. Those of ir_datasets are left alone: it checks what it downloads.

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
    samples: Samples, shifts: Sequence[Shift], collection: Collection, usable: Sized[str]
) -> frozenset[str]:
    """Return the given test queries; none, if they are to be sampled."""
    test_queries = samples.test_queries
    if test_queries is None:
        return frozenset()
    takers = [shift.name for shift in SHIFTS.values() if shift.takes_tests]
    sampling = [shift.name for shift in shifts if not shift.takes_tests]
    if len(sampling) == len(shifts):
        raise UsageError(
            f"test queries can be given to {', '.join(takers)} alone, and {', '.join(sampling)} "
            f"{'is' if len(sampling) == 1 else 'are'} being built"
        )
    if samples.test_size is not None and not sampling:
        raise UsageError("give either test queries or the number to sample of each group")
    if isinstance(test_queries, frozenset):
        if not test_queries:
            raise UsageError("no test query is given; give some, or None to sample them")
        return test_queries
    return _read_test_queries(Path(test_queries).expanduser(), collection, usable)


def _read_test_queries(path: Path, collection: Collection, usable: Sized[str]) -> frozenset[str]:
    """Read the ids of test queries, each on a line of its own.

    Args:
        path: the file, which may be compressed. In lines with tabs, as in ``queries.tsv``, the
            first column is the id.
        collection: the collection of the queries.
        usable: the ids of its queries that have a relevant passage.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if it names no query, names one twice, or names one that the collection
            lacks or that has no relevant passage; with all such lines.
    """
    findings = FindingLog()
    lines: dict[str, int] = {}
    for line, text in numbered_lines(path, findings):
        query_id = text.partition("\t")[0]
        first = lines.setdefault(query_id, line)
        if first != line:
            message, fix = f"query {query_id!r} again, after line {first}", "name it once"
            findings.add("repeated-id", message, str(path), line, fix)
        elif query_id not in collection.queries:
            message = f"{collection.name} has no query {query_id!r}"
            fix = "a line is a query_id, or begins with one and a tab"
            findings.add("unknown-query", message, str(path), line, fix)
        elif query_id not in usable:
            message = f"query {query_id!r} has no relevant passage in {collection.name}"
            fix = "leave it out: what it is answered with cannot be scored"
            findings.add("unjudged-query", message, str(path), line, fix)
    if not lines:
        findings.add("no-queries", "the file names no query", str(path))
    findings.stop_if_any(CollectionError, f"the test queries in {path} cannot be used:")
    return frozenset(lines)


def _check_sized(others: Sequence[Shift], samples: Samples, *, texts: bool) -> None:
    """Check that a build of shifts that come in sizes is not asked for what they cannot have."""
    if not texts:
        raise UsageError(
            "the test queries of a shift that comes in sizes are not in the collection, so that "
            "their texts could not be put back: leave --ids-only out, or build the others alone"
        )
    if not others and (samples.resized or samples.test_queries is not None):
        raise UsageError(
            "training sets near and far from given test queries have the size in their name; "
            "leave --train-size, --test-size and --test-queries out"
        )


def _group(
    shift: Shift,
    options: Mapping[str, object],
    common: Mapping[str, object],
    chosen: Sequence[Shift],
    *queries: object,
) -> Any:
    """Return what a shift's builder returns of some queries.

    Args:
        shift: the shift.
        options: the options that are its own.
        common: what builders may take besides.
        chosen: all shifts that are being built.
        queries: what the builder takes first.
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
            f"{error}. Nothing was built; the shifts {', '.join(others)} need no encoder: name "
            "only these"
        ) from error


def _describe(query_ids: Sized[str]) -> dict[str, object]:
    """Return what a manifest records of given test queries: their number and a digest of ids."""
    joined = "".join(f"{query_id}\n" for query_id in sorted(query_ids))
    return {"queries": len(query_ids), "sha256": hashlib.sha256(joined.encode()).hexdigest()}


_SEED = 0
"""The seed of the validation queries."""

_MS_MARCO = {"name": "msmarco-passage", "layout": "ir_datasets", "text": "raw"}
"""The collection that the released ids refer to, if none is given."""


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
    """Write the released test sets, and the training sets if they are at hand, as they are.

    The releases name no validation queries. If training queries are imported, some that nothing
    else uses become validation queries; see `_add_validation`. The manifest's parameters say
    how many.

    Args:
        sources: checkouts of the MS-Shift release (with ``EVAL``) and of ReSTTest (with
            ``resttest_files``).
        folder: the folder to write.
        collection: MS MARCO's queries, or what `open_collection` takes: for the texts of ReSTTest,
            whose release has none, and for the training file of MS-Shift, which has no ids.
        shifts: only these; all that the sources hold, if empty.
        nano: write a small part of every split; see `cut.make_nano`.
        texts: whether rows hold the queries' texts.
        overwrite: replace an earlier build even if that loses shifts, triples, files that are no
            part of it, or the data set of another collection.

    Returns:
        The manifest of what was written.

    Raises:
        NotFoundError: if a source is neither release.
        UnknownNameError: for a shift that no source holds.
        UsageError: if a collection is needed and not given, two sources hold the same shift, or
            the folder must not be replaced.
        DataError: if a file fails a check, or the collection holds no query of the releases.

    Examples:
        >>> manifest = import_official(["ms-marco-shift"], "official")
        >>> manifest.edition, list(manifest.shifts)
        ('official-2022', ['topics', 'wh-words', 'length'])
    """
    if collection is not None:
        collection = open_collection(collection)
    releases = [_read(Path(source).expanduser(), collection) for source in several(sources)]
    validated, validation = _add_validation(releases)
    if collection is not None:
        _check_theirs(collection, validated)
    cuts = {}
    for cut in validated:
        if cut.shift.name in cuts:
            raise UsageError(f"two sources hold the shift {cut.shift.name}")
        cuts[cut.shift.name] = cut
    wanted = shift_names(shifts, cuts, "shift in these sources")
    chosen = [cut for name, cut in cuts.items() if not wanted or name in wanted]
    if texts and collection is None and any(cut.shift.name == "resttest" for cut in chosen):
        raise UsageError(
            "resttest is released without texts; give the collection that holds its queries, "
            "or leave all texts out with --ids-only"
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
    return note_source(manifest, collection)


def _add_validation(
    releases: Sequence[OfficialRelease],
) -> tuple[Sequence[ShiftSplits], Mapping[str, object]]:
    """Give all shifts that have training queries the same validation queries.

    A query that has the id or the text of a training or test query of any shift is left out. The
    sample does not depend on which shifts are written.

    Args:
        releases: all releases that are imported together.

    Returns:
        The shifts, in the order in which they were given, and the manifest's facts on the
        validation queries: ``queries``, their number, and, if it is 0, ``why``. If no query is left
        to sample from, no shift has the split ``validation``.
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


def _check_theirs(collection: Collection, cuts: Sequence[ShiftSplits]) -> None:
    """Check that a collection holds a query of the releases, since the manifest names it as theirs.

    A release of test queries is read without it, so that nothing else would notice another one.
    """
    texts = collection.queries
    rows = (row for cut in cuts for row in cut.values("query_id", "text"))
    if not any(texts.get(query_id) == text for query_id, text in rows):
        raise DataError(
            f"{collection.name} holds none of the released queries; give the collection that they "
            "are from, MS MARCO's, or leave --collection and MSSHIFT_COLLECTION out (in Python, "
            "collection)"
        )


def _read(source: Path, collection: Collection | None) -> OfficialRelease:
    """Read a checkout, which is recognised by a folder in it."""
    if (source / "EVAL").is_dir():
        return read_official(source, collection)
    if (source / "resttest_files").is_dir():
        cut, report = read_resttest(source, collection)
        return OfficialRelease((cut,), report)
    if not source.is_dir():
        raise NotFoundError(f"there is no folder {source}; give that of a checkout")
    raise NotFoundError(
        f"{source} is no release that can be imported: it holds neither EVAL nor resttest_files; "
        "give a checkout of MS-Shift's or of ReSTTest's files; or, to 'msshift import FOLDER', a "
        "data set of ids only, or a checkout of CharacterBERT-DR with queries.*.typo*.tsv"
    )
