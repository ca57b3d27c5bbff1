"""Pre-train an encoder on a collection's passages: ``msshift pretrain``.

It reads no query and no judgement, so the encoder has no information about any test set.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msshift_bench.baselines.pretraining_tasks import (
    MaskedPassages,
    PassagePieces,
    PretrainingRecipe,
    load_learner,
    save_encoder,
)
from msshift_bench.baselines.systems.recipe import read_recipe
from msshift_bench.baselines.systems.sidecars import Facts, check_same, read_json
from msshift_bench.baselines.training.backbones import (
    PRETRAINING,
    WEIGHTS,
    check_finite_weights,
    check_pretrained,
    make_random_encoder,
    quiet_libraries,
    require_libraries,
    weights_digest,
)
from msshift_bench.baselines.training.trainer import check_machine, fit
from msshift_bench.data import Collection, open_collection, sha256_of
from msshift_bench.errors import UsageError
from msshift_bench.libraries import transformers
from msshift_bench.plumbing import (
    check_folder,
    lock_unfinished,
    progress_line,
    replace_folder,
    report_progress,
    write_json,
)

_logger = logging.getLogger(__name__)

_BEGIN = "begin"
"""The folder of the encoder before its pre-training, in the folder of unfinished work."""

_PLAN = "plan.json"


def pretrain_encoder(
    collection: Collection | str | Path,
    recipe: str | Path = "mini",
    *,
    out: str | Path,
    changes: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """Train an encoder from random weights on a collection's passages, and return its folder.

    The vocabulary is learnt from the passages, too. If the process is killed, the same call
    continues; on a CPU it ends in the same bytes. A complete encoder is not trained again.

    Args:
        collection: a collection, or an argument of `open_collection`; only its passages are read.
        recipe: ``<name>`` of a recipe ``pretrain-<name>``, or the path of a TOML file.
        out: the folder to write: the encoder, its tokenizer, and ``pretraining.json``, the facts.
        changes: new values of the recipe's fields: name -> value, or ``table.name`` -> value for
            a field of a table. A value of ``steps`` removes ``epochs``.

    Returns:
        The folder `out`, for the field ``encoder`` of a recipe.

    Raises:
        UnknownNameError: if no recipe has this name, or a field does not exist.
        UsageError: if the folder contains other files, or another or a changed encoder; another
            process is writing to it; the recipe is invalid; or the training was started in several
            processes.
        NotFoundError: if the collection or the file of the recipe does not exist.
        MissingError: if a library is missing, or the precision needs a GPU and there is none.
        DataError: if no passage has a word, or the training ends in weights that are not finite.
    """
    chosen = read_recipe(PretrainingRecipe, recipe).with_changes(changes)
    source, folder = open_collection(collection), Path(out).expanduser()
    require_libraries("pre-training")
    check_machine(chosen.precision)
    check_folder(folder)
    work = folder.parent / ".work" / folder.name
    record = Facts()
    held = lock_unfinished(work, folder, empty_parents=1)
    with progress_line("encoder"), held, quiet_libraries():
        with record.stage("passages"):
            for _ in record.stream(source):
                pass
        identity = {
            "parameters": chosen.parameters(),
            "text_variant": source.text_variant,
            "passages": record.facts["passages"],
        }
        if not _is_complete(folder, identity):
            plan = work / _PLAN
            if plan.exists():
                check_same(
                    read_json(plan),
                    identity,
                    plan,
                    f"Choose another --out, or remove the folder {work}",
                )
            write_json(plan, identity)

            def texts() -> Iterator[str]:
                return (passage.text for passage in source.passages())

            with record.stage("total"):
                learner, state = _learn(chosen, texts, work, record)
            check_finite_weights(learner, "the encoder")
            facts = {
                "schema": 1,
                **identity,
                "seen": f"the {record.passage_count:,} passages of {source.name}; "
                "no query and no judgement",
                "collection": source.name,
                "recipe": chosen.file
                and {"name": chosen.file.name, "file_sha256": chosen.file.sha256},
            }
            _write(folder, learner, state, work, facts, record)
    return folder


def _is_complete(folder: Path, identity: Mapping[str, object]) -> bool:
    """Return whether a folder contains the requested encoder; `False` if it is empty or missing.

    Raises:
        UsageError: if it contains another encoder, changed weights or other files.
    """
    if not folder.exists() or not any(folder.iterdir()):
        return False
    facts = folder / PRETRAINING
    if not facts.is_file():
        raise UsageError(f"{folder} is not empty and no encoder; choose another --out or remove it")
    recorded = read_json(facts)
    check_same(recorded, identity, facts, f"Choose another --out, or remove {folder}")
    check_pretrained(folder, recorded)
    _logger.info("%s is complete already", folder)
    return True


def _learn(
    recipe: PretrainingRecipe, texts: Callable[[], Iterator[str]], work: Path, record: Facts
) -> tuple[Any, Any]:
    """Train the encoder; return the model of `load_learner` and the trainer's state."""
    begin = work / _BEGIN
    if not begin.exists():
        report_progress("vocabulary", 0, 0)
        with record.stage("vocabulary"):
            length = recipe.passage_length
            make_random_encoder(begin, recipe.random, texts(), length=length, seed=recipe.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(begin)
    with record.stage("tokenize"):
        passages = PassagePieces(texts(), tokenizer, recipe.passage_length, record.passage_count)
    items = MaskedPassages(passages, tokenizer, recipe)
    learner = load_learner(begin, recipe)
    record.facts["initial_weights_sha256"] = weights_digest(learner)
    record.facts["word_pieces"] = {
        "vocabulary": len(tokenizer),
        "passages": passages.pieces,
        "met": round(passages.pieces * len(items) / len(passages)),
    }
    with record.stage("train"):
        state = fit(
            learner,
            items,
            recipe,
            work / "checkpoints",
            name="encoder",
            data_collator=items.collate,
        )
    return learner, state


def _write(
    folder: Path, learner: Any, state: Any, work: Path, facts: dict[str, Any], record: Facts
) -> None:
    with replace_folder(folder) as partial:
        encoder = save_encoder(learner, partial)
        for file in (work / _BEGIN).glob("token*"):
            shutil.copyfile(file, partial / file.name)
        losses = [[entry["step"], entry["loss"]] for entry in state.log_history if "loss" in entry]
        write_json(
            partial / PRETRAINING,
            {
                **facts,
                **dict(sorted(record.facts.items())),
                "steps": int(state.global_step),
                "losses": losses,
                "weights_sha256": weights_digest(encoder),
                "file_sha256": sha256_of(partial / WEIGHTS),
                **record.circumstances({}),
            },
        )
