"""The table of indicators, and the indicators that use the words of queries.

To add an indicator, write its function and add a row to `INDICATORS`; there is no other list.

Weighted Jaccard similarity (MS-Shift, section 5.2): with S_k and T_k the shares of word k among all
words of two sets of queries,

    J(S, T) = sum over k of min(S_k, T_k) / sum over k of max(S_k, T_k)

The code sums integers (counts times the other set's total), so the exact value is rounded once.
The order of queries and words cannot change a bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, TypedDict

import numpy as np

from msshift_bench.encoders import EncoderSpec
from msshift_bench.errors import DataError, check_name
from msshift_bench.evaluation import OpenedRunSet
from msshift_bench.search import content_words
from msshift_bench.similarity.overlap import shares_passages
from msshift_bench.similarity.query_sets import QueryColumns, QueryValues
from msshift_bench.similarity.vectors import mean_cosine, model_based, nearest_query
from msshift_bench.words import divide

Tokenizer: TypeAlias = Callable[[str], Sequence[str]]
"""A function from the text of a query to its words."""

Models: TypeAlias = Mapping[str, str | Path] | Sequence[OpenedRunSet] | str | Path | None
"""Bi-encoders; see `IndicatorOptions`."""


def split_words(text: str, words: str = "whitespace") -> list[str]:
    """Return the words of a text, lower-cased.

    Args:
        text: the text.
        words: the rule that divides it, a name in `msshift_bench.words.WORDS`; by default it is
            split at white space, as in the paper.
    """
    return divide(text.lower(), words).split()


def weighted_jaccard(
    train: QueryColumns, test: QueryColumns, words_of: Tokenizer = split_words
) -> float:
    """Return the weighted Jaccard similarity of two sets of queries, 0 to 1; it is symmetric.

    Args:
        train: the first set.
        test: the second set.
        words_of: the tokenizer.

    Raises:
        DataError: if the tokenizer finds no word in one of the sets.
    """
    trained, tested = (
        Counter(word for text in queries.texts for word in words_of(text))
        for queries in (train, test)
    )
    total, test_total = trained.total(), tested.total()
    if not total or not test_total:
        empty = "training" if not total else "test"
        raise DataError(
            f"the tokenizer finds no word in the {empty} queries; choose another tokenizer or "
            "other queries"
        )
    common = sum(
        min(trained[word] * test_total, tested[word] * total)
        for word in trained.keys() & tested.keys()
    )
    # min + max = S_k + T_k; the shares S_k sum to 1, and so do the shares T_k.
    return common / (2 * total * test_total - common)


def unseen_words(
    train: QueryColumns, test: QueryColumns, words_of: Tokenizer = content_words
) -> QueryValues:
    """Return the share of each test query's words that no training query contains, 0 to 1.

    A repeated word counts each time. A query without words has 0.

    Args:
        train: the training queries.
        test: the test queries.
        words_of: the tokenizer; by default it returns content words.
    """
    known = {word for text in train.texts for word in words_of(text)}
    shares = []
    for text in test.texts:
        words = words_of(text)
        shares.append(sum(word not in known for word in words) / len(words) if words else 0.0)
    return QueryValues(np.array(shares))


class IndicatorOptions(TypedDict, total=False):
    """Options of indicators.

    Each indicator accepts some of these options; see `Indicator.options`.

    Attributes:
        tokenizer: splits a query into words. By default ``weighted-jaccard`` lower-cases and splits
            at white space; ``unseen-words`` uses lower-cased runs of two or more letters or
            digits, without stop words.
        encoder: an id of the Hugging Face Hub, a folder, an `EncoderSpec`, or ``terms``, which
            needs no model. The default is ``distilbert-base-uncased`` (as in the paper), or
            ``terms`` for data of ``mini``.
        pooling: the pooling of an encoder given by name: ``cls`` (default), ``mean``, or ``own``
            for the model's own pooling (a model saved by sentence-transformers).
        models: the bi-encoders: a folder of run sets of one system with kept models, or such run
            sets, opened; held-out group -> model folder; or, for `set_similarity`, the folder of
            one model.
        seed: the seed of the models, if the run set has several; by default the smallest.

    Examples:
        >>> options = IndicatorOptions(tokenizer=str.split)
        >>> set_similarity({"1": "rome hotels"}, {"8": "Rome hotels"}, **options).value
        0.3333333333333333
    """

    tokenizer: Tokenizer
    encoder: str | EncoderSpec | None
    pooling: str
    models: Models
    seed: int | None


@dataclass(frozen=True, slots=True)
class Indicator:
    """A measure of the similarity of test queries to training queries.

    Attributes:
        name: the name in commands and functions.
        title: the title in tables.
        per_query: whether every test query has a value; the value of a set is then their mean.
            Otherwise only a pair of sets has a value.
        needs: the input besides the queries: ``""``, ``encoder``, ``model`` (a bi-encoder trained
            without the group) or ``labels`` (the queries' relevant passages).
        against: the other groups' queries for the comparison, by default: queries of the same split
            (``same``), or training queries (``train``).
        higher: the meaning of a higher value: the test queries are ``nearer`` to the training
            queries, or ``farther`` from them.
        options: the names of the accepted `IndicatorOptions`.
        source: the publication of the definition.
        function: computes the value from the training queries, the test queries and the input (a
            tokenizer, `TextVectors`, or query_id -> relevant passages). It returns a number, or
            `QueryValues` if the indicator is defined per query.
        cut: the default tokenizer, which accepts `words`, a name in `WORDS`; `None` if the
            indicator has no tokenizer.
    """

    name: str
    title: str
    per_query: bool
    needs: str
    against: str
    higher: str
    options: tuple[str, ...]
    source: str
    function: Callable[..., Any]
    cut: Callable[..., Sequence[str]] | None = None

    def other_split(self, split: str) -> str:
        """Return the default split of the other groups for comparison with this split."""
        return split if self.against == "same" else self.against


INDICATORS: Mapping[str, Indicator] = MappingProxyType(
    {
        row.name: row
        for row in (
            Indicator(
                name="weighted-jaccard",
                title="weighted Jaccard similarity of words",
                per_query=False,
                needs="",
                against="same",
                higher="nearer",
                options=("tokenizer",),
                source="MS-Shift (ECIR 2023), section 5.2; BEIR, appendix F",
                function=weighted_jaccard,
                cut=split_words,
            ),
            Indicator(
                name="mean-cosine",
                title="mean cosine similarity of query vectors",
                per_query=True,
                needs="encoder",
                against="same",
                higher="nearer",
                options=("encoder", "pooling"),
                source="MS-Shift v1 (2022), section 3.1",
                function=mean_cosine,
            ),
            Indicator(
                name="model-based",
                title="model-based similarity R",
                per_query=True,
                needs="model",
                against="train",
                higher="nearer",
                options=("models", "seed"),
                source="MS-Shift (ECIR 2023), equation 1",
                function=model_based,
            ),
            Indicator(
                name="nearest-query",
                title="cosine with the nearest query",
                per_query=True,
                needs="encoder",
                against="train",
                higher="nearer",
                options=("encoder", "pooling"),
                source="this package",
                function=nearest_query,
            ),
            Indicator(
                name="unseen-words",
                title="share of content words not in training queries",
                per_query=True,
                needs="",
                against="train",
                higher="farther",
                options=("tokenizer",),
                source="this package",
                function=unseen_words,
                cut=content_words,
            ),
            Indicator(
                name="overlap",
                title="share of queries with a relevant passage in common",
                per_query=True,
                needs="labels",
                against="train",
                higher="nearer",
                options=(),
                source="Zhan et al. (CIKM 2022), section 3.2",
                function=shares_passages,
            ),
        )
    }
)
"""Every indicator by name."""


def find_indicator(name: str) -> Indicator:
    """Return the indicator called `name`.

    Raises:
        UnknownNameError: for an unknown name; the message lists the valid names.
    """
    check_name("indicator", name, INDICATORS)
    return INDICATORS[name]
