"""Rerankers, which score pairs of a query and a passage of BM25's first; and monoBERT.

monoBERT (Nogueira et al., 2019; MS-Shift, section 4) is an encoder that reads query and passage
together and returns one score. Other rerankers share the training and the search of this module.
Training ranks a triple's relevant passage above its negatives; search reorders BM25's first
passages. A model is a sentence-transformers ``CrossEncoder``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.systems.recipe import MARGIN_MSE
from msshift_bench.baselines.systems.searcher import Candidates, Scorer, best_of, check_scores
from msshift_bench.baselines.systems.system import Run
from msshift_bench.baselines.training.backbones import load_backbone, loading
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.engine import KeptArray
from msshift_bench.errors import UsageError
from msshift_bench.libraries import sentence_transformers, torch
from msshift_bench.plumbing import counted, slices
from msshift_bench.search import Ranking

_PAIRS = 32_768
"""Pairs of a query and a passage to score before scores are saved, for complete queries."""


class RerankSearch(Scorer):
    """The settings of a reranker's search, which reorders BM25's first `depth` passages."""

    def check_model(self, model: Any) -> None:
        """Check that the model returns at most two values per pair: a score, or two classes.

        Raises:
            UsageError: if it returns more.
        """
        if model.num_labels > 2:
            raise UsageError(
                f"the model has {model.num_labels} classes; give a reranker with one or two"
            )

    @property
    def reranks(self) -> int:
        """The number of BM25's first passages that are reranked: the depth."""
        return self.depth

    def score(
        self, model: Any, queries: Sequence[str], passages: Sequence[str], candidates: Candidates
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield, for each query, the scores of its candidates; see `Scorer.score`."""
        pairs = [
            (query, str(passages[int(place)]))
            for query, places in zip(queries, candidates, strict=True)
            for place in places
        ]
        scores = pair_scores(model, pairs, self.together(model))
        yield from np.split(scores, np.cumsum([len(places) for places in candidates])[:-1])

    def rank(self, model: Any, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) of BM25's first passages; read scores that are saved.

        If BM25 finds nothing for a query, its ranking is empty.

        Raises:
            DataError: if a score is not finite.
        """
        bm25 = run.bm25()
        run.facts["candidates"] = self.described_candidates
        with run.stage("candidates"):
            texts = [row.text for row in run.queries]
            candidates = run.bm25_rankings(run.queries, self.depth, bm25)
            rows = [
                np.array(bm25.ids.rows(list(ranking)), np.int64)
                for ranking in counted(candidates, "candidates", len(texts))
            ]
            distinct = np.unique(np.concatenate(rows))
            doc_ids = bm25.ids.ids[distinct].tolist()
            passages = run.texts({doc_id: place for place, doc_id in enumerate(doc_ids)})

        def rankings() -> Iterator[Ranking]:
            for part in slices(len(rows), max(1, _PAIRS // self.depth)):
                # Test sets with other queries or passages have another digest.
                identity = repr((run.passages_digest(), texts[part]))
                digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
                saved = KeptArray(str(run.work / "scores"), f"{part.start:08d}-{digest}.npy")
                if not saved.exists():
                    indices = [np.searchsorted(distinct, places) for places in rows[part]]
                    scores = list(self.score(model, texts[part], passages, indices))
                    for row, places, values in zip(
                        run.queries[part], rows[part], scores, strict=True
                    ):
                        where = f"the reranking of query {row.query_id!r}"
                        check_scores(values, bm25.ids.ids[places].tolist(), where)
                    saved.write(np.concatenate(scores))
                ends = np.cumsum([len(places) for places in rows[part]])[:-1]
                for places, values in zip(rows[part], np.split(saved.load(), ends), strict=True):
                    yield best_of(bm25.ids, places, values, self.depth)

        yield from run.ranked(rankings(), bm25.ids)


class Reranker(Neural):
    """A system whose model computes one score per pair of a query and a passage.

    Attributes:
        loss: ``binary``: the cross-entropy of each passage alone; ``softmax``: the cross-entropy
            over the passages of a triple; ``hinge``: the mean of max(0, 1 - the relevant passage's
            score + a negative's score).
        search: how the model reranks.
    """

    model_type = "CrossEncoder"

    loss: Literal["binary", "softmax", "hinge"]
    search: RerankSearch

    def tag(self, name: str) -> str:
        """Return the run tag: the name, recipe and seed, without ``-reranks-bm25-<number>``."""
        return super().tag(name).removesuffix(self.search.tag)

    def judgement_loss(self, model: Any) -> Any:
        """Return the loss that `loss` names."""
        functional = torch.nn.functional

        def softmax(scores: Any, _labels: Any) -> Any:
            return functional.cross_entropy(scores, scores.new_zeros(len(scores)).long())

        def binary(scores: Any, _labels: Any) -> Any:
            relevant = scores.new_zeros(scores.shape)
            relevant[:, 0] = 1
            return functional.binary_cross_entropy_with_logits(scores, relevant)

        def hinge(scores: Any, _labels: Any) -> Any:
            return functional.relu(1 - scores[:, :1] + scores[:, 1:]).mean()

        compute_loss = {"softmax": softmax, "binary": binary, "hinge": hinge}[self.loss]
        return loss_of_scores(model, compute_loss)

    def teacher_distance(self, model: Any) -> Any:
        """Return the loss `teacher_loss`: margin-MSE or the Kullback-Leibler divergence."""
        # For cross-encoders, sentence-transformers has only margin-MSE.

        def distance(scores: Any, labels: Any) -> Any:
            teacher_scores = torch.stack(labels).to(scores.device)
            return distance_to_teacher(scores.float(), teacher_scores, self.teacher_loss)

        return loss_of_scores(model, distance)

    def training_arguments(self, model: Any, columns: Sequence[str]) -> dict[str, Any]:
        """Return `{}`: a query and a passage are one input, without roles and prompts."""
        del model, columns
        return {}


class MonoBert(Reranker):
    """monoBERT: a cross-encoder that reranks BM25.

    It reads at most `query_length` + `passage_length` tokens of a pair, and cuts off the rest.
    """

    name = "monobert"

    def new_model(self, encoder: str | Path) -> Any:
        """Return an untrained model: an encoder and a head with one score."""
        backbone = load_backbone(
            self,
            encoder,
            transformer_task="sequence-classification",
            config_kwargs={"num_labels": 1},
            processor_kwargs={"model_max_length": self.query_length + self.passage_length},
        )
        return sentence_transformers.CrossEncoder(modules=[backbone])


def load_module(kind: Any, where: str | Path) -> Any:
    """Return a CrossEncoder with one module that this package defines.

    Args:
        kind: the class of the module; its `load` reads a folder or an id of the Hub.
        where: the folder, or the id.

    Raises:
        NotFoundError: if there is no such model, or it cannot be loaded.
        DataError: if its weights are pickles.
    """
    with loading("model", where):
        module = kind.load(str(where))
    return sentence_transformers.CrossEncoder(modules=[module])


def loss_of_scores(model: Any, compute_loss: Callable[[Any, Any], Any]) -> Any:
    """Return a loss for the trainer that reads all pairs of a batch together.

    Args:
        model: a CrossEncoder.
        compute_loss: returns the loss for scores and labels, the teacher's scores or `None`. Scores
            have the shape (queries, passages), with the relevant passage first.
    """

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, columns: Any, labels: Any, **_: Any) -> Any:
            queries, *passages = columns
            pairs = [pair for column in passages for pair in zip(queries, column, strict=True)]
            features = sentence_transformers.util.batch_to_device(
                self.model.preprocess(pairs), self.model.device
            )
            # With several processes, torch finds tensors in plain dictionaries only.
            scores = self.model(dict(features))["scores"].view(len(passages), len(queries)).T
            return compute_loss(scores, labels)

    return Loss()


def distance_to_teacher(scores: Any, teacher: Any, kind: str) -> Any:
    """Return the distance of a model's scores to a teacher's, as sentence-transformers' losses do.

    Args:
        scores: a tensor of shape (queries, passages); the relevant passage comes first.
        teacher: the teacher's scores, a tensor of the same shape.
        kind: ``margin-mse`` or ``kl``.
    """
    functional = torch.nn.functional
    if kind == MARGIN_MSE:
        return functional.mse_loss(scores[:, :1] - scores[:, 1:], teacher[:, :1] - teacher[:, 1:])
    return functional.kl_div(
        functional.log_softmax(scores, dim=1),
        functional.softmax(teacher, dim=1),
        reduction="batchmean",
    )


def pair_scores(
    model: Any, pairs: Sequence[tuple[str, str]], batch_size: int
) -> npt.NDArray[np.float32]:
    """Return the score of each (query, passage): a logit, or the second logit minus the first."""
    scores: npt.NDArray[np.float32] = model.predict(
        list(pairs),
        batch_size=batch_size,
        show_progress_bar=False,
        activation_fn=torch.nn.Identity(),
    )
    # The published monoBERT has two logits: "irrelevant" and "relevant".
    return scores if scores.ndim == 1 else scores[:, 1] - scores[:, 0]
