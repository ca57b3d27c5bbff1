"""Sidecars: the JSON file next to a run with its provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msshift_bench.errors import Finding
from msshift_bench.plumbing import checksum_matches
from msshift_bench.runs.runsets import sidecar_path

_HIGH_RECALL = 0.99


def low_recall(recall: float) -> str:
    """Return a warning about an approximate index; "" for a recall of 0.99 or more."""
    if recall >= _HIGH_RECALL:
        return ""
    return (
        f"its index finds {recall:.1%} of the passages that exact search finds; search exactly, or "
        "set its index_parameters to search more"
    )


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The known facts in the sidecar of a run.

    Attributes:
        run: the run file, or the name of a run in memory.
        path: the sidecar, which may not exist.
        exists: whether a sidecar exists, or facts of a run in memory.
        is_sound: false if it is not a JSON object or was changed; it then has no facts.
        run_sha256: the digest of its run file; "" if unknown.
        data: the content digest of the data set; "" if unknown.
        passages: the digest of the passages that were searched; "" if unknown.
        shift: the name of the shift; "" if unknown.
        held_out: the held-out group; `None` for a model not trained per group, "" if unknown.
        queries: the digest of an extra test set's queries; "" if unknown.
        absent_passages: number of the test queries' relevant passages that were not searched.
        trained_on: fields of `evaluation.trained.TrainedQueries` for an extra test set; empty if
            unknown.
        training_queries: training set of a model for all groups, ``everything`` or ``none``; "" if
            unknown.
        weights: the digest of the model's weights; "" if unknown.
        parameters: the parameters that determine the model, with the data; `None` if unknown.
        tuned: the parameters chosen by tuning; `None` if unknown.
        model_settings: the settings of a model trained by other software: name -> JSON value,
            `None` if unknown.
        hardware: facts about the machine; empty if unknown.
        candidates: the system whose passages were reranked; "" if unknown.
        baseline: the name of the baseline; "" if unknown.
        start: the encoder from which training started; "" if unknown.
        recall: the share of exact search's passages found by an approximate index; 1 if unknown.
        without_passages: ids of the queries for which nothing was retrieved.
    """

    run: Path
    path: Path
    exists: bool = False
    is_sound: bool = True
    run_sha256: str = ""
    data: str = ""
    passages: str = ""
    shift: str = ""
    held_out: str | None = ""
    queries: str = ""
    absent_passages: int = 0
    trained_on: Mapping[str, Any] = field(default_factory=dict)
    training_queries: str = ""
    weights: str = ""
    parameters: Mapping[str, Any] | None = None
    tuned: Mapping[str, Any] | None = None
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    hardware: Mapping[str, Any] = field(default_factory=dict)
    candidates: str = ""
    baseline: str = ""
    start: str = ""
    recall: float = 1.0
    without_passages: frozenset[str] = frozenset()

    @classmethod
    def of(cls, run: Path) -> Sidecar:
        """Return the sidecar of a run file; without a sidecar, `exists` is false."""
        path = sidecar_path(run)
        if not path.is_file():
            return cls(run, path)
        with suppress(ValueError, RecursionError):
            facts = json.loads(path.read_bytes())
            if isinstance(facts, dict) and checksum_matches(facts):
                return cls.of_facts(run, facts, path)
        return cls(run, path, exists=True, is_sound=False)

    @classmethod
    def of_facts(cls, run: Path, facts: Mapping[str, Any], path: Path | None = None) -> Sidecar:
        """Return the sidecar with these JSON values.

        Args:
            run: the run file, or the name of a run in memory.
            facts: the values.
            path: the sidecar, if they were read from one; by default `run`.
        """

        def fact(*names: str) -> Any:
            """Return the value at a path of names, or `None`."""
            value: Any = facts
            for name in names:
                value = value.get(name) if isinstance(value, Mapping) else None
            return value

        def text(*names: str) -> str:
            return str(fact(*names) or "")

        hardware, recall = fact("hardware"), fact("index", "recall")
        # A model of one held-out group has facts of its own, next to the facts of all groups' runs.
        of_model = "model" if isinstance(fact("model"), Mapping) else "parameters"
        settings = fact(of_model, "model_settings")
        empty = fact("queries_without_passages")
        return cls(
            run,
            path or run,
            exists=True,
            run_sha256=text("run_sha256"),
            data=text("data_digest"),
            passages=text("passages", "sha256"),
            shift=text("shift"),
            held_out=facts.get("held_out", ""),
            queries=text("test_set", "queries_sha256"),
            trained_on=fact("trained_on") or {},
            training_queries=text("training_queries"),
            absent_passages=fact("relevant_not_in_collection", "test") or 0,
            weights=text("training", "weights_sha256"),
            parameters=fact("parameters"),
            tuned=fact("tuned", "parameters"),
            model_settings={
                "similarity": fact(of_model, "similarity"),
                **(settings if isinstance(settings, Mapping) else {}),
            },
            hardware=hardware if isinstance(hardware, Mapping) else {},
            candidates=text("candidates"),
            baseline=text("baseline"),
            start=text("encoder") or text("parameters", "encoder"),
            recall=recall if isinstance(recall, float) else 1.0,
            without_passages=frozenset(map(str, empty if isinstance(empty, list) else ())),
        )

    def unsound(self) -> Finding:
        """Return the finding for a sidecar whose `is_sound` is false."""
        return Finding(
            "sidecar-unreadable",
            f"this sidecar of {self.run.name} is not a JSON object, or was changed",
            str(self.path),
            fix="put the file back as it was written, or remove it",
        )
