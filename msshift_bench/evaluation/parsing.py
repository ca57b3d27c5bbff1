"""Measures by their names."""

from __future__ import annotations

from collections.abc import Iterable

from msshift_bench.errors import UnknownNameError, UsageError, raise_any
from msshift_bench.evaluation.delegated import delegate
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.native_measures import VALID_NAMES, native_measure

__all__ = ["parse_measure", "parse_measures", "split_measures"]


def parse_measure(name: str) -> Measure:
    """Return the measure called `name`, such as ``"RR@10"``; its mean's name works, too.

    Names are those of ir_measures; native measures ignore case. If ir_measures is installed, it
    computes the measures that are not native.

    Raises:
        UnknownNameError: if there is no such measure; the message lists the native ones.
        UsageError: if ir_measures knows the measure, but not with these parameters, or lacks the
            library that computes it.
    """
    if native := native_measure(name):
        return native
    if delegated := delegate(name):
        # "RR(rel=1)@10" is "RR@10", which is computed here.
        return native_measure(delegated.name) or delegated
    raise UnknownNameError("measure", name, VALID_NAMES)


def parse_measures(names: str | Iterable[str | Measure]) -> tuple[Measure, ...]:
    """Return measures in the order of their names, each once.

    Args:
        names: in one text, as `split_measures` takes it, or one by one; a measure stands for
            itself.

    Raises:
        UsageError: if no measure is named; as for `parse_measure`, with all that are wrong.
        UnknownNameError: as for `parse_measure`.
    """
    given = split_measures(names) if isinstance(names, str) else names
    parsed: list[Measure] = []
    wrong: list[UsageError] = []
    for one in given:
        try:
            parsed.append(one if isinstance(one, Measure) else parse_measure(one))
        except UsageError as error:
            wrong.append(error)
    raise_any(wrong, f"{len(wrong)} measures are wrong:")
    if not parsed:
        raise UsageError("name at least one measure, e.g. RR@10")
    return tuple({measure.name: measure for measure in parsed}.values())


def split_measures(text: str) -> tuple[str, ...]:
    """Split a list of measures at blanks and commas, but not inside brackets.

    ``"RR@10, AP(rel=2, judged_only=True)"`` are two measures.
    """
    names, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth <= 0 and (character == "," or character.isspace()):
            names.append("")
        else:
            names[-1] += character
    return tuple(filter(None, names))
