"""Found leakage: pairs of test topics and training queries, by tier, in tables and files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from msshift_bench.data import DataInfo, Dataset, TestSet, open_dataset, sha256_of
from msshift_bench.errors import (
    CollectionError,
    DataError,
    Finding,
    NotFoundError,
    check_name,
    first_few,
    quoted,
)
from msshift_bench.evaluation import LeakedQueries, Note, Result, tabulated
from msshift_bench.output import COUNT, REL_LOSS, report_head, with_head
from msshift_bench.plumbing import (
    TooLargeError,
    check_contents,
    check_folder,
    checksum_matches,
    replace_folder,
    unpacked_batches,
    with_checksum,
    write_json,
    write_parquet,
)
from msshift_bench.shifts import DATASET_NAME
from msshift_bench.stats import Figure, Figures

TIERS = ("same-text", "same-normalised", "same-words", "near-duplicate", "same-passage")
"""The tiers of evidence, from the strictest to the loosest."""

NEAR_TIER, PASSAGE_TIER = TIERS[-2:]

_BATCH = 100_000
"""The number of pairs read at once."""

CANDIDATES_NAME, FOUND_NAME = "candidates.parquet", "found.json"

_OF_TIERS = (
    {"slice": "tier"},
    {
        "pairs": ("pairs", COUNT),
        "queries": ("training queries", COUNT),
        "topics": ("test topics", COUNT),
        "share_of_topics": ("of all topics", REL_LOSS),
    },
)
"""The rows and columns of the table of all tiers."""

_OF_TEXTS = (
    "By the topics' texts (T: topics, Q: training queries)",
    {"group": "candidates"},
    {"topics": ("T", COUNT), "queries": ("Q", COUNT)},
)
"""The table of leakage by kind of text, for topics with several texts."""


def tiers_up_to(tier: str) -> tuple[str, ...]:
    """Return a tier and all stricter tiers, from the strictest.

    Raises:
        UnknownNameError: if there is no such tier.
    """
    check_name("tier", tier, TIERS)
    return TIERS[: TIERS.index(tier) + 1]


class LeakedPair(NamedTuple):
    """A training query that may leak a test topic.

    Attributes:
        test_id: the test topic.
        train_id: the training query.
        tier: ``same-passage``, or the strictest of the other `TIERS`.
        cosine: the cosine of a ``near-duplicate``'s two texts; `None` for other tiers.
        test_text: the topic's text in this match; a topic may have several texts.
        train_text: the training query's text.
    """

    test_id: str
    train_id: str
    tier: str
    cosine: float | None
    test_text: str
    train_text: str


class TierCount(NamedTuple):
    """The numbers of leaking pairs, of their topics and of their training queries."""

    pairs: int
    topics: int
    queries: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> TierCount:
        """Count distinct pairs of test_id and train_id."""
        distinct = set(pairs)
        tests, trains = ({pair[place] for pair in distinct} for place in (0, 1))
        return cls(len(distinct), len(tests), len(trains))


@dataclass(frozen=True, slots=True, repr=False)
class LeakageResult:
    """Training queries that may leak test topics.

    Attributes:
        pairs: the pairs, sorted by test_id, train_id and tier. Two queries have at most two pairs:
            one at the strictest tier of their texts, and one at ``same-passage``.
        queries: the number of training queries.
        fields: kind of topic text, such as ``title`` -> its leakage, without ``same-passage``.
        facts: the sources with their digests, the encoder and the threshold, as JSON values.
        test_ids: the ids of all test topics.

    Examples:
        >>> found = find_leakage("train.tsv", {"8": "Who is pope?", "9": "how old is rome"})
        >>> found, found.queries
        (<LeakageResult: 1 pairs of 2 test topics>, 2)
        >>> found.count("same-normalised").pairs, found.count().topics
        (1, 1)
    """

    pairs: tuple[LeakedPair, ...]
    queries: int
    fields: Mapping[str, TierCount]
    facts: Mapping[str, object]
    test_ids: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<LeakageResult: {len(self.pairs):,} pairs of {len(self.test_ids):,} test topics>"

    def count(self, *tiers: str) -> TierCount:
        """Count the pairs at any of `tiers`; by default, at any of `TIERS`."""
        wanted = tiers or TIERS
        return TierCount.of(
            (pair.test_id, pair.train_id) for pair in self.pairs if pair.tier in wanted
        )

    def result(self) -> Result:
        """Return the numbers of leaking pairs, topics and training queries.

        Returns:
            For each tier and any of them (column `slice`): the numbers of ``pairs``, of their test
            ``topics`` and training ``queries``, and the ``share_of_topics`` (0 to 1). If topics
            have several kinds of text, the same for each kind (column `group`).
        """
        searched = TIERS if self.facts["train_qrels"] else TIERS[:-1]
        counts = [
            *((Figure("", slice=tier), self.count(tier)) for tier in searched),
            (Figure("", slice="any of these"), self.count(*searched)),
        ]
        if len(self.fields) > 1:
            counts += [
                *((Figure("", group=field), count) for field, count in self.fields.items()),
                (Figure("", group="union"), self.count(*TIERS[:-1])),
            ]
        rows = []
        for row, count in counts:
            shares = {**count._asdict(), "share_of_topics": count.topics / len(self.test_ids)}
            rows += [row._replace(figure=name, value=value) for name, value in shares.items()]
        encoder = self.facts["encoder"]
        name = encoder["encoder"] if isinstance(encoder, Mapping) else encoder
        lines = (
            f"near-duplicate: a cosine of at least {self.facts['threshold']} by {name}; at most "
            f"{self.facts['nearest']} training queries per text",
            "each pair counts once among the tiers that compare texts: at its strictest tier",
        )
        sizes = f"{len(self.test_ids):,} test topics and {self.queries:,} training queries"
        return Result(
            "leakage",
            Figures(rows),
            self.facts,
            DataInfo(),
            [Note(line) for line in lines],
            partial(tabulated, [(f"Possible leakage between {sizes}", *_OF_TIERS), _OF_TEXTS]),
            facts={"test_topics": len(self.test_ids), "training_queries": self.queries},
        )

    def write(self, folder: str | Path) -> None:
        """Write ``candidates.parquet`` and ``found.json`` to a folder.

        After an error, the folder is unchanged.

        Args:
            folder: the folder; files from an earlier `write` are replaced.

        Raises:
            UsageError: if the folder holds other files, or another process is writing it.
        """
        check_found_folder(Path(folder))
        types = dict.fromkeys(LeakedPair._fields, pa.string()) | {"cosine": pa.float32()}
        columns = {
            name: pa.array([getattr(pair, name) for pair in self.pairs], type=kind)
            for name, kind in types.items()
        }
        with replace_folder(Path(folder)) as new:
            write_parquet(new / CANDIDATES_NAME, with_head(pa.table(columns), report_head()))
            digest = sha256_of(new / CANDIDATES_NAME)
            facts = self.result().to_json()
            facts |= {"candidates_sha256": digest, "test_ids": list(self.test_ids)}
            write_json(new / FOUND_NAME, with_checksum(facts))


def check_found_folder(folder: Path) -> None:
    """Check that `LeakageResult.write` can write to a folder.

    Raises:
        UsageError: if the folder holds other files, or another process is writing it.
        OSError: if it cannot be written.
    """
    check_folder(folder)
    names = (CANDIDATES_NAME, FOUND_NAME)
    check_contents(folder, CANDIDATES_NAME, names, "a result of 'msshift leakage find'")


def read_candidates(source: str | Path) -> list[LeakedPair]:
    """Return the pairs that `msshift leakage find` wrote, in the order of the file.

    Args:
        source: the folder, or its ``candidates.parquet``.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if it is not a Parquet file, lacks a column or holds an unknown tier, or
            its digest is not the digest in ``found.json``.
        DataError: if ``found.json`` is not a JSON object, or was changed after it was written.
    """
    import pyarrow.parquet as pq

    path = Path(source)
    digest = read_found(path).get("candidates_sha256")
    if path.is_dir():
        path /= CANDIDATES_NAME
    if not path.is_file():
        raise NotFoundError(
            f"no file {path}; give the folder that 'msshift leakage find --out' wrote, or its "
            f"{CANDIDATES_NAME}"
        )

    def wrong(message: str) -> CollectionError:
        fix = "run 'msshift leakage find' again, or give the unchanged file that it wrote"
        finding = Finding("no-candidates", message, str(path), fix=fix)
        return CollectionError("the candidates cannot be used:", [finding])

    if path.name == CANDIDATES_NAME and digest not in (None, sha256_of(path)):
        raise wrong(f"{FOUND_NAME} records another SHA-256 for this file")
    pairs: list[LeakedPair] = []
    names = LeakedPair._fields
    try:
        schema = pq.read_schema(path.absolute())
        if lacking := [name for name in names if name not in schema.names]:
            raise wrong(f"no column {', '.join(lacking)}")
        if not pa.types.is_floating(schema.field("cosine").type):
            raise wrong("the column cosine holds no numbers")
        for batch in unpacked_batches(path, names, _BATCH, in_all=True):
            kinds = {name: pa.string() for name in names} | {"cosine": batch["cosine"].type}
            columns = (batch[name].cast(kind).to_pylist() for name, kind in kinds.items())
            pairs += map(LeakedPair, *columns)
    except TooLargeError as error:
        raise wrong(str(error)) from None
    except (pa.ArrowException, OSError) as error:
        raise wrong(f"not a complete Parquet file: {quoted(str(error))}") from None
    if unknown := sorted({str(pair.tier) for pair in pairs} - set(TIERS)):
        raise wrong(f"unknown tier {quoted(unknown[0])}; expected {', '.join(TIERS)}")
    return pairs


def read_found(source: Path) -> dict[str, Any]:
    """Read ``found.json``, which `msshift leakage find` wrote; `{}` if there is no such file.

    Args:
        source: the folder, or its ``candidates.parquet``.

    Raises:
        DataError: if the file is not a JSON object, or was changed after it was written.
    """
    path = source / FOUND_NAME if source.is_dir() else source.with_name(FOUND_NAME)
    if not path.is_file():
        return {}
    try:
        facts = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is not valid JSON: {error}; run 'msshift leakage find' again"
        ) from error
    if not isinstance(facts, dict) or not checksum_matches(facts):
        raise DataError(
            f"{path} was changed after it was written; run 'msshift leakage find' again"
        )
    return facts


def read_leaked_queries(
    candidates: str | Path, known: Dataset | TestSet | str | Path = DATASET_NAME
) -> LeakedQueries:
    """Read the test queries that leaked, for `evaluate_run_sets` and `score_runs` to leave out.

    Args:
        candidates: the folder that `LeakageResult.write` wrote, or its ``candidates.parquet``.
        known: the test set that is scored, or the data set with the scored test queries.

    Returns:
        The ids of the queries with a pair at any tier, the path of the candidates, and the ids of
        all searched queries (`None` without ``found.json``).

    Raises:
        NotFoundError: if there is no such file or data set.
        CollectionError: if the file is not a valid file of candidates.
        DataError: if the candidates were made for other test queries.

    Examples:
        >>> test = load_dataset("msshift", "length-short", split="test")
        >>> find_leakage({"t1": test[0].text}, test).write("leaks-of-short")
        >>> leaked = read_leaked_queries("leaks-of-short", "msshift")
        >>> leaked.query_ids == {test[0].query_id}
        True
    """
    leaked = {pair.test_id: pair.test_text for pair in read_candidates(candidates)}
    texts = dict.fromkeys(known.judged, "") if isinstance(known, TestSet) else _texts(known)
    unknown = [test_id for test_id in leaked if test_id not in texts]
    changed = [
        test_id for test_id, text in leaked.items() if texts.get(test_id) and texts[test_id] != text
    ]
    for wrong, why in (
        (unknown, "are not among the scored test queries"),
        (changed, "have another text than the scored test queries"),
    ):
        if wrong:
            raise DataError(
                f"{candidates} was made for other test queries: {len(wrong)} of its {len(leaked)} "
                f"leaked queries {why} ({first_few(wrong, 3)}); run 'msshift leakage find' with "
                "the scored test queries"
            )
    searched = frozenset(read_found(Path(candidates)).get("test_ids", ()))
    return LeakedQueries(frozenset(leaked), str(candidates), searched or None)


def _texts(data: Dataset | str | Path) -> dict[str, str]:
    """Return query_id -> text of all test queries; the text is "" in a data set without texts."""
    dataset = open_dataset(data)
    return {
        row.query_id: row.text or ""
        for name in dataset.manifest.shifts
        for rows in dataset.test_sets(name).values()
        for row in rows
    }
