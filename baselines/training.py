"""Training on sentence-transformers' trainer, so that a killed training ends in the same weights.

The trainer restores the optimizer, the schedule and the random number generators from its
checkpoints; the batches follow from the seed alone. A checkpoint counts only once it is complete,
which the trainer itself cannot tell after a kill. The same weights means the same bits on one
machine, with the same libraries and number of threads.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msshift_bench.baselines.recipe import Recipe
from msshift_bench.errors import require
from msshift_bench.progress import Progress

__all__ = ["train"]

_WHAT = "the bi-encoder"

_COMPLETE = "complete"
"""A file that is put into a checkpoint after everything else."""


def train(
    model: Any,
    columns: dict[str, list[str]],
    plan: Sequence[Sequence[int]],
    recipe: Recipe,
    folder: Path,
    progress: Progress,
) -> None:
    """Train a bi-encoder in place with in-batch negatives, going on where a checkpoint allows.

    Args:
        model: the bi-encoder, with its initial weights.
        columns: texts by column: ``query``, ``positive``, then negatives; all of equal length.
        plan: the rows of each batch, one batch per step.
        recipe: the recipe.
        folder: where checkpoints are kept.
        progress: told how far things are.
    """
    datasets = require("datasets", "neural", _WHAT)
    library = require("sentence_transformers", "neural", _WHAT)
    transformers = require("transformers", "neural", _WHAT)
    losses = require("sentence_transformers.sentence_transformer.losses", "neural", _WHAT)
    util = require("sentence_transformers.util", "neural", _WHAT)

    callback: Any = transformers.TrainerCallback
    trainer_class: Any = library.SentenceTransformerTrainer

    class Callback(callback):  # type: ignore[misc]
        def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            progress("train", state.global_step, state.max_steps)

        def on_save(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            (folder / f"checkpoint-{state.global_step}" / _COMPLETE).touch()

    class Trainer(trainer_class):  # type: ignore[misc]
        def get_batch_sampler(self, *_args: Any, **_: Any) -> Sequence[Sequence[int]]:
            return plan

        def add_model_card_callback(self, _default_args: dict[str, Any]) -> None:
            """Write no model card: it would look at the data and ask the Hub about it."""

    arguments = library.SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        max_steps=len(plan),
        per_device_train_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup_steps,
        lr_scheduler_type=_SCHEDULES[recipe.schedule],
        weight_decay=recipe.weight_decay,
        bf16=recipe.precision == "bf16",
        fp16=recipe.precision == "fp16",
        seed=recipe.seed,
        data_seed=recipe.seed,
        router_mapping={name: "query" if name == "query" else "document" for name in columns},
        save_strategy="steps",
        save_steps=recipe.checkpoint_every,
        # The newest may be incomplete; the one before it is then needed.
        save_total_limit=2,
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_dict(columns),
        loss=losses.MultipleNegativesRankingLoss(
            model, scale=recipe.loss_scale, similarity_fct=util.dot_score
        ),
        callbacks=[Callback()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=_last_complete(folder))


_SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}


def _last_complete(folder: Path) -> str | None:
    """Return the last complete checkpoint, and remove those that are not."""
    found: dict[int, Path] = {}
    for checkpoint in folder.glob("checkpoint-*"):
        if (checkpoint / _COMPLETE).exists():
            found[int(checkpoint.name.rpartition("-")[2])] = checkpoint
        else:
            shutil.rmtree(checkpoint)
    return str(found[max(found)]) if found else None
