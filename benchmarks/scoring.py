"""Scoring runs: one large run beside other tools, runs of unusual shape, and a whole shift."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.runner import Case, Clock, Sizes

MEASURES = ("RR@10", "nDCG@10", "R@1000")
PASSAGES = 8_841_823
TOPICS = {"C0": 6595, "C1": 5960, "C2": 6255, "C3": 5868, "C4": 6566}
"""The test queries of the official edition's topics."""


def write_run(folder: Path, sizes: Sizes) -> None:
    """Write a run of MS MARCO's shape, and qrels with about one relevant passage per query.

    Scores of four decimals make as many ties as real runs have.
    """
    rng = np.random.default_rng(2022)
    query_ids = rng.choice(max(1_100_000, 2 * sizes.queries), sizes.queries, replace=False)
    with (folder / "big.run").open("w") as run, (folder / "big.qrels").open("w") as qrels:
        for number, query in enumerate(query_ids.tolist()):
            docs = rng.choice(PASSAGES, sizes.depth, replace=False, shuffle=False).tolist()
            scores = np.sort(10 + 15 * rng.random(sizes.depth) ** 3)[::-1].tolist()
            ranked = zip(docs, range(1, sizes.depth + 1), scores, strict=True)
            lines = [f"{query} Q0 {doc} {rank} {score:.4f} made\n" for doc, rank, score in ranked]
            if sizes.order == "shuffled":
                rng.shuffle(lines)
            run.writelines(lines)
            place = int(rng.geometric(0.03)) - 1
            is_found = place < sizes.depth and rng.random() < 0.85
            if number < (sizes.judged or sizes.queries):
                qrels.write(f"{query} 0 {docs[place] if is_found else PASSAGES} 1\n")


def with_library(folder: Path, _sizes: Sizes, _clock: Clock) -> None:
    """Print the measures by our library, called from a script."""
    from msshift_bench.evaluation.settings import parse_measure
    from msshift_bench.runs import Judgements, judge_run, read_qrels

    judgements = Judgements.from_qrels(read_qrels(folder / "big.qrels"))
    judged = judge_run(folder / "big.run", judgements)
    for name in MEASURES:
        print(name, parse_measure(name).per_query(judged).mean())


def with_pytrec_eval(folder: Path, _sizes: Sizes, _clock: Clock) -> None:
    """Print the measures by pytrec_eval, whose reciprocal rank knows no cutoff."""
    import pytrec_eval

    with (folder / "big.qrels").open() as file:
        judgements = pytrec_eval.parse_qrel(file)
    with (folder / "big.run").open() as file:
        ranking = pytrec_eval.parse_run(file)
    measures = {"recip_rank", "ndcg_cut.10", "recall.1000"}
    scores = pytrec_eval.RelevanceEvaluator(judgements, measures).evaluate(ranking).values()
    for name in ("recip_rank", "ndcg_cut_10", "recall_1000"):
        print(name, sum(score[name] for score in scores) / len(judgements))


def with_ranx(folder: Path, _sizes: Sizes, _clock: Clock) -> None:
    """Print the measures by ranx."""
    import ranx

    judgements = ranx.Qrels.from_file(str(folder / "big.qrels"), kind="trec")
    ranking = ranx.Run.from_file(str(folder / "big.run"), kind="trec")
    print(ranx.evaluate(judgements, ranking, ["mrr@10", "ndcg@10", "recall@1000"]))


def with_pyarrow_alone(folder: Path, _sizes: Sizes, _clock: Clock) -> None:
    """Read the columns and compute nothing: what no reader built on it can undercut."""
    import pyarrow.csv

    names = ["query_id", "Q0", "doc_id", "rank", "score", "tag"]
    with pyarrow.csv.open_csv(
        folder / "big.run",
        pyarrow.csv.ReadOptions(column_names=names),
        pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False),
    ) as reader:
        print(sum(batch.num_rows for batch in reader))


def write_shift(folder: Path, sizes: Sizes) -> None:
    """Write a data set of the official topics' size, and a run set of five runs."""
    from msshift_bench.dataset_builders.cut import ShiftSplits, cut_table
    from msshift_bench.dataset_builders.write import write_dataset
    from msshift_bench.records import Grouping, Row
    from msshift_bench.runs import run_path
    from msshift_bench.shifts import get_shift

    ids = iter(np.random.default_rng(0).permutation(1_000_000).tolist())

    def rows(split: str, counts: Mapping[str, int]) -> tuple[Row, ...]:
        drawn = [
            Row(str(next(ids)), f"{split} query", group, (str(next(ids)),), (1,))
            for group, count in counts.items()
            for _ in range(count)
        ]
        return tuple(sorted(drawn))

    tests = rows("test", TOPICS)
    rows_of = {"train": rows("train", dict.fromkeys(TOPICS, 1)), "validation": (), "test": tests}
    cut = ShiftSplits(Grouping("topics", {}, "generated", {}), cut_table(rows_of))
    collection = {"name": "generated", "text": "raw"}
    write_dataset(
        folder / "msshift", [cut], edition="rebuilt", collection=collection, parameters={}
    )
    for seed, group in enumerate(TOPICS):
        rng = np.random.default_rng(seed)
        path = run_path(folder / "runs", "generated", get_shift("topics"), group).with_suffix("")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            for row in tests:
                drawn = rng.integers(1_000_000, PASSAGES, 2 * sizes.depth).tolist()
                docs = list(dict.fromkeys(drawn))[: sizes.depth]
                place = int(rng.geometric(0.1)) - 1
                if place < sizes.depth:
                    docs[place] = int(row.relevant_doc_ids[0])
                scores = np.sort(10 + 15 * rng.random(sizes.depth) ** 3)[::-1].tolist()
                file.writelines(
                    f"{row.query_id} Q0 {doc} {rank} {score:.4f} made\n"
                    for rank, (doc, score) in enumerate(zip(docs, scores, strict=True), 1)
                )


CASES = {
    "evaluate": Case(
        "One large run, from cold start to the printed measures, every check of the file included."
        " --queries 1 --depth 3000000 --order shuffled and --queries 2000000 --depth 1 --judged 200"
        " make runs of unusual shape; with other --measures, only the two command lines compare.",
        write_run,
        {
            "msshift score": (
                *("msshift", "score", "big.run", "--qrels", "big.qrels"),
                *("--measures", "{measures}"),
            ),
            "msshift library": with_library,
            "pytrec_eval": with_pytrec_eval,
            "ranx": with_ranx,
            "pyarrow's CSV alone": with_pyarrow_alone,
            "ir_measures": ("ir_measures", "big.qrels", "big.run", "{measures}"),
        },
        {
            "queries": 6980,
            "depth": 1000,
            "judged": 0,
            "order": "ranked",
            "measures": " ".join(MEASURES),
        },
        targets={"ir_measures": "20", "pytrec_eval": "5", "ranx": "15"},
    ),
    "evaluate_topics": Case(
        "A whole shift: five runs for each of 31,244 test queries, with all statistics.",
        write_shift,
        {"msshift evaluate": ("msshift", "evaluate", "runs")},
        {"depth": 100},
        targets={"msshift evaluate": "20 s"},
    ),
}
