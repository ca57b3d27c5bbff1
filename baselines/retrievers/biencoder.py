"""The dense bi-encoder of MS-Shift (ECIR 2023, section 4; DPR, EMNLP 2020).

Queries and passages share one encoder. The score is the dot product of their vectors; models that
were trained elsewhere may use the cosine. Negatives are the batch's other passages, and passages
that BM25 ranks high and that are not judged relevant.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import NonNegativeFloat, PrivateAttr

from msshift_bench.baselines.systems.recipe import KL, MARGIN_MSE
from msshift_bench.baselines.systems.searcher import (
    Arrays,
    BlockSearch,
    Candidates,
    EncodedPassages,
    best_of,
)
from msshift_bench.baselines.systems.system import Run
from msshift_bench.baselines.training.backbones import check_finite, load_backbone, load_config
from msshift_bench.baselines.training.neural import Neural, scaled
from msshift_bench.encoders import SIMILARITIES
from msshift_bench.errors import DataError, UsageError
from msshift_bench.libraries import Library, sentence_transformers, torch
from msshift_bench.plumbing import report_progress, slices, write_atomically
from msshift_bench.runs import low_recall
from msshift_bench.search import Ranking, TopK
from msshift_bench.settings import added_field

_logger = logging.getLogger(__name__)

_losses: Any = Library("sentence_transformers.sentence_transformer.losses")
_modules: Any = Library("sentence_transformers.sentence_transformer.modules")
_util: Any = Library("sentence_transformers.util")
_faiss: Any = Library("faiss", "neural", "search by an index")

COSINE = "cosine"

_HALF = "float16"

_LEARNT = 1 << 18
"""Most vectors on which an index is trained: 0.8 GB with 768 dimensions."""

_EXTRA = 100
"""Passages to retrieve beyond the depth, so that they usually include all ties at the cut."""

_MEASURED = 100
"""Most queries on which the recall of an index is measured."""

_TOGETHER = 1_024
"""Most queries that are searched together in an index."""


class DenseSearch(BlockSearch):
    """The settings of a bi-encoder's search.

    Attributes:
        index: a faiss index, as a string for its `index_factory`, e.g. ``HNSW32`` or
            ``IVF4096,Flat``. It keeps all vectors in memory, and finds most of the nearest. By
            default, search is exact.
        index_parameters: parameters of the index, e.g. ``efSearch=2000`` or ``nprobe=64``. Higher
            values are slower and nearer to exact. By default, faiss's defaults.
        storage: ``float16`` rounds the passages' vectors to 16 bits on disk. Exact search still
            sums their products with the queries' vectors in 32 bits. By default, vectors have 32
            bits.
    """

    similarities: ClassVar[tuple[str, ...]] = SIMILARITIES
    methods: ClassVar[tuple[str, str]] = ("encode_document", "encode_query")
    """The names of the model's methods for passages and for queries."""

    index: str | None = added_field(None)
    index_parameters: str | None = added_field(None)
    storage: Literal["float16"] | None = None

    _dimensions: tuple[str, int] | None = PrivateAttr(default=None)

    def rules(self) -> Iterator[tuple[str, str]]:
        """Yield (field, problem) for each rule between fields that is broken."""
        if self.index_parameters is not None and self.index is None:
            yield "index_parameters", "exact search has no parameters: set index, or remove it"

    def score(
        self, model: Any, queries: Sequence[str], passages: Sequence[str], candidates: Candidates
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield, for each query, the dot products with its candidates; see `Scorer.score`.

        Vectors are not scaled, even if the model's similarity is the cosine.
        """
        left = self.vectors(model, queries, query=True)
        right = self.vectors(model, passages, query=False)
        for query, places in zip(left, candidates, strict=True):
            yield right[places] @ query

    def encode(self, model: Any, texts: Sequence[str], *, query: bool) -> Any:
        """Return vectors of queries, or the arrays of a block of passages.

        If the model's similarity is the cosine, vectors are scaled to length 1.

        Raises:
            UsageError: if the dimensions are 0, or differ between queries and passages.
            DataError: if a vector is not finite, or too large for 16 bits.
        """
        method = self.methods[query]
        vectors = self.vectors(model, texts, query=query)
        dimensions = vectors.shape[1]
        if not dimensions:
            raise UsageError(
                f"{method} returned vectors of 0 dimensions, so that all scores would be equal; "
                "check the model's truncate_dim"
            )
        before, expected = self._dimensions = self._dimensions or (method, dimensions)
        if dimensions != expected:
            raise UsageError(
                f"{method} returned vectors of {dimensions} dimensions, and {before} of "
                f"{expected}; give a model with the same dimensions for both"
            )
        finite: Any = np.isfinite(vectors).all(axis=1)
        check_finite(finite, texts)
        if self.similarity_name(model) == COSINE:
            # In 32 bits: a model of 16 bits would round the lengths.
            vectors = torch.nn.functional.normalize(torch.from_numpy(vectors)).numpy()
        return vectors if query else self.stored(vectors)

    def vectors(self, model: Any, texts: Sequence[str], *, query: bool) -> npt.NDArray[np.float32]:
        """Return the model's vectors of texts, 32-bit floats of shape (texts, dimensions)."""
        return encode_texts(getattr(model, self.methods[query]), texts, self.together(model))

    def stored(self, vectors: npt.NDArray[np.float32]) -> Arrays:
        """Return the array ``vectors`` of a block of passages, with 32 or 16 bits.

        Raises:
            DataError: if a value is too large for 16 bits.
        """
        if self.storage != _HALF:
            return {"vectors": vectors}
        largest = float(np.abs(vectors).max(initial=0))
        if largest > float(np.finfo(np.float16).max):
            raise DataError(
                f"a passage's vector has the value {largest:.6g}, and 16 bits end at 65,504; "
                'remove storage = "float16", or normalize the vectors'
            )
        return {"vectors": vectors.astype(np.float16)}

    def add(self, best: TopK, queries: Any, block: Arrays, rows: slice) -> None:
        """Add the dot products of queries with a block's passages to `best`."""
        best.add_vectors(queries, block["vectors"], rows.start)

    @property
    def folder(self) -> str:
        """The name of the folder of blocks: ``passages-16`` for 16 bits, ``passages`` for 32."""
        return "passages-16" if self.storage == _HALF else "passages"

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking), by exact search or an index; encode passages if needed.

        Raises:
            UsageError, DataError: see `encode`, `VectorIndex` and `VectorIndex.fill`.
        """
        if self.index is None:
            yield from super().rank(model, run)
            return
        # Check the index before encoding the passages, which may take hours.
        (vector,) = self.encode(model, self.sides(model, run)[1][:1], query=True)
        index = VectorIndex(self, len(vector))
        queries, passages = self.encoded(model, run)
        report_progress("index", 0, 0)
        with run.stage("index"):
            size = index.fill(passages, run.work / "index")
        report_progress("recall", 0, 0)
        with run.stage("recall"):
            measured = index.recall(queries, passages)
        if warning := low_recall(measured["recall"]):
            _logger.warning("%s: %s", run.name, warning)
        run.facts["index"] = {"bytes": size, **measured}
        yield from run.ranked(index.search(queries, passages), passages.ids)


class BiEncoder(Neural):
    """Dense bi-encoder: one vector per text, dot product.

    Attributes:
        pooling: how one vector is made from token states: ``cls``, the first, or ``mean``.
        normalize: whether vectors are scaled to length 1, so that dot products are cosines.
        loss_scale: factor of the dot products in the softmax (the inverse of the temperature).
        search: how the model searches the passages.
    """

    name = "bi-encoder"
    model_type = "SentenceTransformer"

    pooling: Literal["cls", "mean"]
    normalize: bool
    loss_scale: NonNegativeFloat
    search: DenseSearch

    def check_encoder(self) -> None:
        """Check that the encoder exists, and that faiss accepts the index.

        Raises:
            NotFoundError: if there is no such encoder.
            UsageError: if faiss does not accept the index with these dimensions, or
                ``model.truncate_dim`` is above the encoder's dimensions.
        """
        super().check_encoder()
        truncated, index = self.model.truncate_dim, self.search.index
        if truncated is None and index is None:
            return
        shape: Any = self.random or load_config(self.encoder, self.model)
        size = shape.hidden if self.random else shape.hidden_size
        if truncated is not None and truncated > size:
            raise UsageError(f"model.truncate_dim must be at most {size}, got {truncated}")
        if index is not None:
            VectorIndex(self.search, truncated or size)

    def new_model(self, encoder: str | Path) -> Any:
        """Return an untrained model: an encoder with the recipe's pooling."""
        backbone = load_backbone(
            self, encoder, query_length=self.query_length, document_length=self.passage_length
        )
        parts = [backbone, _modules.Pooling(backbone.get_embedding_dimension(), self.pooling)]
        if self.normalize:
            parts.append(_modules.Normalize())
        # A truncated vector of length 1 is shorter than 1, so that the search scales it again.
        cut = self.normalize and self.model.truncate_dim is not None
        return sentence_transformers.SentenceTransformer(
            modules=parts, similarity_fn_name="cosine" if cut else "dot"
        )

    def teacher_distance(self, model: Any) -> Any:
        """Return the loss `teacher_loss`: margin-MSE or the Kullback-Leibler divergence."""
        kind = {MARGIN_MSE: _losses.MarginMSELoss, KL: _losses.DistillKLDivLoss}
        return kind[self.teacher_loss](
            model, similarity_fct=scaled(_util.pairwise_dot_score, self.loss_scale)
        )

    def judgement_loss(self, model: Any) -> Any:
        """Return the cross-entropy over the batch (DPR, equation 2)."""
        return _losses.MultipleNegativesRankingLoss(
            model,
            scale=self.loss_scale,
            similarity_fct=_util.dot_score,
            gather_across_devices=_util.distributed.is_dist_initialized(),
        )


def encode_texts(method: Any, texts: Sequence[str], batch_size: int) -> npt.NDArray[np.float32]:
    """Return vectors of texts, 32-bit floats of shape (texts, dimensions).

    Args:
        method: ``encode_query`` or ``encode_document`` of a model.
        texts: the texts to encode.
        batch_size: texts encoded together; the method sorts texts by length first.
    """
    vectors = method(list(texts), batch_size=batch_size, show_progress_bar=False)
    return np.ascontiguousarray(vectors, dtype=np.float32)


class VectorIndex:
    """An approximate faiss index.

    Args:
        settings: the search settings, which name the index and its parameters.
        dimensions: the dimensions of a vector.

    Raises:
        UsageError: if faiss does not accept the index, its parameters or the dimensions.
    """

    def __init__(self, settings: DenseSearch, dimensions: int) -> None:
        self._settings, self._parameters = settings, settings.index_parameters or ""
        try:
            self._index = _faiss.index_factory(
                dimensions, settings.index, _faiss.METRIC_INNER_PRODUCT
            )
            _faiss.ParameterSpace().set_index_parameters(self._index, self._parameters)
        except RuntimeError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: RuntimeError) -> UsageError:
        index, parameters = self._settings.index, self._settings.index_parameters
        why = str(error).rpartition(": ")[2].strip()
        return UsageError(
            f"faiss cannot search by index {index!r} with parameters {parameters!r}: {why}; give "
            "an index that its index_factory accepts, e.g. 'HNSW32' with 'efSearch=2000' or "
            "'IVF64,Flat' with 'nprobe=8'"
        )

    def fill(self, passages: EncodedPassages, folder: Path) -> int:
        """Read the index from its file, or add all passages and write it; return its size in bytes.

        Args:
            passages: the encoded passages; each block has ``vectors``.
            folder: the folder of the file; it must belong to one model.

        Raises:
            UsageError: if there are too few passages to train the index.
        """
        names = [file.name for file in passages.files]
        digest = hashlib.sha256(repr([self._settings.index, names]).encode()).hexdigest()
        path = folder / f"{digest[:32]}.faiss"
        if not path.exists():
            self._learn(passages)
            before = _faiss.omp_get_max_threads()
            if "HNSW" in (self._settings.index or ""):
                _faiss.omp_set_num_threads(1)  # With several, the graph differs each time.
            try:
                for _, block in passages.blocks():
                    self._index.add(block["vectors"].astype(np.float32))
            finally:
                _faiss.omp_set_num_threads(before)
            with write_atomically(path) as file:
                _faiss.write_index(self._index, _faiss.PyCallbackIOWriter(file.write))
        self._index = _faiss.read_index(str(path))
        _faiss.ParameterSpace().set_index_parameters(self._index, self._parameters)
        return path.stat().st_size

    def _learn(self, passages: EncodedPassages) -> None:
        if self._index.is_trained:
            return
        step = -(-len(passages.ids) // _LEARNT)
        sample = [block["vectors"][::step] for _, block in passages.blocks()]
        try:
            self._index.train(np.concatenate(sample).astype(np.float32))
        except RuntimeError as error:
            raise self._refusal(error) from error

    def search(
        self, queries: npt.NDArray[np.float32], passages: EncodedPassages
    ) -> Iterator[Ranking]:
        """Yield, for each query, a ranking of at most `depth` passages that the index finds."""
        ids, depth = passages.ids, self._settings.depth
        for part in slices(len(queries), _TOGETHER):
            nearest = self._index.search(queries[part], min(depth + _EXTRA, len(ids)))
            for scores, rows in zip(*nearest, strict=True):
                is_found = rows >= 0
                yield best_of(ids, rows[is_found], scores[is_found], depth)

    def recall(
        self, queries: npt.NDArray[np.float32], passages: EncodedPassages
    ) -> dict[str, float]:
        """Return ``recall``, 0 to 1, and ``recall_queries``, the number of measured queries.

        The recall is the mean share of the exact ranking's passages that the index finds.
        """
        count = min(_MEASURED, len(queries))
        sample = queries[np.linspace(0, len(queries) - 1, count, dtype=np.int64)]
        exact_rankings = self._settings.search(sample, passages)
        shares = [
            len(exact.keys() & ranking.keys()) / len(exact)
            for exact, ranking in zip(exact_rankings, self.search(sample, passages), strict=True)
        ]
        return {"recall": sum(shares) / count, "recall_queries": count}
