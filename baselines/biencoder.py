"""The dense bi-encoder of MS-Shift (ECIR 2023, section 4; DPR, EMNLP 2020), trained per group.

Queries and passages share one encoder; the score is the dot product of their vectors. Negatives
are the other passages of the batch, and passages that BM25 ranks high and nobody judged relevant.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msshift_bench.baselines.batches import Example, plan_batches
from msshift_bench.baselines.encoders import (
    encode,
    encode_passages,
    load_model,
    make_random_encoder,
    new_model,
    quiet_libraries,
    weights_digest,
)
from msshift_bench.baselines.recipe import Recipe, load_recipe
from msshift_bench.baselines.search import search_vectors
from msshift_bench.baselines.system import System, Task
from msshift_bench.baselines.training import train
from msshift_bench.bm25 import Bm25, Bm25Parameters
from msshift_bench.dataset_builders.negatives import sample_negatives
from msshift_bench.errors import DataError, require
from msshift_bench.files import replace_folder, write_json
from msshift_bench.ranking import PassageIds, Ranking

__all__ = ["BiEncoder", "make_bi_encoder"]

_FACTS = "training.json"
"""What is recorded of a training that is over, in the folder of its model."""


def make_bi_encoder(
    recipe: str | Path = "mini",
    *,
    encoder: str | None = None,
    seed: int | None = None,
    depth: int | None = None,
) -> BiEncoder:
    """Return the bi-encoder of a recipe, with what is given instead of what the recipe says.

    Args:
        recipe: a name or the path of a TOML file; see `load_recipe`.
        encoder: a folder or an id of the Hugging Face Hub.
        seed: the seed.
        depth: passages per ranking.
    """
    chosen = load_recipe(BiEncoder.name, recipe)
    return BiEncoder(chosen.changed(encoder=encoder, seed=seed, depth=depth), Path(recipe).stem)


class BiEncoder(System):
    """The bi-encoder as a baseline.

    Args:
        recipe: how it is trained and searched with.
        recipe_name: for the run tag.
    """

    name = "bi-encoder"
    per_group = True

    def __init__(self, recipe: Recipe, recipe_name: str) -> None:
        # Read when torch is first imported: idle threads sleep instead of spinning. Beside other
        # work on the same processors, spinning makes training five times slower.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        for module in ("torch", "sentence_transformers", "datasets", "accelerate", "faiss"):
            require(module, "neural", "the bi-encoder")
        self._recipe = recipe
        self._recipe_name = recipe_name
        self._index: Bm25 | None = None

    @property
    def tag(self) -> str:
        """The run tag."""
        return f"{self.name}-{self._recipe_name}-seed{self._recipe.seed}"

    @property
    def parameters(self) -> Mapping[str, object]:
        """The fields of the recipe."""
        return self._recipe.parameters()

    def hardware(self) -> Mapping[str, object]:
        """Return the device, and the threads that torch uses."""
        torch = require("torch", "neural", "the bi-encoder")
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        return {"device": device, "torch_threads": torch.get_num_threads()}

    def rankings(self, task: Task) -> Iterator[tuple[str, Ranking]]:
        """Train, encode the passages, and rank; each only as far as it is not done yet."""
        recipe = self._recipe
        with quiet_libraries():
            model = self._trained(task)
            with task.record.stage("encode"):
                doc_ids, files = encode_passages(
                    model,
                    task.passages(),
                    task.work / "vectors",
                    batch_size=recipe.encode_batch_size,
                    progress=task.progress,
                )
                texts = [row.text for row in task.queries]
                queries = encode(model.encode_query, texts, recipe.encode_batch_size)
        ids = PassageIds(doc_ids)
        task.count_missing(ids)
        with task.record.stage("search"):
            rankings = search_vectors(queries, files, ids, depth=recipe.depth)
            for done, (row, ranking) in enumerate(zip(task.queries, rankings, strict=True), 1):
                yield row.query_id, ranking
                task.progress("search", done, len(task.queries))

    def _trained(self, task: Task) -> Any:
        folder = task.work / "model"
        if not folder.exists():
            self._train(task, folder)
        task.record.facts["training"].update(json.loads((folder / _FACTS).read_bytes()))
        return load_model(folder)

    def _train(self, task: Task, folder: Path) -> None:
        recipe = self._recipe
        with task.record.stage("negatives"):
            examples = self._examples(task)
            plan = plan_batches(
                examples, batch_size=recipe.batch_size, steps=recipe.steps, seed=recipe.seed
            )
            columns = _columns(task, examples)
        with task.record.stage("train"):
            model = self._initial_model(task)
            initial = weights_digest(model)
            train(model, columns, plan, recipe, task.work / "checkpoints", task.progress)
        with replace_folder(folder) as partial:
            model.save_pretrained(str(partial), create_model_card=False)
            facts = {
                "examples": len(examples),
                "steps": recipe.steps,
                "initial_weights_sha256": initial,
                "weights_sha256": weights_digest(model),
            }
            write_json(partial / _FACTS, facts)

    def _examples(self, task: Task) -> list[Example]:
        recipe = self._recipe
        if self._index is None:
            task.progress("index", 0, 0)
            self._index = Bm25(task.passages(), Bm25Parameters())
        ids = self._index.ids
        negatives = sample_negatives(
            self._index,
            task.train,
            count=recipe.negatives,
            depth=recipe.negatives_depth,
            seed=recipe.seed,
        )
        examples = []
        for done, (row, chosen) in enumerate(zip(task.train, negatives, strict=True), 1):
            rows = ids.rows(row.relevant_doc_ids)
            relevant = frozenset(row.relevant_doc_ids)
            for doc_id, place in zip(row.relevant_doc_ids, rows, strict=True):
                if place is not None:
                    examples.append(Example(row.query_id, doc_id, chosen, relevant))
            task.progress("negatives", done, len(task.train))
        if len(examples) < recipe.batch_size:
            raise DataError(
                f"{len(examples)} training examples are fewer than a batch of {recipe.batch_size}"
            )
        return examples

    def _initial_model(self, task: Task) -> Any:
        recipe = self._recipe
        if recipe.random is None:
            return new_model(recipe, recipe.encoder)
        folder = task.work / "encoder"
        if not folder.exists():
            length = max(recipe.query_length, recipe.passage_length)
            texts = (passage.text for passage in task.passages())
            make_random_encoder(folder, recipe.random, texts, length=length, seed=recipe.seed)
        return new_model(recipe, folder)


def _columns(task: Task, examples: list[Example]) -> dict[str, list[str]]:
    """Return the texts of the examples, by column."""
    wanted = {doc_id for example in examples for doc_id in (example.positive, *example.negatives)}
    passages = {p.doc_id: p.text for p in task.passages() if p.doc_id in wanted}
    queries = {row.query_id: row.text for row in task.train}
    columns = {
        "query": [queries[example.query_id] for example in examples],
        "positive": [passages[example.positive] for example in examples],
    }
    for number in range(len(examples[0].negatives)):
        column = [passages[example.negatives[number]] for example in examples]
        columns[f"negative_{number + 1}"] = column
    return columns
