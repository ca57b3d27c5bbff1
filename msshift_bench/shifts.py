"""The one table of the benchmark's shifts: their groups, rules and protocol.

To add a shift, add a row here and a builder function in ``dataset_builders/``; nothing else in the
package lists shifts or groups. Source: MS-Shift (ECIR 2023), sections 3.1 and 4, unless a row names
another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from msshift_bench.errors import UnknownNameError

__all__ = [
    "DATASET_NAME",
    "EDITIONS",
    "SHIFTS",
    "TRIPLES",
    "Shift",
    "can_name_runs",
    "get_shift",
    "holds_triples",
    "parse_config",
]

DATASET_NAME = "msshift"
"""The data set's bare name: the default output folder, and what `load_dataset` takes."""

TRIPLES = "-triples"
"""The end of a config's name if it holds training triples: those of the config named before it."""

EDITIONS = ("rebuilt", "official-2022")
"""``rebuilt``: made by this package's builders; ``official-2022``: the files released in 2022."""


_MS_SHIFT = "Lupart2023MsShift"


@dataclass(frozen=True, slots=True, repr=False)
class Shift:
    """One way to cut the queries into groups; each group in turn is held out of training.

    Attributes:
        name: e.g. ``"wh-words"``.
        title: its name in the captions of tables.
        description: one sentence on what the groups are.
        groups: the groups, in the order in which tables show them, with one line on each.
        test_size: test queries per group in the paper; smaller collections scale it down.
        train_size: training queries per group in the paper; smaller collections give what their
            smallest group has left. ``"all"`` if the paper takes all that each group has.
        rules: the labelling rules a builder knows; the first is the default of ``rebuilt``.
        builder: ``module:function`` that groups queries, or "" where groups are only imported.
        takes_tests: whether a build may be given test queries instead of sampling them, as in the
            release for `length`.
        takes_encoder: whether the groups rest on embeddings of the queries.
        source: the paper that introduced it, a key of `citations.BIBTEX`.
        average: how the losses of its groups are averaged, a key of `stats.AVERAGES`.
    """

    name: str
    title: str
    description: str
    groups: Mapping[str, str]
    test_size: int
    train_size: int | Literal["all"]
    rules: tuple[str, ...] = ()
    builder: str = ""
    takes_tests: bool = False
    takes_encoder: bool = False
    source: str = _MS_SHIFT
    average: str = "macro"
    configs: Mapping[str, str] = field(init=False)
    """Config name -> held-out group, e.g. ``"length-short"`` -> ``"short"``."""

    def __repr__(self) -> str:
        return f"<Shift {self.name}: {', '.join(self.groups)}>"

    def __post_init__(self) -> None:
        configs = {f"{self.name}-{group}": group for group in self.groups}
        object.__setattr__(self, "groups", MappingProxyType(dict(self.groups)))
        object.__setattr__(self, "configs", MappingProxyType(configs))

    @property
    def in_ms_shift(self) -> bool:
        """Whether it is one of MS-Shift's own: a build makes those if no shift is named."""
        return self.source == _MS_SHIFT

    def check_group(self, group: str) -> str:
        """Return `group` if it is one of this shift's.

        Raises:
            UnknownNameError: if it is not; the message lists the groups and names the nearest.
        """
        if group not in self.groups:
            raise UnknownNameError(f"group of {self.name}", group, self.groups)
        return group


_TABLE = (
    Shift(
        name="topics",
        title="Query topics",
        description="five topics, far apart in the space of query embeddings",
        groups={
            "C0": "names and public figures",
            "C1": "dated events",
            "C2": "pricing and units",
            "C3": "medical treatments",
            "C4": "biology and physics",
        },
        test_size=6200,
        train_size=25_000,
        rules=("k-means",),
        builder="msshift_bench.dataset_builders.topics:group_by_topic",
        takes_encoder=True,
    ),
    Shift(
        name="wh-words",
        title="Question words",
        description="the question word, which says what kind of answer is wanted",
        groups={
            "wha": "what, definition",
            "how": "how",
            "who": "who, when, where, which",
        },
        test_size=6500,
        train_size=48_500,
        rules=("word", "substring"),
        builder="msshift_bench.dataset_builders.wh_words:group_by_wh_word",
    ),
    Shift(
        name="length",
        title="Query length",
        description="short and long queries, cut at the median number of words",
        groups={"short": "below the median", "long": "from the median on"},
        test_size=3500,
        train_size=100_000,
        rules=("split-space",),
        builder="msshift_bench.dataset_builders.length:group_by_length",
        takes_tests=True,
    ),
    # Zhan et al. (CIKM 2022), section 4. The paper does not name its buckets: these lines are ours,
    # on the released ones. Its 6,980 test queries are 1,396 per bucket on average.
    Shift(
        name="resttest",
        title="Resampled test buckets",
        description="five buckets of training and test queries, cut by their embeddings",
        groups={
            "1": "how long, how many, when",
            "2": "definitions and meanings",
            "3": "people and places",
            "4": "causes, symptoms and foods",
            "5": "costs, prices and pay",
        },
        test_size=1396,
        train_size="all",
        rules=("k-means",),
        builder="msshift_bench.dataset_builders.buckets:group_by_bucket",
        takes_tests=True,
        takes_encoder=True,
        source="Zhan2022Extrapolation",
        average="pooled",
    ),
)

SHIFTS: Mapping[str, Shift] = MappingProxyType({shift.name: shift for shift in _TABLE})
"""Every shift by name: those of MS-Shift in its order, then those of other papers."""


def can_name_runs(name: str) -> bool:
    """Return whether a folder of runs can have the name, and a run tag can begin with it.

    It holds no white space or '/', does not begin with '.', and is no shift's name.
    """
    is_folder = name == Path(name).name and not name.startswith(".")
    return is_folder and len(name.split()) == 1 and name not in SHIFTS


def get_shift(name: str) -> Shift:
    """Return the shift called `name`.

    Raises:
        UnknownNameError: if there is none; the message lists them and names the nearest.
    """
    try:
        return SHIFTS[name]
    except KeyError:
        raise UnknownNameError("shift", name, SHIFTS) from None


def holds_triples(config: str) -> bool:
    """Say whether a config holds training triples instead of queries."""
    return config.endswith(TRIPLES)


def parse_config(config: str) -> tuple[Shift, str | None]:
    """Split a config's name into its shift and held-out group.

    ``"topics-C2"`` gives the shift ``topics`` and ``"C2"``; ``"topics"`` gives the whole shift
    and `None`.

    Raises:
        UnknownNameError: if there is no such config; the message names the nearest.
    """
    if config in SHIFTS:
        return SHIFTS[config], None
    for shift in SHIFTS.values():
        if config in shift.configs:
            return shift, shift.configs[config]
    valid = [name for shift in SHIFTS.values() for name in (shift.name, *shift.configs)]
    raise UnknownNameError("config", config, valid)
