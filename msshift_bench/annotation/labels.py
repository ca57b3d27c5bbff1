"""What people are asked of two queries, and what their answers say together.

Sources: how alike two queries are, and which label counts, Zhan et al., Evaluating Interpolation
and Extrapolation Performance of Neural Retrieval Models (CIKM 2022), section 3.2 and Tables 1 and
2; whether one leaks the other, Fröbe et al., How Train-Test Leakage Affects Zero-Shot Retrieval
(SPIRE 2022), section 3, which takes the types of Jansen, Booth and Spink (JASIST 2009).
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
"""The annotator of verdicts that annotators reached together: they settle their pairs."""

DIFFERENT = "different"
"""The label of a pair that does not leak."""

UNTYPED = "untyped"
"""The label of a pair that leaks, by an annotator who gave it no type, or several."""

REFORMULATIONS: Mapping[str, str] = MappingProxyType(
    {
        "identical": "the same words, but for inflection or order",
        "generalization": "some of the test query's words, so that it asks for more",
        "specialization": "the test query's words and others, so that it asks for less",
        "reformulation": "other words for the same, such as synonyms",
        DIFFERENT: "it asks for something else",
    }
)
"""What the training query is to the test query -> when to say so; the last does not leak."""


CONTEXT_RULE = " | "
"""What separates the parts of a pair's context."""


class Pair(NamedTuple):
    """A test query and a training query that people compare.

    Attributes:
        test_id: the test query's id.
        test_text: its text.
        train_id: the training query's id.
        train_text: its text.
        found_by: what found the pair, such as a tier of leakage; "" where that is not known.
        cosine: of their embeddings, -1 to 1; `None` where none was needed.
        context: what else annotators are told of the test query, such as a topic's description.
    """

    test_id: str
    test_text: str
    train_id: str
    train_text: str
    found_by: str = ""
    cosine: float | None = None
    context: str = ""


def _most_say(labels: Sequence[str]) -> str | None:
    """Return what most say of a pair; `None` if as many say that it leaks as that it does not."""
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
    """What annotators are asked of a pair.

    Attributes:
        name: the column of a sheet that holds the answers.
        answers: label -> what it means.
        merge: from annotators' labels of a pair to the one that counts; `None` if none does.
        optional: whether an annotator may leave pairs out.
    """

    name: str
    answers: Mapping[str, str]
    merge: Callable[[Sequence[str]], str | None]
    optional: bool = False

    def label_of(self, verdict: Verdict) -> str:
        """Return what an annotator says."""
        return verdict.labels[self.name]


def _scale(name: str, *points: str) -> Question:
    return Question(name, {str(point): title for point, title in enumerate(points)}, median_low)


SIMILARITY: tuple[Question, ...] = (
    _scale("entity", "zero overlap", "partial overlap", "full overlap"),
    _scale("intent", "dissimilar", "similar", "duplicate"),
)
"""How alike two queries are. The median counts, of an even number of points the lower of two."""

LEAKS = Question(
    "label", {**REFORMULATIONS, UNTYPED: "no type, or several"}, _most_say, optional=True
)

LEAKAGE: tuple[Question, ...] = (LEAKS,)
"""Whether a training query leaks a test query. Most annotators say whether, and most of those who
say that it does, of which type; it is `UNTYPED` if they name several types equally often."""


class Verdict(NamedTuple):
    """What one annotator says of a pair.

    Attributes:
        pair: the pair.
        annotator: who says so.
        labels: the name of a question -> the label.
        chosen: every label that was chosen, as ``a+b``, in files that may hold several.
    """

    pair: Pair
    annotator: str
    labels: Mapping[str, str]
    chosen: str


@dataclass(frozen=True, slots=True)
class Annotations:
    """What annotators say of pairs of queries.

    Attributes:
        questions: what they were asked: `SIMILARITY` or `LEAKAGE`.
        verdicts: what they say, in the order of the sheets.
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
        """Who judged alone, in the order of the sheets."""
        names = dict.fromkeys(verdict.annotator for verdict in self.verdicts)
        return tuple(name for name in names if name != AGREED)

    def by_pair(self) -> dict[Pair, list[Verdict]]:
        """Return the verdicts on every pair that was judged."""
        return values_by_key((verdict.pair, verdict) for verdict in self.verdicts)

    def labels(self, question: Question) -> dict[Pair, str | None]:
        """Return the label of every judged pair; `None` where none counts.

        It is the one that annotators agreed on, where they did, else what they say together.

        Args:
            question: one of `questions`.
        """
        labels = {}
        for pair, verdicts in self.by_pair().items():
            agreed = [verdict for verdict in verdicts if verdict.annotator == AGREED]
            labels[pair] = question.merge(list(map(question.label_of, agreed or verdicts)))
        return labels

    def disputed(self) -> list[list[Verdict]]:
        """Return the verdicts on pairs whose annotators differ, and agreed on no label."""
        return [
            verdicts
            for verdicts in self.by_pair().values()
            if all(verdict.annotator != AGREED for verdict in verdicts)
            and any(verdict.labels != verdicts[0].labels for verdict in verdicts)
        ]

    def pairs_to_settle(self) -> list[Pair]:
        """Return the disputed pairs, with what each annotator says in the context."""
        pairs = []
        for verdicts in self.disputed():
            answers = [
                f"{verdict.annotator} says {' and '.join(verdict.labels.values())}"
                for verdict in verdicts
            ]
            parts = filter(None, (", ".join(answers), verdicts[0].pair.context))
            pairs.append(verdicts[0].pair._replace(context=CONTEXT_RULE.join(parts)))
        return pairs

    def agreement(
        self, annotators: Sequence[str], label_of: Callable[[Verdict], Hashable]
    ) -> Agreement | None:
        """Return how far annotators agree on the pairs that all of them judged.

        Args:
            annotators: their names.
            label_of: what of a verdict is compared.

        Returns:
            The agreement, which counts other test queries; `None` of a single annotator, or if
            there is no such pair.
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
    """Return how like a training query every test query is, and how far annotators agree.

    Args:
        annotations: of sheets that ask for `SIMILARITY`.

    Returns:
        For each question (column `group`) and answer (`slice`), how many ``test_queries`` have it,
        and their ``share``: of a test query, the highest point of its candidates counts; and the
        `agreements` on entity and intent. The facts are the points of every test query.
    """
    rows: list[Figure] = []
    points: dict[str, dict[str, int]] = {}
    for question in annotations.questions:
        of_queries = points.setdefault(question.name, {})
        labels = annotations.labels(question)
        for pair in sorted(labels, key=lambda pair: pair.test_id):
            of_queries[pair.test_id] = max(of_queries.get(pair.test_id, 0), int(labels[pair] or 0))
        counts = Counter(of_queries.values())
        for answer, title in reversed([*question.answers.items()]):
            count = counts[int(answer)]
            row = Figure("test_queries", group=question.name, slice=title, value=count)
            rows += [row, row._replace(figure="share", value=count / len(of_queries))]
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
    """Return how many test queries have each point, as Tables 1 and 2, and the agreement."""
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
    """Yield how far annotators agree: every two of them, and all of several on average.

    Args:
        annotations: what they say.
        kappas: the name of a kappa -> what of a verdict it compares.

    Yields:
        How many pairs were ``judged_by_all`` of these annotators, if any, and each kappa, with an
        interval over other test queries; two are `system` and `against`, more are "all".
    """
    names = sorted(annotations.annotators)
    for some in [*combinations(names, 2), *([tuple(names)] if len(names) > 2 else [])]:
        system, against = some if len(some) == 2 else ("all", "")
        row = Figure("judged_by_all", system=system, against=against)
        for figure, label_of in kappas.items():
            agreement = annotations.agreement(some, label_of)
            if agreement is None:
                break
            if figure == next(iter(kappas)):
                yield row._replace(value=agreement.items)
            yield row._replace(figure=figure).with_value(agreement.kappa, agreement.interval)


def agreement_table(titles: Mapping[str, str]) -> TableSpec:
    """Return what the table of `agreements` is made of.

    Args:
        titles: the name of a kappa -> the title of its column.
    """
    columns = {name: (title, number(3, 2)) for name, title in titles.items()}
    columns = {"judged_by_all": ("pairs", COUNT), **columns}
    names = {"system": "annotator", "against": "and"}
    return "agreement: Cohen's kappa [95% interval]", names, columns
