"""Systems of models in memory: one for all groups, or one from a factory for every group."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from msshift_bench.baselines.candidates import reranks_tag
from msshift_bench.baselines.lexical import CommonIndex
from msshift_bench.baselines.ranker import Ranker
from msshift_bench.baselines.recipe import SearchSettings
from msshift_bench.baselines.system import System, Task
from msshift_bench.baselines.user_models import describe_model
from msshift_bench.errors import require
from msshift_bench.plumbing import quieten
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Ranking

__all__ = ["FactorySystem", "ModelSystem"]

_PASSAGES = "passages"
"""The folder of encoded passages in that of a run's unfinished work."""

_LOUD = ("datasets", "transformers")


class ModelSystem(System):
    """A model in memory, the same for all groups.

    Args:
        ranker: how it ranks.
        model: the model.
        search: how passages are searched with it.
        name: the system's name, and its folder in a run set.
        origin: where the model is from, for the sidecar: a folder, an id, or the name of a class.
        given: what else decides the model; JSON values.
        index: BM25's index of the collection.
        keeps: whether the passages that it encodes are kept until `forget`, for the runs on other
            shifts.

    Raises:
        UsageError: if the model cannot rank passages as it is.
    """

    per_group = False

    def __init__(
        self,
        ranker: type[Ranker],
        model: Any,
        search: SearchSettings,
        name: str,
        *,
        origin: str,
        given: Mapping[str, object] | None = None,
        index: CommonIndex | None = None,
        keeps: bool = False,
    ) -> None:
        ranker.check_model(model)
        self.name = name
        self._ranker = ranker
        self._model = model
        self._search = search
        self._described = describe_model(model)
        self._index = index or CommonIndex()
        self._keeps = keeps
        self._kept: Path | None = None
        self._parameters = {
            "architecture": ranker.name,
            "model": origin,
            **self._described,
            "search": search.parameters(),
            **({"given": dict(given)} if given else {}),
        }

    @property
    def tag(self) -> str:
        """The run tag, which says if the model only reranks."""
        return self.name + reranks_tag(self._ranker.reranks(self._search))

    @property
    def parameters(self) -> Mapping[str, object]:
        """The model, the digests of its weights and settings, and how it searches."""
        return self._parameters

    def hardware(self) -> Mapping[str, object]:
        """Return the device of the model, and the threads that torch uses."""
        device = getattr(self._model, "device", None)
        if not self._described or device is None:
            return {}
        torch = require("torch", "neural", self.name)
        kind = torch.device(device).type
        return {
            "device": torch.cuda.get_device_name(device) if kind == "cuda" else kind,
            "torch_threads": torch.get_num_threads(),
        }

    def check(self, work: Path) -> None:
        """Check for the libraries of the search."""
        del work
        for module in self._ranker.libraries:
            require(module, "neural", self.name)
        if self._ranker.reranks(self._search):
            Bm25([Passage("1", "word")])

    def rankings(self, task: Task) -> Iterator[tuple[str, Ranking]]:
        """Encode the passages unless that is done, and rank."""
        key = hashlib.sha256(json.dumps(self._described, sort_keys=True).encode()).hexdigest()[:16]
        work, kept = task.work / key, task.work.parents[1] / key
        if not self._described and self._kept is None:
            # Nothing tells whether an earlier process had the same model.
            for folder in (work, kept):
                shutil.rmtree(folder, ignore_errors=True)
        work.mkdir(exist_ok=True)
        if self._keeps:
            with suppress(OSError):  # There is none yet, or this run has begun before.
                kept.rename(work / _PASSAGES)
        with quieten(*(sys.modules[name] for name in _LOUD if name in sys.modules)):
            yield from self._ranker.rankings(
                self._model,
                replace(task, work=work),
                self._search,
                lambda: self._index.of(task),
            )
        if self._keeps:
            self._kept = kept
            with suppress(OSError):  # There is none, or another process has kept the same.
                (work / _PASSAGES).rename(kept)

    def forget(self) -> None:
        """Remove the passages that are kept for other shifts."""
        if self._kept is not None:
            shutil.rmtree(self._kept, ignore_errors=True)
            with suppress(OSError):  # Something else is at work there.
                for parent in list(self._kept.parents)[:2]:
                    parent.rmdir()


class FactorySystem(System):
    """A model for every held-out group, made when its turn comes, and dropped after its run.

    Args:
        make: takes the task, whose group the model must not have seen, and returns the system of
            its model.
        name: the system's name, and its folder in a run set.
        parameters: what is known beforehand to decide the rankings; JSON values.
    """

    per_group = True
    trains = False

    def __init__(
        self, make: Callable[[Task], ModelSystem], name: str, parameters: Mapping[str, object]
    ) -> None:
        self.name = name
        self._make = make
        self._parameters = parameters
        self._tag = name
        self._hardware: Mapping[str, object] = {}

    @property
    def tag(self) -> str:
        """The run tag of the model that `rankings` made last."""
        return self._tag

    @property
    def parameters(self) -> Mapping[str, object]:
        """What is known before a model is made."""
        return self._parameters

    def hardware(self) -> Mapping[str, object]:
        """Return the hardware of the model that `rankings` made last."""
        return self._hardware

    def rankings(self, task: Task) -> Iterator[tuple[str, Ranking]]:
        """Make the model, at once, so that its tag is known; then encode and rank."""
        with task.record.stage("model"):
            made = self._make(task)
        task.record.facts["model"] = made.parameters
        made.check(task.work)
        self._tag, self._hardware = made.tag, made.hardware()
        return made.rankings(task)
