"""Variants of queries with typing errors: made, told from their texts, and read as published.

The rule is that of CharacterBERT-DR (Zhuang and Zuccon, CharacterBERT and Self-Teaching for
Improving the Robustness of Dense Retrievers on Queries with Typos, SIGIR 2022;
``data/make_typo_queries.py`` of `TYPOS_URL`), which makes its edits with TextAttack 0.3.4 (Morris
et al., EMNLP 2020). Every word of at least `SHORTEST` characters that is no stop word offers one
random edit of each kind, and one of all these is taken. Ours differs in two points: upstream
lower-cases the query, too, which nearly all of MS MARCO's are; and its draws cannot be repeated.

An edit is told from the two texts alone, so an error that another edit explains as well counts as
that one: the letter of a neighbouring key, typed by chance, counts as a neighbour's.

The published variants are ten files for each of three sets of queries: MS MARCO's dev-small, TREC
DL 2019 and 2020.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msshift_bench.data import Variant, read_queries
from msshift_bench.errors import (
    CollectionError,
    DataError,
    FindingLog,
    NotFoundError,
    UsageError,
    check_name,
    first_few,
)
from msshift_bench.output import Summary, Table
from msshift_bench.sampling import KeyedDraws
from msshift_bench.shifts import get_test_only_shift

SHORTEST = 3
"""The length of the shortest words that are edited, in characters."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""The letters that are typed by mistake."""

# NLTK's English list, as upstream has it.
_STOP_WORDS_TEXT = """
    i me my myself we our ours ourselves you you're you've you'll you'd your yours yourself
    yourselves he him his himself she she's her hers herself it it's its itself they them their
    theirs themselves what which who whom this that that'll these those am is are was were be
    been being have has had having do does did doing a an the and but if or because as until
    while of at by for with about against between into through during before after above below
    to from up down in out on off over under again further then once here there when where why
    how all any both each few more most other some such no nor not only own same so than too
    very s t can will just don don't should should've now d ll m o re ve y ain aren aren't
    couldn couldn't didn didn't doesn doesn't hadn hadn't hasn hasn't haven haven't isn isn't
    ma mightn mightn't mustn mustn't needn needn't shan shan't shouldn shouldn't wasn wasn't
    weren weren't won won't wouldn wouldn't
"""
_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())

NEIGHBOURS: Mapping[str, str] = MappingProxyType(
    {
        "q": "was", "w": "qeasd", "e": "wsdfr", "r": "edfgt", "t": "rfghy", "y": "tghju",
        "u": "yhjki", "i": "ujklo", "o": "iklp", "p": "ol", "a": "qwszx", "s": "qweadzx",
        "d": "werfcxs", "f": "ertgvcd", "g": "rtyhbvd", "h": "tyugjbn", "j": "yuikmnh",
        "k": "uiolmj", "l": "iopk", "z": "asx", "x": "sdzc", "c": "xdfv", "v": "cfgb",
        "b": "vghn", "n": "bhjm", "m": "njk",
    }
)  # fmt: skip
"""Letter -> the keys beside it on a QWERTY keyboard, as upstream has them (``g`` lacks ``f``)."""

# Apostrophes and the like belong to a word, unless they begin it.
_WORD = re.compile(r"(?<![\w'*@-])[-'_*@]*((?:(?![-'_*@])\w)[\w'*@-]*)")


def words_to_misspell(text: str) -> list[re.Match[str]]:
    """Return the words of a query that may be edited: long enough, and no stop words.

    Returns:
        Matches, whose group 1 is the word.
    """
    return [
        word
        for word in _WORD.finditer(text)
        if len(word[1]) >= SHORTEST and word[1].lower() not in _STOP_WORDS
    ]


EDITS: Mapping[str, int] = MappingProxyType(
    {"swap": 2, "delete": 1, "insert": 0, "substitute": 1, "neighbour": 1}
)
"""Kind of edit -> how many letters give way: two neighbouring letters change places, a letter is
left out, one is typed too many, another one is typed, or that of a neighbouring key."""


def _edit(kind: str, word: str, draws: KeyedDraws) -> str:
    """Return a word with an edit at a place that is drawn."""
    gone = EDITS[kind]
    place = draws.below(len(word) - (kind == "swap"))
    typed = word[place : place + gone][::-1] if kind == "swap" else ""
    if kind == "neighbour":
        typed = draws.choose(NEIGHBOURS.get(word[place].lower(), LETTERS))
    elif kind in ("insert", "substitute"):
        typed = draws.choose(LETTERS)
    return word[:place] + typed + word[place + gone :]


def misspell(text: str, draws: KeyedDraws) -> str:
    """Return a query with one typing error; the text itself if no word may be edited.

    Args:
        text: the query's text.
        draws: what decides the edit.
    """
    words = words_to_misspell(text)
    if not words:
        return text
    # Edits that give the same text count once, as upstream.
    offered: dict[str, None] = {}
    for word in words:
        for kind in EDITS:
            edited = _edit(kind, word[1], draws)
            if edited.lower() != word[1].lower():
                offered[text[: word.start(1)] + edited + text[word.end(1) :]] = None
    return draws.choose(list(offered))


UNCHANGED, OTHER = "unchanged", "other"

EDIT_KINDS = (UNCHANGED, *EDITS, OTHER)
"""The kinds of edits; ``other``: several edits, or one outside the words that may be edited."""


def find_edit(text: str, variant: str) -> str:
    """Return the kind of edit between a query and its variant, regardless of case and outer spaces.

    Returns:
        One of `EDIT_KINDS`.
    """
    before, after = (" ".join(one.lower().split()) for one in (text, variant))
    if before == after:
        return UNCHANGED
    start = _shared(before, after)
    same = _shared(before[start:][::-1], after[start:][::-1])
    gone, typed = before[start : len(before) - same], after[start : len(after) - same]
    sizes = len(gone), len(typed)
    if sizes == (0, 1):
        kind = "insert"
    elif sizes == (1, 0):
        kind = "delete"
    elif sizes == (1, 1):
        kind = "neighbour" if typed in NEIGHBOURS.get(gone, "") else "substitute"
    elif sizes == (2, 2) and gone == typed[::-1]:
        kind = "swap"
    else:
        return OTHER
    for word in words_to_misspell(before):
        # A letter that is typed twice at a word's end lies behind it.
        if word.start(1) <= start < word.end(1) + (kind == "insert"):
            return kind
    return OTHER


def _shared(first: str, second: str) -> int:
    """Return how many characters two texts share at their beginnings."""
    pairs = enumerate(zip(first, second, strict=False))
    differing = (place for place, (one, other) in pairs if one != other)
    return next(differing, min(len(first), len(second)))


def describe_edits(texts: Mapping[str, str], variants: Sequence[Variant]) -> Summary:
    """Count the edits in variants by method and kind.

    Args:
        texts: query_id -> text of the queries as they are.
        variants: variants of these queries.

    Returns:
        ``queries``, how many there are; and ``edits``, method -> kind of edit -> variants.
    """
    counts: dict[str, Counter[str]] = {}
    for variant in variants:
        kind = find_edit(texts[variant.query_id], variant.text)
        counts.setdefault(variant.method, Counter())[kind] += 1
    kinds = [kind for kind in EDIT_KINDS if kind != UNCHANGED]
    rows = []
    for method, found in counts.items():
        total, changed = found.total(), found.total() - found[UNCHANGED]
        rows.append((method, f"{total:,}", f"{changed:,}", *(found.get(k, "-") for k in kinds)))
    edits = {method: {k: found[k] for k in EDIT_KINDS} for method, found in counts.items()}
    table = Table.plain("Edits", ("method", "variants", "changed", *kinds), rows)
    return Summary({"queries": len(texts), "edits": edits}, [table])


Maker = Callable[[str, KeyedDraws], str]
"""A function that takes a query's text and what decides its variant, and returns the variant."""


def make_variants(
    name: str, queries: Iterable[tuple[str, str]], *, copies: int = 1, seed: int = 0
) -> list[Variant]:
    """Make variants of queries by a test-only shift.

    A variant depends on the seed, the number of its copy, the query's id and its text alone, not on
    other queries or their order; more copies leave the first ones as they are.

    Args:
        name: the name of a test-only shift, e.g. ``typos``.
        queries: pairs of query_id and text.
        copies: variants per query, by the methods ``<name>-1``, ``<name>-2`` and so on.
        seed: another seed gives other variants.

    Returns:
        The variants by method, queries sorted by id. A query that cannot be changed stands there as
        it is.

    Raises:
        UnknownNameError: if there is no such test-only shift.
        UsageError: if no copy is asked for.

    Examples:
        >>> make_variants("typos", [("1", "cheap flights to rome")], seed=1)
        [Variant(query_id='1', text='cheap fligihts to rome', method='typos-1')]
    """
    shift = get_test_only_shift(name)
    if copies < 1:
        raise UsageError(f"{copies} variants of each query; ask for 1 or more")
    module, function = shift.maker.split(":")
    make: Maker = getattr(importlib.import_module(module), function)
    known = sorted(queries)
    return [
        Variant(query_id, make(text, KeyedDraws(f"{seed}/{method}/{query_id}")), method)
        for method in (f"{name}-{copy}" for copy in range(1, copies + 1))
        for query_id, text in known
    ]


TYPOS_URL = "https://github.com/ielab/CharacterBERT-DR"
"""The address of the published variants."""

_FILE = re.compile(r"queries\.(?P<set>.+)\.(?P<method>typo(?P<number>[1-9][0-9]*))\.tsv")


def holds_variants(checkout: Path) -> bool:
    """Return whether a folder is a checkout of published variants, for `import_variants`."""
    return checkout.is_dir() and any(checkout.rglob("queries.*.typo*.tsv"))


def import_variants(checkout: str | Path, queries: str) -> tuple[dict[str, str], list[Variant]]:
    """Read the published variants of a set of queries.

    Args:
        checkout: the checkout, or a folder with its files ``queries.<set>.tsv`` and
            ``queries.<set>.typo<number>.tsv``.
        queries: the set: ``dev.small``, ``dl2019`` or ``dl2020``.

    Returns:
        The queries as they are, query_id -> text; and their variants by the methods ``typo1`` to
        ``typo10``, each in the order of its file.

    Raises:
        NotFoundError: if there is no such folder, or it holds no variants.
        UnknownNameError: if it holds none of that set.
        DataError: if two folders in it hold a file each of that name, and they differ.
        CollectionError: if a file is malformed, or does not hold the queries of the set.

    Examples:
        >>> queries, variants = import_variants("CharacterBERT-DR", "dev.small")
        >>> queries, variants
        ({'1': 'cheap flights'}, [Variant(query_id='1', text='chaep flights', method='typo1')])
    """
    folder = Path(checkout).expanduser()
    found: dict[str, dict[int, Path]] = {}
    for path in sorted(folder.rglob("queries.*.typo*.tsv")) if folder.is_dir() else ():
        if (name := _FILE.fullmatch(path.name)) is not None:
            first = found.setdefault(name["set"], {}).setdefault(int(name["number"]), path)
            if name["set"] == queries and first.read_bytes() != path.read_bytes():
                raise DataError(f"{first} and {path} differ; give the folder of one of them")
    if not found:
        raise NotFoundError(
            f"{folder} holds no queries.<set>.typo<number>.tsv; get the files with 'git clone "
            f"{TYPOS_URL}' and give the folder"
        )
    check_name("set of queries in the checkout", queries, found)
    files = found[queries]
    texts = dict(read_queries(next(iter(files.values())).with_name(f"queries.{queries}.tsv")))
    findings = FindingLog()
    variants: list[Variant] = []
    for number in sorted(files):
        path = files[number]
        changed = dict(read_queries(path))
        for what, ids in (
            ("lacks", texts.keys() - changed.keys()),
            ("holds besides", changed.keys() - texts.keys()),
        ):
            if ids:
                findings.add(
                    "other-queries", f"{what} {len(ids):,} queries: {first_few(ids)}", str(path)
                )
        variants += [Variant(query_id, text, f"typo{number}") for query_id, text in changed.items()]
    findings.stop_if_any(
        CollectionError, f"the variants in {folder} are not all of queries.{queries}.tsv:"
    )
    return texts, variants
