"""Settings of an evaluation: measures, policies and statistics.

A measure is native or computed by ir_measures. That library gets rankings in the order of the tie
policy, so that the policy decides.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.errors import (
    UnknownNameError,
    UsageError,
    check_name,
    quoted,
    raise_errors,
    require,
)
from msshift_bench.evaluation.measures import VALID_NAMES, Measure, measure_hint, native_measure
from msshift_bench.exclusions import Exclusions, ExclusionsSource
from msshift_bench.plumbing import MAX_RANK
from msshift_bench.runs import JudgedRun, check_tie_policy
from msshift_bench.shifts import as_list
from msshift_bench.stats import Inference

_PARTIAL = frozenset({"Accuracy"})
"""Measures of ir_measures without a value for some queries."""

_READ_NONRELEVANT = frozenset({"Bpref", "infAP", "Judged"})
"""Measures that distinguish judged from unjudged non-relevant documents, as ``judged_only``
does."""

_CUTOFF_MEASURES = frozenset({"AP", "Accuracy", "ERR", "Judged", "P", "R", "RR", "Success", "nDCG"})
"""Measures that ignore documents below the cutoff, unless they leave out unjudged ones."""

_JUDGEMENT_MEASURES = frozenset({"NumRel"})
"""Measures that count judgements: a query missing from the run has a value, as in trec_eval -c."""

_SUBTOPIC_MEASURES = frozenset(
    {
        "AP_IA", "ERR_IA", "NRBP", "P_IA", "StRecall", "alpha_DCG", "alpha_nDCG", "nERR_IA",
        "nNRBP",
    }
)  # fmt: skip
"""Measures that need subtopics, which `Judgements` do not have."""

_HIGHEST_GRADE = 4
"""The highest grade accepted by gdeval, which computes ERR@k and nDCG(dcg='exp-log2')@k."""

_NOT_RETRIEVED = "\x01"
"""An id of no document, without white space: a library reads judgements as lines of text."""


_NAME = re.compile(r"(?:\([^)]*\)|[^\s,])+")
"""A measure in a text: ``RR@10, AP(rel=2, judged_only=True)`` has two."""


def _compute(name: str, partial: bool, depth: int, runs: Sequence[JudgedRun]) -> list[Floats]:
    """Return a measure of ir_measures for each version of one run and every query, ``[queries]``.

    A query without a value has NaN if `partial`, else the measure's default; a failure is a
    `UsageError`. Scores given to ir_measures decrease with the rank, so that the tie policy decides
    and not the library. All versions are computed in one call; later versions only for queries that
    they rank differently. Query ids are replaced by numbers, because some libraries accept no
    others.
    """
    ir_measures = require("ir_measures", "measures", f"the measure {name}")
    measure = ir_measures.parse_measure(name)
    judgements = runs[0].judgements
    relevance = [_safe_levels(judgements.judged[query]) for query in judgements.query_ids]
    if measure.NAME == "ERR" or (measure.params.get("dcg") == "exp-log2" and depth < MAX_RANK):
        _check_grades(name, judgements.judged)
    qrels = {str(number): levels for number, levels in enumerate(relevance)}
    ranked: dict[str, dict[str, float]] = {}
    rankings: dict[str, list[str]] = {}
    for version, run in enumerate(runs):
        for query, docs in run.rankings(depth, tied_only=version > 0):
            if rankings.setdefault(query, docs) is docs or rankings[query] != docs:
                number = judgements.index[query]
                key = str(version * len(judgements) + number)
                qrels[key] = relevance[number]
                # Accuracy counts pairs of a relevant and another document, and divides by 0 pairs.
                if partial and all(qrels[key].get(doc, 0) >= measure["rel"] for doc in docs):
                    continue
                ranked[key] = {doc: float(len(docs) - place) for place, doc in enumerate(docs)}
    if measure.NAME in _JUDGEMENT_MEASURES:
        for number in np.flatnonzero(runs[0].missing).tolist():
            qrels[str(number)], ranked[str(number)] = relevance[number], {_NOT_RETRIEVED: 0.0}
    values = np.full(len(runs) * len(judgements), np.nan if partial else float(measure.DEFAULT))
    try:
        for metric in ir_measures.iter_calc([measure], qrels, ranked):
            # trec_eval divides 0 by 0 where judged_only leaves no document.
            if not math.isnan(metric.value):
                values[int(metric.query_id)] = metric.value
    except Exception as error:  # any exception of a provider
        why = f"{type(error).__name__}: {error}"
        raise UsageError(f"ir_measures cannot compute {name}: {why}") from error
    by_version = values.reshape(len(runs), -1)
    submitted = np.zeros(len(values), np.bool_)
    submitted[[int(key) for key in qrels]] = True
    return list(np.where(submitted.reshape(by_version.shape), by_version, by_version[0]))


def _safe_levels(levels: Mapping[str, int]) -> Mapping[str, int]:
    """Return a query's judgements in a form that is safe for trec_eval.

    trec_eval accesses invalid memory if no document of a query has a relevance of at least 0. Such
    a query gets a document that no run retrieves; as it is not relevant, no measure changes.
    """
    return levels if any(level >= 0 for level in levels.values()) else {**levels, _NOT_RETRIEVED: 0}


def _check_grades(name: str, judged: Mapping[str, Mapping[str, int]]) -> None:
    grades = ((query, *pair) for query, levels in judged.items() for pair in levels.items())
    for query, doc, grade in grades:
        if grade > _HIGHEST_GRADE:
            raise UsageError(
                f"{name} needs grades of at most {_HIGHEST_GRADE}, and document {quoted(doc)} "
                f"of query {quoted(query)} has {grade}; map the grades of the qrels to 0 to "
                f"{_HIGHEST_GRADE}, or choose nDCG@k, which takes all grades"
            )


def delegate(name: str) -> Measure | None:
    """Return the measure `name` of ir_measures; `None` if unknown or ir_measures is not installed.

    Raises:
        UsageError: if a parameter is invalid, subtopics are needed, or the library that computes it
            is missing or fails on one query; the message has the valid parameters.
    """
    try:
        import ir_measures
    except ModuleNotFoundError:
        return None
    try:
        measure = ir_measures.parse_measure(name)
    except (NameError, ValueError, SyntaxError, TypeError):
        return None
    if measure.NAME in _SUBTOPIC_MEASURES:
        raise UsageError(
            f"{name} needs subtopics, and judgements here have none: column 2 of qrels is not "
            "read; compute it with ndeval, or with ir_measures itself"
        )
    if problem := next(_parameter_errors(measure), None):
        spelled = [_spelled(measure, parameter) for parameter in measure.SUPPORTED_PARAMS]
        takes = f"{measure.NAME} takes {', '.join(spelled) or 'no parameters'}"
        raise UsageError(f"ir_measures cannot compute {name}: {problem}; {takes}")
    if problem := _describe_libraries(measure) or _failure(str(measure)):
        raise UsageError(f"ir_measures cannot compute {name}: {problem}")
    name, partial = str(measure), measure.NAME in _PARTIAL
    summed = isinstance(measure.aggregator(), ir_measures.SumAgg)
    gains = measure.params.get("gains", {})
    shallow = measure.NAME in _CUTOFF_MEASURES and not measure.params.get("judged_only")
    depth = measure.params.get("cutoff", MAX_RANK) if shallow else MAX_RANK
    return Measure(
        name,
        functools.partial(_compute, name, partial, depth),
        mean_name=name,
        percent=not summed,
        aggregate="sum" if summed else "mean",
        computed_by="ir_measures",
        partial=partial,
        reads_nonrelevant=(
            measure.NAME in _READ_NONRELEVANT
            or measure.params.get("judged_only", False)
            or measure.params.get("rel", 1) < 1
            or any(level < 1 and gain > 0 for level, gain in gains.items())
        ),
        depth=depth,
    )


def _parameter_errors(measure: Any) -> Iterator[str]:
    known = measure.SUPPORTED_PARAMS
    for parameter in measure.params:
        if parameter not in known:
            yield f"there is no parameter {parameter!r}"
    for parameter, described in known.items():
        if parameter not in measure.params:
            if described.required:
                yield f"it needs {_spelled(measure, parameter)}"
        elif not described.validate(measure.params[parameter]):
            yield f"{parameter} cannot be {measure.params[parameter]!r}"
    gains = measure.params.get("gains", {})
    if not all(isinstance(number, int) for number in (*gains, *gains.values())):
        yield "gains are whole numbers: {relevance: gain}"
    # trec_eval ends the process at a cutoff of 0.
    if measure.params.get("cutoff", 1) < 1:
        yield "a cutoff is at least 1"


def _describe_libraries(measure: Any) -> str | None:
    """Return the libraries and parameters for a measure; `None` if an installed library has it."""
    import ir_measures

    providers = ir_measures.DefaultPipeline.providers
    if any(library.supports(measure) and library.is_available() for library in providers):
        return None
    offers = []
    for provider in providers:
        how = provider.install_instructions()
        lacking = " and is not installed" + (f" ({how})" if how else "")
        offers += [
            f"{provider.NAME} computes {offered}{lacking * (not provider.is_available())}"
            for offered in provider.SUPPORTED_MEASURES
            if offered.NAME == measure.NAME
        ]
    return "; ".join(offers) or "none of the libraries that it uses does"


@functools.cache
def _failure(name: str) -> str | None:
    """Return the error of a trial on one query; `None` if the measure can be computed."""
    import ir_measures

    measure = ir_measures.parse_measure(name)
    try:
        list(ir_measures.iter_calc([measure], {"1": {"a": 1, "b": 0}}, {"1": {"a": 2.0, "b": 1.0}}))
    except Exception as error:  # any exception of a provider
        return f"{type(error).__name__}: {error}"
    return None


def _spelled(measure: Any, parameter: str) -> str:
    if parameter == measure.AT_PARAM:
        return f"{parameter} ({measure.NAME}@{parameter})"
    return parameter


def parse_measure(name: str) -> Measure:
    """Return the measure called `name`, such as ``"RR@10"``; its mean's name works, too.

    Names are as in ir_measures, which computes all measures that are not native; native names
    ignore case.

    Raises:
        UnknownNameError: if the measure is unknown, or is not native and ir_measures is not
            installed; the message lists the native ones.
        UsageError: if a parameter of a measure of ir_measures is invalid, it needs subtopics, or
            the library that computes it is missing or fails.
    """
    if native := native_measure(name):
        return native
    # Python reads 1_0 as 10.
    if not re.search(r"[0-9]_[0-9]", name) and (delegated := delegate(name)):
        # "RR(rel=1)@10" is "RR@10", which is computed here.
        return native_measure(delegated.name) or delegated
    raise UnknownNameError("measure", name, VALID_NAMES, measure_hint(name))


MeasureNames = Any
"""One or several measures: as one text, as texts, or as objects; see `parse_measures`."""


def parse_measures(names: MeasureNames) -> tuple[Measure, ...]:
    """Return measures in the given order, each once.

    Args:
        names: one text with blanks or commas between names, or several texts; or measures of this
            package or of ir_measures.

    Raises:
        UsageError: if no measure is named, or several are wrong, with all of them; and as in
            `parse_measure`.
        UnknownNameError: if exactly one is wrong, and it is unknown.
    """
    requested = _NAME.findall(names) if isinstance(names, str) else as_list(names)
    parsed: list[Measure] = []
    wrong: list[UsageError] = []
    for name in requested:
        try:
            parsed.append(name if isinstance(name, Measure) else parse_measure(str(name)))
        except UsageError as error:
            wrong.append(error)
    raise_errors(wrong, f"{len(wrong)} measures are wrong:")
    if not parsed:
        raise UsageError("name at least one measure, e.g. RR@10")
    return tuple({measure.name: measure for measure in parsed}.values())


MISSING_POLICIES: Mapping[str, str] = MappingProxyType(
    {
        "zero": "a query that is missing from a run scores as if nothing had been retrieved",
        "skip": "a query that is missing from any run of the system is left out for all of them",
        "error": "a missing query is an error",
    }
)
"""Policy for test queries that are missing from a run -> its meaning."""


@dataclass(frozen=True, slots=True, init=False, kw_only=True)
class Settings(Inference):
    """Settings of an evaluation; part of every report.

    Args:
        measures: names as in ir_measures, in one text or several, or measures; see
            `parse_measures`. The other arguments are the attributes below and the attributes of
            `Inference`.

    Attributes:
        measures: each once; tables show the first one first.
        ties: a key of `msshift_bench.runs.judged.TIE_POLICIES`.
        missing: a key of `MISSING_POLICIES`.
        strict: whether warnings about a run file are errors.
        run_format: the run files' format, ``auto`` or a key of `msshift_bench.runs.RUN_FORMATS`.
        exclude: passages removed from runs and judgements. As an argument also ``own-id`` (the
            passage with the query's id), or a file of lines ``query_id doc_id``.

    Raises:
        UnknownNameError: for an unknown measure, policy, correction or average.
        UsageError: as in `parse_measures`; for a folder as `exclude`; or for a confidence that is
            not strictly between 0 and 1.
        NotFoundError: if the file of excluded passages does not exist.
        CollectionError: if that file is malformed.

    Examples:
        >>> settings = Settings("RR@10 nDCG@10", ties="expected", confidence=0.9)
        >>> [measure.name for measure in settings.measures], settings.missing
        (['RR@10', 'nDCG@10'], 'zero')
    """

    measures: tuple[Measure, ...]
    ties: str
    missing: str
    strict: bool
    run_format: str
    exclude: Exclusions

    def __init__(
        self,
        measures: MeasureNames = ("RR@10",),
        *,
        ties: str = "trec",
        missing: str = "zero",
        strict: bool = False,
        run_format: str = "auto",
        confidence: float = 0.95,
        correction: str = "holm",
        average: str | None = None,
        exclude: ExclusionsSource = None,
    ) -> None:
        Inference.__init__(self, confidence, correction, average)

        values = {
            "missing": check_name("policy for missing queries", missing, MISSING_POLICIES),
            "measures": parse_measures(measures),
            "ties": check_tie_policy(ties),
            "strict": strict,
            "run_format": run_format,
            "exclude": Exclusions.of(exclude),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, given: SettingsSource) -> Settings:
        """Return `given` settings unchanged, `Settings(given)` for measures, or the default."""
        if given is None or isinstance(given, Settings):
            return given or cls()
        return cls(given)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values; measures as names, `exclude` only if not empty."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        exclude = values.pop("exclude").facts
        return {
            **values,
            "measures": [measure.name for measure in self.measures],
            **({"exclude": exclude} if exclude else {}),
        }


SettingsSource = Settings | MeasureNames | None
"""Settings, or only their measures; `None` for the default."""


LEAKED_SLICES = ("not leaked", "all minus not leaked")
"""`Figure.slice` of figures without leaked queries, and of all queries' figures minus these."""


class LeakedQueries(NamedTuple):
    """Leaked test queries, without which figures are also computed.

    Attributes:
        query_ids: the ids of the leaked queries.
        source: the search that found them, for the notes.
        searched: the ids of the test queries that were searched for leaks; `None` if not known.
    """

    query_ids: frozenset[str]
    source: str
    searched: frozenset[str] | None = None


def check_leaked_queries(given: object) -> None:
    """Check that `given` is `None` or a value of `msshift_bench.read_leaked_queries`.

    Raises:
        UsageError: if it is another value, e.g. the path of a file of candidates.
    """
    if not isinstance(given, LeakedQueries | None):
        name = quoted(given)
        raise UsageError(f"without is {name}; read it first: without=read_leaked_queries({name})")
