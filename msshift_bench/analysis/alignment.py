"""Alignment: does extrapolation say how models do elsewhere, better than interpolation does?

Source: Zhan et al., "Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models" (CIKM 2022), section 4.2: over many models, the rank correlations of both with the scores on
test sets of other distributions (Table 5), and the points (Figure 2).

The two correlations are not independent, since they share the models and the scores elsewhere. So
their difference is tested by a permutation of the two within each model: if neither aligns better,
it does not matter which of a model's two ranks is called which. All 2^n ways are counted for up to
13 models, 10,000 drawn ones for more. Intervals are percentiles of 10,000 bootstrap samples of the
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
_AT_ONCE = 1_000
"""Samples that are correlated at once: a pair of models takes 8 bytes in each."""
_CLOSE = 1e-9


def align_scores(scores: Mapping[str, Mapping[str, float]], source: str) -> Result:
    """Correlate the models' interpolation and extrapolation with their scores elsewhere.

    Args:
        scores: 5 models or more: name -> ``interpolation``, its score on test queries like its
            training queries; ``extrapolation``, that on test queries unlike them; and by name those
            on test sets elsewhere, at least one. All are on any scale.
        source: what they are, in words.

    Returns:
        Every ``score``. For each test set elsewhere ``spearman`` and ``kendall`` of the ``group``
        interpolation and of extrapolation, with a 95% interval; and, ``against`` interpolation, the
        difference with its interval and p-value.

    Raises:
        DataError: if there are fewer models, no test set elsewhere, or not the same of all models.
    """
    if len(scores) < _FEWEST_MODELS:
        raise DataError(
            f"{source} holds {len(scores)} models, and a comparison of alignments takes "
            f"{_FEWEST_MODELS}"
        )
    first, *_ = scores
    outside = [name for name in scores[first] if name not in _REGIMES]
    if not outside:
        raise DataError(f"{source} holds no scores of a test set elsewhere")
    rows = []
    for model, of_model in scores.items():
        lacking = [name for name in (*_REGIMES, *outside) if name not in of_model]
        if lacking:
            raise DataError(f"{source} holds no {', '.join(lacking)} of {model}, and of {first}")
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
    how = (
        "[95% intervals] by bootstrap of the models, of which a perfect order has none; p: "
        "permutation within the models"
    )
    return [*(Note(_verdict(row), "data") for row in differences), Note(how)]


def _verdict(difference: Figure) -> str:
    """Say in words what Spearman's correlations show of one test set."""
    if difference.p is None or difference.value is None:
        return f"{difference.test}: all models score alike, so that nothing can be said"
    test = f"(Spearman, {p_text(difference.p)})"
    if difference.p > SIGNIFICANT:
        return (
            f"{difference.test}: these {difference.slice} cannot show that one of the two aligns "
            f"better {test}"
        )
    better = "extrapolation" if difference.value > 0 else "interpolation"
    return f"{difference.test}: {better} aligns better {test}"


def _compare_correlations(
    correlation: Figure, interpolation: Floats, extrapolation: Floats, outside: Floats
) -> list[Claim]:
    """Compare how interpolation and extrapolation rank models with how a third score does.

    Args:
        correlation: one of `RANK_CORRELATIONS`, with the names of its figures.
        interpolation: the models' interpolation, ``[models]``.
        extrapolation: their extrapolation, ``[models]``.
        outside: their scores elsewhere, ``[models]``.

    Returns:
        The correlation of each of the two, and the second's difference from the first; without
        values if all models have one score, and without an interval if the order is perfect: every
        sample of it is perfect, too.
    """
    kind, n = correlation.figure, len(outside)
    regimes = interpolation, extrapolation
    inter, extra = (float(correlate_ranks(kind, regime, outside)) for regime in regimes)
    correlation = correlation._replace(group="extrapolation")
    rows = [
        correlation._replace(group="interpolation", value=_known(inter)),
        correlation._replace(value=_known(extra)),
        correlation._replace(against="interpolation", value=_known(extra - inter)),
    ]
    if rows[2].value is None:
        return [Claim(row) for row in rows]
    parts = np.split(np.random.default_rng(n).integers(0, n, (_SAMPLES, n)), _SAMPLES // _AT_ONCE)
    samples = [
        np.concatenate([correlate_ranks(kind, regime[part], outside[part]) for part in parts])
        for regime in regimes
    ]
    for place, sample in enumerate([*samples, samples[1] - samples[0]]):
        if rows[place].against or abs(rows[place].number) <= 1 - _CLOSE:
            # Samples in which all models have one score have no correlation.
            low, high = np.nanpercentile(sample, [2.5, 97.5]).tolist()
            rows[place] = rows[place]._replace(low=low, high=high)
    p, family = _permutation_p(kind, *regimes, outside), (kind, "test sets elsewhere")
    return [Claim(rows[0]), Claim(rows[1]), Claim(rows[2], family=family, p=p)]


def _known(correlation: float) -> float | None:
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
        batch=_AT_ONCE,
        rng=np.random.default_rng(len(outside)),
    )
    return float(swapped.pvalue)


def read_model_scores(path: str | Path) -> dict[str, dict[str, float]]:
    """Read models' scores from a CSV file, or one with tabs.

    Its header names the columns ``model``, ``interpolation``, ``extrapolation``, and one for each
    test set elsewhere, in any order.

    Args:
        path: the file.

    Returns:
        Model -> column -> its score, as `align_scores` takes them.

    Raises:
        NotFoundError: if there is no such file.
        DataError: if a column is missing, a model stands there twice, or a score is no number; the
            message has every such line.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise NotFoundError(f"no file {path}; it holds a header and a line per model")
    findings = FindingLog()
    scores: dict[str, dict[str, float]] = {}
    for line, cells in csv_rows(path, ("model", *_REGIMES), findings):
        model = cells.pop("model")
        if not model or model in scores:
            message = f"model {model!r} again" if model else "a model without a name"
            findings.add("repeated-model", message, str(path), line)
            continue
        scores[model] = {name: decimal_number(cell.encode()) for name, cell in cells.items()}
        for name, score in scores[model].items():
            if not math.isfinite(score):
                message = f"{name} of {model} is {cells[name]!r}, which is no number"
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
        extra_test: name -> the test set, which is a test set elsewhere.
        data: the built data set.
        shift: the shift; it may be left out if the runs are of one.
        measure: the measure.
        allow: what not to refuse, some of `ALLOWANCES`.

    Returns:
        System -> ``interpolation``, its mean Avg In; ``extrapolation``, its mean Out; and by the
        name of each test set the mean of its models: as `align_scores` takes them. A system that
        is one model for all groups has no such scores, and is left out.

    Raises:
        UsageError: if the runs are of several shifts.
        MsShiftError: as `evaluate_run_sets`, `evaluate_extra_tests`.

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
            f"the runs are of {', '.join(shifts)}, and an alignment is of one shift; choose it "
            "(--shift)"
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
    """Draw every model's score elsewhere over its interpolation, and over its extrapolation.

    Each test set elsewhere is a row of the picture (Figure 2 of the paper). Equal figures give
    equal bytes with the same matplotlib.

    Args:
        figures: those of `align_scores`.
        path: the file to write; its name ends in ``.svg``, ``.png`` or ``.pdf``.

    Raises:
        UnknownNameError: if its name ends otherwise.
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
        write_picture(picture, path, "Alignment with scores elsewhere")
    return Path(path)


def _layout(source: str, figures: Figures) -> list[Section]:
    """Return the table of an alignment's correlations, given what was aligned, in words."""
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
    title = f"{source}: correlation with scores elsewhere, over {correlations[0].slice}"
    return [Section([pivot(figures, title, ("outside", ""), rows, columns)])]


def _correlation(figure: Figure) -> str:
    text = number(2, 2).text(figure)
    is_signed = text.startswith("-") or not figure.against
    return text if is_signed else f"+{text}"


_CORRELATION = Format(_correlation)
