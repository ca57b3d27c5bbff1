"""The one table of the benchmark's shifts: their groups, rules and protocol.

To add a shift, add a row here and a builder function in ``dataset_builders/``; nothing else in the
package lists shifts or groups. Shifts of labels (``msshift build --groups``) are in the manifest of
their data set instead; see `LabelledShift`. Source: MS-Shift (ECIR 2023), sections 3.1 and 4,
unless a row names another. Test-only shifts change queries and group none: to add one, add a row to
theirs and the function that it names.
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
    "several",
    "shift_names",
    "get_test_only_shift",
    "holds_triples",
    "in_order",
    "known_shifts",
    "parse_config",
]

DATASET_NAME = "msshift"
"""The data set's bare name: the default output folder, and what `load_dataset` takes."""

TRIPLES = "-triples"
"""The end of a config's name if it holds training triples: those of the config named before it."""

EDITIONS = ("rebuilt", "official-2022")
"""``rebuilt``: made by this package's builders; ``official-2022``: the files released in 2022."""


_MS_SHIFT = "Lupart2023MsShift"


_SIZE = re.compile("[1-9][0-9]*k?")
_THOUSAND = 1000
_TEST = "test"


@dataclass(frozen=True, slots=True, repr=False)
class Shift:
    """One way to cut the queries into groups; each group in turn is held out of training.

    ReSTrain is cut the other way round: there is one test set, and its groups are training sets;
    see `by_size`.

    Attributes:
        name: e.g. ``"wh-words"``.
        title: its name in the captions of tables.
        description: one sentence on what the groups are.
        groups: the groups, in the order in which tables show them, with one line on each.
        test_size: test queries per group in the paper; smaller collections scale it down.
        train_size: training queries per group in the paper; smaller collections give what their
            smallest group has left. ``"all"`` if the paper takes all that each group has.
        rules: the labelling rules a builder knows; the first is the default of ``rebuilt``.
        builder: ``module:function`` that groups queries.
        takes_tests: whether a build may be given test queries instead of sampling them, as in the
            release for `length`.
        takes_encoder: whether the groups rest on embeddings of the queries.
        source: the paper that introduced it, a key of `manifest.BIBTEX`; "" if none did.
        average: how the losses of its groups are averaged, a key of `stats.AVERAGES`.
        by_size: whether the groups are training sets of one size, near the test queries and far
            from them: a model is trained on one of them, and all models are tested on one test
            set. `SIZED` holds such shifts without a size.
        size: the training queries of each such set, e.g. ``"14k"``; "" if not `by_size`.
        unseen: ends the sentence "it loses 5% ...": the queries of Out.
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
    """Config name -> held-out group, e.g. ``"length-short"`` -> ``"short"``; if `by_size`, the
    training set."""

    def __repr__(self) -> str:
        return f"<Shift {self.name}: {', '.join(self.groups)}>"

    def __post_init__(self) -> None:
        configs = {f"{self.name}-{group}": group for group in self.groups}
        object.__setattr__(self, "groups", MappingProxyType(dict(self.groups)))
        object.__setattr__(self, "configs", MappingProxyType(configs))

    @property
    def tested(self) -> tuple[str, ...]:
        """The groups that have a test set, and a loss: all, or the one test set if `by_size`."""
        return (_TEST,) if self.by_size else tuple(self.groups)

    def test_set_of(self, model: str) -> str:
        """Return the group whose test queries are those of a model's own experiment."""
        return _TEST if self.by_size else model

    def unseen_by(self, tested: str) -> str:
        """Return the model (a group) to which the test queries of a group are new: its Out."""
        return tuple(self.groups)[-1] if self.by_size else tested

    def training_of(self, model: str) -> str:
        """Return what a model was trained on, in words: ``without short``, ``for all groups``."""
        if model == "all":
            return "for all groups"
        return f"{'on' if self.by_size else 'without'} {model}"

    def of_size(self, size: int) -> Shift:
        """Return the shift with training sets of a size, e.g. ``restrain-14k``.

        Args:
            size: training queries of each set, 1 or more.
        """
        thousands, rest = divmod(size, _THOUSAND)
        name = str(size) if rest or not thousands else f"{thousands}k"
        title = f"{self.title}, {name}"
        return replace(self, name=f"{self.name}-{name}", title=title, size=name, train_size=size)

    @property
    def family(self) -> str:
        """Its name without a size."""
        return self.name.removesuffix(f"-{self.size}")

    @property
    def citation(self) -> str:
        """The paper to cite, a key of `manifest.BIBTEX`; MS-Shift's if no other introduced it."""
        return self.source or _MS_SHIFT

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


@dataclass(frozen=True, slots=True)
class TestOnlyShift:
    """A way to change test queries, on which any model is tested beside the queries as they are.

    Attributes:
        name: e.g. ``"typos"``.
        description: one sentence on what is changed.
        maker: ``module:function`` that takes a query's text and what decides its variant.
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
        description="the question word, which says what kind of answer is wanted",
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
        description="whether training queries hold the query's rarest content word",
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
        builder="msshift_bench.dataset_builders.topics:group_by_bucket",
        takes_tests=True,
        takes_encoder=True,
        source="Zhan2022Extrapolation",
        average="pooled",
    ),
)

ShiftNames = str | Shift | Iterable[str | Shift]
"""One shift or several, each by its name or as a `Shift`."""

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
"""The shifts that come in sizes, by name; `SHIFTS` knows their sizes, e.g. ``restrain-14k``."""


class LabelledShift(str):
    """The name of a shift that a file of labels defines; it keeps the shift's groups.

    Only the manifest of a data set has such shifts. `known_shifts` finds them by their plain names.

    Attributes:
        groups: group -> one line on it.
    """

    groups: Mapping[str, str]

    def __new__(cls, name: str, groups: Mapping[str, str]) -> Self:
        """Return the name of a shift with these groups."""
        shift = super().__new__(cls, name)
        shift.groups = dict(groups)
        return shift

    def __getnewargs__(self) -> tuple[str, Mapping[str, str]]:  # type: ignore[override]
        return str(self), self.groups

    @property
    def shift(self) -> Shift:
        """The shift."""
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
    """The table, and every size of the shifts that come in sizes, which iteration leaves out."""

    def __init__(self, shifts: Iterable[Shift]) -> None:
        self._shifts = {shift.name: shift for shift in shifts}

    def __getitem__(self, name: str) -> Shift:
        if isinstance(name, LabelledShift):
            return name.shift
        if name in self._shifts:
            return self._shifts[name]
        family, _, size = str(name).rpartition("-")
        if family in SIZED and _SIZE.fullmatch(size):
            found = SIZED[family].of_size(_count(size))
            if found.name == name:
                return found
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shifts)

    def __len__(self) -> int:
        return len(self._shifts)


def _count(size: str) -> int:
    return int(size.removesuffix("k")) * (_THOUSAND if size.endswith("k") else 1)


SHIFTS: Mapping[str, Shift] = _Shifts(_TABLE)
"""Every shift by name: those of MS-Shift in its order, then those of other papers. It knows those
that come in sizes (`SIZED`) by their names with a size, and lists them under none."""

LISTED_SHIFTS = (*SHIFTS, *(f"{name}-<size>" for name in SIZED))
"""What messages list as the names of shifts: ``restrain-<size>`` stands for every size."""


def known_shifts(names: Iterable[str]) -> Mapping[str, Shift]:
    """Return the table of shifts with the labelled ones among `names`, e.g. a manifest's shifts."""
    return _Shifts([*_TABLE, *(name.shift for name in names if isinstance(name, LabelledShift))])


TEST_ONLY: Mapping[str, TestOnlyShift] = MappingProxyType(
    {
        # Zhuang and Zuccon (SIGIR 2022).
        "typos": TestOnlyShift(
            name="typos",
            description="one typing error per query, in a word that is no stop word",
            maker="msshift_bench.dataset_builders.typos:misspell",
        )
    }
)
"""Every test-only shift by name."""


def grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """Return key -> its values, in the order of the pairs.

    Examples:
        >>> grouped([("short", "q1"), ("long", "q2"), ("short", "q3")])
        {'short': ['q1', 'q3'], 'long': ['q2']}
    """
    groups: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of shifts in the order of the table, then by size, then the labelled ones."""
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
    """Return whether a folder of runs can have the name, and a run tag can begin with it.

    It holds no white space or '/', does not begin with '.', and is no shift's name.
    """
    is_folder = name == Path(name).name and not name.startswith(".")
    return is_folder and len(name.split()) == 1 and name not in SHIFTS


def several(given: Any) -> list[Any]:
    """Return one value or several as a list.

    Args:
        given: several values; or one: a text, a path, a mapping, a table, a named tuple, or any
            other value that cannot be iterated over.
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
    """Return the names of shifts, each once.

    Args:
        given: the shifts.
        present: the names that exist; by default all that `get_shift` knows.
        what: what messages call a shift.
        known: the shifts that `get_shift` knows.

    Raises:
        UnknownNameError, UsageError: for a name that does not exist; see `get_shift`.
    """
    names = [one.name if isinstance(one, Shift) else one for one in several(given)]
    if present is not None:
        known = known_shifts(present)
        for name in names:
            if name not in present:
                raise UnknownNameError(what, name, present)
    return list(dict.fromkeys(get_shift(name, known).name for name in names))


def get_shift(name: str | Shift, known: Mapping[str, Shift] = SHIFTS) -> Shift:
    """Return the shift called `name`, or the shift itself.

    Args:
        name: the shift, or its name.
        known: the shifts: the table, or those of `known_shifts`.

    Raises:
        UnknownNameError: if there is none; the message lists them and names the nearest.
        UsageError: if it comes in sizes, and the name has none.
    """
    if isinstance(name, Shift):
        return name
    name = name if isinstance(name, str) else str(name)
    if name in known:
        return known[name]
    if name in SIZED:
        raise UsageError(f"{name} comes in sizes: give its name with one, e.g. {name}-14k")
    raise UnknownNameError("shift", name, dict.fromkeys((*LISTED_SHIFTS, *known)))


def get_test_only_shift(name: str) -> TestOnlyShift:
    """Return the test-only shift called `name`.

    Raises:
        UnknownNameError: if there is none; the message lists them and names the nearest.
    """
    if name not in TEST_ONLY:
        raise UnknownNameError("test-only shift", name, TEST_ONLY)
    return TEST_ONLY[name]


def holds_triples(config: str) -> bool:
    """Say whether a config holds training triples instead of queries."""
    return config.endswith(TRIPLES)


def parse_config(config: str, known: Mapping[str, Shift] = SHIFTS) -> tuple[Shift, str | None]:
    """Split a config's name into its shift and held-out group.

    ``"topics-C2"`` gives the shift ``topics`` and ``"C2"``; ``"topics"`` gives the whole shift
    and `None`.

    Raises:
        UnknownNameError: if there is no such config; the message names the nearest.
    """
    if config in known:
        return known[config], None
    name, _, group = config.rpartition("-")
    if name in known and group in known[name].groups:
        return known[name], group
    valid = [name for shift in known.values() for name in (shift.name, *shift.configs)]
    raise UnknownNameError("config", config, valid)
