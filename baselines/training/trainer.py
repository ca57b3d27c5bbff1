"""Training on sentence-transformers' trainers, so that a killed training ends in the same weights.

The trainer restores the optimizer, the schedule and the random number generators from its
checkpoints; the batches follow from the seed alone. The trainer's state is the last file of a
checkpoint, which counts only if that can be read. The same weights means the same bits on one
machine, with the same libraries and number of threads.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from msshift_bench.baselines.systems.recipe import TrainingSettings
from msshift_bench.baselines.training.early_stopping import METRIC, Validation
from msshift_bench.baselines.training.processes import is_one_of_several
from msshift_bench.errors import MissingError, UsageError, require
from msshift_bench.plumbing import is_first, report_progress

__all__ = [
    "Checkpoint",
    "TrainingItems",
    "TripleItems",
    "check_precision",
    "fit",
    "last_checkpoint",
]

_logger = logging.getLogger(__name__)

_WHAT = "a neural system"

_STATE = "trainer_state.json"
"""The last file that the trainer writes into a checkpoint."""

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
class Checkpoint:
    """What a training has come to.

    Attributes:
        step: the step.
        folder: the model's folder, with the state of the training.
        state: the trainer's state.
    """

    step: int
    folder: Path
    state: Mapping[str, Any]

    @property
    def best(self) -> Path:
        """The folder of the best of all validated models; of equally good ones, of the first."""
        return self.folder.with_name(f"checkpoint-{self.state['best_global_step']}")

    @property
    def ended_early(self) -> bool:
        """Whether training ends here, since no validation of late was better."""
        stopping = self.state["stateful_callbacks"].get("EarlyStoppingCallback")
        if stopping is None:
            return False
        since: int = stopping["attributes"]["early_stopping_patience_counter"]
        patience: int = stopping["args"]["early_stopping_patience"]
        return since >= patience

    def losses(self) -> list[tuple[int, float]]:
        """Return some steps, each with the mean loss since the log entry before."""
        rows = [row for row in self.state["log_history"] if "loss" in row]
        steps, every = self.state["max_steps"], self.state["logging_steps"]
        return [(row["step"], row["loss"]) for row in rows if _is_told(row["step"], steps, every)]

    def facts(self) -> dict[str, Any]:
        """Return the best step, its MRR@10, and all validations."""
        key = f"eval_{METRIC}"
        history = {row["step"]: row[key] for row in self.state["log_history"] if key in row}
        best = self.state["best_global_step"]
        return {"best_step": best, f"best_{METRIC}": history[best], "history": history}


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


def fit(
    model: Any,
    examples: TrainingItems,
    recipe: TrainingSettings,
    folder: Path,
    *,
    trainer: Any,
    arguments: Callable[..., Any],
    name: str,
    until: int | None = None,
    callbacks: Sequence[Any] = (),
    validation: Validation | None = None,
    loss: Callable[[], tuple[Any, Sequence[Any]]] | None = None,
    **options: Any,
) -> Any:
    """Train any model in place, continuing from a checkpoint if there is one.

    Args:
        model: the model, with its initial weights.
        examples: what the model meets, in the order of training.
        recipe: how the training goes.
        folder: the folder of checkpoints.
        trainer: the class of the trainer.
        arguments: takes the arguments of the training by keyword, and returns the trainer's.
        name: what the log calls the model.
        until: the step to stop after, with a checkpoint; by default the last one.
        callbacks: more callbacks of the trainer.
        validation: how it is validated, and ended early; `None` for neither.
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
    part = recipe.batch_size // recipe.accumulate
    # A checkpoint does not hold the losses since the last log entry, so both come at one step.
    saved_every = validation.settings.every if validation else recipe.checkpoint_every
    every = math.gcd(saved_every, _LOG_EVERY)
    parts = _Parts(len(examples), part)

    base_callback: Any = transformers.TrainerCallback

    class Callback(base_callback):  # type: ignore[misc]
        def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
            report_progress("train", state.global_step, state.max_steps)
            if state.global_step == until:
                # An entry of the log with every checkpoint, as above.
                control.should_log = control.should_save = control.should_training_stop = True

        def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
            # The last entry summarises the training, and has no loss of its own.
            if is_first() and "loss" in (logs or {}):
                step, steps = state.global_step, state.max_steps
                if _is_told(step, steps, every):
                    _logger.info("%s: step %d of %d: loss %.4f", name, step, steps, logs["loss"])

    class Trainer(trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            return self.accelerator.prepare(
                torch.utils.data.DataLoader(
                    examples, batch_sampler=parts, collate_fn=self.data_collator
                )
            )

        def get_eval_dataloader(self, _dataset: Any = None) -> Any:
            """Give the evaluator nothing, without drawing from the generator of the training."""
            return torch.utils.data.DataLoader([], generator=torch.Generator())

        def preprocess_dataset(self, dataset: Any = None, dataset_name: Any = None) -> Any:
            """Keep the examples as they are, since they are no data set of the datasets library."""
            del dataset_name
            return dataset

        def _load_best_model(self) -> None:
            """Leave that to the caller, who knows how to load the model."""

        def add_model_card_callback(self, _default_args: dict[str, Any]) -> None:
            """Write no model card: it would read the data and query the Hub."""

    saving = {"save_steps": saved_every, "save_total_limit": 2}  # The newest may be incomplete.
    if validation is not None:
        saving = validation.arguments()
        options["evaluator"] = validation.evaluator()
        callbacks = [*validation.callbacks(), *callbacks]
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
        logging_strategy="steps",
        logging_steps=every,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **saving,
    )
    if part % chosen.world_size:
        raise UsageError(
            f"a part of a batch holds {part} examples (batch_size / accumulate), which "
            f"{chosen.world_size} processes cannot share evenly"
        )
    if loss is not None:
        options["loss"], more = loss()
        callbacks = [*more, *callbacks]
    running = Trainer(
        model=model,
        args=chosen,
        train_dataset=examples,
        callbacks=[*callbacks, Callback()],
        **options,
    )
    running.remove_callback(transformers.PrinterCallback)
    checkpoint = last_checkpoint(folder)
    running.train(resume_from_checkpoint=str(checkpoint.folder) if checkpoint else None)
    return running.state


def _is_told(step: int, steps: int, every: int) -> bool:
    """Return whether the loss at a step is one of those that are shown, of all that are logged."""
    return step * _LOSSES // steps > (step - every) * _LOSSES // steps


_SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}


def last_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the last complete checkpoint, `None` for none; remove those that are not complete.

    Args:
        folder: the folder of checkpoints.
    """
    complete = []
    for path in folder.glob("checkpoint-*"):
        try:
            state = json.loads((path / _STATE).read_bytes())
            complete.append(Checkpoint(state["global_step"], path, state))
        except (OSError, ValueError, TypeError, KeyError):
            if is_first():
                shutil.rmtree(path)
    return max(complete, key=lambda checkpoint: checkpoint.step, default=None)
