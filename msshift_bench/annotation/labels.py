"""The questions that annotators answer about two queries, and the labels and agreement that follow.

Sources: `SIMILARITY` and its median label, Zhan et al., Evaluating Interpolation and Extrapolation
Performance of Neural Retrieval Models (CIKM 2022), section 3.2 and Tables 1 and 2; `LEAKAGE`,
Fröbe et al., How Train-Test Leakage Affects Zero-Shot Retrieval (SPIRE 2022), section 3, which
uses the types of Jansen, Booth and Spink (JASIST 2009).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median_low
from types import MappingProxyType
from typing import NamedTuple

from msshift_bench.data import DataInfo
from msshift_bench.evaluation import Note, Result, Section, TableSpec
from msshift_bench.output import COUNT, REL_LOSS, number, tabulate
from msshift_bench.plumbing import values_by_key
from msshift_bench.stats import Agreement, Figure, Figures, annotator_agreement

AGREED = "agreed"
"""The annotator name of joint verdicts, which replace the single annotators' verdicts on a pair."""

DIFFERENT = "different"
"""The label of a pair that does not leak."""

UNTYPED = "untyped"
"""The label of a pair that leaks without one type: an annotator chose no type, or several."""

REFORMULATIONS: Mapping[str, str] = MappingProxyType(
    {
        "identical": "the same words, but for inflection or order",
        "generalization": "some of the test query's words, so that it asks for more",
        "specialization": "the test query's words and others, so that it asks for less",
        "reformulation": "other words for the same need, such as synonyms",
        DIFFERENT: "another need",
    }
)
"""Label of a training query against the test query -> its meaning. Only `DIFFERENT` is no leak."""


CONTEXT_RULE = " | "
"""The separator of the parts of a pair's context."""


class Pair(NamedTuple):
    """A test query and a training query that people compare.

    Attributes:
        test_id: the test query's id.
        test_text: its text.
        train_id: the training query's id.
        train_text: its text.
        found_by: the method or tier that found the pair, e.g. ``near-duplicate``; "" if unknown.
        cosine: the cosine of their embeddings, -1 to 1; `None` if none was computed.
        context: further text for annotators, such as the topic's description; "" for none.
    """

    test_id: str
    test_text: str
    train_id: str
    train_text: str
    found_by: str = ""
    cosine: float | None = None
    context: str = ""


def _majority_label(labels: Sequence[str]) -> str | None:
    """Return the majority's label; `None` if equally many labels leak and do not leak.

    If several leaking types are equally frequent, it is `UNTYPED`.
    """
    types = Counter(label for label in labels if label != DIFFERENT)
    leaking, different = types.total(), len(labels) - types.total()
    if leaking == different:
        return None
    if different > leaking:
        return DIFFERENT
    (label, count), *next_ones = types.most_common(2)
    return UNTYPED if next_ones and next_ones[0][1] == count else label


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a pair of queries.

    Attributes:
        name: the column of a sheet that holds the answers.
        answers: label -> its meaning.
        merge: a function from all labels of a pair to its final label; `None` for a tied vote.
        optional: whether an annotator may leave pairs without an answer.
    """

    name: str
    answers: Mapping[str, str]
    merge: Callable[[Sequence[str]], str | None]
    optional: bool = False

    def label_of(self, verdict: Verdict) -> str:
        """Return a verdict's label for this question."""
        return verdict.labels[self.name]


def _scale(name: str, *points: str) -> Question:
    return Question(name, {str(point): title for point, title in enumerate(points)}, median_low)


SIMILARITY: tuple[Question, ...] = (
    _scale("entity", "zero overlap", "partial overlap", "full overlap"),
    _scale("intent", "dissimilar", "similar", "duplicate"),
)
"""How similar two queries are, in points from 0 to 2. A pair's label is the (lower) median."""

LEAKAGE_QUESTION = Question(
    "label", {**REFORMULATIONS, UNTYPED: "no type, or several"}, _majority_label, optional=True
)

LEAKAGE: tuple[Question, ...] = (LEAKAGE_QUESTION,)
"""Whether a training query leaks a test query, and by which type of reformulation. The majority
decides on leakage, and among the leaking labels on the type: `UNTYPED` for a tie of types."""


class Verdict(NamedTuple):
    """One annotator's labels of a pair.

    Attributes:
        pair: the pair.
        annotator: the annotator's name.
        labels: question name -> label.
        chosen: all labels chosen for the first question, sorted and joined as ``a+b``.
    """

    pair: Pair
    annotator: str
    labels: Mapping[str, str]
    chosen: str


@dataclass(frozen=True, slots=True)
class Annotations:
    """Annotators' verdicts on pairs of queries.

    Attributes:
        questions: `SIMILARITY` or `LEAKAGE`.
        verdicts: the verdicts, in the order of the sheets.
        unjudged: the pairs of the sheets that nobody judged.

    Examples:
        >>> annotations = read_annotations(["ada.csv", "ben.csv"])
        >>> for ada, ben in annotations.disputed():
        ...     print(ada.pair.train_text, ada.labels, ben.labels)
        how old is the pope {'label': 'different'} {'label': 'specialization'}
    """

    questions: tuple[Question, ...]
    verdicts: tuple[Verdict, ...]
    unjudged: tuple[Pair, ...]

    @property
    def annotators(self) -> tuple[str, ...]:
        """The names of annotators, without `AGREED`, in the order of the sheets."""
        names = dict.fromkeys(verdict.annotator for verdict in self.verdicts)
        return tuple(name for name in names if name != AGREED)

    def by_pair(self) -> dict[Pair, list[Verdict]]:
        """Return judged pair -> its verdicts."""
        return values_by_key((verdict.pair, verdict) for verdict in self.verdicts)

    def labels(self, question: Question) -> dict[Pair, str | None]:
        """Return judged pair -> its final label; `None` for a tied vote.

        Verdicts by `AGREED` decide alone; without them, `Question.merge` combines all verdicts.

        Args:
            question: one of `questions`.
        """
        labels = {}
        for pair, verdicts in self.by_pair().items():
            agreed = [verdict for verdict in verdicts if verdict.annotator == AGREED]
            labels[pair] = question.merge(list(map(question.label_of, agreed or verdicts)))
        return labels

    def disputed(self) -> list[list[Verdict]]:
        """Return the verdicts of each pair with different labels and no verdict by `AGREED`."""
        return [
            verdicts
            for verdicts in self.by_pair().values()
            if all(verdict.annotator != AGREED for verdict in verdicts)
            and any(verdict.labels != verdicts[0].labels for verdict in verdicts)
        ]

    def pairs_to_settle(self) -> list[Pair]:
        """Return the disputed pairs. Their contexts begin with each annotator's labels."""
        pairs = []
        for verdicts in self.disputed():
            answers = [
                f"{verdict.annotator}: {' and '.join(verdict.labels.values())}"
                for verdict in verdicts
            ]
            parts = filter(None, (", ".join(answers), verdicts[0].pair.context))
            pairs.append(verdicts[0].pair._replace(context=CONTEXT_RULE.join(parts)))
        return pairs

    def agreement(
        self, annotators: Sequence[str], label_of: Callable[[Verdict], Hashable]
    ) -> Agreement | None:
        """Return Cohen's kappa of annotators on the pairs that all of them judged.

        Args:
            annotators: their names.
            label_of: a function from a verdict to the label to compare.

        Returns:
            The kappa, with an interval over test queries; for three or more annotators, the mean
            over all pairs of them. `None` for a single annotator, or if no pair was judged by all.
        """
        columns = [
            {
                verdict.pair: label_of(verdict)
                for verdict in self.verdicts
                if verdict.annotator == annotator
            }
            for annotator in annotators
        ]
        shared = [pair for pair in columns[0] if all(pair in column for column in columns)]
        if len(columns) < 2 or not shared:
            return None
        shared.sort(key=lambda pair: (pair.test_id, pair.train_id))
        labels = [[column[pair] for pair in shared] for column in columns]
        return annotator_agreement(labels, [pair.test_id for pair in shared])


def similarity_labels(annotations: Annotations) -> Result:
    """Return counts of test queries by their similarity to training queries, and the agreement.

    Args:
        annotations: verdicts from sheets with the questions `SIMILARITY`.

    Returns:
        For each question (column `group`) and answer (`slice`), the number of ``test_queries`` with
        it and their ``share`` (0 to 1). A test query has the highest point of its candidates. Then
        the `agreements` on entity and intent. The facts hold the points of every test query.
    """
    rows: list[Figure] = []
    points: dict[str, dict[str, int]] = {}
    for question in annotations.questions:
        highest = points.setdefault(question.name, {})
        labels = annotations.labels(question)
        for pair in sorted(labels, key=lambda pair: pair.test_id):
            highest[pair.test_id] = max(highest.get(pair.test_id, 0), int(labels[pair] or 0))
        counts = Counter(highest.values())
        for answer, title in reversed([*question.answers.items()]):
            count = counts[int(answer)]
            row = Figure("test_queries", group=question.name, slice=title, value=count)
            rows += [row, row._replace(figure="share", value=count / len(highest))]
    kappas = {f"kappa_of_{question.name}": question.label_of for question in SIMILARITY}
    rows += agreements(annotations, kappas)
    names = annotations.annotators
    return Result(
        "similarity-labels",
        Figures(rows),
        {"annotators": list(names)},
        DataInfo(),
        [Note(f"{len(names)} annotators, {len(annotations.by_pair()):,} pairs of queries")],
        _layout,
        facts={"points": points},
    )


def _layout(figures: Figures) -> list[Section]:
    """Return the counts of test queries per point, like Tables 1 and 2, and the agreement."""
    columns = {"test_queries": ("queries", COUNT), "share": ("share", REL_LOSS)}
    tables = [
        tabulate(
            figures.where(group=question.name), question.name, {"slice": "of test queries"}, columns
        )
        for question in SIMILARITY
    ]
    titles = {f"kappa_of_{question.name}": question.name for question in SIMILARITY}
    tables.append(tabulate(figures, *agreement_table(titles)))
    return [Section([table for table in tables if table.rows])]


def agreements(
    annotations: Annotations, kappas: Mapping[str, Callable[[Verdict], Hashable]]
) -> Iterator[Figure]:
    """Yield the kappas of every two annotators; for three or more, also the mean over all pairs.

    Args:
        annotations: the verdicts.
        kappas: kappa name -> a function from a verdict to the label to compare.

    Yields:
        The number of pairs ``judged_by_all`` of the annotators, then each kappa, with an interval
        over test queries. Two annotators are in `system` and `against`; `system` is "all" for more.
        Annotators without a common pair have no figures.
    """
    names = sorted(annotations.annotators)
    for subset in [*combinations(names, 2), *([tuple(names)] if len(names) > 2 else [])]:
        system, against = subset if len(subset) == 2 else ("all", "")
        row = Figure("judged_by_all", system=system, against=against)
        for figure, label_of in kappas.items():
            agreement = annotations.agreement(subset, label_of)
            if agreement is None:
                break
            if figure == next(iter(kappas)):
                yield row._replace(value=agreement.items)
            yield row._replace(figure=figure).with_value(agreement.kappa, agreement.interval)


def agreement_table(titles: Mapping[str, str]) -> TableSpec:
    """Return the title, row names and columns of the table of `agreements`.

    Args:
        titles: kappa name -> the title of its column.
    """
    columns = {name: (title, number(3, 2)) for name, title in titles.items()}
    columns = {"judged_by_all": ("pairs", COUNT), **columns}
    names = {"system": "annotator", "against": "and"}
    return "agreement: Cohen's kappa [95% interval]", names, columns
