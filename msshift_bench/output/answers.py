"""Answers: one sentence for each system and shift, computed from figures only.

A sentence claims a direction ("loses", "leads", "less than") only if the figure has a mark: its
corrected p is significant, and its interval excludes 0. It names a group only if the group's
difference from the others has a mark. For a system trained with one seed, it ends with "of these
models only", and names no group and no system except a reference. Numbers are printed as in
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from msshift_bench.output.tables import figure_values, p_text
from msshift_bench.shifts import Shift, get_shift
from msshift_bench.stats import SIGNIFICANT, Figure, Figures, contrast_of

_LEADS = ("lead", "lead_out")
_VALUES = ("rel_loss", "score", "sum")


class Answer(NamedTuple):
    """A sentence about a system on a shift.

    Attributes:
        text: the sentence.
        figure: the figure that it is about, on the complete shift.
        named: the contrast of the named group; `None` if it names no group.
    """

    text: str
    figure: Figure
    named: Figure | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the sentence and its figure as plain JSON values."""
        named = {} if self.named is None else {"named": figure_values(self.named)}
        return {"text": self.text, **figure_values(self.figure), **named}


class SentenceFormat(NamedTuple):
    """How sentences print figures.

    Attributes:
        show: returns the text of a figure's value, or of another value, as tables print it.
        measure: the name of the mean of the measure, e.g. ``MRR@10``.
        of: the measure if tables show several, e.g. `` of MRR@10``; else "".
        groups: shift -> group -> a description of its queries.
    """

    show: Callable[[Figure, float | None], str]
    measure: str
    of: str = ""
    groups: Mapping[str, Mapping[str, str]] = {}

    def with_ends(self, row: Figure, sign: int = 1) -> str:
        """Return a figure's value times `sign`, with its interval if any, or ``undefined``."""
        if row.value is None:
            return "undefined"
        shown = self.show(row, sign * row.value)
        if row.interval is None:
            return shown
        ends = sorted(sign * end for end in row.interval)
        low, high = (self.show(row, end).removesuffix("%") for end in ends)
        return f"{shown} [{low}, {high}]"

    def queries_of(self, shift: Shift, group: str) -> str:
        """Return a description of a group's queries: ``long queries``, ``C1 (born, president)``."""
        if len(shift.tested) == 2:
            return f"{group} queries"
        about = self.groups.get(shift.name, {}).get(group, group)
        return group if about == group else f"{group} ({about})"


def answers_of(figures: Figures, wording: SentenceFormat) -> list[Answer]:
    """Return a sentence for each system and shift in figures' order; none for a reference of leads.

    Args:
        figures: the figures of an evaluation, of a comparison, or of single runs, by one measure.
        wording: how to print them.
    """
    figures = figures.where(slice="", model="", test="")
    leads = figures.where(figure=_LEADS)
    is_one_of_several = len(figures.names("shift")) > 1
    answers = []
    for (name, _), rows in figures.each("shift", "system"):
        if not leads:
            answer = _answer_value(rows, figures, wording)
        elif lead := _overall_figure(rows.where(figure=_LEADS)):
            answer = _answer_lead(lead, rows, wording)
        else:
            continue  # It is the reference.
        # Sentences about Rel Loss and Out name the shift.
        is_named = answer.figure.figure in ("rel_loss", "lead_out")
        prefix = f"{name}: " * (is_one_of_several and not is_named)
        answers.append(answer._replace(text=prefix + answer.text))
    return answers


def _overall_figure(rows: Figures) -> Figure | None:
    """Return the first figure that is not of a single group; `None` if there is none."""
    return next((row for row in rows if row.group not in _tested(row)), None)


def _tested(row: Figure) -> tuple[str, ...]:
    return get_shift(row.shift).tested if row.shift else ()


def _answer_value(rows: Figures, figures: Figures, wording: SentenceFormat) -> Answer:
    """Return the sentence about a Rel Loss or a score, or about too few runs for a Rel Loss."""
    row = _overall_figure(rows.where(figure=_VALUES, against=""))
    if row is None:
        first = rows[0]
        unseen = get_shift(first.shift).unseen
        return Answer(
            f"{first.system}: too few runs for a Rel Loss {unseen}",
            Figure("rel_loss", shift=first.shift, system=first.system, measure=first.measure),
        )
    printed = _printed(row, figures)
    if row.figure == "rel_loss":
        words = ("loses", "gains"), "no loss is shown", "Rel Loss"
        text = _statement(printed, words, wording, wording.of, _describe_queries(row, rows))
    else:
        on = "" if row.shift else f" on {row.group}"
        text = f"{row.system} scores {wording.with_ends(printed)} in {wording.measure}{on}"
    named, of_group = _name_group(row, rows, wording)
    others = _compare_with_others(row, figures, wording)
    return Answer(f"{text}{of_group}{others}{_one_seed_clause(row)}", row, named)


def _printed(row: Figure, figures: Figures) -> Figure:
    """Return the figure, without its interval if no table prints it."""
    if not row.shift:
        return row
    is_compared = any(one.against for one in figures) and not figures.where(figure="rank")
    is_printed = row.figure == "rel_loss" and not is_compared
    return row if is_printed else row.with_value(row.value, None)


def _answer_lead(row: Figure, rows: Figures, wording: SentenceFormat) -> Answer:
    other = row.against
    verbs = f"leads {other} by", f"trails {other} by"
    words = verbs, f"neither a lead over {other} nor the reverse is shown", f"lead over {other}"
    where = "" if row.figure == "lead" else _describe_queries(row, rows)
    text = _statement(row, words, wording, f" points{wording.of}", where)
    named, of_group = _name_group(row, rows, wording)
    return Answer(f"{text}{of_group}{_one_seed_clause(row)}", row, named)


def _statement(
    row: Figure,
    words: tuple[tuple[str, str], str, str],
    wording: SentenceFormat,
    unit: str,
    where: str,
) -> str:
    """Return the clause about a figure.

    Args:
        row: the figure.
        words: verbs for significant values above 0 and below 0, a clause for others, and the title
            of the figure if it was not tested.
        wording: how to print it.
        unit: text after the numbers.
        where: the queries; "" for all.
    """
    verbs, nothing, title = words
    low, high = row.interval or (row.number, row.number)
    place = f" {where}" * bool(where)
    if row.mark:
        sign = 1 if row.number > 0 else -1
        verb = verbs[row.number < 0]
        return f"{row.system} {verb} {wording.with_ends(row, sign)}{unit}{place}"
    shown = f"{wording.with_ends(row)}{unit}"
    if row.interval and low <= 0 <= high:
        return f"{row.system}: {nothing}{place}: {shown}"
    if row.p is not None and row.p > SIGNIFICANT:
        return f"{row.system}: {nothing}{place}: {shown}, {p_text(row.p)}"
    return f"{row.system}: {title} {shown}{place}"


def _describe_queries(row: Figure, rows: Figures) -> str:
    """Return the description of the queries of Out; if groups are missing, names of the others."""
    known = {part.group for part in rows.where(figure=row.figure) if part.value is not None}
    tested = _tested(row)
    missing = [group for group in tested if group not in known]
    if not missing:
        return get_shift(row.shift).unseen
    there = ", ".join(group for group in tested if group in known)
    return f"on {there} alone (without {', '.join(missing)})"


def _name_group(row: Figure, rows: Figures, wording: SentenceFormat) -> tuple[Figure | None, str]:
    """Return the contrast of the group that differs most from the others, and a clause about it.

    For a significant loss, it is the group with the largest loss. For leads and scores, it is the
    group with the lowest value, else the highest, whose contrast has a mark. Without a mark, or for
    one seed, it is ``(None, "")``.
    """
    figure = contrast_of(row.figure) if row.seeds != 1 and row.shift else None
    of_groups = [one for one in rows.where(figure=figure or ()) if one.value is not None]
    of_groups.sort(key=attrgetter("number"))
    if not of_groups:
        return None, ""
    if row.figure == "rel_loss":
        named = of_groups[-1]
        loss = rows.first(figure="rel_loss", group=named.group)
        if not (row.mark and named.mark and loss and loss.mark and row.number > 0 < named.number):
            return None, ""
        queries = wording.queries_of(get_shift(row.shift), named.group)
        return named, f", most on {queries}: {wording.with_ends(loss)}"
    marked = [one for one in (of_groups[0], of_groups[-1]) if one.mark]
    if not marked:
        return None, ""
    named, shift = marked[0], get_shift(row.shift)
    others = [group for group in shift.tested if group != named.group]
    than = f"on {others[0]} ones" if len(others) == 1 else "on the other groups"
    difference = wording.with_ends(named, 1 if named.number > 0 else -1)
    is_plain = row.figure == "score" or (row.mark and row.number > 0)
    verb = "" if is_plain else "its lead is "
    queries = wording.queries_of(shift, named.group)
    more = "more" if named.number > 0 else "less"
    return named, f"; {verb}on {queries} {difference} {more} than {than}"


def _compare_with_others(row: Figure, figures: Figures, wording: SentenceFormat) -> str:
    """Return a clause on significant differences from other systems; "" without comparisons."""
    pairs = [
        (one, sign)
        for one in figures.where(figure=row.figure, shift=row.shift, group=row.group)
        for sign, system in ((1, one.system), (-1, one.against))
        if one.against and system == row.system
    ]
    apart = [(one, sign) for one, sign in pairs if one.mark and one.seeds != 1]
    if not apart:
        return "; no significant difference from others" if pairs and row.seeds != 1 else ""
    names: dict[str, list[str]] = {"less": [], "more": []}
    for one, sign in apart:
        more = "more" if sign * one.number > 0 else "less"
        names[more].append(one.against if sign > 0 else one.system)
    clauses = [f"{more} than {', '.join(of)}" for more, of in names.items() if of]
    if len(apart) == 1:
        only = apart[0][0]
        apart_by = wording.with_ends(only, 1 if only.number > 0 else -1).replace("%", "")
        clauses[0] = f"{apart_by} points {clauses[0]}"
    return f"; {' and '.join(clauses)}"


def _one_seed_clause(row: Figure) -> str:
    return "; one seed: of these models only" if row.seeds == 1 else ""
