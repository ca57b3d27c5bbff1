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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from msshift_bench.baselines.architecture import Architecture
from msshift_bench.baselines.processes import is_one_of_several
from msshift_bench.baselines.recipe import TrainingSettings
from msshift_bench.errors import MissingError, UsageError, require
from msshift_bench.plumbing import Progress, is_first

__all__ = ["TrainingItems", "TripleItems", "check_precision", "fit", "last_checkpoint", "train"]

_logger = logging.getLogger(__name__)

_WHAT = "a neural system"

_COMPLETE = "complete"
"""The last file that is written into a checkpoint."""

_LOG_EVERY = 50
"""Most steps between two entries of the log."""

_LOSSES = 20
"""Most losses of a training to log, and so to show on the terminal."""


class TrainingItems(Protocol):
    """What a training meets, in its order: as many as its steps times its batch size, or more."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Any: ...


class TripleItems(TrainingItems, Protocol):
    """The triples of a training; see `TrainingData`."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns of texts."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """The examples, in parts that go through the model one after the other."""

    examples: int
    batch_size: int

    def __len__(self) -> int:
        return self.examples // self.batch_size

    def __iter__(self) -> Iterator[list[int]]:
        for first in range(0, self.examples, self.batch_size):
            yield list(range(first, first + self.batch_size))


def check_precision(precision: str) -> None:
    """Check that this machine can train in a precision; the trainer would take 32 bits in silence.

    Raises:
        MissingError: if it needs a GPU that is not there.
    """
    cuda = require("torch", "neural", "a neural system").cuda
    if not cuda.is_available():
        if precision != "fp16":
            return
        raise MissingError(
            f"the recipe trains in {precision}, which needs a GPU, and torch finds none here; "
            "run it where there is one, or take --set precision=bf16 or fp32"
        )
    if precision == "bf16" and not cuda.is_bf16_supported(including_emulation=False):
        raise MissingError(
            f"the recipe trains in bf16, which {cuda.get_device_name()} does not know; take "
            "--set precision=fp16 or fp32"
        )


def train(
    model: Any,
    triples: TripleItems,
    recipe: Architecture,
    folder: Path,
    progress: Progress,
    *,
    name: str,
    until: int | None = None,
    callbacks: Sequence[Any] = (),
    logs: Path | None = None,
) -> int:
    """Train a system's model in place, continuing from a checkpoint if there is one.

    Args:
        model: the model, with its initial weights.
        triples: the triples, in the order of training.
        recipe: the recipe.
        folder: the folder of checkpoints.
        progress: called with ``(stage, done, total)``.
        name: what the log calls the model.
        until: the step to stop after, with a checkpoint; by default the last one.
        callbacks: more callbacks of the trainer.
        logs: the folder of TensorBoard's files, if that is installed; `None` for no such files.

    Returns:
        The last step.

    Raises:
        UsageError: if a part of a batch cannot be split evenly over the processes.
    """
    library = require("sentence_transformers", "neural", recipe.name)
    base: Any = getattr(library, f"{recipe.model_type}Trainer")

    class Trainer(base):  # type: ignore[misc]
        def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
            """Save no model card: of a small model's checkpoint, it takes most of the time."""
            del state_dict
            self.model.save_pretrained(output_dir or str(folder), create_model_card=False)

    def loss() -> tuple[Any, Sequence[Any]]:
        made = recipe.training_loss(model)
        return made, recipe.callbacks(made)

    state = fit(
        model,
        triples,
        recipe,
        folder,
        progress,
        trainer=Trainer,
        arguments=partial(
            getattr(library, f"{recipe.model_type}TrainingArguments"),
            **recipe.training_arguments(model, triples.columns),
        ),
        name=name,
        until=until,
        callbacks=callbacks,
        logs=logs,
        loss=loss,
    )
    return int(state.global_step)


def fit(
    model: Any,
    examples: TrainingItems,
    recipe: TrainingSettings,
    folder: Path,
    progress: Progress,
    *,
    trainer: Any,
    arguments: Callable[..., Any],
    name: str,
    until: int | None = None,
    callbacks: Sequence[Any] = (),
    logs: Path | None = None,
    loss: Callable[[], tuple[Any, Sequence[Any]]] | None = None,
    **options: Any,
) -> Any:
    """Train any model in place, continuing from a checkpoint if there is one.

    Args:
        model: the model, with its initial weights.
        examples: what the model meets, in the order of training.
        recipe: how the training goes.
        folder: the folder of checkpoints.
        progress: called with ``(stage, done, total)``.
        trainer: the class of the trainer.
        arguments: takes the arguments of the training by keyword, and returns the trainer's.
        name: what the log calls the model.
        until: the step to stop after, with a checkpoint; by default the last one.
        callbacks: more callbacks of the trainer.
        logs: the folder of TensorBoard's files, if that is installed; `None` for no such files.
        loss: makes the loss and the callbacks that go with it, once the processes have found each
            other: a loss that shares negatives between them asks for that when it is made.
        **options: further options of the trainer.

    Returns:
        The trainer's state: its last step and the log.

    Raises:
        UsageError: if a part of a batch cannot be split evenly over the processes.
    """
    torch = require("torch", "neural", _WHAT)
    transformers = require("transformers", "neural", _WHAT)
    accelerate = require("accelerate", "neural", _WHAT)
    part = recipe.batch_size // recipe.accumulate
    # A checkpoint does not hold the losses since the last log entry, so both come at one step.
    every = math.gcd(recipe.checkpoint_every, _LOG_EVERY)
    if logs and is_first() and not _has_tensorboard():
        _note_no_tensorboard()
    parts = _Parts(len(examples), part)

    base_callback: Any = transformers.TrainerCallback

    class Callback(base_callback):  # type: ignore[misc]
        def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
            progress("train", state.global_step, state.max_steps)
            if state.global_step == until:
                # An entry of the log with every checkpoint, as above.
                control.should_log = control.should_save = control.should_training_stop = True

        def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
            # The last entry summarises the training, and has no loss of its own.
            if is_first() and "loss" in (logs or {}):
                step, steps = state.global_step, state.max_steps
                if step * _LOSSES // steps > (step - every) * _LOSSES // steps:
                    _logger.info("%s: step %d of %d: loss %.4f", name, step, steps, logs["loss"])

        def on_save(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            accelerate.PartialState().wait_for_everyone()
            (folder / f"checkpoint-{state.global_step}" / _COMPLETE).touch()

    class Trainer(trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            return self.accelerator.prepare(
                torch.utils.data.DataLoader(
                    examples, batch_sampler=parts, collate_fn=self.data_collator
                )
            )

        def preprocess_dataset(self, dataset: Any = None, dataset_name: Any = None) -> Any:
            """Keep the examples as they are, since they are no data set of the datasets library."""
            del dataset_name
            return dataset

        def add_model_card_callback(self, _default_args: dict[str, Any]) -> None:
            """Write no model card: it would read the data and query the Hub."""

    chosen = arguments(
        output_dir=str(folder),
        max_steps=len(examples) // recipe.batch_size,
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
        # Without a GPU, processes find each other, and the trainer knows bf16, only if they are
        # told that there is none.
        use_cpu=not torch.cuda.is_available()
        and (is_one_of_several() or recipe.precision == "bf16"),
        bf16=recipe.precision == "bf16",
        fp16=recipe.precision == "fp16",
        seed=recipe.seed,
        data_seed=recipe.seed,
        save_strategy="steps",
        save_steps=recipe.checkpoint_every,
        # The newest may be incomplete; the one before it is then needed.
        save_total_limit=2,
        logging_strategy="steps",
        logging_steps=every,
        report_to="tensorboard" if logs and _has_tensorboard() else "none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    if part % chosen.world_size:
        raise UsageError(
            f"a part of a batch holds {part} examples (batch_size / accumulate), which "
            f"{chosen.world_size} processes cannot share evenly"
        )
    if loss is not None:
        options["loss"], more = loss()
        callbacks = [*more, *callbacks]
    with _logging_to(logs):
        running = Trainer(
            model=model,
            args=chosen,
            train_dataset=examples,
            callbacks=[*callbacks, Callback()],
            **options,
        )
        running.remove_callback(transformers.PrinterCallback)
        checkpoint = last_checkpoint(folder)
        running.train(resume_from_checkpoint=str(checkpoint[1]) if checkpoint else None)
    return running.state


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


def last_checkpoint(folder: Path) -> tuple[int, Path] | None:
    """Return the step and the folder of the last complete checkpoint; remove those that are not.

    Args:
        folder: the folder of checkpoints.
    """
    complete: dict[int, Path] = {}
    for checkpoint in folder.glob("checkpoint-*"):
        if (checkpoint / _COMPLETE).exists():
            complete[int(checkpoint.name.rpartition("-")[2])] = checkpoint
        elif is_first():
            shutil.rmtree(checkpoint)
    return max(complete.items()) if complete else None
