"""Where the figures of a report come from: data, settings, run files and versions."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from platform import python_version

from msshift_bench.evaluation import Report, data_notes, policy_notes
from msshift_bench.output import Table, say_level

__all__ = ["facts_of", "files_table"]

_LIBRARIES = ("numpy", "scipy", "matplotlib", "scikit-learn")


def facts_of(report: Report) -> Mapping[str, str]:
    """Return what a report rests on: title -> text."""
    settings, data = report.settings, report.data
    first, *others = data_notes(data, list(report.by_shift()))
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    return {
        "Data": "\n".join(others) or "test sets made by hand",
        "Content digest": data.content_digest or "none",
        "Policies": "\n".join(policy_notes(settings)),
        "Inference": (
            f"{say_level(settings.confidence)} intervals; p-values {settings.correction}-corrected "
            f"over the groups of a shift; variance of seeds: {settings.seed_variance}"
        ),
        "Made with": f"{first}, Python {python_version()}, {libraries}",
    }


def files_table(report: Report) -> Table:
    """Return every run file that was read, with its digest."""
    rows = [
        (
            one.system,
            one.shift.name,
            run.held_out or "-",
            "-" if run.seed is None else run.seed,
            run.report.tag,
            f"{run.report.queries:,}",
            int(run.missing.sum()),
            sum(run.report.warning_counts.values()),
            run.report.digest,
        )
        for one in report.systems
        for run in one.scores.runs
    ]
    header = (
        "system", "shift", "held out", "seed", "tag", "queries", "missing", "warnings", "SHA-256",
    )  # fmt: skip
    return Table.plain("Run files as read", header, rows, names=5)
