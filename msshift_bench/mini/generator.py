"""The `mini` collection: small, generated from templates, and the same on every machine.

It is the benchmark's default collection. Its five domains follow the topics of MS-Shift (ECIR 2023,
Table 1). A domain has entities, and an entity has `FACTS` facts, divided among its `PARTS`
passages. A query asks for one fact, usually in other words than the passage. So the other passages
of an entity, and the passages of entities with a similar name, are distractors.

An item depends only on its index and the collection's size, through BLAKE2b. No item is stored, and
any size can be streamed. Texts cannot repeat: an entity's name encodes its number, one to one, and
each of its facts has at most one query. The templates are in ``domains/``, the word lists in
`mini.words`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from msshift_bench.errors import UsageError
from msshift_bench.mini.words import DOUBLE_FRAMES, ODD_FRAMES, SLOTS
from msshift_bench.records import Passage, Qrel, Query
from msshift_bench.sampling import KeyedDigits

DEFAULT_SIZE = 2000
"""Passages of the collection ``mini`` without a given size."""

DOMAINS = ("people", "events", "prices", "medicine", "science")
"""The five domains, in the order of the paper's clusters C0 to C4."""

FACTS = 9
"""Facts of every entity."""

KINDS = 16
"""Words that complete a name, e.g. ``Arlo`` or ``flood``, in every domain."""

SYLLABLES = 40
"""Syllables of every domain: each of its 8 onsets with each of its 5 rhymes."""

PARTS = 3
"""Passages per entity; each states another third of the entity's facts."""

_STEMS = SYLLABLES**3
_NAMES = KINDS * _STEMS

MAX_SIZE = len(DOMAINS) * PARTS * _NAMES
"""The largest size; a larger one would need more names than a domain has."""

_MIN_WORDS = 38
"""A passage gets filler sentences until it has this number of words; no passage exceeds 70."""


@dataclass(frozen=True, slots=True)
class _Fact:
    """One attribute: its topic, the pattern of its values, its sentences and questions."""

    topic: str
    pattern: tuple[str, ...]
    sentences: tuple[str, ...]
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Domain:
    """A domain's templates and vocabulary; see `_domain`."""

    name: str
    syllables: tuple[str, ...]
    kinds: tuple[str, ...]
    naming: str
    subject: str
    alias: str
    fillers: tuple[str, ...]
    facts: tuple[_Fact, ...]


@dataclass(frozen=True, slots=True)
class _Entity:
    """One entity: its name, the value of each fact, and the facts of each part (passage).

    ``parts[p]`` are the facts of part ``p``, as positions in the domain's `facts`. ``repeats`` maps
    a part to a fact of another part that it also states. Passages call the entity ``subject`` or
    ``alias``.
    """

    domain: _Domain
    name: str
    subject: str
    alias: str
    values: tuple[str, ...]
    parts: tuple[tuple[int, ...], ...]
    repeats: dict[int, int]

    def ask(self, fact: int, frame: str) -> str:
        """Return the question for a fact, from the template `frame`."""
        return frame.replace("{n}", self.name).replace("{topic}", self.domain.facts[fact].topic)


def passages(size: int = DEFAULT_SIZE) -> Iterator[Passage]:
    """Yield the passages of the collection of `size` passages; 38 to 70 words each.

    Args:
        size: 1 to `MAX_SIZE`; each size is a different, fixed collection.

    Raises:
        UsageError: if `size` is out of range.
    """
    _check(size)
    return (Passage(str(index), _passage_text(size, index)) for index in range(size))


def queries(size: int = DEFAULT_SIZE) -> Iterator[Query]:
    """Yield the queries: three for every two passages, rounded down; each asks for one fact.

    Args:
        size: the number of passages; see `passages`.

    Raises:
        UsageError: if `size` is out of range.
    """
    _check(size)
    indices = range(size + size // 2)
    return (Query(_query_id(index), _query_text(size, index)) for index in indices)


def qrels(size: int = DEFAULT_SIZE) -> Iterator[Qrel]:
    """Yield the judgements, by query: every passage that states the requested fact, relevance 1.

    Args:
        size: the number of passages; see `passages`.

    Raises:
        UsageError: if `size` is out of range.
    """
    _check(size)
    return (
        Qrel(_query_id(index), str(passage), 1)
        for index in range(size + size // 2)
        for passage in _relevant(size, index)
    )


def _check(size: int) -> None:
    if not 1 <= size <= MAX_SIZE:
        raise UsageError(f"the size of mini must be from 1 to {MAX_SIZE:,}, got {size:,}")


@cache
def _domain(name: str) -> _Domain:
    """Return the domain in ``domains/<name>.txt``.

    The first lines define the names and the fillers. Then follow `FACTS` facts, each a block::

        birthplace = {town}          topic = pattern of the value
        + {n} was born in {v}        a sentence of a passage: {n} the entity, {v} the value
        ? {n} native town            forms of the question, separated by " / "

    A slot of a value pattern is a word list of `mini.words` (``{town}``), a range of numbers
    (``{12-95}``) or the name of another entity of the domain (``{other}``). Sentences and questions
    rarely share content words, so a model must learn to match them.
    """
    text = (files(__package__) / "domains" / f"{name}.txt").read_text("utf-8")
    head, *blocks = text.strip().split("\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.splitlines():
        key, _, value = line.partition(" ")
        fields.setdefault(key, []).append(value)
    words = {key: " ".join(values).split() for key, values in fields.items()}
    return _Domain(
        name=name,
        syllables=tuple(onset + rhyme for onset in words["onsets"] for rhyme in words["rhymes"]),
        kinds=tuple(words["kinds"]),
        naming=fields["name"][0],
        subject=fields["subject"][0],
        alias=fields["alias"][0],
        fillers=tuple(fields["filler"]),
        facts=tuple(_fact(block) for block in blocks),
    )


def _fact(block: str) -> _Fact:
    title, *lines = block.splitlines()
    topic, _, pattern = title.partition(" = ")
    questions = " / ".join(line[2:] for line in lines if line.startswith("? "))
    return _Fact(
        topic=topic,
        pattern=tuple(re.split(r"[{}]", pattern)),
        sentences=tuple(line[2:] for line in lines if line.startswith("+ ")),
        questions=tuple(questions.split(" / ")),
    )


@lru_cache(maxsize=64)
def _entity(size: int, domain_name: str, number: int) -> _Entity:
    """Return entity `number` of a domain; cached for its passages, which follow each other."""
    domain = _domain(domain_name)
    draws = KeyedDigits(f"{size}/{domain_name}/{number}/entity")
    order = draws.order(FACTS)
    share = FACTS // PARTS
    kind, stem = _name_words(size, domain, number)
    name = domain.naming.format(kind=kind, stem=stem)
    repeated = draws.below(FACTS)
    home, draw = repeated // share, draws.below(20)
    repeaters = range(1, 3 if draw < 3 else 2 if draw < 15 else 1)
    return _Entity(
        domain=domain,
        name=name,
        subject=domain.subject.format(name=name),
        alias=domain.alias.format(kind=kind, stem=stem),
        values=tuple(_value(size, domain, number, fact, draws) for fact in domain.facts),
        parts=tuple(tuple(order[start : start + share]) for start in range(0, FACTS, share)),
        repeats={(home + step) % PARTS: order[repeated] for step in repeaters},
    )


def _name_words(size: int, domain: _Domain, number: int) -> tuple[str, str]:
    """Return the kind and the stem of entity `number`; no other entity of its domain has both.

    The stride through a domain's names has no common factor with their number. So all names are
    different.
    """
    draws = KeyedDigits(f"{size}/{domain.name}/names")
    stride, offset = 10 * draws.below(_NAMES) + 3, draws.below(_NAMES)
    kind, rest = divmod((number * stride + offset) % _NAMES, _STEMS)
    first, rest = divmod(rest, SYLLABLES**2)
    second, third = divmod(rest, SYLLABLES)
    syllables = domain.syllables
    return domain.kinds[kind], (syllables[first] + syllables[second] + syllables[third]).title()


def _value(size: int, domain: _Domain, number: int, fact: _Fact, draws: KeyedDigits) -> str:
    """Return a value from a fact's pattern, in which literals and slots alternate."""
    filled = []
    for place, piece in enumerate(fact.pattern):
        if place % 2 == 0:
            filled.append(piece)
        elif piece == "other":
            entities = max(2, size // (len(DOMAINS) * PARTS))
            other = (number + 1 + draws.below(entities - 1)) % entities
            kind, stem = _name_words(size, domain, other)
            filled.append(domain.naming.format(kind=kind, stem=stem))
        elif piece in SLOTS:
            filled.append(draws.choose(SLOTS[piece]).replace("-", " "))
        else:
            low, high = map(int, piece.split("-"))
            filled.append(str(low + draws.below(high - low + 1)))
    return "".join(filled)


def _locate_passage(index: int) -> tuple[str, int, int]:
    """Return the domain's name, the entity's number and the part's number of passage `index`."""
    block, domain = divmod(index, len(DOMAINS))
    number, part = divmod(block, PARTS)
    return DOMAINS[domain], number, part


def _passage_text(size: int, index: int) -> str:
    domain_name, number, part = _locate_passage(index)
    entity = _entity(size, domain_name, number)
    domain = entity.domain
    draws = KeyedDigits(f"{size}/{domain_name}/{index}/passage")
    stated = list(entity.parts[part])
    if part in entity.repeats:
        stated.insert(draws.below(len(stated) + 1), entity.repeats[part])
    plan = [(draws.choose(domain.facts[fact].sentences), entity.values[fact]) for fact in stated]
    fillers = draws.order(len(domain.fillers))
    while sum(1 + frame.count(" ") + value.count(" ") for frame, value in plan) < _MIN_WORDS:
        plan.insert(draws.below(len(plan) + 1), (domain.fillers[fillers.pop()], ""))
    sentences = []
    for place, (frame, value) in enumerate(plan):
        subject = entity.alias if place and draws.below(3) else entity.subject
        sentence = frame.replace("{n}", subject).replace("{v}", value)
        sentences.append(sentence[0].upper() + sentence[1:] + ".")
    return " ".join(sentences)


def find_fact(size: int, index: int) -> tuple[int, int]:
    """Return the passage that query `index` asks for, and its fact's position in the part, 0 or 1.

    Every two passages have three queries: one each, and a third for a random one of them.
    """
    pair, turn = divmod(index, 3)
    if turn < 2:
        return 2 * pair + turn, 0
    return 2 * pair + KeyedDigits(f"{size}/{pair}/second").below(2), 1


def _query_id(index: int) -> str:
    """Return the id of query `index`.

    One query in three has the id of its relevant passage. So tests detect code that drops a
    document with the query's id.
    """
    pair, turn = divmod(index, 3)
    return str(4 * pair + 2 * turn - 1 if turn else 2 * pair)


def fact_at(size: int, passage: int, place: int) -> tuple[_Entity, int]:
    """Return the entity of a passage, and the number of a fact in the entity's domain.

    `place` is the fact's position in the part, without repeated facts.
    """
    domain_name, number, part = _locate_passage(passage)
    entity = _entity(size, domain_name, number)
    return entity, entity.parts[part][place]


def _query_text(size: int, index: int) -> str:
    entity, fact = fact_at(size, *find_fact(size, index))
    draws = KeyedDigits(f"{size}/{entity.domain.name}/{index}/query")
    draw = draws.below(100)
    questions = entity.domain.facts[fact].questions
    frames = ODD_FRAMES if draw < 1 else DOUBLE_FRAMES if draw < 2 else questions
    text = entity.ask(fact, draws.choose(frames))
    style = draws.below(10)
    if style:
        return text.lower()
    text = text[0].upper() + text[1:]
    return text + "?" if draws.below(2) else text


def _relevant(size: int, index: int) -> Iterator[int]:
    """Yield the indices of the passages that state the fact of query `index`, ascending."""
    queried, place = find_fact(size, index)
    entity, fact = fact_at(size, queried, place)
    part = queried // len(DOMAINS) % PARTS
    first = queried - part * len(DOMAINS)
    for other in range(PARTS):
        passage = first + other * len(DOMAINS)
        if (other == part or entity.repeats.get(other) == fact) and passage < size:
            yield passage
