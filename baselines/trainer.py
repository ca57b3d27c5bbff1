"""Training on sentence-transformers' trainers, so that a killed training ends in the same weights.

The trainer restores the optimizer, the schedule and the random number generators from its
checkpoints; the batches follow from the seed alone. A checkpoint counts only once it is complete,
which the trainer itself cannot tell after a kill. The same weights means the same bits on one
machine, with the same libraries and number of threads.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from msshift_bench.baselines.architecture import Architecture, RecipeType
from msshift_bench.baselines.processes import is_first, is_one_of_several
from msshift_bench.baselines.training_data import TrainingData
from msshift_bench.errors import UsageError, require
from msshift_bench.plumbing import Progress

__all__ = ["train"]

_logger = logging.getLogger(__name__)

_COMPLETE = "complete"
"""The last file that is written into a checkpoint."""

_LOG_EVERY = 50
"""Most steps between two entries of the log."""

_LOSSES = 20
"""Most losses of a training to log, and so to show on the terminal."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """The triples, in parts that go through the model one after the other."""

    triples: int
    batch_size: int

    def __len__(self) -> int:
        return self.triples // self.batch_size

    def __iter__(self) -> Iterator[list[int]]:
        for first in range(0, self.triples, self.batch_size):
            yield list(range(first, first + self.batch_size))


def train(
    architecture: Architecture[RecipeType],
    model: Any,
    triples: TrainingData,
    recipe: RecipeType,
    folder: Path,
    progress: Progress,
    *,
    callbacks: Sequence[Any] = (),
    logs: Path | None = None,
) -> int:
    """Train a model in place, continuing from a checkpoint if there is one.

    Args:
        architecture: the architecture of the model.
        model: the model, with its initial weights.
        triples: the triples, in the order of training.
        recipe: the recipe.
        folder: the folder of checkpoints.
        progress: called with ``(stage, done, total)``.
        callbacks: more callbacks of the trainer.
        logs: the folder of TensorBoard's files, if that is installed; `None` for no such files.

    Returns:
        The last step.

    Raises:
        UsageError: if a part of a batch cannot be split evenly over the processes.
    """
    library = require("sentence_transformers", "neural", architecture.name)
    torch = require("torch", "neural", architecture.name)
    transformers = require("transformers", "neural", architecture.name)
    accelerate = require("accelerate", "neural", architecture.name)
    part = recipe.batch_size // recipe.accumulate
    # A checkpoint does not hold the losses since the last log entry, so both come at one step.
    every = math.gcd(recipe.checkpoint_every, _LOG_EVERY)
    if logs and is_first() and not _has_tensorboard():
        _note_no_tensorboard()
    parts = _Parts(len(triples), part)

    base_callback: Any = transformers.TrainerCallback
    base_trainer: Any = getattr(library, f"{architecture.model_type}Trainer")

    class Callback(base_callback):  # type: ignore[misc]
        def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            progress("train", state.global_step, state.max_steps)

        def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
            # The last entry summarises the training, and has no loss of its own.
            if is_first() and "loss" in (logs or {}):
                step, steps = state.global_step, state.max_steps
                if step * _LOSSES // steps > (step - every) * _LOSSES // steps:
                    _logger.info("step %d of %d: loss %.4f", step, steps, logs["loss"])

        def on_save(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            accelerate.PartialState().wait_for_everyone()
            (folder / f"checkpoint-{state.global_step}" / _COMPLETE).touch()

    class Trainer(base_trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            return self.accelerator.prepare(
                torch.utils.data.DataLoader(
                    triples, batch_sampler=parts, collate_fn=self.data_collator
                )
            )

        def preprocess_dataset(self, dataset: Any = None, dataset_name: Any = None) -> Any:
            """Keep the triples as they are, since they are no data set of the datasets library."""
            del dataset_name
            return dataset

        def add_model_card_callback(self, _default_args: dict[str, Any]) -> None:
            """Write no model card: it would read the data and query the Hub."""

    arguments = getattr(library, f"{architecture.model_type}TrainingArguments")(
        output_dir=str(folder),
        max_steps=len(triples) // recipe.batch_size,
        per_device_train_batch_size=part,
        gradient_accumulation_steps=recipe.accumulate,
        # However many processes there are, they share each part of a batch.
        accelerator_config={"split_batches": True},
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup_steps,
        lr_scheduler_type=_SCHEDULES[recipe.schedule],
        weight_decay=recipe.weight_decay,
        adam_beta1=recipe.adam_beta1,
        adam_beta2=recipe.adam_beta2,
        adam_epsilon=recipe.adam_epsilon,
        max_grad_norm=recipe.max_gradient_norm,
        # Without a GPU, processes find each other only if they are told that there is none.
        use_cpu=is_one_of_several() and not torch.cuda.is_available(),
        bf16=recipe.precision == "bf16",
        fp16=recipe.precision == "fp16",
        seed=recipe.seed,
        data_seed=recipe.seed,
        save_strategy="steps",
        save_steps=recipe.checkpoint_every,
        # The newest may be incomplete; the one before it is then needed.
        save_total_limit=2,
        logging_strategy="steps" if logs else "no",
        logging_steps=every,
        report_to="tensorboard" if logs and _has_tensorboard() else "none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **architecture.training_arguments(model, triples.columns),
    )
    if part % arguments.world_size:
        raise UsageError(
            f"a part of a batch holds {part} queries (batch_size / accumulate), which "
            f"{arguments.world_size} processes cannot share evenly"
        )
    loss = architecture.loss(model, recipe)
    with _logging_to(logs):
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=triples,
            loss=loss,
            callbacks=[*architecture.callbacks(loss, recipe), *callbacks, Callback()],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train(resume_from_checkpoint=_last_complete(folder))
    return int(trainer.state.global_step)


_SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}


def _has_tensorboard() -> bool:
    return importlib.util.find_spec("tensorboard") is not None


@cache
def _note_no_tensorboard() -> None:
    """Log once that TensorBoard is missing, however many models are trained."""
    _logger.info("no logs for TensorBoard, which is not installed: pip install tensorboard")


@contextmanager
def _logging_to(folder: Path | None) -> Iterator[None]:
    """Pass the folder to the trainer's TensorBoard callback by the environment, the only way."""
    name = "TENSORBOARD_LOGGING_DIR"
    before = os.environ.get(name)
    if folder is not None:
        os.environ[name] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


def _last_complete(folder: Path) -> str | None:
    """Return the last complete checkpoint, and remove those that are not."""
    complete: dict[int, Path] = {}
    for checkpoint in folder.glob("checkpoint-*"):
        if (checkpoint / _COMPLETE).exists():
            complete[int(checkpoint.name.rpartition("-")[2])] = checkpoint
        elif is_first():
            shutil.rmtree(checkpoint)
    return str(complete[max(complete)]) if complete else None
