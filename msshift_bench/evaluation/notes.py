"""Notes below tables, on data, policies and uncertainty; and the sentences above tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from operator import itemgetter

from msshift_bench._version import __version__
from msshift_bench.data import DataInfo
from msshift_bench.evaluation.claims import COMPARED, WHOLE, group_of_average
from msshift_bench.evaluation.opening import TrainedOn
from msshift_bench.evaluation.results import Note, Result, Section, notes_of
from msshift_bench.evaluation.scores import ScoredRun, Scores
from msshift_bench.evaluation.settings import LEAKED_SLICES, MISSING_POLICIES, Settings
from msshift_bench.evaluation.tables import FEWEST_IN_SLICE, figure_text, show_share
from msshift_bench.evaluation.trained import SEEN
from msshift_bench.output import SentenceFormat, answers_of, level_text
from msshift_bench.runs import FOR_ALL, TIE_POLICIES
from msshift_bench.shifts import get_shift, grouped
from msshift_bench.stats import (
    AVERAGES,
    DAGGER,
    MEAN,
    QUERIES_AND_SEEDS,
    QUERIES_ONLY,
    UNCORRECTED,
    Claim,
    Figures,
    more_seeds_to_halve,
)
from msshift_bench.words import WHITESPACE

_FEWEST_SCORED = 12
_LARGEST_SEED_SD = 0.5
_FEW_SCORED = (
    f"weak interval: queries x Avg In is below {_FEWEST_SCORED}; such intervals of Rel Loss "
    "contain the true value in 70 to 95 of 100 cases"
)
_UNSTABLE = (
    "weak interval: seeds differ by more than half of Avg In; such intervals of Rel Loss contain "
    "the true value in 88 to 94 of 100 cases"
)


_LEAD = (
    "lead: the score minus the reference's on the same queries, above 0 where it is better; lead - "
    "others: the lead on a group minus the mean of the leads on the other groups"
)


def answered(
    kind: str,
    figures: Figures,
    data: DataInfo,
    settings: Settings,
    notes: Sequence[Note],
    layout: Callable[..., Iterable[Section]],
    scores: Sequence[Scores],
) -> Result:
    """Return a result, with an answer by the first measure for each system and shift.

    Args:
        kind: as in `Result`, like `notes`, `layout` and `scores`.
        figures: the figures of an evaluation, of a comparison, or of single runs.
        data: their data.
        settings: the measures.
        notes: the notes below the tables.
        layout: makes the tables.
        scores: the per-query scores.
    """
    measure = settings.measures[0]
    of = "" if len(settings.measures) == 1 else f" of {measure.mean_name}"
    answers = answers_of(
        figures.where(measure=measure.name),
        SentenceFormat(figure_text, measure.mean_name, of, data.groups),
    )
    return Result(kind, figures, settings.to_json(), data, notes, layout, scores, answers=answers)


def data_notes(data: DataInfo) -> Iterator[str]:
    """Yield the notes on the version and, if known, on the data of the figures."""
    yield f"msshift-bench {__version__}"
    if data.edition:
        words = "" if data.words == WHITESPACE else f", words {data.words}"
        yield (
            f"data: {data.collection}, edition {data.edition}, version {data.data_version}, "
            f"content {data.content_digest[:12]}{words}"
        )


def data_caveats(data: DataInfo, shifts: Container[str] = ()) -> Iterator[str]:
    """Yield notes on excluded passages, and on each of `shifts` with unequal training sets."""
    if data.exclude:
        yield f"excluded when the data set was built: {data.exclude}"
    yield from (
        f"unbalanced: the groups of {shift} give different numbers of training queries ("
        + ", ".join(f"{group} {count:,}" for group, count in training["queries"].items())
        + "), so that a loss also depends on training size"
        for shift, training in data.training.items()
        if shift in shifts and not training["balanced"]
    )


def policy_notes(settings: Settings) -> list[str]:
    """Return the notes on ties, missing queries, and measures of other libraries."""
    return [
        f"ties ({settings.ties}): {TIE_POLICIES[settings.ties]}",
        f"missing queries ({settings.missing}): {MISSING_POLICIES[settings.missing]}",
        *([f"excluded: {settings.exclude.described}"] if settings.exclude else []),
        *(
            f"{measure.name}: computed by {measure.computed_by}"
            + ", a sum over the queries" * (measure.aggregate == "sum")
            for measure in settings.measures
            if measure.computed_by != "msshift-bench"
        ),
    ]


def interval_sources(figures: Figures) -> str:
    """Return in words whether the intervals of figures count queries, or queries and seeds."""
    counts = [counted for counted in figures.names("counts") if counted]
    if len(counts) > 1:
        return f"{QUERIES_AND_SEEDS} where a system has several seeds, else {QUERIES_ONLY}"
    return counts[0] if counts else QUERIES_ONLY


def run_counts(runs: Sequence[ScoredRun]) -> str:
    """Return facts about runs: digests, missing and other queries, ties, warnings by code."""
    missing = sum(int(run.missing.sum()) for run in runs)
    tied = sum(int(run.tied.sum()) for run in runs)
    codes = sum((Counter(run.report.warning_counts) for run in runs), Counter[str]())
    warnings = ", ".join(f"{code} {count}" for code, count in sorted(codes.items()))
    strangers = sum(run.report.extra_queries for run in runs)
    digests = " ".join(run.report.digest[:8] for run in runs if run.report.digest)
    return (
        (f"sha256 {digests}" if digests else "in memory")
        + f"; {missing} missing queries, {tied} with a tie at a relevant passage"
        + (f", {codes.total()} warnings ({warnings})" if codes else "")
        + (f"; {strangers} other queries, which do not count here" if strangers else "")
    )


def _system_counts(scores: Scores) -> str:
    runs, seeds = list(scores.runs.values()), scores.replicates
    kind = "run file" if all(run.report.digest for run in runs) else "run"
    facts = [f"{len(runs)} {kind}{'s' * (len(runs) > 1)}"]
    facts += [f"{seeds} seed{'s' * (seeds > 1)}"] if seeds else []
    facts += [] if scores.trained_per_group else ["not trained per group"]
    if scores.missing_files and scores.shift is not None:
        lacking = ", ".join(scores.missing_runs)
        facts.append(f"no run of the model trained {scores.shift.training_of(lacking)}")
    return f"{', '.join(facts)}; {run_counts(runs)}"


def seen_notes(scores: Iterable[Scores]) -> Iterator[str]:
    """Yield a note for each model for all groups: whether it trained on each group's queries."""
    for part in scores:
        states = {} if part.trained_per_group else part.states_of(FOR_ALL)
        groups = {
            state: ", ".join(group for group, of_group in states.items() if of_group == state)
            for state in states.values()
        }
        if groups:
            yield (
                f"{part.system}, groups in training: "
                + "; ".join(f"{state} {named}" for state, named in groups.items())
                + "; it may have seen the test queries" * (SEEN in groups)
            )


def tie_notes(figures: Figures, settings: Settings) -> Iterator[str]:
    """Yield, for each system and measure, the mean that depends most on the order of ties.

    Args:
        figures: the means of runs, or of models on the groups of one shift, with their bounds.
        settings: the measures; changes below a printed digit give no note.
    """
    bounds = dict(figures.where(figure=("tie_worst", "tie_best")).each("measure"))
    for measure in settings.measures:
        for (system,), part in bounds.get((measure.name,), Figures()).each("system"):
            pairs = zip(part.where(figure="tie_worst"), part.where(figure="tie_best"), strict=True)
            moved = [
                (abs(best.number - worst.number), worst, best)
                for worst, best in pairs
                if measure.show(worst.value) != measure.show(best.value)
            ]
            if moved:
                _, worst, best = max(moved, key=itemgetter(0))
                place = worst.group
                if worst.model not in ("", FOR_ALL):
                    trained = get_shift(worst.shift).training_of(worst.model)
                    place += f" of the model trained {trained}"
                yield (
                    f"{system}: by the order of equal scores {measure.name} is "
                    f"{measure.show(worst.value)} to {measure.show(best.value)} on {place}"
                    + " (the widest range)"
                    * (len(moved) > 1)
                )


def loss_notes(
    data: DataInfo,
    settings: Settings,
    scores: Sequence[Scores],
    claims: Sequence[Claim],
    averaged: str,
    *,
    has_slices: bool,
) -> list[Note]:
    """Return the notes below the losses of one shift.

    Args:
        data: the data.
        settings: measures, policies and statistics.
        scores: the scores of the systems on the shift.
        claims: the systems' claims.
        averaged: how groups are averaged, a key of `stats.AVERAGES`.
        has_slices: whether there are figures of slices.
    """
    shift = scores[0].shift
    assert shift is not None
    certain = [*certainty_notes(claims, settings)]
    lines = list(certain)
    if certain:
        losses = [claim.figure for claim in claims if claim.figure.figure == "rel_loss"]
        if any((loss.seeds or 1) > 1 for loss in losses):
            lines.append(f"intervals and p: {QUERIES_AND_SEEDS}, as random effects")
        lines.append(f"{group_of_average(averaged)}: {AVERAGES[averaged]}")
    if has_slices:
        lines.append(f"slices: no figures of fewer than {FEWEST_IN_SLICE} queries")
    facts = [
        *data_notes(data),
        "test queries: "
        + ", ".join(f"{group} {len(ids)}" for group, ids in scores[0].groups.items()),
        *policy_notes(settings),
        *(f"{part.system}: {_system_counts(part)}" for part in scores),
    ]
    caveats = [*data_caveats(data, [shift.name]), *seen_notes(scores)]
    return notes_of(lines, about={"shift": shift.name}, data=facts, caveats=caveats)


def certainty_notes(claims: Sequence[Claim], settings: Settings) -> Iterator[str]:
    """Yield, for each system, the sources of its average loss's variance, and a remedy.

    Args:
        claims: the claims of losses on one shift; slices and further measures do not count.
        settings: the level of the intervals.
    """
    measure = settings.measures[0].name
    for row, estimate, *_ in claims:
        is_average = row.group in WHOLE and row.measure == measure
        if row.figure != "rel_loss" or not is_average or row.slice:
            continue
        seeds = row.seeds or 1
        known = None if estimate is None else estimate.uncertainty()
        share = None if known is None else known.seed_share
        luck = "; two seeds may agree by chance" * (seeds == 2)
        if seeds == 1:
            marked = f"; {DAGGER} in place of a star, no rank"
            line = (
                f"one seed: intervals and p count {QUERIES_ONLY}, not another "
                f"training{marked * (settings.correction != UNCORRECTED)}"
            )
        elif known is None or share is None:
            line = f"{seeds} seeds{luck}"
        else:
            more = more_seeds_to_halve(known, settings.confidence)
            halved = "no number of seeds would halve its interval"
            if more is not None:
                halved = f"{more} more seed{'s' * (more > 1)} would halve its interval"
            line = (
                f"{show_share(share)} of the variance of its average Rel Loss comes from its "
                f"{seeds} seeds, noise included, {show_share(1 - share)} from the choice of "
                f"queries; {halved}{luck}"
            )
        yield f"{row.system}: {line}"


def weak_notes(figures: Figures, settings: Settings) -> list[Note]:
    """Return notes on Rel Losses whose intervals contain the true value less often than nominal.

    These are groups where few queries score, or where seeds differ by more than half of Avg In;
    docs/statistics.md has the simulation.

    Args:
        figures: the figures of losses.
        settings: their measures.
    """
    percent = {measure.name for measure in settings.measures if measure.percent}
    places = []
    for row in figures.where(figure=("avg_in", "rel_loss"), model="", against=""):
        few = row.figure == "avg_in" and row.number * (row.queries or 0) < _FEWEST_SCORED
        reason = _FEW_SCORED if few and row.measure in percent else ""
        reason = _UNSTABLE if (row.seed_sd or 0.0) > _LARGEST_SEED_SD else reason
        if reason and row.group not in WHOLE:
            place = f"{row.group} ({row.slice})" if row.slice else row.group
            places.append(((row.shift, row.system, row.measure, reason), place))
    return [
        Note(f"{system}, {measure}, {', '.join(groups)}: {reason}", about={"shift": shift})
        for (shift, system, measure, reason), groups in grouped(places).items()
    ]


def delta_notes(figures: Figures, settings: Settings) -> Iterator[str]:
    """Yield the meaning of the columns of `delta_table`."""
    seeds = figures.where(figure="rel_loss").names("seeds")
    yield (
        "Inter. is Avg In, Extra. is Out; Delta = Extra. / Inter. - 1 is minus Rel Loss, in "
        "brackets its interval" + f" ({QUERIES_ONLY})" * (seeds == [1])
    )
    if figures.where(group=MEAN):
        yield "Delta: minus the mean of the groups' Rel Losses"
    lower = sorted(measure.name for measure in settings.measures if not measure.higher_is_better)
    if lower:
        yield f"{', '.join(lower)}: lower is better, and the sign of Delta is reversed"


def comparison_notes(
    settings: Settings, figures: Figures, averages: Iterable[str]
) -> Iterator[str]:
    """Yield the notes below a comparison on how differences were tested.

    Args:
        settings: policies and statistics.
        figures: the figures and differences of all shifts.
        averages: how each shift's groups are averaged, keys of `stats.AVERAGES`.
    """
    if settings.missing == "skip":
        counts = {figure.group: figure.queries for figure in figures.where(figure=COMPARED)}
        yield "compared on the queries in all runs: " + ", ".join(
            [f"{group} {counts[group]}" for group in counts if group not in WHOLE]
        )
    yield (
        f"intervals and p: {QUERIES_AND_SEEDS}, as random effects, the seeds of two systems "
        "independent of each other"
    )
    yield from dict.fromkeys(f"{group_of_average(name)}: {AVERAGES[name]}" for name in averages)
    if figures.where(figure="rank"):
        yield ("rank: 1 + the number of systems known to lose less; range: the possible ranks")
    seeds = {figure.system: figure.seeds for figure in figures.where(figure=COMPARED, against="")}
    single = sorted(system for system, count in seeds.items() if count == 1)
    if single:
        marked = f", so there is {DAGGER} in place of a star, and no rank"
        yield (
            f"one seed: {', '.join(single)}: intervals and p count {QUERIES_ONLY}"
            f"{marked * (settings.correction != UNCORRECTED)}; models of other seeds, in folders "
            "<shift>/seed-<n>, would count"
        )
    untrained = sorted(system for system, count in seeds.items() if count is None)
    if untrained:
        yield (
            f"not trained per group: {', '.join(untrained)}: one run for all held-out groups, so "
            "that Avg In is Out and there is no Rel Loss; a difference from it counts the seeds of "
            "the other system only"
        )
    if leads := figures.where(figure=("lead", "lead_in")).names("figure"):
        yield _LEAD + ("lead_in" in leads) * (
            "; p over the sides Avg In and Out together, which are not tested against each other: "
            "their difference is the system's loss minus the reference's loss"
        )
    if figures.where(figure="drop_out"):
        yield "drop, Out: the reference's score minus Out, in per cent of the reference's score"


def value_notes(settings: Settings, scores: Sequence[Scores], figures: Figures) -> Iterator[str]:
    """Yield, for each run and measure, how many queries count, if some have no value."""
    for part in scores:
        (queries,) = part.counted(settings.missing).values()
        yield from (
            f"{figure.measure}: the mean of the {figure.queries} of {len(queries)} queries with a "
            "value"
            for figure in figures.where(
                system=part.system, figure=("score", "sum"), against="", slice=""
            )
            if (figure.queries or 0) < len(queries)
        )


def run_notes(settings: Settings, figures: Figures) -> Iterator[str]:
    """Yield the notes below single runs on intervals, ties and measures."""
    level = level_text(settings.confidence)
    yield f"{level} intervals: {QUERIES_ONLY}, of this one run (Student's t)"
    yield from tie_notes(figures, settings)
    if any(measure.name.startswith("Accuracy") for measure in settings.measures):
        yield "Accuracy: as ir_measures defines it; Accuracy@k of BEIR and DPR is Success@k"
    differences = [figure for figure in figures if figure.against]
    if differences and settings.missing == "skip":
        counted = max(figure.queries or 0 for figure in differences)
        yield f"differences: on the {counted} queries in all runs"


def slice_notes(figures: Figures, settings: Settings, labels: Collection[str]) -> Iterator[str]:
    """Yield the notes below single runs on groups of queries.

    Args:
        figures: the figures of the runs.
        settings: the measures.
        labels: the names of the groups.
    """
    means = [measure.name for measure in settings.measures if measure.aggregate == "mean"]
    if sums := [measure.name for measure in settings.measures if measure.name not in means]:
        yield f"not by group: {', '.join(sums)}, a sum over queries"
    values = figures.where(figure="score", against="")
    due = len(values.names("system")) * len(means)
    if few := [label for label in labels if len(values.where(slice=label)) < due]:
        yield f"groups of fewer than 2 queries that count have no figures: {', '.join(few)}"
    if figures.where(figure="score_difference"):
        yield (
            "score - others: the mean on a group minus the average of the means on the other "
            "groups, above 0 where it is better; it includes how much easier the queries are"
        )
    if figures.where(figure="lead"):
        yield _LEAD


def extra_notes(settings: Settings, figures: Figures) -> list[str]:
    """Return the notes below extra test sets on the meaning of rows and intervals."""
    drop = (
        "drop: the score of the system trained on everything minus the mean over the models, in "
        "per cent of that score, on the same queries; seeds of the one model do not count"
    )
    return [
        "without: the group that the model was trained without; mean: over these models; all: "
        "one model for all groups",
        *([drop] if figures.where(figure="drop") else []),
        f"{level_text(settings.confidence)} intervals: {interval_sources(figures)}",
    ]


def trained_notes(trained: TrainedOn) -> list[str]:
    """Return notes on test queries in training sets, and on models with unknown training sets.

    Args:
        trained: the counts, see `OpenedRuns.trained`.
    """
    lines = []
    for test, shift in dict.fromkeys(key[:2] for key in trained):
        models = [(key[2], part) for key, (_, part) in trained.items() if key[:2] == (test, shift)]
        lines += [
            f"{test} ({shift}): of {part.queries:,} queries, {part.counts} and {part.passages:,} "
            "share a relevant passage with a training query"
            for _, part in models
            if part and part.trained + part.passages
        ]
        unknown = ", ".join(dict.fromkeys(model for model, part in models if part is None))
        if unknown:
            lines.append(
                f"{test} ({shift}): not compared with the training queries of the models "
                f"{get_shift(shift).training_of(unknown)}: no opened data set contains them "
                "(--data)"
            )
    return list(dict.fromkeys(lines))


def change_notes(settings: Settings, figures: Figures, contents: Sequence[str]) -> list[str]:
    """Return the notes below changed queries on the meaning of figures and intervals.

    Args:
        settings: policies and statistics.
        figures: the figures.
        contents: a line on each test set: how many variants there are, and how many change nothing.
    """
    lines = [
        *contents,
        "loss: 1 - changed / as is, each a mean over queries; a query with several variants "
        "counts with their mean",
        "without, trained on: the group that the model was trained without, or its training "
        "set; mean: over these models; all: one model for all groups",
    ]
    if figures.where(figure="out_minus_in"):
        lines.append(
            "In, Out: the loss of the models trained with the group, and of the model trained "
            "without it; a difference above 0 means that shift and change compound"
        )
    counted = f"{level_text(settings.confidence)} intervals: {interval_sources(figures)}"
    return [*lines, f"{counted}, not the choice of variants"]


def leakage_notes(figures: Figures, source: str) -> list[str]:
    """Return notes on the leaked test queries of each group, and on the intervals.

    Args:
        figures: the figures.
        source: the search that found the queries.
    """
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for row in figures.where(slice=LEAKED_SLICES):
        if row.group not in WHOLE:
            counts.setdefault((row.shift, row.group), {})[row.slice] = row.queries or 0
    if not counts:
        return [
            "no figure without leaked test queries: no group has the scores of models that saw it "
            "and of one that did not"
        ]
    not_leaked, difference = LEAKED_SLICES
    shown = ", ".join(
        f"{group} {of[difference] - of[not_leaked]} of {of[difference]}"
        for (_, group), of in counts.items()
    )
    return [
        f"test queries that leaked, by {source}: {shown}",
        "difference: all test queries minus those that did not leak; intervals and p count "
        + interval_sources(figures),
    ]
