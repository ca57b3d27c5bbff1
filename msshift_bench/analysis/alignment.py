"""Alignment: does extrapolation or interpolation rank models more like other test sets do?

Source: Zhan et al., "Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models" (CIKM 2022), section 4.2. Over many models, both scores are rank-correlated with the scores
on test sets of other distributions (Table 5); Figure 2 draws the points.

The two correlations are not independent: they share the models and the scores on the other test
set. So their difference is tested by permutation: if neither aligns better, a model's ranks by
interpolation and by extrapolation can be exchanged. For up to 13 models, all 2^n permutations are
counted; for more, 10,000 random ones. Intervals are percentiles of 10,000 bootstrap samples of the
models.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.data import DataInfo, Dataset
from msshift_bench.errors import DataError, FindingLog, NotFoundError, UsageError
from msshift_bench.evaluation import (
    Note,
    Result,
    Section,
    Settings,
    evaluate_extra_tests,
    evaluate_run_sets,
)
from msshift_bench.output import (
    COLOURS,
    LINE,
    P_VALUE,
    PALE_INK,
    Format,
    Head,
    check_plot,
    number,
    p_text,
    picture_style,
    pivot,
    shorten,
    write_picture,
)
from msshift_bench.plumbing import csv_rows, decimal_number
from msshift_bench.shifts import DATASET_NAME, ShiftNames
from msshift_bench.stats import (
    MEAN,
    RANK_CORRELATIONS,
    SIGNIFICANT,
    Claim,
    Figure,
    Figures,
    Inference,
    correlate_ranks,
    infer,
)

_FEWEST_MODELS = 5
"""With four models, even the clearest difference has a p-value of 0.125."""

_REGIMES = ("interpolation", "extrapolation")

_SAMPLES = 10_000
_BATCH = 1_000
"""Samples that are correlated at once; each takes 8 bytes per pair of models."""
_TOLERANCE = 1e-9


def align_scores(scores: Mapping[str, Mapping[str, float]], source: str) -> Result:
    """Correlate models' interpolation and extrapolation with their scores on other test sets.

    Args:
        scores: at least 5 models: name -> ``interpolation``, the score on test queries similar to
            the training queries; ``extrapolation``, the score on dissimilar test queries; and the
            scores on at least one other test set, by its name. Scores can be on any scale.
        source: a short description of the scores, for titles and messages.

    Returns:
        Every ``score``. For each other test set, ``spearman`` and ``kendall`` of the ``group``
        interpolation and of the group extrapolation, with 95% intervals. The difference of the
        two, ``against`` interpolation, has an interval and a p-value. A correlation has no value
        if all models have the same score.

    Raises:
        DataError: if there are fewer than 5 models, no other test set, or models lack a score that
            the first model has.
    """
    if len(scores) < _FEWEST_MODELS:
        raise DataError(
            f"an alignment needs at least {_FEWEST_MODELS} models, but {source} has "
            f"{len(scores)} models; add models"
        )
    first, *_ = scores
    outside = [name for name in scores[first] if name not in _REGIMES]
    if not outside:
        raise DataError(
            f"{source} has no scores on another test set; add a column with the name of a test set"
        )
    rows = []
    for model, of_model in scores.items():
        lacking = [name for name in (*_REGIMES, *outside) if name not in of_model]
        if lacking:
            raise DataError(
                f"{source} has no {', '.join(lacking)} of {model}, but {first} has; add the "
                f"scores, or leave out {model}"
            )
        row = Figure("score", system=model)
        rows += [row._replace(group=name, value=of_model[name]) for name in _REGIMES]
        rows += [row._replace(test=name, value=of_model[name]) for name in outside]
    columns = {
        name: np.array([of_model[name] for of_model in scores.values()], np.float64)
        for name in (*_REGIMES, *outside)
    }
    claims = [Claim(row) for row in rows]
    for name in outside:
        compared = [columns[of] for of in (*_REGIMES, name)]
        for kind in RANK_CORRELATIONS:
            correlation = Figure(kind, test=name, slice=f"{len(scores)} models")
            claims += _compare_correlations(correlation, *compared)
    figures, layout = infer(claims, Inference()), partial(_layout, source)
    return Result("alignment", figures, {"source": source}, DataInfo(), _notes(figures), layout)


def _notes(figures: Figures) -> list[Note]:
    differences = figures.where(figure="spearman", against="interpolation")
    legend = (
        "[95% intervals] by bootstrap of the models, without intervals for a perfect order; p: "
        "permutation within the models"
    )
    return [*(Note(_verdict(row), "data") for row in differences), Note(legend)]


def _verdict(difference: Figure) -> str:
    """Return the verdict on the difference of Spearman's correlations as a sentence."""
    if difference.p is None or difference.value is None:
        return f"{difference.test}: all models have the same score, so there is no correlation"
    test = f"(Spearman, {p_text(difference.p)})"
    if difference.p > SIGNIFICANT:
        return (
            f"{difference.test}: these {difference.slice} cannot show whether interpolation or "
            f"extrapolation aligns better {test}"
        )
    better = "extrapolation" if difference.value > 0 else "interpolation"
    return f"{difference.test}: {better} aligns better {test}"


def _compare_correlations(
    correlation: Figure, interpolation: Floats, extrapolation: Floats, outside: Floats
) -> list[Claim]:
    """Correlate interpolation and extrapolation with the scores on another test set.

    Args:
        correlation: a figure whose name is one of `RANK_CORRELATIONS`, with the test set.
        interpolation: the models' interpolation, ``[models]``.
        extrapolation: the models' extrapolation, ``[models]``.
        outside: the models' scores on the other test set, ``[models]``.

    Returns:
        The correlations of interpolation and of extrapolation, and extrapolation's minus
        interpolation's. If all models have the same score, a correlation is `None`, and no row has
        an interval or a p-value. A perfect order has no interval, as every bootstrap sample of it
        is perfect.
    """
    kind, n = correlation.figure, len(outside)
    regimes = interpolation, extrapolation
    inter, extra = (float(correlate_ranks(kind, regime, outside)) for regime in regimes)
    correlation = correlation._replace(group="extrapolation")
    rows = [
        correlation._replace(group="interpolation", value=_none_if_nan(inter)),
        correlation._replace(value=_none_if_nan(extra)),
        correlation._replace(against="interpolation", value=_none_if_nan(extra - inter)),
    ]
    if rows[2].value is None:
        return [Claim(row) for row in rows]
    parts = np.split(np.random.default_rng(n).integers(0, n, (_SAMPLES, n)), _SAMPLES // _BATCH)
    samples = [
        np.concatenate([correlate_ranks(kind, regime[part], outside[part]) for part in parts])
        for regime in regimes
    ]
    for place, sample in enumerate([*samples, samples[1] - samples[0]]):
        if rows[place].against or abs(rows[place].number) <= 1 - _TOLERANCE:
            # The correlation of a sample in which all models have the same score is NaN.
            low, high = np.nanpercentile(sample, [2.5, 97.5]).tolist()
            rows[place] = rows[place]._replace(low=low, high=high)
    p, family = _permutation_p(kind, *regimes, outside), (kind, "test sets elsewhere")
    return [Claim(rows[0]), Claim(rows[1]), Claim(rows[2], family=family, p=p)]


def _none_if_nan(correlation: float) -> float | None:
    return None if math.isnan(correlation) else correlation


def _permutation_p(
    kind: str, interpolation: Floats, extrapolation: Floats, outside: Floats
) -> float:
    from scipy.stats import permutation_test, rankdata

    def difference(first: Floats, second: Floats, axis: int) -> Floats:
        first, second = (np.moveaxis(regime, axis, -1) for regime in (first, second))
        return correlate_ranks(kind, second, outside) - correlate_ranks(kind, first, outside)

    swapped = permutation_test(
        rankdata([interpolation, extrapolation], axis=1),
        difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=_SAMPLES,
        batch=_BATCH,
        rng=np.random.default_rng(len(outside)),
    )
    return float(swapped.pvalue)


def read_model_scores(path: str | Path) -> dict[str, dict[str, float]]:
    """Read models' scores from a CSV or TSV file.

    The header names the columns ``model``, ``interpolation``, ``extrapolation``, and a column for
    each other test set, in any order.

    Args:
        path: the file.

    Returns:
        Model -> column -> score, the argument of `align_scores`.

    Raises:
        NotFoundError: if the file does not exist.
        DataError: if a column is missing, a model is repeated, or a score is not a finite number;
            the message lists every such line.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise NotFoundError(
            f"no file {path}; expected a CSV file with a header and a line per model"
        )
    findings = FindingLog()
    scores: dict[str, dict[str, float]] = {}
    for line, cells in csv_rows(path, ("model", *_REGIMES), findings):
        model = cells.pop("model")
        if not model or model in scores:
            message = f"model {model!r} is repeated" if model else "the model has no name"
            findings.add("repeated-model", message, str(path), line)
            continue
        scores[model] = {name: decimal_number(cell.encode()) for name, cell in cells.items()}
        for name, score in scores[model].items():
            if not math.isfinite(score):
                message = f"{name} of {model} must be a finite number, got {cells[name]!r}"
                findings.add("not-a-number", message, str(path), line)
    findings.stop_if_any(DataError, f"the scores in {path} cannot be used:")
    return scores


def scores_of_runs(
    runs: str | Path | Sequence[str | Path],
    extra_test: Mapping[str, str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shift: ShiftNames = (),
    measure: str = "RR@10",
    *,
    allow: str | Collection[str] = (),
) -> dict[str, dict[str, float]]:
    """Score systems on a shift and on extra test sets, for an alignment.

    Args:
        runs: folders of run sets, with runs for the extra test sets; see `evaluate_extra_tests`.
        extra_test: name -> the folder of the extra test set.
        data: the built data set.
        shift: the shift; optional if the runs are of one shift.
        measure: the measure.
        allow: errors to allow, some of `ALLOWANCES`.

    Returns:
        System -> ``interpolation``, its mean Avg In; ``extrapolation``, its mean Out; and for the
        name of each extra test set, the mean score of its models. This is the argument of
        `align_scores`. A system with one model for all groups has no Out and is left out.

    Raises:
        UsageError: if the runs are of several shifts.
        MsShiftError: as in `evaluate_run_sets` and `evaluate_extra_tests`.

    Examples:
        >>> scores = scores_of_runs("runs/dense", {"dl19": "dl19"}, "msshift", "length")
        >>> sorted(scores["dense"])
        ['dl19', 'extrapolation', 'interpolation']
    """
    given, settings = (data, shift), Settings(measure)
    means = evaluate_run_sets(runs, *given, settings, allow=allow).figures.where(group=MEAN)
    sides = [means.where(figure=name) for name in ("avg_in", "out")]
    if len(shifts := means.names("shift")) > 1:
        raise UsageError(
            f"the runs are of {', '.join(shifts)}, but an alignment is of one shift; choose the "
            "shift (--shift)"
        )
    scores: dict[str, dict[str, float]] = {}
    for regime, of_side in zip(_REGIMES, sides, strict=True):
        for row in of_side:
            scores.setdefault(row.system, {})[regime] = row.number
    outside = evaluate_extra_tests(runs, extra_test, *given, settings, allow=allow).figures
    for row in outside.where(figure="score", model=MEAN):
        if row.system in scores:
            scores[row.system][row.test] = row.number
    return scores


def plot_alignment(figures: Figures, path: str | Path) -> Path:
    """Draw the models' scores on other test sets over their interpolation and extrapolation.

    Each test set is a row of the chart (Figure 2 of the paper). Equal figures give equal bytes
    with the same version of matplotlib.

    Args:
        figures: the figures of `align_scores`.
        path: the file to write; its name ends in ``.svg``, ``.png`` or ``.pdf``.

    Returns:
        The path of the file.

    Raises:
        UnknownNameError: if the file name has another ending.
        MissingExtraError: if matplotlib is not installed.
    """
    check_plot(path)
    from matplotlib.figure import Figure as Picture

    scores = figures.where(figure="score")
    outside = [test for test in scores.names("test") if test]
    with picture_style():
        picture = Picture(figsize=(6.25, 2.6 * len(outside)), layout="constrained")
        grid = picture.subplots(len(outside), 2, sharey="row", squeeze=False)
        for pair, test in zip(grid, outside, strict=True):
            pair[0].set_ylabel(shorten(test, 40))
            for axes, regime, colour in zip(pair, _REGIMES, COLOURS, strict=False):
                x = [row.number for row in scores.where(group=regime)]
                y = [row.number for row in scores.where(test=test)]
                axes.grid(color=LINE, linewidth=0.4)
                axes.set_axisbelow(True)
                axes.plot(x, y, "o", color=colour, markersize=4)
                for model, *point in zip(scores.names("system"), x, y, strict=True):
                    axes.annotate(
                        shorten(model, 16),
                        point,
                        (3, 3),
                        textcoords="offset points",
                        fontsize=6,
                        color=PALE_INK,
                    )
                axes.set_xlabel(regime)
                value = figures.where(figure="spearman", test=test, group=regime)[0].value
                axes.set_title("" if value is None else f"Spearman {value:.2f}", loc="left")
        write_picture(picture, path, "Alignment with scores on other test sets")
    return Path(path)


def _layout(source: str, figures: Figures) -> list[Section]:
    correlations = figures.where(figure=RANK_CORRELATIONS)
    rows = [
        Head((name, kind.capitalize()), {"test": test, "figure": kind})
        for test in correlations.names("test")
        for name, kind in zip((test, ""), RANK_CORRELATIONS, strict=True)
    ]
    columns = [
        Head(("interpolation",), {"group": "interpolation"}, _CORRELATION),
        Head(("extrapolation",), {"group": "extrapolation", "against": ""}, _CORRELATION),
        Head(("difference",), {"against": "interpolation"}, _CORRELATION),
        Head(("p",), {"against": "interpolation"}, P_VALUE),
    ]
    title = f"{source}: correlation with scores on other test sets, over {correlations[0].slice}"
    return [Section([pivot(figures, title, ("test set", ""), rows, columns)])]


def _correlation(figure: Figure) -> str:
    text = number(2, 2).text(figure)
    is_signed = text.startswith("-") or not figure.against
    return text if is_signed else f"+{text}"


_CORRELATION = Format(_correlation)
