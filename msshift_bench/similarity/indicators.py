"""The one table of indicators: what each of them says, what it needs, and where it comes from.

To add an indicator, write its function and add a row here; nothing else lists indicators. Those
that come from the words of queries are functions of this module.

Weighted Jaccard similarity (MS-Shift, section 5.2): with S_k and T_k the shares of word k among all
words of two sets of queries,

    J(S, T) = sum over k of min(S_k, T_k) / sum over k of max(S_k, T_k)

Both sums are of whole numbers here (counts times the other set's total), so that the value is the
exact one, rounded once: neither the order of the queries nor that of the words can change a bit.
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
"""From the text of a query to its words."""

Models: TypeAlias = Mapping[str, str | Path] | Sequence[OpenedRunSet] | str | Path | None
"""Bi-encoders; see `IndicatorOptions`."""


def split_words(text: str, words: str = "whitespace") -> list[str]:
    """Return the words of a text, lower-cased; by default split at white space, as in the paper."""
    return divide(text.lower(), words).split()


def weighted_jaccard(
    train: QueryColumns, test: QueryColumns, words_of: Tokenizer = split_words
) -> float:
    """Return the weighted Jaccard similarity of two sets of queries, 0 to 1; it is symmetric.

    Args:
        train: one set.
        test: the other.
        words_of: cuts a text into words.

    Raises:
        DataError: if the tokenizer finds no word in one of them.
    """
    trained, tested = (
        Counter(word for text in queries.texts for word in words_of(text))
        for queries in (train, test)
    )
    total, test_total = trained.total(), tested.total()
    if not total or not test_total:
        which = "training" if not total else "test"
        raise DataError(f"the tokenizer finds no word in the {which} queries")
    common = sum(
        min(trained[word] * test_total, tested[word] * total)
        for word in trained.keys() & tested.keys()
    )
    # min + max = S_k + T_k, and each of the two sums to 1.
    return common / (2 * total * test_total - common)


def unseen_words(
    train: QueryColumns, test: QueryColumns, words_of: Tokenizer = content_words
) -> QueryValues:
    """Return the share of each test query's words that training never met, 0 to 1.

    A word that stands twice in the query counts twice. A query without a word has nothing that is
    new: its share is 0.

    Args:
        train: the training queries.
        test: the test queries.
        words_of: cuts a text into words; by default into those of content.
    """
    met = {word for text in train.texts for word in words_of(text)}
    shares = []
    for text in test.texts:
        words = words_of(text)
        shares.append(sum(word not in met for word in words) / len(words) if words else 0.0)
    return QueryValues(np.array(shares))


class IndicatorOptions(TypedDict, total=False):
    """What users may say about how an indicator is computed.

    Each indicator takes some of these; `Indicator.options` names them.

    Attributes:
        tokenizer: cuts a query into words. By default ``weighted-jaccard`` lower-cases and splits
            at white space, and ``unseen-words`` takes runs of two or more letters, lower-cased,
            without stop words.
        encoder: an id of the Hugging Face Hub, a folder, or ``terms``, which needs no model. By
            default the paper's ``distilbert-base-uncased``, or ``terms`` for data of ``mini``. Or
            an `EncoderSpec` with settings.
        pooling: of an encoder that is given by name: ``cls`` (default), ``mean``, or ``own`` for a
            model that sentence-transformers saved, which makes a query's vector by itself.
        models: the bi-encoders: a folder of run sets of one system with kept models, or such run
            sets opened; held-out group -> model folder; or one model folder for two sets of
            queries.
        seed: the seed whose models count, if the run set has several; by default the smallest.

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
    """One way to say how near test queries lie to training queries.

    Attributes:
        name: as the command and the functions take it.
        title: as tables show it.
        per_query: whether every test query has a value of its own; that of a set of test queries
            is then their mean. Otherwise only two sets have a value.
        needs: what it needs beyond the queries: ``""``, ``encoder``, ``model`` (a bi-encoder that
            was trained without the group) or ``labels`` (the queries' relevant passages).
        against: which queries of the other groups a group is compared with unless the user says
            otherwise: those of the same split (``same``), or their training queries (``train``).
        higher: what a higher value says of the test queries: they are ``nearer`` to the training
            queries, or ``farther`` from them.
        options: the `IndicatorOptions` that it takes.
        source: where it is defined.
        function: takes the training queries, the test queries and what it needs (a tokenizer,
            `TextVectors`, or query_id -> relevant passages), and returns one value, or
            `QueryValues` if it is defined per query.
        cut: returns the words of a text that is divided by a name in `WORDS`, unless the user gives
            a tokenizer; `None` if the indicator takes none.
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
        """Return which queries of the other groups those of a split are compared with."""
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
                title="share of content words never met",
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
        UnknownNameError: if there is none; the message lists them and names the nearest.
    """
    check_name("indicator", name, INDICATORS)
    return INDICATORS[name]
