"""The tables of an alignment, and the notes below them."""

from __future__ import annotations

from msshift_bench.analysis.alignment import Alignment
from msshift_bench.analysis.dependent_correlations import OutsideAlignment
from msshift_bench.analysis.link_tables import Panel
from msshift_bench.output import Table, say_p, show_p
from msshift_bench.stats import SIGNIFICANT, Interval

__all__ = ["alignment_panels"]


def alignment_panels(found: Alignment) -> list[Panel]:
    """Return the tables of an alignment: of the correlations, then of those that are printed."""
    rows = [
        [
            aligned.outside if pair.kind == "spearman" else "",
            pair.kind.capitalize(),
            _with_interval(pair.first, pair.first_interval),
            _with_interval(pair.second, pair.second_interval),
            _with_interval(pair.difference, pair.interval, sign="+"),
            show_p(pair.p),
            show_p(pair.meng_p),
        ]
        for aligned in found.alignments
        for pair in aligned.correlations
    ]
    header = ("outside", "", "interpolation", "extrapolation", "difference", "p", "Meng's p")
    table = Table.plain(
        f"{found.source}: correlation with scores elsewhere, over {len(found.scores)} models",
        header,
        rows,
        names=2,
    )
    notes = [
        *map(_verdict, found.alignments),
        "[95% intervals] by bootstrap of the models, of which a perfect order has none; p: "
        "permutation within the models; Meng's p: "
        "Meng, Rosenthal and Rubin (1992) for dependent correlations; neither is corrected for "
        "several test sets",
    ]
    panels: list[Panel] = [([table], notes)]
    if found.printed:
        panels.append(_printed_panel(found))
    panels[-1][1].extend(found.remarks)
    return panels


def _verdict(aligned: OutsideAlignment) -> str:
    """Say in words what Spearman's correlations show of one test set."""
    pair = aligned.correlations[0]
    if pair.p is None or pair.difference is None:
        return f"{aligned.outside}: all models score alike, so that nothing can be said"
    if pair.p > SIGNIFICANT:
        return (
            f"{aligned.outside}: these {pair.models} models cannot show that one of the two aligns "
            f"better (Spearman, {say_p(pair.p)})"
        )
    better = "extrapolation" if pair.difference > 0 else "interpolation"
    return f"{aligned.outside}: {better} aligns better (Spearman, {say_p(pair.p)})"


def _printed_panel(found: Alignment) -> Panel:
    rows = [
        [
            one.outside if one.kind == "spearman" else "",
            one.kind.capitalize(),
            _with_interval(one.interpolation, Interval(*one.interpolation_interval)),
            _with_interval(one.extrapolation, Interval(*one.extrapolation_interval)),
            f"{one.extrapolation - one.interpolation:+.2f}",
        ]
        for one in found.printed
    ]
    header = ("outside", "", "interpolation", "extrapolation", "difference")
    title = f"Correlations as printed, each over {found.printed[0].models} models"
    higher = [
        one
        for one in found.printed
        if one.kind == "spearman" and one.extrapolation > one.interpolation
    ]
    sets = sum(one.kind == "spearman" for one in found.printed)
    return [Table.plain(title, header, rows, names=2)], [
        f"extrapolation has the higher Spearman correlation on {len(higher)} of {sets} test sets, "
        "which rank the same models and so are no independent witnesses",
        "[95% intervals] by Fisher's transform (Fieller, Hartley and Pearson, 1957); without the "
        "models' scores, no test of the difference is possible",
    ]


def _with_interval(value: float | None, interval: Interval | None, *, sign: str = "") -> str:
    if value is None:
        return "-"
    if interval is None:
        return f"{value:{sign}.2f}"
    low, high = interval
    return f"{value:{sign}.2f} [{low:.2f}, {high:.2f}]"
