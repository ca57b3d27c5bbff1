"""Kinds of figures: the table `FIGURES`, used by tables, notes, pages and docs.

A kind with a formula is computed from the `Sides` of a group. A new kind is one function and one
row of `FIGURES`: every command with such sides then prints and writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Generic, Literal, NamedTuple, TypeVar

from msshift_bench.stats.estimates import Estimate, average, rel_loss

_Side = TypeVar("_Side")


class Sides(NamedTuple, Generic[_Side]):
    """The in-domain and held-out sides of one group: models, their scores, or mean scores.

    Attributes:
        inside: the side of the models trained with the group.
        out: the side of the model trained without it; if one model serves all groups, the same
            object as `inside`.
        reference: the sides of the system to compute leads over; `None` without one.
        over_all: whether the reference is the same system trained with all groups.
    """

    inside: _Side
    out: _Side
    reference: Sides[_Side] | None = None
    over_all: bool = False

    @property
    def is_one(self) -> bool:
        """Whether one model serves all groups, and also in `reference` if there is one."""
        return self.inside is self.out and (self.reference is None or self.reference.is_one)


Formula = Callable[[Sides[Estimate]], Estimate | None]
"""Function from the means of a group's sides to a figure; `None` if undefined."""

Unit = Literal["score", "difference", "share", "count", "number"]
"""Scale of a figure: a score, a difference of scores, a fraction shown in percent, or a number."""


class FigureKind(NamedTuple):
    """A row of the table of figures.

    Attributes:
        title: its name in tables.
        unit: its scale.
        direction: 1 if higher is better, -1 if lower is better, 0 if neither, for measures where
            higher is better.
        family: the name of its family of tests, and the words for its tests in outputs, e.g.
            ``systems x sides``; `None` if it is not tested.
        formula: its function of `Sides`; `None` for figures of other inputs. Differences and shares
            are multiplied by the measure's sign, -1 where lower is better.
        sides: the systems that have it: ``one`` model for all groups, or ``two`` sides.
        is_lead: whether its formula needs `Sides.reference`.
        is_contrast: whether it is the formula's value minus its mean on the other groups.
        is_shown: whether tables of losses and leads have a row for it.
        of_slices: whether only slices of single runs have it.
        over_all: whether it needs `Sides.over_all`.
    """

    title: str
    unit: Unit
    direction: Literal[-1, 0, 1] = 0
    family: tuple[str, str] | None = None
    formula: Formula | None = None
    sides: Literal["one", "two"] = "two"
    is_lead: bool = False
    is_contrast: bool = False
    is_shown: bool = True
    of_slices: bool = False
    over_all: bool = False


def _loss(sides: Sides[Estimate]) -> Estimate:
    return sides.inside - sides.out


def _rel_loss(sides: Sides[Estimate]) -> Estimate | None:
    return rel_loss(sides.inside, sides.out)


def _lead_in(sides: Sides[Estimate]) -> Estimate | None:
    return sides.reference and sides.inside - sides.reference.inside


def _lead_out(sides: Sides[Estimate]) -> Estimate | None:
    return sides.reference and sides.out - sides.reference.out


def _drop_out(sides: Sides[Estimate]) -> Estimate | None:
    return sides.reference and rel_loss(sides.reference.out, sides.out)


_lead = partial(FigureKind, unit="difference", is_lead=True)
_contrast = partial(_lead, family=("lead_difference", "systems x sides"), is_contrast=True)
_LEADS = ("lead", "systems x sides")


FIGURES: dict[str, FigureKind] = {
    "queries": FigureKind("queries", "count"),
    "missing": FigureKind("missing", "count"),
    "tied": FigureKind("tied", "count"),
    "score": FigureKind("score", "score", 1, None, attrgetter("out"), "one"),
    "score_difference": _contrast(
        "score - others",
        family=("score_difference", "runs"),
        formula=attrgetter("out"),
        sides="one",
        is_lead=False,
        of_slices=True,
    ),
    "sum": FigureKind("sum", "difference"),
    "avg_in": FigureKind("Avg In", "score", 1, None, attrgetter("inside")),
    "out": FigureKind("Out", "score", 1, None, attrgetter("out")),
    "loss": FigureKind("Loss", "difference", -1, None, _loss, is_shown=False),
    "rel_loss": FigureKind("Rel Loss", "share", -1, ("rel_loss", "systems"), _rel_loss),
    "rel_loss_difference": FigureKind(
        "Rel Loss - others",
        "share",
        family=("rel_loss_difference", "differences of systems"),
        formula=_rel_loss,
        is_contrast=True,
    ),
    "effect_size": FigureKind("effect size", "number"),
    "model_score": FigureKind("score", "score", 1),
    "tie_best": FigureKind("best order of ties", "score"),
    "tie_worst": FigureKind("worst order of ties", "score"),
    "rank": FigureKind("rank", "count", -1),
    "lead": _lead("lead", direction=1, family=_LEADS, formula=_lead_out, sides="one"),
    "lead_in": _lead("lead, Avg In", direction=1, family=_LEADS, formula=_lead_in),
    "lead_out": _lead("lead, Out", direction=1, family=_LEADS, formula=_lead_out),
    "lead_difference": _contrast("lead - others", formula=_lead_out, sides="one"),
    "lead_difference_in": _contrast("Avg In - others", formula=_lead_in),
    "lead_difference_out": _contrast("Out - others", formula=_lead_out),
    "drop_out": _lead(
        "drop, Out",
        unit="share",
        direction=-1,
        family=("drop_out", "systems"),
        formula=_drop_out,
        over_all=True,
    ),
    "drop": FigureKind("drop", "share", -1),
    "as_is": FigureKind("as is", "score", 1),
    "changed": FigureKind("changed", "score", 1),
    "loss_by_change": FigureKind("loss", "share", -1),
    "loss_by_change_in": FigureKind("In", "share", -1),
    "loss_by_change_out": FigureKind("Out", "share", -1),
    "out_minus_in": FigureKind("Out - In", "share", -1, ("out_minus_in", "systems")),
    "rel_loss_changed": FigureKind("Rel Loss changed", "share", -1),
}
"""Name -> its kind, in the order of the tables: the figures of evaluations and comparisons."""


def contrast_of(figure: str) -> str | None:
    """Return the name of the figure that compares `figure` between groups; `None` without one.

    Raises:
        KeyError: for an unknown figure.

    Examples:
        >>> contrast_of("lead"), contrast_of("avg_in")
        ('lead_difference', None)
    """
    wanted = FIGURES[figure]
    for name, kind in FIGURES.items():
        if kind.is_contrast and (kind.formula, kind.sides) == (wanted.formula, wanted.sides):
            return name
    return None


def compute_figures(
    sides: Mapping[str, Sides[Estimate]], sign: int, *, of_slices: bool = False
) -> dict[str, dict[str, Estimate | None]]:
    """Return group -> figure -> its estimate, `None` if undefined.

    The figures are the kinds in `FIGURES` whose formula fits the sides: ``one`` or ``two``,
    with or without a reference. A single group has no contrasts with other groups.

    Args:
        sides: group -> its mean scores, all of one system; at least one group.
        sign: -1 where a lower value of the measure is better, else 1.
        of_slices: whether the groups are slices of a single run, which have more figures.

    Examples:
        >>> scores = np.array([[[1, 0.5]], [[1, 0.2]]])
        >>> inside, out = (Estimate.mean(side, "a", "short") for side in scores)
        >>> figures = compute_figures({"short": Sides(inside, out)}, 1)["short"]
        >>> {name: round(estimate.value, 2) for name, estimate in figures.items()}
        {'avg_in': 0.75, 'out': 0.6, 'loss': 0.15, 'rel_loss': 0.2}
    """
    first = next(iter(sides.values()))
    basis = first.reference is not None, "one" if first.is_one else "two"
    groups: dict[str, dict[str, Estimate | None]] = {group: {} for group in sides}
    for name, kind in FIGURES.items():
        if kind.formula is None or (kind.is_lead, kind.sides) != basis:
            continue
        if kind.of_slices > of_slices or kind.over_all > first.over_all:
            continue
        values = {group: kind.formula(part) for group, part in sides.items()}
        for group, value in values.items() if len(sides) > kind.is_contrast else ():
            if value is not None and kind.is_contrast:
                others = average(values[other] for other in sides if other != group)
                value = None if others is None else value - others
            if value is not None and kind.unit in ("difference", "share"):
                value = float(sign) * value
            groups[group][name] = value
    return groups
