"""Plans: which data, systems, starts and seeds an experiment has."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msshift_bench.errors import UnknownNameError

FOLDER = Path(__file__).resolve().parent
QUICK_SEEDS = 2
QUICK_NEGATIVES = 9
"""A query's relevant passages share these: on `mini` they are up to three, and monoBERT learns from
three negatives at once."""


@dataclass(frozen=True, slots=True)
class DataPlan:
    """A data set to build.

    Attributes:
        name: its folder.
        shifts: the shifts.
        options: further options of ``msshift build``.
        test_queries: whether the test queries of length are those of a given file.
        train_share: the share of the training queries per group that are used.
        negatives: how many negatives a training query has in the triples.
    """

    name: str
    shifts: Sequence[str]
    options: Sequence[str] = ()
    test_queries: bool = False
    train_share: float = 1.0
    negatives: int = 4

    @property
    def whole(self) -> DataPlan:
        """The data set with all training queries, of which this one has a share."""
        return replace(self, name=self.name.rpartition("-")[0], train_share=1.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """An experiment.

    Attributes:
        name: its name, that of the TOML file.
        title: its heading.
        question: what it asks.
        primary: what is tested to answer it, named before anything is trained; everything else that
            its tables hold is exploratory.
        family: what the p-values of the primary tests are corrected over.
        data: the data set.
        systems: names of baselines.
        starts: recipes of pre-trainings, or ``random``; each system is trained from each.
        held_out: only these groups are held out; all of the shift, if empty.
        seeds: how many seeds: 0, 1, ...
        changes: fields of the recipe that are replaced.
        variants: name -> further fields that are replaced; each system is trained in every variant.
            One without any is the system itself, whose runs stand with those of other plans. A
            teacher is the name of a system, which is trained first, or ``bm25``.
    """

    name: str
    title: str
    question: str
    primary: str
    family: str
    data: DataPlan
    systems: Sequence[str]
    seeds: int
    starts: Sequence[str] = ("pool",)
    held_out: Sequence[str] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})

    @property
    def teachers(self) -> list[str]:
        """The systems that teach others, each once."""
        named = [fields.get("teacher") for fields in self.variants.values()]
        return [name for name in dict.fromkeys(named) if name is not None and name != "bm25"]

    @property
    def quick(self) -> Plan:
        """The same at a smaller size: for ``mini``, with fewer seeds."""
        starts = ["random" if start == "random" else "mini" for start in self.starts]
        return replace(
            self,
            data=replace(self.data, test_queries=False, negatives=QUICK_NEGATIVES),
            starts=list(dict.fromkeys(starts)),
            seeds=min(self.seeds, QUICK_SEEDS),
            changes={},
        )


def names() -> list[str]:
    """Return the experiments' names."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Plan:
    """Read a plan.

    Raises:
        UnknownNameError: if there is none of this name.
    """
    if name not in names():
        raise UnknownNameError("experiment", name, names())
    values = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    return Plan(name=name, **{**values, "data": DataPlan(**values["data"])})
