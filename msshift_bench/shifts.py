"""Table of the benchmark's shifts: their groups, rules and protocol.

To add a shift, add a row here and a builder function in ``dataset_builders/``; no other module
lists shifts or groups. Shifts from a file of labels (``msshift build --groups``) are in the
manifest of their data set; see `LabelledShift`. The source is MS-Shift (ECIR 2023), sections 3.1
and 4, unless a row names another paper.

Test-only shifts change test queries and have no groups. To add one, add a row to `TEST_ONLY` and
its maker function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, TypeVar

from msshift_bench.errors import UnknownNameError, UsageError

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

__all__ = [
    "DATASET_NAME",
    "EDITIONS",
    "SHIFTS",
    "SIZED",
    "TEST_ONLY",
    "TRIPLES",
    "LabelledShift",
    "Shift",
    "ShiftNames",
    "TestOnlyShift",
    "can_name_runs",
    "get_shift",
    "as_list",
    "shift_names",
    "get_test_only_shift",
    "has_triples",
    "in_order",
    "known_shifts",
    "parse_config",
]

DATASET_NAME = "msshift"
"""Name of the data set: the default output folder, and an argument of `load_dataset`."""

TRIPLES = "-triples"
"""Suffix of a config with training triples, e.g. ``length-short-triples`` for ``length-short``."""

EDITIONS = ("rebuilt", "official-2022")
"""Editions: ``rebuilt`` by this package's builders, or ``official-2022``, the released files."""


_MS_SHIFT = "Lupart2023MsShift"


_SIZE = re.compile("[1-9][0-9]*k?")
_THOUSAND = 1000
_TEST = "test"


@dataclass(frozen=True, slots=True, repr=False)
class Shift:
    """One way to divide queries into groups; each group in turn is held out of training.

    ReSTrain differs: it has one test set, and its groups are training sets; see `by_size`.

    Attributes:
        name: the name, e.g. ``"wh-words"``.
        title: the name in captions of tables.
        description: a phrase that describes the groups.
        groups: group -> its description, in the order of tables.
        test_size: test queries per group in the paper; smaller for smaller collections.
        train_size: training queries per group in the paper, or ``"all"`` for all queries of each
            group. In smaller collections, it is the number that the smallest group has left.
        rules: the labelling rules of the builder; the first is the default of ``rebuilt``.
        builder: ``module:function`` that groups queries; "" if no build can make the shift.
        takes_tests: whether a build accepts test queries instead of sampling them; the release of
            `length` has such test queries.
        takes_encoder: whether the groups depend on embeddings of the queries.
        source: the paper that introduced the shift, a key of `manifest.BIBTEX`; "" for none.
        average: the average over the losses of groups, a key of `stats.AVERAGES`.
        by_size: whether the groups are training sets of one size, near the test queries and far
            from them. Each model is trained on one of them, and all models have one test set.
            `SIZED` contains these shifts without a size.
        size: the number of training queries of each such set, e.g. ``"14k"``; "" if not `by_size`.
        unseen: the queries of Out, as the end of the sentence "it loses 5% ...".
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
    by_size: bool = False
    size: str = ""
    unseen: str = "on groups of queries that it was not trained on"
    configs: Mapping[str, str] = field(init=False)
    """Config name -> held-out group, e.g. ``"length-short"`` -> ``"short"``. If `by_size`, it is
    the training set."""

    def __repr__(self) -> str:
        return f"<Shift {self.name}: {', '.join(self.groups)}>"

    def __post_init__(self) -> None:
        configs = {f"{self.name}-{group}": group for group in self.groups}
        object.__setattr__(self, "groups", MappingProxyType(dict(self.groups)))
        object.__setattr__(self, "configs", MappingProxyType(configs))

    @property
    def tested(self) -> tuple[str, ...]:
        """Names of the test sets: all groups, or only ``"test"`` if `by_size`."""
        return (_TEST,) if self.by_size else tuple(self.groups)

    def test_set_of(self, model: str) -> str:
        """Return the name of the test set of a model's experiment.

        Args:
            model: the model's held-out group; if `by_size`, its training set.
        """
        return _TEST if self.by_size else model

    def out_model(self, tested: str) -> str:
        """Return the model whose score is Out on a test set.

        Args:
            tested: one of `tested`.

        Returns:
            The held-out group of the model trained without the test set's group. If `by_size`, the
            last training set, which is farthest from the test queries.
        """
        return tuple(self.groups)[-1] if self.by_size else tested

    def training_of(self, model: str) -> str:
        """Return a model's training data in words: ``without short``, or ``for all groups``.

        If `by_size`, it is e.g. ``on extrapolation``.
        """
        if model == "all":
            return "for all groups"
        return f"{'on' if self.by_size else 'without'} {model}"

    def of_size(self, size: int) -> Shift:
        """Return the shift with training sets of one size, e.g. ``restrain-14k``.

        Args:
            size: the number of training queries of each set, 1 or more. A multiple of 1,000 is
                named by thousands: ``14k``.
        """
        thousands, rest = divmod(size, _THOUSAND)
        name = str(size) if rest or not thousands else f"{thousands}k"
        title = f"{self.title}, {name}"
        return replace(self, name=f"{self.name}-{name}", title=title, size=name, train_size=size)

    @property
    def family(self) -> str:
        """The shift's name without a size."""
        return self.name.removesuffix(f"-{self.size}")

    @property
    def citation(self) -> str:
        """The paper to cite, a key of `manifest.BIBTEX`: the source, or else MS-Shift."""
        return self.source or _MS_SHIFT

    @property
    def in_ms_shift(self) -> bool:
        """Whether MS-Shift introduced the shift; a build makes these shifts by default."""
        return self.source == _MS_SHIFT

    def check_group(self, group: str) -> str:
        """Return `group` unchanged if it is a group of this shift.

        Raises:
            UnknownNameError: if it is not; the message lists the groups and suggests the nearest.
        """
        if group not in self.groups:
            raise UnknownNameError(f"group of {self.name}", group, self.groups)
        return group


@dataclass(frozen=True, slots=True)
class TestOnlyShift:
    """A way to change test queries; a model is tested on the original and the changed queries.

    Attributes:
        name: the name, e.g. ``"typos"``.
        description: a phrase that describes the change.
        maker: ``module:function`` that returns a variant, given a query's text and `KeyedDraws`.
    """

    name: str
    description: str
    maker: str


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
        unseen="on topics that it was not trained on",
    ),
    Shift(
        name="wh-words",
        title="Question words",
        description="the question word, which determines the kind of answer",
        groups={"wha": "what, definition", "how": "how", "who": "who, when, where, which"},
        test_size=6500,
        train_size=48_500,
        rules=("word", "substring"),
        builder="msshift_bench.dataset_builders.groups:group_by_wh_word",
        unseen="on question words that it was not trained on",
    ),
    Shift(
        name="length",
        title="Query length",
        description="short and long queries, cut at the median number of words",
        groups={"short": "below the median", "long": "from the median on"},
        test_size=3500,
        train_size=100_000,
        rules=("split-space",),
        builder="msshift_bench.dataset_builders.groups:group_by_length",
        takes_tests=True,
        unseen="on lengths of queries that it was not trained on",
    ),
    Shift(
        name="rare-terms",
        title="Rare terms",
        description="whether training queries contain the query's rarest content word",
        groups={
            "seen": "as many training queries hold the word as for the median query",
            "rare": "fewer do",
        },
        test_size=3500,
        train_size=100_000,
        rules=("median",),
        builder="msshift_bench.dataset_builders.groups:group_by_rarest_term",
        source="",
    ),
    # Zhan et al. (CIKM 2022), section 4. The paper has no names for its buckets: we described the
    # released buckets. The 6,980 test queries are 1,396 per bucket on average.
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
        builder="msshift_bench.dataset_builders.topics:group_by_bucket",
        takes_tests=True,
        takes_encoder=True,
        source="Zhan2022Extrapolation",
        average="pooled",
    ),
)

ShiftNames = str | Shift | Iterable[str | Shift]
"""One shift or several, each as a name or as a `Shift`."""

SIZED: Mapping[str, Shift] = MappingProxyType(
    {
        # Zhan et al. (CIKM 2022), section 4.1.2; sizes in the paper: 14k, 45k, 200k.
        "restrain": Shift(
            name="restrain",
            title="Resampled training queries",
            description="training queries near the test queries, or far from them",
            groups={
                "interpolation": "the training queries nearest to any test query",
                "extrapolation": "those farthest from all test queries",
            },
            test_size=0,
            train_size="all",
            rules=("nearest",),
            builder="msshift_bench.dataset_builders.zhan:resample_training",
            takes_encoder=True,
            source="Zhan2022Extrapolation",
            average="pooled",
            by_size=True,
            unseen="where its training queries are far from the test queries",
        )
    }
)
"""Shifts that need a size, by name; `SHIFTS` returns them for a size, e.g. ``restrain-14k``."""


class LabelledShift(str):
    """Name of a shift that a file of labels defines; it has the shift's groups.

    Such shifts are only in the manifest of a data set. `known_shifts` maps their names to shifts.

    Attributes:
        groups: group -> its description.
    """

    groups: Mapping[str, str]

    def __new__(cls, name: str, groups: Mapping[str, str]) -> Self:
        """Return the name of a shift with groups."""
        shift = super().__new__(cls, name)
        shift.groups = dict(groups)
        return shift

    def __getnewargs__(self) -> tuple[str, Mapping[str, str]]:  # type: ignore[override]
        return str(self), self.groups

    @property
    def shift(self) -> Shift:
        """The shift with this name and these groups."""
        return Shift(
            name=self,
            title=self.replace("_", " ").capitalize(),
            description="groups of queries by a file of labels",
            groups=self.groups,
            test_size=3500,
            train_size=100_000,
            rules=("labels",),
            builder="msshift_bench.dataset_builders.groups:group_by_labels",
            source="",
        )


class _Shifts(Mapping[str, Shift]):
    """The table of shifts; it also returns `SIZED` shifts for any size, but does not list them.

    Only the shortest name of a size is a key: ``restrain-1k``, not ``restrain-1000``.
    """

    def __init__(self, shifts: Iterable[Shift]) -> None:
        self._shifts = {shift.name: shift for shift in shifts}

    def __getitem__(self, name: str) -> Shift:
        if isinstance(name, LabelledShift):
            return name.shift
        if name in self._shifts:
            return self._shifts[name]
        family, _, size = str(name).rpartition("-")
        if family in SIZED and _SIZE.fullmatch(size):
            shift = SIZED[family].of_size(_count(size))
            if shift.name == name:
                return shift
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shifts)

    def __len__(self) -> int:
        return len(self._shifts)


def _count(size: str) -> int:
    return int(size.removesuffix("k")) * (_THOUSAND if size.endswith("k") else 1)


SHIFTS: Mapping[str, Shift] = _Shifts(_TABLE)
"""Every shift by name: shifts of MS-Shift in its order, then shifts of other papers. Shifts of
`SIZED` are returned for a name with a size, but iteration skips them."""

LISTED_SHIFTS = (*SHIFTS, *(f"{name}-<size>" for name in SIZED))
"""Names of shifts in messages; ``restrain-<size>`` represents every size."""


def known_shifts(names: Iterable[str]) -> Mapping[str, Shift]:
    """Return `SHIFTS` plus the labelled shifts in `names`.

    Args:
        names: names of shifts, e.g. in a manifest; each `LabelledShift` is added.
    """
    return _Shifts([*_TABLE, *(name.shift for name in names if isinstance(name, LabelledShift))])


TEST_ONLY: Mapping[str, TestOnlyShift] = MappingProxyType(
    {
        # Source: Zhuang and Zuccon (SIGIR 2022).
        "typos": TestOnlyShift(
            name="typos",
            description="one typing error per query, in a word that is no stop word",
            maker="msshift_bench.dataset_builders.typos:misspell",
        )
    }
)
"""Every test-only shift by name."""


def grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """Return key -> list of its values, in the order of the pairs.

    Examples:
        >>> grouped([("short", "q1"), ("long", "q2"), ("short", "q3")])
        {'short': ['q1', 'q3'], 'long': ['q2']}
    """
    groups: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def in_order(names: Iterable[str]) -> list[str]:
    """Return sorted names of shifts.

    The names in `SHIFTS` are first, in its order. Then come shifts of `SIZED`, sorted by size, then
    labelled shifts, sorted by name. Other names raise KeyError.
    """
    fixed = list(SHIFTS)

    def place(name: str) -> tuple[int, int]:
        if name in fixed:
            return fixed.index(name), 0
        if isinstance(name, LabelledShift):
            return len(fixed) + len(SIZED), 0
        shift = SHIFTS[name]
        return len(fixed) + list(SIZED).index(shift.family), _count(shift.size)

    return sorted(sorted(names), key=place)


def can_name_runs(name: str) -> bool:
    """Return whether a name is valid for a folder of runs and for the beginning of a run tag.

    A valid name has no white space or '/', does not begin with '.', and is not a shift's name.
    """
    is_folder = name == Path(name).name and not name.startswith(".")
    return is_folder and len(name.split()) == 1 and name not in SHIFTS


def as_list(given: Any) -> list[Any]:
    """Return one value or several as a list.

    Args:
        given: an iterable of values; or one value: a string, a path, a mapping, a table, a named
            tuple, or a value that is not iterable.
    """
    is_one = isinstance(given, str | PathLike | Mapping) or not isinstance(given, Iterable)
    if is_one or hasattr(given, "columns") or hasattr(given, "_fields"):
        return [given]
    return list(given)


def shift_names(
    given: ShiftNames,
    present: Iterable[str] | None = None,
    what: str = "shift",
    known: Mapping[str, Shift] = SHIFTS,
) -> list[str]:
    """Return the names of shifts in the given order, without duplicates; `[]` for no shifts.

    Args:
        given: the shifts.
        present: the valid names; by default the names in `known`.
        what: the word for a shift in messages.
        known: the table of shifts for `get_shift`; ignored if `present` is given.

    Raises:
        UnknownNameError, UsageError: for a name that is not valid; see `get_shift`.
    """
    names = [shift.name if isinstance(shift, Shift) else shift for shift in as_list(given)]
    if present is not None:
        known = known_shifts(present)
        for name in names:
            if name not in present:
                raise UnknownNameError(what, name, present)
    return list(dict.fromkeys(get_shift(name, known).name for name in names))


def get_shift(name: str | Shift, known: Mapping[str, Shift] = SHIFTS) -> Shift:
    """Return a shift by its name.

    Args:
        name: the name; a `Shift` is returned unchanged.
        known: the table of shifts: `SHIFTS`, or the result of `known_shifts`.

    Raises:
        UnknownNameError: for an unknown name; the message lists the names and suggests the nearest.
        UsageError: for a name without the required size, e.g. ``restrain``.
    """
    if isinstance(name, Shift):
        return name
    name = name if isinstance(name, str) else str(name)
    if name in known:
        return known[name]
    if name in SIZED:
        raise UsageError(f"the shift {name} needs a size: use e.g. {name}-14k")
    raise UnknownNameError("shift", name, dict.fromkeys((*LISTED_SHIFTS, *known)))


def get_test_only_shift(name: str) -> TestOnlyShift:
    """Return a test-only shift by its name.

    Raises:
        UnknownNameError: for an unknown name; the message lists the names and suggests the nearest.
    """
    if name not in TEST_ONLY:
        raise UnknownNameError("test-only shift", name, TEST_ONLY)
    return TEST_ONLY[name]


def has_triples(config: str) -> bool:
    """Return whether a config contains training triples instead of queries."""
    return config.endswith(TRIPLES)


def parse_config(config: str, known: Mapping[str, Shift] = SHIFTS) -> tuple[Shift, str | None]:
    """Return the shift and the held-out group of a config.

    ``"topics-C2"`` gives the shift ``topics`` and ``"C2"``; ``"topics"`` gives the shift and
    `None`.

    Args:
        config: the config's name.
        known: the table of shifts: `SHIFTS`, or the result of `known_shifts`.

    Raises:
        UnknownNameError: for an unknown config, or a config of triples; the message suggests the
            nearest.
    """
    if config in known:
        return known[config], None
    name, _, group = config.rpartition("-")
    if name in known and group in known[name].groups:
        return known[name], group
    valid = [name for shift in known.values() for name in (shift.name, *shift.configs)]
    raise UnknownNameError("config", config, valid)
