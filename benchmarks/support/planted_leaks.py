"""Test queries with a known leak, and others that only look like one, for the queries of `mini`."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

from msshift_bench import mini
from msshift_bench.mini.generator import FACTS, PARTS, fact_at, find_fact

__all__ = ["KINDS", "PlantedTest", "plant"]


class PlantedTest(NamedTuple):
    """A test query.

    Attributes:
        test_id: its id, which no training query has.
        text: its text.
        kind: how it was made, one of `KINDS`.
        train_id: the training query that asks the same; "" if none does.
    """

    test_id: str
    text: str
    kind: str
    train_id: str


def _reversed(text: str) -> str:
    return " ".join(reversed(text.split()))


def _accented(text: str) -> str:
    return unicodedata.normalize("NFC", text.replace("a", "a\u0301").replace("e", "e\u0300"))


def _typo(text: str) -> str:
    """Swap the first two neighbouring letters that differ, inside the longest word."""
    longest = max(text.split(), key=len)
    place = next(at for at in range(1, len(longest)) if longest[at] != longest[at + 1])
    swapped = longest[:place] + longest[place + 1] + longest[place] + longest[place + 2 :]
    return text.replace(longest, swapped, 1)


KINDS: dict[str, tuple[str, Callable[[str], str]]] = {
    "exact": ("same-text", lambda text: text),
    "case": ("same-normalised", str.swapcase),
    "punctuation": ("same-normalised", lambda text: f'"{text.replace(" ", ", ", 1)}?!"'),
    "spaces": ("same-normalised", lambda text: f" {text.replace(' ', '  ')} "),
    "accent": ("same-normalised", _accented),
    "order": ("same-words", _reversed),
    "typo": ("near-duplicate", _typo),
    "paraphrase": ("near-duplicate", lambda text: text),
    "other fact": ("", lambda text: text),
    "other number": ("", lambda text: f"{text} in 1990"),
    "roles swapped": ("", lambda text: text),
}
"""Kind -> the tier at which it should be found, "" if it is no leak; and how a text is changed."""


def plant(size: int) -> tuple[dict[str, str], list[PlantedTest]]:
    """Return training queries, query_id -> text, and one test query for each of `mini`'s.

    Args:
        size: the size of `mini`.
    """
    queries = dict(mini.queries(size))
    train, tests = dict(queries), []
    names = _names(size)
    for place, (query_id, text) in enumerate(queries.items()):
        kind = list(KINDS)[place % len(KINDS)]
        change = KINDS[kind][1]
        train_id = query_id
        if kind == "paraphrase":
            same = text.lower().rstrip("?")
            text = next(ask for ask in _questions(size, place) if ask.lower() != same)
        elif kind == "other fact":
            text, train_id = next(_questions(size, place, of_others=True)), ""
        elif kind == "other number":
            train[f"n{query_id}"], train_id = f"{text} in 1991", ""
        elif kind == "roles swapped":
            one, other = next(names), next(names)
            train[f"r{query_id}"], train_id = f"was {one} older than {other}", ""
            text = f"was {other} older than {one}"
        tests.append(PlantedTest(f"t{query_id}", change(text), kind, train_id))
    return train, tests


def _questions(size: int, place: int, *, of_others: bool = False) -> Iterator[str]:
    """Yield every way to ask what a query asks, or for a fact on its entity that no query asks for.

    Args:
        size: the size of `mini`.
        place: the query's place among all.
        of_others: whether to ask for the other fact.
    """
    passage, fact_place = find_fact(size, place)
    entity, fact = fact_at(size, passage, FACTS // PARTS - 1 if of_others else fact_place)
    return (entity.ask(fact, frame) for frame in entity.domain.facts[fact].questions)


def _names(size: int) -> Iterator[str]:
    """Yield what passages begin with, each once: names, for questions that nothing answers."""
    return iter(dict.fromkeys(" ".join(one.text.split()[:3]) for one in mini.passages(size)))
