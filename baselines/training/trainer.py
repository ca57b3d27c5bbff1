"""Train with sentence-transformers' trainers; a killed training continues to the same weights.

Early stopping is by approximate retrieval (MS-Shift, section 4, after Hofstaetter et al., SIGIR
2021: "Efficiently Teaching an Effective Dense Retriever with Balanced Topic Aware Sampling").
Instead of searching the collection, the model ranks a few candidates for each validation query.

Several processes may train one model, each on its own GPU; `in_processes` starts them like
torchrun. One process does everything else: it makes the triples, waits for the training, and
searches with the last checkpoint.

The trainer restores the optimizer, the schedule and the random number generators from its
checkpoints; the batches follow from the seed alone. The trainer's state is the last file of a
checkpoint: if it cannot be read, the checkpoint is incomplete. The same weights means the same bits
on one machine, with the same libraries and number of threads.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import compress
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.systems.recipe import EarlyStopping, TrainingSettings
from msshift_bench.baselines.systems.system import Run
from msshift_bench.encoders import warn_if_slow
from msshift_bench.engine import forwarding_reports, receiving_reports
from msshift_bench.errors import DataError, MissingError, UsageError
from msshift_bench.evaluation import parse_measure
from msshift_bench.libraries import Library, sentence_transformers, torch, transformers
from msshift_bench.plumbing import report_progress
from msshift_bench.records import Row
from msshift_bench.sampling import keyed_hash
from msshift_bench.search import Bm25

_logger = logging.getLogger(__name__)

_launcher: Any = Library("torch.distributed.launcher.api")
_elastic: Any = Library("torch.distributed.elastic.multiprocessing")

_STATE = "trainer_state.json"
"""The last file that the trainer writes into a checkpoint."""

_MEASURE = parse_measure("RR@10")

_METRIC = _MEASURE.mean_name.lower()
"""The measure by which the best weights are chosen."""

_LOG_EVERY = 50
"""Most steps between two entries of the log."""

_LOSSES = 20
"""Most losses of a training that the log and the terminal show."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a training after one step.

    Attributes:
        step: the step.
        folder: the folder of the model and the trainer's state.
        state: the trainer's state: the content of `_STATE`.
    """

    step: int
    folder: Path
    state: Mapping[str, Any]

    @property
    def best(self) -> Path:
        """The folder of the best validated model; of equally good models, the first.

        It does not exist without validation.
        """
        return self.folder.with_name(f"checkpoint-{self.state['best_global_step']}")

    @property
    def ended_early(self) -> bool:
        """Whether early stopping ended the training; `False` without early stopping."""
        stopping = self.state["stateful_callbacks"].get("EarlyStoppingCallback")
        if stopping is None:
            return False
        since = stopping["attributes"]["early_stopping_patience_counter"]
        return bool(since >= stopping["args"]["early_stopping_patience"])

    def losses(self) -> list[tuple[int, float]]:
        """Return (step, mean loss since the previous log entry) for `_LOSSES` steps or fewer.

        The steps are evenly spaced.
        """
        rows = [row for row in self.state["log_history"] if "loss" in row]
        steps, every = self.state["max_steps"], self.state["logging_steps"]
        return [(row["step"], row["loss"]) for row in rows if _is_shown(row["step"], steps, every)]

    def facts(self) -> dict[str, Any]:
        """Return the best step, its MRR@10, and step -> MRR@10; a KeyError without validation."""
        key = f"eval_{_METRIC}"
        history = {row["step"]: row[key] for row in self.state["log_history"] if key in row}
        best = self.state["best_global_step"]
        return {"best_step": best, f"best_{_METRIC}": history[best], "history": history}


def check_machine(precision: str, gpus: int = 1) -> None:
    """Check that this machine can train in a precision and on a number of GPUs.

    Without this check, the trainer would use 32 bits without a message.

    Args:
        precision: the recipe's ``precision``.
        gpus: the number of processes of a training, each on one GPU; on a machine without GPUs,
            they run on the CPU.

    Raises:
        MissingError: if the machine has GPUs, but fewer than `gpus` or without the precision. Also
            for fp16 on a machine without GPUs.
        UsageError: if a launcher started this process as one of several.
    """
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        raise UsageError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but msshift starts the processes of a "
            "training itself; do not use accelerate or torchrun, but msshift run --gpus"
        )
    if 0 < torch.cuda.device_count() < gpus:
        raise MissingError(
            f"torch finds {torch.cuda.device_count()} GPUs on this machine, and --gpus is {gpus}; "
            "lower --gpus"
        )
    if not torch.cuda.is_available():
        if precision == "bf16":
            warn_if_slow("precision=bf16", "cpu")
        if precision != "fp16":
            return
        raise MissingError(
            f"the recipe's precision is {precision}, which needs a GPU, and torch finds none on "
            "this machine; use a machine with a GPU, or --set precision=bf16 or fp32"
        )
    if precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise MissingError(
            f"the recipe's precision is bf16, which {torch.cuda.get_device_name()} does not "
            "support; use --set precision=fp16 or fp32"
        )


def fit(
    model: Any,
    examples: Any,
    recipe: TrainingSettings,
    folder: Path,
    *,
    name: str,
    arguments: Mapping[str, Any] = MappingProxyType({}),
    validation: EarlyStopping | None = None,
    until: int | None = None,
    loss: Callable[[], tuple[Any, Sequence[Any]]] | None = None,
    **options: Any,
) -> Any:
    """Train a model in place, from its last checkpoint if there is one.

    At the end, the model has its last weights, not the best validated ones.

    Args:
        model: the model, with its initial weights.
        examples: a sequence of training examples, in the order of training; its length is the
            number of steps times the batch size.
        recipe: the settings of the training.
        folder: the folder of checkpoints.
        name: the model's name in the log.
        arguments: the trainer's arguments that are not in the recipe.
        validation: the settings of validation and early stopping; `None` for neither.
        until: the step after which to stop with a checkpoint; by default the last step.
        loss: returns the loss and its callbacks; `None` if the model computes the loss. It is
            called after the processes are connected: a loss that shares negatives between processes
            looks for them when it is made.
        **options: further options of the trainer, e.g. the `evaluator` of a validation.

    Returns:
        The trainer's state: its last step and the log.
    """
    part, kind = recipe.batch_size // recipe.accumulate, recipe.model_type
    # A checkpoint lacks the losses since the last log entry, so each checkpoint has an entry.
    saved_every = validation.every if validation else recipe.checkpoint_every
    every = math.gcd(saved_every, _LOG_EVERY)

    class Callback(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
            report_progress("train", state.global_step, state.max_steps)
            if state.global_step == until and until < state.max_steps:
                # Each checkpoint has a log entry, as above.
                control.should_log = control.should_save = control.should_training_stop = True

        def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
            # The last entry summarises the training, and has no loss.
            if "loss" in (logs or {}):
                step, steps = state.global_step, state.max_steps
                if _is_shown(step, steps, every):
                    _logger.info("%s: step %d of %d: loss %.4f", name, step, steps, logs["loss"])

    library = sentence_transformers if kind else transformers
    base: Any = getattr(library, f"{kind}Trainer")

    class Trainer(base):  # type: ignore[misc]
        def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
            if not kind:
                super()._save(output_dir, state_dict)
                return
            # A model card would take most of the time of a small model's checkpoint.
            self.model.save_pretrained(output_dir or str(folder), create_model_card=False)

        def get_train_dataloader(self) -> Any:
            data: Any = torch.utils.data
            parts = data.BatchSampler(range(len(examples)), part, drop_last=True)
            loader = data.DataLoader(examples, batch_sampler=parts, collate_fn=self.data_collator)
            return self.accelerator.prepare(loader)

        def get_eval_dataloader(self, _dataset: Any = None) -> Any:
            """Return an empty loader, which does not use the training's random numbers."""
            empty: Any = []
            return torch.utils.data.DataLoader(empty, generator=torch.Generator())

        def preprocess_dataset(self, dataset: Any = None, dataset_name: Any = None) -> Any:
            """Return the examples unchanged: they are no data set of the library datasets."""
            del dataset_name
            return dataset

        def _load_best_model(self) -> None:
            """Do nothing: the caller loads the best model."""

        def add_model_card_callback(self, _default_args: dict[str, Any]) -> None:
            """Write no model card: it would read the data and query the Hub."""

    callbacks: list[Any] = [Callback()]
    # The newest checkpoint may be incomplete; with validation, the best checkpoint is kept, too.
    saving: dict[str, Any] = {"save_steps": saved_every, "save_total_limit": 2}
    if validation is not None:
        if validation.patience:
            callbacks.insert(0, transformers.EarlyStoppingCallback(validation.patience))
        saving |= {
            "save_total_limit": 3,
            "eval_strategy": "steps",
            "eval_steps": saved_every,
            "load_best_model_at_end": True,
            "metric_for_best_model": _METRIC,
            "greater_is_better": True,
            "restore_callback_states_from_checkpoint": True,
        }
    training_arguments = getattr(library, f"{kind}TrainingArguments")(
        output_dir=str(folder),
        max_steps=len(examples) // recipe.batch_size,
        per_device_train_batch_size=part,
        gradient_accumulation_steps=recipe.accumulate,
        # All processes share each part of a batch.
        accelerator_config={"split_batches": True},
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup_steps,
        lr_scheduler_type=_SCHEDULES[recipe.schedule],
        weight_decay=recipe.weight_decay,
        adam_beta1=recipe.adam_beta1,
        adam_beta2=recipe.adam_beta2,
        adam_epsilon=recipe.adam_epsilon,
        max_grad_norm=recipe.max_gradient_norm,
        # Without a GPU, processes connect, and the trainer accepts bf16, only with this option.
        use_cpu=not torch.cuda.is_available()
        and ("WORLD_SIZE" in os.environ or recipe.precision == "bf16"),
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
        **arguments,
    )
    # A single process would divide each batch among all visible GPUs.
    training_arguments._n_gpu = min(training_arguments.n_gpu, 1)
    if loss is not None:
        options["loss"], loss_callbacks = loss()
        callbacks = [*loss_callbacks, *callbacks]
    running = Trainer(
        model=model, args=training_arguments, train_dataset=examples, callbacks=callbacks, **options
    )
    running.remove_callback(transformers.PrinterCallback)
    checkpoint = last_checkpoint(folder)
    running.train(resume_from_checkpoint=str(checkpoint.folder) if checkpoint else None)
    return running.state


def evaluator(measure: Callable[[Any], float]) -> Any:
    """Return an evaluator of sentence-transformers that reports MRR@10 at each validation.

    Args:
        measure: returns the MRR@10 of a model; of several processes, only the first calls it.
    """

    class Evaluator(sentence_transformers.base.evaluation.BaseEvaluator):  # type: ignore[misc]
        def __call__(self, model: Any, *_: Any, **__: Any) -> dict[str, float]:
            return {_METRIC: measure(model)}

    return Evaluator()


def _is_shown(step: int, steps: int, every: int) -> bool:
    """Return whether the loss at a step is shown: at most `_LOSSES` of the logged losses are."""
    return step * _LOSSES // steps > (step - every) * _LOSSES // steps


_SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}


def last_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the last complete checkpoint, or `None` if there is none; remove incomplete ones.

    Args:
        folder: the folder of checkpoints.
    """
    complete = []
    for path in folder.glob("checkpoint-*"):
        try:
            state = json.loads((path / _STATE).read_bytes())
            complete.append(Checkpoint(state["global_step"], path, state))
        except (OSError, ValueError, TypeError, KeyError):
            shutil.rmtree(path)
    return max(complete, key=lambda checkpoint: checkpoint.step, default=None)


def in_processes(count: int, task: Callable[..., None], *arguments: Any) -> None:
    """Run a function in several processes at once, which torch connects like torchrun.

    This process receives the log records and the progress of the first process. A signal that stops
    the processes is raised again here.

    Args:
        count: the number of processes.
        task: a function at the top level of a module.
        *arguments: its arguments; they are pickled.

    Raises:
        DataError: with the error of the first process that failed.
    """
    context = get_context("forkserver")  # Libraries are imported once for all trainings of a plan.
    context.set_forkserver_preload(["datasets", "accelerate", "sentence_transformers", __name__])
    reports = context.Queue()
    stopping = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    handlers = {number: signal.getsignal(number) for number in stopping}
    # A signal that this process ignores, e.g. because of nohup, is also ignored by the training.
    handlers = {number: by for number, by in handlers.items() if by != signal.SIG_IGN}
    stopped_by: int | None = None
    config = _launcher.LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        shutdown_timeout=5,
        start_method="forkserver",
        signals_to_handle=",".join(number.name for number in handlers),
    )
    # These loggers would print the traceback; the error below has it as its cause.
    for module in ("agent.server.api", "multiprocessing.api"):
        logging.getLogger(f"torch.distributed.elastic.{module}").setLevel(logging.CRITICAL)
    try:
        with receiving_reports(reports):
            _launcher.elastic_launch(config, _in_process)(reports, task, arguments)
    except _elastic.api.SignalException as error:
        stopped_by = error.sigval
    except _elastic.errors.ChildFailedError as error:
        reason = error.get_first_failure()[1].message
        if not isinstance(reason, str):
            reason = reason["message"]
        # An error that another process received ends with the original error, after a traceback.
        reason = reason.rpartition(f"\n{DataError.__module__}.")[2].strip()
        raise DataError(f"a process of the training failed: {reason}") from error
    finally:
        # torch replaces the handlers, so that an interrupt would raise no KeyboardInterrupt. In
        # threads other than the main thread it replaces none, and none may be set.
        for number, handler in handlers.items():
            if signal.getsignal(number) != handler:
                signal.signal(number, handler)
    if stopped_by is not None:
        signal.raise_signal(stopped_by)


def _in_process(reports: Any, task: Callable[..., None], arguments: Sequence[Any]) -> None:
    """Run a function in one of several processes; rank 0 forwards its log and progress."""
    # Libraries warn of names of other libraries that will be removed.
    warnings.simplefilter("ignore", FutureWarning)
    # Ctrl-C reaches all processes: only the parent process reports it, and the others end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with forwarding_reports(reports) if os.environ["RANK"] == "0" else nullcontext():
        task(*arguments)


@dataclass(frozen=True, slots=True)
class ValidationSet:
    """The queries and candidates that a model ranks at every validation.

    Attributes:
        queries: texts of the validation queries.
        passages: texts of all candidates, each once.
        candidates: for each query, the indices of its candidates in `passages`, ordered by doc_id,
            descending: the order of candidates with equal scores.
        relevant: for each query, whether each of its candidates is relevant, in the same order.
    """

    queries: Sequence[str]
    passages: Sequence[str]
    candidates: Sequence[npt.NDArray[np.int64]]
    relevant: Sequence[npt.NDArray[np.bool_]]


def choose_candidates(
    run: Run, index: Bm25, *, queries: int, depth: int
) -> list[tuple[Row, dict[str, bool]]]:
    """Return validation queries with their candidates: BM25's first passages and all relevant ones.

    Queries without a relevant passage in the collection are left out.

    Args:
        run: the validation queries and the collection.
        index: BM25's index of the collection.
        queries: the most queries; they are chosen and ordered by a hash of their ids.
        depth: the number of BM25's first passages.

    Returns:
        (query, candidates) pairs; candidates is doc_id, descending -> whether it is relevant.

    Raises:
        DataError: if no validation query has a relevant passage in the collection.
    """
    relevant_of = {
        row.query_id: set(index.ids.held(row.relevant_doc_ids)) for row in run.validation
    }
    usable = [row for row in run.validation if relevant_of[row.query_id]]
    if not usable:
        raise DataError(
            f"none of {len(run.validation)} validation queries has a relevant passage in "
            f"{run.collection.name}; use a recipe without [validation]"
        )
    chosen = sorted(usable, key=lambda row: keyed_hash(row.query_id, "validation"))[:queries]
    return [
        (
            row,
            {doc_id: doc_id in relevant for doc_id in sorted(relevant | {*ranking}, reverse=True)},
        )
        for row, ranking in zip(chosen, run.bm25_rankings(chosen, depth, index), strict=True)
        for relevant in [relevant_of[row.query_id]]
    ]


def make_validation_set(run: Run, index: Bm25, validation: EarlyStopping) -> ValidationSet:
    """Return the queries and candidates of `choose_candidates`, with texts; see its errors."""
    chosen = choose_candidates(run, index, queries=validation.queries, depth=validation.depth)
    doc_ids = sorted({doc_id for _, candidates in chosen for doc_id in candidates})
    places = {doc_id: place for place, doc_id in enumerate(doc_ids)}
    return ValidationSet(
        [row.text for row, _ in chosen],
        run.texts(places).to_pylist(),
        [np.array([places[doc_id] for doc_id in ids], np.int64) for _, ids in chosen],
        [np.array(list(ids.values())) for _, ids in chosen],
    )


def mean_reciprocal_rank(
    scores: Sequence[npt.NDArray[np.float32]], relevant: Sequence[npt.NDArray[np.bool_]]
) -> float:
    """Return MRR@10, 0 to 1; candidates with equal scores keep their order.

    A query without a relevant candidate counts as 0.

    Args:
        scores: for each query, the scores of its candidates; at least one query.
        relevant: for each query, whether each of its candidates is relevant.

    Raises:
        RunError: if a score is not finite.
    """
    rankings: dict[str, dict[str, float]] = {}
    judged: dict[str, list[str]] = {}
    for number, (values, is_relevant) in enumerate(zip(scores, relevant, strict=True)):
        # Equal scores are ranked by doc_id, descending.
        ids = [f"{place:09}" for place in range(len(values), 0, -1)]
        rankings[str(number)] = dict(zip(ids, values.tolist(), strict=True))
        judged[str(number)] = list(compress(ids, is_relevant))
    return sum(_MEASURE.of_rankings(rankings, judged).values()) / len(relevant)
