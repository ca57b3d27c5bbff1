"""Variants of queries with typing errors: make variants, find their edits, and read published ones.

The rule is from CharacterBERT-DR (Zhuang and Zuccon, CharacterBERT and Self-Teaching for Improving
the Robustness of Dense Retrievers on Queries with Typos, SIGIR 2022; ``data/make_typo_queries.py``
of `TYPOS_URL`). It makes edits with TextAttack 0.3.4 (Morris et al., EMNLP 2020). Words of at least
`SHORTEST` characters that are not stop words may be edited. Each gets one random edit of each kind;
one of all edits is chosen. Our rule differs in two points. Upstream also lower-cases the query;
nearly all queries of MS MARCO are in lower case. And upstream's draws cannot be repeated.

The kind of an edit follows from the two texts alone. If two kinds fit, one of them counts: a random
letter that is on a neighbouring key counts as ``neighbour``.

The published variants are ten files for each of three sets of queries: MS MARCO's dev-small, TREC
DL 2019 and TREC DL 2020.
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
"""The length of the shortest words that may be edited, in characters."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""The letters that may be typed by mistake."""

# NLTK's English list, as in upstream's code.
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
"""Letter -> neighbouring keys on a QWERTY keyboard, as in upstream's code (``g`` lacks ``f``)."""

# Apostrophes and similar marks are part of a word, except at its beginning.
_WORD = re.compile(r"(?<![\w'*@-])[-'_*@]*((?:(?![-'_*@])\w)[\w'*@-]*)")


def words_to_misspell(text: str) -> list[re.Match[str]]:
    """Return the words of a query that may be edited: long words that are not stop words.

    Returns:
        Matches; group 1 of a match is the word.
    """
    return [
        word
        for word in _WORD.finditer(text)
        if len(word[1]) >= SHORTEST and word[1].lower() not in _STOP_WORDS
    ]


EDITS: Mapping[str, int] = MappingProxyType(
    {"swap": 2, "delete": 1, "insert": 0, "substitute": 1, "neighbour": 1}
)
"""Kind of edit -> number of letters that it replaces or removes.

``swap`` exchanges two neighbouring letters, ``delete`` removes a letter, ``insert`` adds a letter,
``substitute`` replaces a letter, and ``neighbour`` replaces it by the letter of a neighbouring key.
"""


def _edit(kind: str, word: str, draws: KeyedDraws) -> str:
    """Return a word with an edit at a random position; the result may equal the word."""
    removed = EDITS[kind]
    place = draws.below(len(word) - (kind == "swap"))
    typed = word[place : place + removed][::-1] if kind == "swap" else ""
    if kind == "neighbour":
        typed = draws.choose(NEIGHBOURS.get(word[place].lower(), LETTERS))
    elif kind in ("insert", "substitute"):
        typed = draws.choose(LETTERS)
    return word[:place] + typed + word[place + removed :]


def misspell(text: str, draws: KeyedDraws) -> str:
    """Return a query with one typing error; the text itself if no word may be edited.

    Args:
        text: the query's text.
        draws: the random draws that choose the edit.
    """
    words = words_to_misspell(text)
    if not words:
        return text
    # Edits with the same result count once, as in upstream's code.
    variants: dict[str, None] = {}
    for word in words:
        for kind in EDITS:
            edited = _edit(kind, word[1], draws)
            if edited.lower() != word[1].lower():
                variants[text[: word.start(1)] + edited + text[word.end(1) :]] = None
    return draws.choose(list(variants))


UNCHANGED, OTHER = "unchanged", "other"

EDIT_KINDS = (UNCHANGED, *EDITS, OTHER)
"""The kinds of edits; ``other``: several edits, or an edit of a word that may not be edited."""


def find_edit(text: str, variant: str) -> str:
    """Return the kind of edit between a query and its variant, regardless of case and extra spaces.

    Returns:
        One of `EDIT_KINDS`.
    """
    before, after = (" ".join(string.lower().split()) for string in (text, variant))
    if before == after:
        return UNCHANGED
    start = _common_prefix(before, after)
    same = _common_prefix(before[start:][::-1], after[start:][::-1])
    removed, typed = before[start : len(before) - same], after[start : len(after) - same]
    sizes = len(removed), len(typed)
    if sizes == (0, 1):
        kind = "insert"
    elif sizes == (1, 0):
        kind = "delete"
    elif sizes == (1, 1):
        kind = "neighbour" if typed in NEIGHBOURS.get(removed, "") else "substitute"
    elif sizes == (2, 2) and removed == typed[::-1]:
        kind = "swap"
    else:
        return OTHER
    for word in words_to_misspell(before):
        # If the last letter of a word is typed twice, the inserted letter is after the word's end.
        if word.start(1) <= start < word.end(1) + (kind == "insert"):
            return kind
    return OTHER


def _common_prefix(first: str, second: str) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    differing = (place for place, (left, right) in pairs if left != right)
    return next(differing, min(len(first), len(second)))


def describe_edits(texts: Mapping[str, str], variants: Sequence[Variant]) -> Summary:
    """Count the edits in variants by method and kind.

    Args:
        texts: query_id -> text of the original queries.
        variants: variants of these queries.

    Returns:
        ``queries``: the number of `texts`. ``edits``: method -> every kind of edit -> number of
        variants, 0 for none.
    """
    counts: dict[str, Counter[str]] = {}
    for variant in variants:
        kind = find_edit(texts[variant.query_id], variant.text)
        counts.setdefault(variant.method, Counter())[kind] += 1
    kinds = [kind for kind in EDIT_KINDS if kind != UNCHANGED]
    rows = []
    for method, count in counts.items():
        total, changed = count.total(), count.total() - count[UNCHANGED]
        rows.append((method, f"{total:,}", f"{changed:,}", *(count.get(k, "-") for k in kinds)))
    edits = {method: {k: count[k] for k in EDIT_KINDS} for method, count in counts.items()}
    table = Table.plain("Edits", ("method", "variants", "changed", *kinds), rows)
    return Summary({"queries": len(texts), "edits": edits}, [table])


Maker = Callable[[str, KeyedDraws], str]
"""A function that takes a query's text and random draws, and returns a variant."""


def make_variants(
    name: str, queries: Iterable[tuple[str, str]], *, copies: int = 1, seed: int = 0
) -> list[Variant]:
    """Make variants of queries by a test-only shift.

    A variant depends only on the seed, the number of its copy, the query's id and the query's text.
    It does not depend on other queries, their order, or the number of copies.

    Args:
        name: the name of a test-only shift, e.g. ``typos``.
        queries: pairs of query_id and text.
        copies: variants per query, at least 1; the methods are ``<name>-1``, ``<name>-2``, ...
        seed: the seed of the random draws.

    Returns:
        The variants, sorted by method and query_id. The variant of a query that cannot be edited is
        its own text.

    Raises:
        UnknownNameError: if there is no such test-only shift.
        UsageError: if `copies` is below 1.

    Examples:
        >>> make_variants("typos", [("1", "cheap flights to rome")], seed=1)
        [Variant(query_id='1', text='cheap fligihts to rome', method='typos-1')]
    """
    shift = get_test_only_shift(name)
    if copies < 1:
        raise UsageError(f"variants per query must be at least 1, got {copies}")
    module, function = shift.maker.split(":")
    make: Maker = getattr(importlib.import_module(module), function)
    in_order = sorted(queries)
    return [
        Variant(query_id, make(text, KeyedDraws(f"{seed}/{method}/{query_id}")), method)
        for method in (f"{name}-{copy}" for copy in range(1, copies + 1))
        for query_id, text in in_order
    ]


TYPOS_URL = "https://github.com/ielab/CharacterBERT-DR"
"""The address of the repository of published variants."""

_FILE = re.compile(r"queries\.(?P<set>.+)\.(?P<method>typo(?P<number>[1-9][0-9]*))\.tsv")


def has_variants(checkout: Path) -> bool:
    """Return whether a folder or its subfolders have file names of published variants."""
    return checkout.is_dir() and any(checkout.rglob("queries.*.typo*.tsv"))


def import_variants(checkout: str | Path, queries: str) -> tuple[dict[str, str], list[Variant]]:
    """Read the published variants of a set of queries.

    Args:
        checkout: the checkout, or a folder with its files ``queries.<set>.tsv`` and
            ``queries.<set>.typo<number>.tsv``.
        queries: the set: ``dev.small``, ``dl2019`` or ``dl2020``.

    Returns:
        The original queries, query_id -> text; and their variants, in the order of each file. The
        methods are ``typo1``, ``typo2`` and so on.

    Raises:
        NotFoundError: if there is no such folder, or it contains no variants or no original
            queries.
        UnknownNameError: if it contains no variants of this set.
        DataError: if the checkout contains two different files of one set and number.
        CollectionError: if a file is malformed, or its queries are not the queries of the set.

    Examples:
        >>> queries, variants = import_variants("CharacterBERT-DR", "dev.small")
        >>> queries, variants
        ({'1': 'cheap flights'}, [Variant(query_id='1', text='chaep flights', method='typo1')])
    """
    folder = Path(checkout).expanduser()
    paths: dict[str, dict[int, Path]] = {}
    for path in sorted(folder.rglob("queries.*.typo*.tsv")) if folder.is_dir() else ():
        if (name := _FILE.fullmatch(path.name)) is not None:
            first = paths.setdefault(name["set"], {}).setdefault(int(name["number"]), path)
            if name["set"] == queries and first.read_bytes() != path.read_bytes():
                raise DataError(f"{first} and {path} differ; give the folder of one of them")
    if not paths:
        raise NotFoundError(
            f"{folder} holds no queries.<set>.typo<number>.tsv; get the files with 'git clone "
            f"{TYPOS_URL}' and give the folder"
        )
    check_name("set of queries in the checkout", queries, paths)
    files = paths[queries]
    texts = dict(read_queries(next(iter(files.values())).with_name(f"queries.{queries}.tsv")))
    findings = FindingLog()
    variants: list[Variant] = []
    for number in sorted(files):
        path = files[number]
        changed = dict(read_queries(path))
        for verb, ids in (
            ("lacks", texts.keys() - changed.keys()),
            ("has in addition", changed.keys() - texts.keys()),
        ):
            if ids:
                findings.add(
                    "other-queries", f"{verb} {len(ids):,} queries: {first_few(ids)}", str(path)
                )
        variants += [Variant(query_id, text, f"typo{number}") for query_id, text in changed.items()]
    findings.stop_if_any(
        CollectionError,
        f"the variants in {folder} do not have the same queries as queries.{queries}.tsv:",
    )
    return texts, variants
