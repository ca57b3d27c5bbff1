"""The dense bi-encoder of MS-Shift (ECIR 2023, section 4; DPR, EMNLP 2020).

Queries and passages share one encoder; the score is the dot product of their vectors, or their
cosine, if a model that was trained elsewhere names that. Negatives are the batch's other passages,
and passages that BM25 ranks high and nobody judged relevant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import NonNegativeFloat

from msshift_bench.baselines.approximate import (
    HALF,
    DenseSearch,
    find_index,
    rank_approximately,
    recall,
)
from msshift_bench.baselines.architecture import Candidates, scaled
from msshift_bench.baselines.backbones import check_finite, encode_texts, load_backbone
from msshift_bench.baselines.block_search import search_dense
from msshift_bench.baselines.encoded_passages import encode_passages
from msshift_bench.baselines.neural import Neural
from msshift_bench.baselines.recipe import KL, MARGIN_MSE, SearchSettings
from msshift_bench.baselines.system import Run
from msshift_bench.errors import DataError, UsageError, require
from msshift_bench.search import Bm25, Ranking

__all__ = ["SIMILARITIES", "BiEncoder"]

SIMILARITIES = ("dot", "cosine")
"""The similarities that a search by dot product can rank by."""


class BiEncoder(Neural):
    """Dense bi-encoder: one vector per text, dot product, in-batch and BM25 negatives.

    Attributes:
        pooling: how token states become one vector: ``cls`` or ``mean``.
        normalize: whether vectors are scaled to length 1, so that dot products are cosines.
        loss_scale: factor of the dot products in the softmax (the inverse of the temperature).
        search: how it searches the passages.
    """

    name = "bi-encoder"
    libraries = ("faiss",)
    model_type = "SentenceTransformer"

    pooling: Literal["cls", "mean"]
    normalize: bool
    loss_scale: NonNegativeFloat
    search: DenseSearch

    def new_model(self, encoder: str | Path) -> Any:
        """Return an encoder with the recipe's pooling."""
        library = require("sentence_transformers", "neural", self.name)
        modules = require("sentence_transformers.sentence_transformer.modules", "neural", self.name)
        backbone = load_backbone(
            self,
            encoder,
            query_length=self.query_length,
            document_length=self.passage_length,
        )
        parts = [backbone, modules.Pooling(backbone.get_embedding_dimension(), self.pooling)]
        if self.normalize:
            parts.append(modules.Normalize())
        return library.SentenceTransformer(modules=parts, similarity_fn_name="dot")

    def teacher_distance(self, model: Any) -> Any:
        """Return the distance to the teacher's margins or distribution."""
        losses = require("sentence_transformers.sentence_transformer.losses", "neural", self.name)
        util = require("sentence_transformers.util", "neural", self.name)
        kind = {MARGIN_MSE: losses.MarginMSELoss, KL: losses.DistillKLDivLoss}
        compare = scaled(util.pairwise_dot_score, self.loss_scale)
        return kind[self.teacher_loss](model, similarity_fct=compare)

    def judgement_loss(self, model: Any) -> Any:
        """Return the cross-entropy over the batch (DPR, equation 2)."""
        losses = require("sentence_transformers.sentence_transformer.losses", "neural", self.name)
        util = require("sentence_transformers.util", "neural", self.name)
        return losses.MultipleNegativesRankingLoss(
            model,
            scale=self.loss_scale,
            similarity_fct=util.dot_score,
            gather_across_devices=util.distributed.is_dist_initialized(),
        )

    @classmethod
    def score(
        cls,
        model: Any,
        queries: Sequence[str],
        passages: Sequence[str],
        candidates: Candidates,
        batch_size: int,
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the dot products of each query with its candidates."""
        left = encode_texts(model.encode_query, queries, batch_size)
        right = encode_texts(model.encode_document, passages, batch_size)
        for query, places in zip(left, candidates, strict=True):
            yield right[places] @ query

    @classmethod
    def check_model(cls, model: Any) -> None:
        """Check that the model's similarity is the dot product or the cosine.

        Raises:
            UsageError: if it is another.
        """
        if model.similarity_fn_name not in SIMILARITIES:
            raise UsageError(
                f"the model compares vectors by {model.similarity_fn_name!r}, and search knows "
                f"{' and '.join(SIMILARITIES)}; if one of them will do, set the model's "
                "similarity_fn_name to it"
            )

    @classmethod
    def rankings(
        cls, model: Any, task: Run, search: SearchSettings, index: Callable[[], Bm25]
    ) -> Iterator[tuple[str, Ranking]]:
        """Encode the passages unless that is done, and search them."""
        del index
        assert isinstance(search, DenseSearch)
        options = {"normalize_embeddings": True} if model.similarity_fn_name == "cosine" else {}
        encode_query = partial(model.encode_query, **options)
        encode_document = partial(model.encode_document, **options)

        def encode_block(texts: list[str]) -> dict[str, npt.NDArray[Any]]:
            vectors = encode_texts(encode_document, texts, search.batch_size)
            check_finite(np.isfinite(vectors).all(axis=1), texts)
            return {"vectors": _rounded(vectors) if search.storage == HALF else vectors}

        with task.record.stage("encode"):
            passages = encode_passages(
                encode_block,
                task.passages(""),
                task.work / ("passages-16" if search.storage == HALF else "passages"),
                task.progress,
                task.passage_count,
            )
            texts = [row.text for row in task.queries]
            queries = encode_texts(encode_query, texts, search.batch_size)
            check_finite(np.isfinite(queries).all(axis=1), texts)
        if search.approximate is None:
            task.record.facts["index"] = {"bytes": passages.bytes}
            rankings = search_dense(queries, passages, depth=search.depth, progress=task.progress)
        else:
            task.progress("index", 0, 0)
            with task.record.stage("index"):
                file = find_index(passages, search.approximate, task.work / "index")
            task.progress("recall", 0, 0)
            with task.record.stage("recall"):
                measured = recall(queries, passages, file, search)
            task.record.facts["index"] = {"bytes": file.stat().st_size, **measured}
            rankings = rank_approximately(queries, passages, file, search)
        yield from task.ranked(rankings, passages.ids)


def _rounded(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    """Return vectors in 16 bits.

    Raises:
        DataError: if a number is too large for them.
    """
    largest = float(np.abs(vectors).max(initial=0))
    if largest > float(np.finfo(np.float16).max):
        raise DataError(
            f"a passage's vector holds {largest:.6g}, and 16 bits end at 65,504; leave out "
            'storage = "float16", or normalize the vectors'
        )
    return vectors.astype(np.float16)
