"""Reference systems: one file each; training and search are shared."""

from __future__ import annotations

from msshift_bench.baselines.driver import BASELINES, Baseline, run_baseline

__all__ = ["BASELINES", "Baseline", "run_baseline"]
