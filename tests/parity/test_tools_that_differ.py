"""Where other tools differ from msshift: rows of docs, with our number or message, and theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pyterrier
import pytest
import pytrec_eval
import ranx
from ir_measures import Qrel, ScoredDoc

from msshift_bench import open_collection, read_qrels, read_run, validate_run
from msshift_bench.errors import NotFoundError, RunError, UsageError
from msshift_bench.evaluation import Settings, score_runs
from msshift_bench.stats import FIXED, Claim, Estimate, Figure, Inference, infer
from tests.conftest import REPOSITORY, Build

LINES = ("c", "a", "d", "b")
"""Documents with equal scores, as a run file has them."""

pytestmark = pytest.mark.filterwarnings("ignore")


def score(folder: Path, qrels: str, run: str, measure: str, **options: Any) -> float:
    """Return the figure that msshift gives for the texts of two files."""
    (folder / "a.qrels").write_text(qrels)
    (folder / "a.run").write_text(run)
    settings = Settings((measure,), **options)
    result = score_runs([folder / "a.run"], folder / "a.qrels", settings)
    (figure,) = [row for row in result.figures if row.figure in ("score", "sum")]
    return figure.number


def trec(*rows: tuple[str, str, float], first: int = 1) -> str:
    return "".join(f"{q} Q0 {d} {n} {s} t\n" for n, (q, d, s) in enumerate(rows, first))


# Ties.


def judged(relevant: str, measure: str) -> dict[str, int]:
    # Accuracy compares with documents judged not relevant; Judged counts all that are judged.
    others = LINES if measure == "Accuracy" else ()
    return {**dict.fromkeys(others, 0), relevant: 1}


@pytest.mark.parametrize(
    ("measure", "first"),
    [
        *((name, "d") for name in ("RR", "P@1", "R@1", "Success@1", "nDCG@10", "AP", "ERR@20")),
        *((name, "a") for name in ("RR@10", "Compat(p=0.8)", "Judged@1")),
        ("Accuracy", "c"),
    ],
)
def test_ties_have_one_order_where_ir_measures_has_three(
    tmp_path: Path, measure: str, first: str
) -> None:
    ours, theirs = {}, {}
    for doc_id in LINES:
        qrels = judged(doc_id, measure)
        parsed = ir_measures.parse_measure(measure)
        theirs[doc_id] = ir_measures.calc_aggregate(
            [parsed],
            [Qrel("1", *row) for row in qrels.items()],
            [ScoredDoc("1", one, 1.0) for one in LINES],
        )[parsed]
        text = "".join(f"1 0 {one} {grade}\n" for one, grade in qrels.items())
        ours[doc_id] = score(tmp_path, text, trec(*(("1", one, 1.0) for one in LINES)), measure)
    assert max(theirs, key=theirs.__getitem__) == first
    # The policy `trec`: the greatest doc_id is first.
    assert max(ours, key=ours.__getitem__) == "d"
    if measure == "RR@10":
        assert ours == pytest.approx({"d": 1, "c": 1 / 2, "b": 1 / 3, "a": 1 / 4})


# Ids.


@pytest.mark.parametrize("query_ids", [("31", "32"), ("31-1", "32-2"), ("a", "b")])
def test_err_does_not_depend_on_the_ids_of_queries(
    tmp_path: Path, query_ids: tuple[str, ...]
) -> None:
    qrels = "".join(f"{query_id} 0 d 1\n" for query_id in query_ids)
    run = trec(*((query_id, "d", 1.0) for query_id in query_ids))
    # The gain of grade 1 on gdeval's scale of 4: (2^1 - 1) / 2^4.
    assert score(tmp_path, qrels, run, "ERR@20") == 0.0625


def test_ir_measures_halves_err_where_ids_contain_a_hyphen() -> None:
    measure = ir_measures.ERR @ 20
    found = {
        query_id: ir_measures.calc_aggregate(
            [measure], [Qrel(query_id, "d", 1)], [ScoredDoc(query_id, "d", 1.0)]
        )[measure]
        for query_id in ("31", "31-1")
    }
    assert found == {"31": 0.0625, "31-1": 0.03125}


def test_ids_that_look_like_numbers_are_texts(tmp_path: Path) -> None:
    """trectools and tira read 007 and 7 as one topic, and 0012 and 12 as one document."""
    qrels, run = "007 0 0012 1\n7 0 12 1\n", (("007", "0012", 2.0), ("7", "0012", 2.0))
    assert score(tmp_path, qrels, trec(*run), "RR") == 0.5
    assert read_run(tmp_path / "a.run") == {"007": {"0012": 2.0}, "7": {"0012": 2.0}}


# Queries and documents.


def test_queries_that_nobody_judged_change_no_mean(tmp_path: Path) -> None:
    """trectools divides by the four topics of the run: 0.5."""
    rows = [("1", "a", 2.0), ("2", "b", 2.0), ("3", "x", 2.0), ("4", "x", 2.0)]
    assert score(tmp_path, "1 0 a 1\n2 0 b 1\n", trec(*rows), "RR") == 1.0


def test_a_document_with_the_query_s_id_counts(tmp_path: Path) -> None:
    """BEIR removes it: the other relevant document would be first, and R@10 0.5."""
    run = trec(("1", "1", 2.0), ("1", "a", 1.0))
    assert score(tmp_path, "1 0 1 1\n1 0 a 1\n", run, "R@10") == 1.0
    assert score(tmp_path, "1 0 a 1\n", run, "RR", exclude="own-id") == 1.0


@pytest.mark.parametrize("header", ["", "query-id\tcorpus-id\tscore\n"])
def test_the_first_line_of_qrels_counts_where_it_is_no_header(tmp_path: Path, header: str) -> None:
    """BEIR takes the first line for a header, whatever it is."""
    path = tmp_path / "test.tsv"
    path.write_text(f"{header}1\ta\t1\n2\tb\t1\n")
    assert [row[:3] for row in read_qrels(path)] == [("1", "a", 1), ("2", "b", 1)]


def test_a_document_that_a_query_has_twice_is_refused(tmp_path: Path) -> None:
    rows = [("1", "r", 3.0), ("1", "x", 2.0), ("1", "r", 1.0)]
    with pytest.raises(RunError) as refused:
        score(tmp_path, "1 0 r 1\n", trec(*rows), "RR")
    (finding,) = refused.value.findings
    assert (finding.code, finding.line) == ("duplicate-document", 3)
    assert finding.fix
    documents = [ScoredDoc(*row) for row in rows]
    assert ir_measures.calc_aggregate([ir_measures.RR], [Qrel("1", "r", 1)], documents) == {
        ir_measures.RR: 0.5
    }, "the last line counts"


# Values in memory.


@pytest.mark.parametrize(
    ("number", "taken"),
    [(np.float64(0.5), True), (np.float32(0.5), False), (np.int64(2), False)],
    ids=lambda value: type(value).__name__,
)
def test_scores_of_numpy_are_numbers(number: Any, taken: bool) -> None:
    assert read_run({"1": {"a": number}}) == {"1": {"a": float(number)}}
    evaluator = pytrec_eval.RelevanceEvaluator({"1": {"a": 1}}, {"recip_rank"})
    if taken:
        assert evaluator.evaluate({"1": {"a": number}})["1"]["recip_rank"] == 1
    else:
        with pytest.raises(TypeError):
            evaluator.evaluate({"1": {"a": number}})


@pytest.mark.parametrize("dtype", ["str", "object"])
def test_ids_of_pandas_are_read_in_both_types(dtype: str) -> None:
    """ranx reads ids of type object alone; findings/ranx_pandas_strings.sh shows it."""
    table = pd.DataFrame({"query_id": ["007"], "doc_id": ["a"], "score": [2.0]})
    table = table.astype({"query_id": dtype, "doc_id": dtype})
    assert read_run(table) == {"007": {"a": 2.0}}


@pytest.mark.parametrize(("first", "kept"), [(0, 10), (1, 9)])
def test_a_cutoff_of_ten_counts_ten(tmp_path: Path, first: int, kept: int) -> None:
    rows = [("1", f"d{n}", 20.0 - n) for n in range(12)]
    run = trec(*rows, first=first)
    assert score(tmp_path, "1 0 d9 1\n", run, "RR@10") == pytest.approx(1 / 10)
    read = pyterrier.io.read_results(str(tmp_path / "a.run"))
    cut = pyterrier.Transformer.from_df(read) % 10
    assert len(cut.search("words", qid="1")) == kept


# The Hub.


def test_errors_of_the_hub_are_those_of_httpx2() -> None:
    """Ours are HubError; tests/integration/test_hub_over_http.py has them."""
    from huggingface_hub.errors import HfHubHTTPError

    bases = {f"{one.__module__}.{one.__name__}" for one in HfHubHTTPError.__mro__}
    assert "httpx2.HTTPError" in bases
    assert "httpx.HTTPError" not in bases
    page = (REPOSITORY / "docs/hub.md").read_text("utf-8")
    assert f"huggingface_hub {version('huggingface_hub')}" in page


# Models.


@pytest.mark.neural
def test_a_prompt_called_passage_stands_before_no_text(build_once: Build) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    from msshift_bench import evaluate

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "fish": 1, "passage": 2}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.eye(3, dtype=np.float32)
    prompts = {"query": "fish ", "passage": "passage "}
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], prompts=prompts
    )
    assert model.encode_document("fish").tolist() == [0, 1, 0], "without the prompt"
    assert model.encode("fish", prompt_name="passage").tolist() == [0, 0.5, 0.5]
    # A word that is not in the vocabulary has the vector of [UNK]; model2vec omits it.
    assert model.encode_document("fish zebra").tolist() == [0.5, 0.5, 0]
    result = evaluate(model, "length", data=build_once("mini:300", "length"), depth=10)
    assert any(re.search(r"prompts? passage\b", str(warning)) for warning in result.warnings)


@pytest.mark.neural
def test_evaluators_of_rerankers_break_ties_in_opposite_directions(tmp_path: Path) -> None:
    import torch
    from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator
    from sentence_transformers.sentence_transformer.evaluation import RerankingEvaluator

    class Equal:
        """Encodes every text as the same vector."""

        def encode_query(self, texts: list[str], **_: object) -> Any:
            return torch.ones(len(texts), 2)

        encode_document = encode_query

    samples = [{"query": "q", "positive": ["p"], "negative": ["n"]}]
    of_vectors = RerankingEvaluator(samples, show_progress_bar=False)
    assert of_vectors.compute_metrices_batched(Equal())["mrr"] == 1
    of_pairs = CrossEncoderRerankingEvaluator(samples)
    assert of_pairs.compute_metrics([1, 0], [0.5, 0.5])[0] == 0.5
    # Here the order of the lines decides nothing, and bounds say how much depends on ties.
    for rows in ([("1", "p", 1.0), ("1", "n", 1.0)], [("1", "n", 1.0), ("1", "p", 1.0)]):
        assert score(tmp_path, "1 0 p 1\n", trec(*rows), "RR@10") == 1
        assert score(tmp_path, "1 0 p 1\n", trec(*rows), "RR@10", ties="expected") == 0.75


def test_a_model_with_encode_alone_is_refused_with_what_it_lacks(build_once: Build) -> None:
    """Older models of sentence-transformers have `encode` alone, as model2vec's StaticModel has."""
    from msshift_bench import evaluate

    class Static:
        def encode(self, texts: list[str]) -> Any:
            return np.ones((len(texts), 2))

    with pytest.raises(UsageError, match="encode_query"):
        evaluate(Static(), "length", data=build_once("mini:300", "length"))


def test_ranks_of_0_on_every_line_change_no_score(tmp_path: Path) -> None:
    """Run files of BEIR 2.2.0."""
    run = "".join(f"q1 Q0 {doc} 0 {score} beir\n" for doc, score in (("b", 3.0), ("a", 1.0)))
    assert score(tmp_path, "q1 0 a 1\n", run, "RR@10") == 0.5
    report = validate_run(tmp_path / "a.run")
    assert report.ok
    assert {"rank-zero-based", "rank-repeated"} <= {part.code for part in report.warnings}
    with pytest.raises(RunError, match="rank-repeated"):
        score(tmp_path, "q1 0 a 1\n", run, "RR@10", ties="rank")


@pytest.mark.neural
def test_maxsim_counts_no_padding() -> None:
    """PyLate 1.6.0 scores the first passage 0.0, and ranks it before the second."""
    from msshift_bench.baselines.retrievers.colbert import max_sim

    tokens = np.array([[-0.7, 0.714], [-0.6, 0.8], [-0.6, 0.8]], np.float32)
    scores = max_sim(np.array([[[1, 0]]], np.float32), tokens, np.array([1, 2]))
    assert scores.tolist() == [pytest.approx([-0.7, -0.6])]


@pytest.mark.neural
def test_average_precision_with_a_cutoff_divides_by_all_relevant_documents(tmp_path: Path) -> None:
    """The RetrievalMAP(top_k=3) of torchmetrics 1.9.0 is 1.0 here."""
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    documents, relevant = "abcdefg", set("adefg")
    qrels = "".join(f"q 0 {doc_id} 1\n" for doc_id in sorted(relevant))
    run = trec(*(("q", doc_id, 9.0 - place) for place, doc_id in enumerate(documents)))
    assert score(tmp_path, qrels, run, "AP@3") == pytest.approx(0.2)
    evaluator = InformationRetrievalEvaluator(
        {"q": "query"}, dict.fromkeys(documents, "text"), {"q": relevant}, map_at_k=[3]
    )
    hits = [{"corpus_id": doc_id, "score": -place} for place, doc_id in enumerate(documents)]
    assert evaluator.compute_metrics([hits])["map@k"][3] == pytest.approx(1 / 3)


def test_a_test_of_two_systems_uses_that_their_queries_are_the_same() -> None:
    ranks = [2 + place % 9 for place in range(27)]
    runs = [
        ranx.Run(
            {
                f"q{place}": {"r": -float(rank + below)}
                | {f"x{other}": -float(other) for other in range(1, rank + below)}
                for place, rank in enumerate(ranks)
            },
            name=name,
        )
        for name, below in (("a", 0), ("b", 1))
    ]
    qrels = ranx.Qrels({f"q{place}": {"r": 1} for place in range(len(ranks))})
    theirs = {
        test: ranx.compare(qrels, runs, ["mrr"], stat_test=test).to_dict()["a"]["comparisons"]["b"]
        for test in ("student", "tukey")
    }
    assert {test: round(p["mrr"], 3) for test, p in theirs.items()} == {
        "student": 0.0,
        "tukey": 0.115,
    }
    first, second = (
        Estimate.mean(np.array([[1 / (rank + below) for rank in ranks]]), FIXED, "queries")
        for below in (0, 1)
    )
    (figure,) = infer([Claim(Figure("difference"), first - second, ("pair",))], Inference())
    assert figure.p is not None
    assert figure.p < 0.001


# The pages.


def test_the_pages_name_the_versions_of_the_tests() -> None:
    pages: Mapping[str, tuple[str, ...]] = {
        "same-run-four-tools.md": ("ir_measures", "ranx"),
        "measures.md": ("ir_measures",),
        "evaluate-a-model.md": ("sentence-transformers",),
    }
    for page, packages in pages.items():
        text = " ".join((REPOSITORY / "docs" / page).read_text("utf-8").split())
        for package in packages:
            assert f"{package} {version(package)}" in text, page
    text = (REPOSITORY / "docs/same-run-four-tools.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| ([\w-]+) (\d[\d.]+) \|", text.partition("\n## Other tools\n")[2])
    names = {"PyTerrier": "pyterrier", "pytrec_eval": "pytrec_eval-terrier"}
    absent = ("BEIR", "PyLate", "tira", "torchmetrics", "trectools")
    used = {tool: found for tool, found in rows if tool not in absent}
    assert used == {tool: version(names.get(tool, tool)) for tool in used}
    assert len(rows) == 17


def test_an_id_of_a_package_for_another_ir_datasets_is_refused_with_what_to_give() -> None:
    name = "longeval-web/2022-06"
    with pytest.raises(NotFoundError, match="give a folder, an ir_datasets id") as caught:
        open_collection(name)
    assert repr(name) in str(caught.value)
