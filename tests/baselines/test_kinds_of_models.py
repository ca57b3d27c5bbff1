"""Every kind of model at every door: rankings equal a search by hand, and no library's traceback.

The searches by hand take the vectors, or the scores, that the model gives by itself. One passage
has no text, and a collection of one passage is searched, too.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from msshift_bench import evaluate, read_run
from msshift_bench.baselines.rerankers.reranker import RerankSearch
from msshift_bench.baselines.retrievers.biencoder import DenseSearch
from msshift_bench.baselines.retrievers.splade import SparseSearch
from msshift_bench.data import open_collection, open_dataset
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import UsageError
from msshift_bench.libraries import sentence_transformers as library, tokenizers, torch
from msshift_bench.search import Bm25
from msshift_bench.shifts import get_shift
from tests.conftest import Command
from tests.support.lanes import with_first
from tests.support.tiny_encoder import make_tiny_encoder

pytestmark = pytest.mark.neural

PASSAGES = {
    "d0": "frogs live in small ponds",
    "d1": "rome has cheap hotels and old walls",
    "d2": "",
    "d3": "a meter is a measure of length",
    "d4": "trains to rome leave at noon",
    "d5": "ponds freeze when winters are cold",
    "d6": "old walls of small towns",
}
SHORT = ["cheap hotels rome", "where frogs live", "cold winters", "old walls", "zzz qqq"]
LONG = [
    "what is the length of a meter in small towns",
    "when do the trains to old rome leave at noon",
]
DEPTH = 7

Vectors = npt.NDArray[np.float64]
Ranked = dict[str, dict[str, float]]


class Toy(NamedTuple):
    """A data set, its collection, and the folder of an encoder of their words."""

    data: Path
    collection: Path
    bert: Path

    def given(self) -> dict[str, Any]:
        return {"data": self.data, "collection": self.collection, "depth": DEPTH, "progress": False}


def write_toy(folder: Path, passages: Mapping[str, str]) -> Path:
    """Write a collection with eight queries of each length, and build its data set."""
    folder.mkdir()
    texts = [*SHORT[:4] * 2, *(f"{text} {n}" for n in range(4) for text in LONG)]
    queries = {f"q{number:02}": text for number, text in enumerate([*texts, SHORT[4]])}
    for name, rows in (("collection", passages), ("queries", queries)):
        (folder / f"{name}.tsv").write_text("".join(f"{k}\t{v}\n" for k, v in rows.items()))
    docs = list(passages)
    judged = (f"{query} 0 {docs[n % len(docs)]} 1\n" for n, query in enumerate(queries))
    (folder / "qrels.tsv").write_text("".join(judged))
    build_dataset(open_collection(str(folder)), ("length",), folder / "msshift")
    return folder


def make_toy(root: Path) -> Toy:
    """Write a data set of `PASSAGES`, and an encoder of all words."""
    folder = write_toy(root / "toy", PASSAGES)
    make_tiny_encoder(root / "bert", [*PASSAGES.values(), *SHORT, *LONG], length=40, hidden=16)
    return Toy(folder / "msshift", folder, root / "bert")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return make_toy(tmp_path_factory.mktemp("toy"))


# ---- the kinds -------------------------------------------------------------------------------


def _words() -> list[str]:
    return sorted({word for text in (*PASSAGES.values(), *SHORT, *LONG) for word in text.split()})


def _transformer(bert: Path, **options: Any) -> Any:
    return library.base.modules.Transformer(str(bert), **options)


def _dense(*parts: Any, **options: Any) -> Any:
    return library.SentenceTransformer(modules=list(parts), **options)


def _modules() -> Any:
    return library.sentence_transformer.modules


def bert(folder: Path, **options: Any) -> Any:
    return _dense(_transformer(folder), _modules().Pooling(16, "mean"), **options)


def dense(folder: Path) -> Any:
    base = library.base.modules
    parts = _transformer(folder), _modules().Pooling(16, "cls"), base.Dense(16, 8), base.Normalize()
    return _dense(*parts, similarity_fn_name="dot")


def _static(folder: Path) -> Any:
    words = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    return _modules().StaticEmbedding(words, embedding_dim=16)


def static(folder: Path) -> Any:
    return _dense(_static(folder))


def word_embeddings(_: Path) -> Any:
    words = _modules().tokenizer.WhitespaceTokenizer(_words())
    weights = np.zeros((len(_words()), 12), np.float32)
    return _dense(_modules().WordEmbeddings(words, weights), _modules().Pooling(12, "mean"))


def bag_of_words(_: Path, seed: int) -> Any:
    weights = np.random.default_rng(seed).uniform(1, 2, len(_words())).tolist()
    return _dense(_modules().BoW(_words(), dict(zip(_words(), weights, strict=True))))


def router(folder: Path) -> Any:
    passages = [_transformer(folder), _modules().Pooling(16, "mean")]
    base = library.base.modules
    route = base.Router.for_query_document([_static(folder)], passages)
    return _dense(route, base.Normalize())


def sparse(folder: Path) -> Any:
    parts = library.sparse_encoder.modules
    backbone = _transformer(folder, transformer_task="fill-mask")
    return library.SparseEncoder(modules=[backbone, parts.SpladePooling("max")])


def multi_vector(folder: Path, masked: Sequence[str] = (".",)) -> Any:
    base = library.base.modules
    project = base.Dense(16, 8, bias=False, module_input_name="token_embeddings")
    mask = library.multi_vector_encoder.modules.MultiVectorMask(list(masked))
    parts = [_transformer(folder), project, mask, base.Normalize("token_embeddings")]
    return library.MultiVectorEncoder(modules=parts)


MARKS = ["[CLS]", "[SEP]"]
"""All tokens of a text without a word."""


def cross(folder: Path, labels: int) -> Any:
    return library.CrossEncoder(str(folder), num_labels=labels, local_files_only=True)


def shaken(model: Any, seed: int) -> Any:
    """Add random numbers to a model's weights, so that two seeds give two models."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.4 * torch.randn(weights.shape, generator=random))
    return model


def int8(model: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):  # torch moves it to another package
        return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)


KINDS: dict[str, Callable[[Path, int], Any]] = {
    "bert": lambda folder, seed: shaken(bert(folder), seed),
    "dot": lambda folder, seed: shaken(bert(folder, similarity_fn_name="dot"), seed),
    "dense": lambda folder, seed: shaken(dense(folder), seed),
    "static": lambda folder, seed: shaken(static(folder), seed),
    "word-embeddings": lambda folder, seed: shaken(word_embeddings(folder), seed),
    "bag-of-words": bag_of_words,
    "router": lambda folder, seed: shaken(router(folder), seed),
    "sparse": lambda folder, seed: shaken(sparse(folder), seed),
    "multi-vector": lambda folder, seed: shaken(multi_vector(folder), seed),
    "multi-vector-masked": lambda folder, seed: shaken(multi_vector(folder, MARKS), seed),
    "cross-1": lambda folder, seed: shaken(cross(folder, 1), seed),
    "cross-2": lambda folder, seed: shaken(cross(folder, 2), seed),
    "fp16": lambda folder, seed: shaken(bert(folder), seed).half(),
    "bf16": lambda folder, seed: shaken(bert(folder), seed).bfloat16(),
    "sparse-bf16": lambda folder, seed: shaken(sparse(folder), seed).bfloat16(),
    "multi-vector-bf16": lambda folder, seed: shaken(multi_vector(folder), seed).bfloat16(),
    "cross-2-bf16": lambda folder, seed: shaken(cross(folder, 2), seed).bfloat16(),
}
"""The kinds that sentence-transformers saves: name -> makes a model from an encoder and a seed."""

WITHOUT_TRANSFORMER = ("static", "word-embeddings", "bag-of-words")


@pytest.mark.parametrize("kind", KINDS)
def test_a_cpu_encodes_few_texts_together(kind: str, toy: Toy) -> None:
    model, searches = KINDS[kind](toy.bert, 1), (DenseSearch, SparseSearch, RerankSearch)
    few = 64 if kind in WITHOUT_TRANSFORMER else 16
    assert [search().together(model) for search in searches] == [few] * 3
    assert {search(batch_size=8).together(model) for search in searches} == {8}
    model.to("meta")
    assert {search().together(model) for search in searches} == {64}


OF_A_CLASS = ("dense", "static", "sparse", "multi-vector", "cross-1")
"""One kind of each class of sentence-transformers, and the one without a transformer."""

WRAPPED: dict[str, Callable[[Path, int], Any]] = {
    "compiled": lambda folder, seed: torch.compile(KINDS["bert"](folder, seed), backend="eager"),
    "parallel": lambda folder, seed: torch.nn.DataParallel(KINDS["dense"](folder, seed)),
    "compiled-cross": lambda folder, seed: torch.compile(
        KINDS["cross-1"](folder, seed), backend="eager"
    ),
    "int8": lambda folder, seed: int8(KINDS["bert"](folder, seed)),
}
"""The kinds that exist in memory only."""


# ---- the search by hand ----------------------------------------------------------------------


def unwrapped(model: Any) -> Any:
    return getattr(model, "_orig_mod", getattr(model, "module", model))


def scores_by_hand(model: Any, queries: Sequence[str], passages: Sequence[str]) -> Vectors:
    """Return the score of each query with each passage, in 64 bits."""
    model = unwrapped(model)
    if isinstance(model, library.CrossEncoder):
        pairs = [(query, passage) for query in queries for passage in passages]
        logits = model.predict(pairs, activation_fn=torch.nn.Identity()).astype(np.float64)
        if logits.ndim == 2:
            logits = logits[:, 1] - logits[:, 0]
        return np.asarray(logits.reshape(len(queries), len(passages)))
    sides = model.encode_query(list(queries)), model.encode_document(list(passages))
    if isinstance(model, library.MultiVectorEncoder):
        # The vectors of passages are kept in 16 bits.
        left = [tokens.double().numpy() for tokens in sides[0]]
        right = [tokens.half().double().numpy() for tokens in sides[1]]
        return np.array(
            [[(q @ p.T).max(axis=1).sum() if len(p) else -np.inf for p in right] for q in left]
        )
    if isinstance(model, library.SparseEncoder):
        left, right = (side.float().to_dense().double().numpy() for side in sides)
        return np.asarray(left @ right.T)
    left, right = (side.astype(np.float64) for side in sides)
    if model.similarity_fn_name == "cosine":
        left, right = (
            side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12)
            for side in (left, right)
        )
    return np.asarray(left @ right.T)


def queries(toy: Toy) -> list[Any]:
    """Return the test queries of both groups, sorted."""
    groups = open_dataset(toy.data).test_sets(get_shift("length"))
    return sorted(row for rows in groups.values() for row in rows)


def search_by_hand(model: Any, toy: Toy, depth: int = DEPTH) -> Ranked:
    """Return query_id -> doc_id -> score of the best passages, equal scores by doc_id."""
    passages = list(open_collection(str(toy.collection)).passages())
    texts = {row.query_id: row.text for row in queries(toy)}
    scores = scores_by_hand(model, list(texts.values()), [row.text for row in passages])
    bm25 = dict(zip(texts, Bm25(passages).search(texts.values(), depth=depth), strict=True))
    reranks = isinstance(unwrapped(model), library.CrossEncoder)
    floor = 0.0 if isinstance(model, library.SparseEncoder) else -math.inf
    found = {}
    for query, of_query in zip(texts, scores, strict=True):
        pairs = [
            (score, passage.doc_id)
            for score, passage in zip(of_query, passages, strict=True)
            if score > floor and (not reranks or passage.doc_id in bm25[query])
        ]
        best = {doc_id: score for score, doc_id in sorted(pairs, reverse=True)[:depth]}
        if best:
            found[query] = best
    return found


def reciprocal_rank(ranked: Ranked, toy: Toy, group: str) -> float:
    """Return RR@10 on a group's test queries."""
    rows = open_dataset(toy.data).test_sets(get_shift("length"))[group]
    total = 0.0
    for row in rows:
        ranks = [n for n, doc in enumerate(ranked.get(row.query_id, {}), 1) if doc in row.relevant]
        total += 1 / min(ranks) if ranks and min(ranks) <= 10 else 0
    return total / len(rows)


def check_run(run: Path, by_hand: Ranked, tolerance: float = 1e-5) -> None:
    """Check that a run file holds the rankings of the search by hand, but for rounding."""
    found = read_run(run)
    assert found.keys() == by_hand.keys()
    for query, ranking in found.items():
        scores = by_hand[query]
        assert ranking == pytest.approx(scores, rel=tolerance, abs=tolerance)
        in_order = [scores[doc_id] for doc_id in ranking]
        assert in_order == pytest.approx([*scores.values()], rel=tolerance, abs=tolerance)


# ---- the doors -------------------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", [*KINDS, *WRAPPED])
def test_models_in_memory(kind: str, toy: Toy, tmp_path: Path) -> None:
    model = {**KINDS, **WRAPPED}[kind](toy.bert, 1)
    by_hand = search_by_hand(model, toy)
    result = evaluate(model, "length", name="mine", runs=tmp_path, **toy.given())
    check_run(tmp_path / "mine" / "length.run.gz", by_hand)
    scores = {row.group: row.value for row in result.figures.where(figure="score")}
    own = {group: reciprocal_rank(by_hand, toy, group) for group in ("short", "long")}
    assert scores == pytest.approx({**own, "mean": (own["short"] + own["long"]) / 2})
    json.loads((tmp_path / "mine" / "length.run.json").read_bytes(), parse_constant=pytest.fail)


@pytest.mark.extended
@pytest.mark.parametrize("kind", [*KINDS, *WRAPPED])
def test_models_of_a_factory(kind: str, toy: Toy, tmp_path: Path) -> None:
    models = {
        group: {**KINDS, **WRAPPED}[kind](toy.bert, seed)
        for seed, group in enumerate(("short", "long"), 1)
    }
    result = evaluate(
        lambda held_out: models[held_out], "length", name="mine", runs=tmp_path, **toy.given()
    )
    ranked = {group: search_by_hand(model, toy) for group, model in models.items()}
    for group, by_hand in ranked.items():
        check_run(tmp_path / "mine" / "length" / f"{group}.run.gz", by_hand)
        (out,) = result.figures.where(figure="out", group=group)
        assert out.value == pytest.approx(reciprocal_rank(by_hand, toy, group))


def check_folder(folder: Path, kind: Any, toy: Toy, msshift: Command, *options: str) -> None:
    """Check a saved model: loaded for `evaluate`, and by its folder on the command line."""
    model = kind(str(folder), local_files_only=True)
    by_hand, out = search_by_hand(model, toy), folder.parent / "runs"
    evaluate(model, "length", name="mine", runs=out, **toy.given())
    check_run(out / "mine" / "length.run.gz", by_hand)
    place = "--data", toy.data, "--collection", toy.collection, "--out", out
    done = msshift("run", folder, "--set", f"search.depth={DEPTH}", *options, *place)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    check_run(out / folder.name / "length.run.gz", by_hand)


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", with_first(KINDS, OF_A_CLASS))
def test_models_of_a_folder(kind: str, toy: Toy, tmp_path: Path, msshift: Command) -> None:
    model = KINDS[kind](toy.bert, 1)
    model.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    check_folder(tmp_path / "saved", type(model), toy, msshift)


def test_a_folder_of_model2vec(toy: Toy, tmp_path: Path, msshift: Command) -> None:
    """Its four files are those that model2vec's ``save_pretrained`` writes."""
    from safetensors.numpy import save_file

    folder = tmp_path / "potion"
    folder.mkdir()
    words = tokenizers.Tokenizer.from_file(str(toy.bert / "tokenizer.json"))
    vectors = np.random.default_rng(3).normal(size=(words.get_vocab_size(), 12))
    save_file({"embeddings": vectors.astype(np.float32)}, folder / "model.safetensors")
    words.save(str(folder / "tokenizer.json"), pretty=False)
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True}
    (folder / "config.json").write_text(json.dumps({**config, "embedding_dtype": "float32"}))
    kind = "sentence_transformers.models"
    modules = [
        {"idx": 0, "name": "0", "path": ".", "type": f"{kind}.StaticEmbedding"},
        {"idx": 1, "name": "1", "path": "1_Normalize", "type": f"{kind}.Normalize"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    check_folder(folder, library.SentenceTransformer, toy, msshift)


@pytest.fixture(scope="module")
def one(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """The same, with a collection of one passage."""
    folder = write_toy(tmp_path_factory.mktemp("one") / "one", {"d0": "frogs in rome"})
    return toy._replace(data=folder / "msshift", collection=folder)


@pytest.mark.parametrize("kind", with_first([*KINDS, *WRAPPED], ["dense", "static", "sparse"]))
def test_a_single_passage(kind: str, toy: Toy, one: Toy, tmp_path: Path) -> None:
    """A vector of one text has the shape of several, and a reranker may find none."""
    model = {**KINDS, **WRAPPED}[kind](toy.bert, 1)
    evaluate(model, "length", name="mine", runs=tmp_path, batch_size=1, **one.given())
    check_run(tmp_path / "mine" / "length.run.gz", search_by_hand(model, one), 2e-2)


# ---- what cannot rank ------------------------------------------------------------------------


def bits(texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return 32 bits per text: the signs of a random projection of its words."""
    projection = np.random.default_rng(4).normal(size=(len(_words()), 32))
    counts = np.array([[text.split().count(word) for word in _words()] for text in texts])
    return np.asarray(counts @ projection > 0)


def packed(texts: Sequence[str], *, signed: bool) -> Any:
    codes = np.packbits(bits(texts), axis=1)
    return (codes - 128).astype(np.int8) if signed else torch.from_numpy(codes)


@pytest.mark.parametrize("signed", [True, False])
def test_packed_bits_are_refused_with_their_conversion(
    signed: bool, toy: Toy, tmp_path: Path
) -> None:
    encode = partial(packed, signed=signed)
    model = SimpleNamespace(encode_query=encode, encode_document=encode)
    with pytest.raises(UsageError, match=r"vectors of type u?int8: these are codes") as caught:
        evaluate(model, "length", **toy.given())
    (unpacking,) = re.findall(r"np\.unpackbits\(.*?axis=1\) \* 2\.0 - 1", str(caught.value))

    def unpacked(texts: Sequence[str]) -> Any:
        return eval(unpacking, {"np": np, "vectors": np.asarray(encode(texts))})

    model = SimpleNamespace(encode_query=unpacked, encode_document=unpacked)
    evaluate(model, "length", name="mine", runs=tmp_path, **toy.given())
    passages = list(open_collection(str(toy.collection)).passages())
    right = np.where(bits([row.text for row in passages]), 1, -1)
    for query, ranking in read_run(tmp_path / "mine" / "length.run.gz").items():
        (text,) = {row.text for row in queries(toy) if row.query_id == query}
        (left,) = np.where(bits([text]), 1, -1)
        pairs = zip((right @ left).tolist(), (row.doc_id for row in passages), strict=True)
        assert [*ranking.items()] == [
            (doc, dot) for dot, doc in sorted(pairs, reverse=True)[:DEPTH]
        ]


def _uneven(folder: Path) -> Any:
    route = library.base.modules.Router.for_query_document(
        [_transformer(folder), _modules().Pooling(16), library.base.modules.Dense(16, 4)],
        [_transformer(folder), _modules().Pooling(16)],
    )
    return _dense(route)


REFUSED: list[tuple[Callable[[Path], Any], dict[str, Any], str]] = [
    (lambda folder: bert(folder, truncate_dim=0), {}, "returned vectors of 0 dimensions, "),
    (_uneven, {}, "encode_query returned vectors of 4 dimensions, and encode_document of 16"),
    (bert, {"device": "cuda"}, "device is 'cuda', which torch cannot use on this machine: "),
    (bert, {"device": "gpu"}, "device is 'gpu', which torch cannot use on this machine: "),
    (
        lambda folder: _transformer(folder).model,
        {},
        "this BertModel is a torch module that takes no texts",
    ),
    (lambda folder: {}.__getitem__, {}, "cannot be read; give a function, e.g. lambda"),
    (
        lambda folder: lambda held_out: _transformer(folder),
        {},
        "for 'short', which is no model; a model has",
    ),
]
"""Makes what is no model that ranks here; options; what the message says."""


@pytest.mark.parametrize(("make", "options", "message"), REFUSED)
def test_what_cannot_rank(
    make: Callable[[Path], Any], options: dict[str, Any], message: str, toy: Toy, tmp_path: Path
) -> None:
    if options.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(UsageError, match=re.escape(message)) as told:
        evaluate(make(toy.bert), "length", runs=tmp_path, **toy.given(), **options)
    assert len(str(told.value)) < 600
    assert not list(tmp_path.rglob("*.run.gz"))
