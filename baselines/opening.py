"""Open a system by its name or class, or make a system of models that were trained elsewhere.

Models that were trained elsewhere are objects in memory, come from a factory, or are published, in
folders or on the Hub. `msshift_bench.baselines.adapters.ADAPTERS` lists the kinds of objects that
are models.
"""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import re
import shutil
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from msshift_bench.baselines.adapters import ENCODES, find_searcher, has, model_needs
from msshift_bench.baselines.systems.finding import (
    find_systems,
    kind_of_model,
    load_class,
    named_kind,
    neural_systems,
)
from msshift_bench.baselines.systems.recipe import TrainingSettings, read_recipe
from msshift_bench.baselines.systems.searcher import Searcher
from msshift_bench.baselines.systems.system import Run, System
from msshift_bench.baselines.training.backbones import (
    quiet_libraries,
    require_libraries,
    weights_digest,
)
from msshift_bench.checked import as_json, check_value
from msshift_bench.data import sha256_of
from msshift_bench.encoders import ModelSettings
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError, check_name, quoted
from msshift_bench.libraries import torch
from msshift_bench.plumbing import silence_libraries
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Ranking
from msshift_bench.settings import nested, refusal
from msshift_bench.shifts import SHIFTS, SIZED, Shift

_logger = logging.getLogger(__name__)

_FIELDS = ("kind", *ModelSettings.model_fields, "search")
"""The fields of a published model that a caller can set."""

_PLACEHOLDERS = ("held_out", "seed", "shift")
"""The names that can be in braces in the path of folders of models."""

_TEXTS = ["define a word"], ["A word is a unit of language.", "Frogs live in ponds."]
"""A query and two passages, whose scores show whether the model's files lack weights."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""A memory address in the text of a Python object, which differs between processes."""

_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DataParallel": "module",
    "DistributedDataParallel": "module",
}
"""Class of torch that wraps a model to compile it or to use several GPUs -> attribute of the
wrapped model."""

_NOISY = ("datasets", "transformers")


def open_system(
    what: str, recipe: str | Path | None = None, changes: Mapping[str, Any] | None = None
) -> System:
    """Return a system, ready for a `Plan`.

    Args:
        what: one of these:

            - the name of a system in `find_systems`, e.g. ``bm25``;
            - ``module:Class``, the class of a system that no package registers;
            - a published model, which ranks without training: a folder, or an id on the Hugging
              Face Hub;
            - a path of folders with one model for each held-out group, e.g.
              ``models/seed-{seed}/{held_out}``; see `ModelFolders`.
        recipe: the recipe of a system that is trained: its name, by default ``mini``, or a TOML
            file.
        changes: new values of fields: name -> value, or ``table.name`` -> value for a field of a
            table. For the fields of a model see `open_model`.

    Returns:
        An object of the named class; for published models a `ModelSystem` or `ModelFolders`.

    Raises:
        UnknownNameError: if the system, recipe, kind of model or field does not exist.
        UsageError: if a value is invalid, a class is no system, a model's kind is unknown, or a
            system that has no recipe is given one.
        NotFoundError: if the file or model does not exist.
        MissingExtraError, DataError: for a published model; see `open_model`.

    Examples:
        >>> open_system("bm25", changes={"depth": 10}).depth
        10
    """
    values = dict(changes or {})
    systems = find_systems()
    kind = systems.get(what)
    if kind is None and ":" in what and "{" not in what:
        kind = load_class(what)
    if kind is None and not ("{" in what or "/" in what or Path(what).is_dir()):
        raise UnknownNameError("system", what, systems)
    if kind is not None and issubclass(kind, TrainingSettings):
        trained = read_recipe(kind, "mini" if recipe is None else recipe)
        return trained.with_changes(values, _systems_with)
    if recipe is not None:
        raise UsageError(f"{what} has no recipe; remove the recipe {str(recipe)!r}")
    if kind is None:
        changed = nested(values)
        for name in changed:
            check_name("field of a published model", name, _FIELDS)
        return (open_folders if "{" in what else open_model)(what, changed)
    where = f"the fields of {kind.name}"
    kind.check_names(values, _systems_with)
    return check_value(nested(values), kind, where, partial(refusal, where))


def _systems_with(name: str) -> str:
    """Return a hint that lists the systems with a field; "" if no system has it."""
    systems = [system.name for system in find_systems().values() if name in system.model_fields]
    return f"it is a field of {', '.join(systems)}" if systems else ""


class GivenSystem(System):
    """A system of models that were trained elsewhere.

    Attributes:
        label: the name of its runs if the plan has no name.
        given: the caller's parameters that determine the models; JSON values for sidecars.
    """

    name = ""

    label: str
    given: dict[str, Any] = Field(default_factory=dict)

    def run_set(self) -> str:
        """Return the label."""
        return self.label


class ModelSystem(GivenSystem):
    """The system of one model in memory, which ranks for all groups.

    Attributes:
        kind: the name of the model's kind, for the sidecar.
        model: the model.
        search: the searcher, which ranks passages with the model.
        origin: the model's folder, its id on the Hub, or the name of its class, for the sidecar.
        settings: the settings that the caller changed; JSON values.
        keeps: whether encoded passages are kept until `forget`, for the runs of other shifts.

    Raises:
        UsageError: if the model cannot rank passages, e.g. compares vectors by another similarity.
    """

    kind: str
    model: Any
    search: Searcher
    origin: str
    settings: dict[str, Any] = Field(default_factory=dict)
    keeps: bool = False

    _described: dict[str, object] = PrivateAttr(default_factory=dict)
    _work: Path | None = PrivateAttr(default=None)

    def model_post_init(self, _context: Any) -> None:
        """Check the model, and compute the digests of its weights and settings."""
        self.search.check_model(self.model)
        self._described = describe_model(self.model)

    def tag(self, name: str) -> str:
        """Return the run tag; it ends in ``-reranks-bm25-<number>`` for a reranker."""
        return name + self.search.tag

    def parameters(self) -> dict[str, Any]:
        """Return the model's kind and origin, the digests of weights and settings, and `search`.

        `settings` and `given` are included if not empty.
        """
        return {
            "architecture": self.kind,
            "model": self.origin,
            **self._described,
            **({"model_settings": self.settings} if self.settings else {}),
            "search": self.search.parameters(),
            **({"given": self.given} if self.given else {}),
        }

    def hardware(self) -> Mapping[str, object]:
        """Return a torch model's device and number of threads; `{}` for a model without them."""
        device = getattr(self.model, "device", None)
        if not self._described or device is None:
            return {}
        kind = torch.device(device).type
        return {
            "device": torch.cuda.get_device_name(device) if kind == "cuda" else kind,
            "torch_threads": torch.get_num_threads(),
        }

    def check_installed(self) -> None:
        """Check that BM25's engine is installed, if the model reranks BM25's passages."""
        if self.search.reranks:
            Bm25([Passage("1", "word")])

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) for each query; encoded passages that were kept are used again.

        For a model without digests, passages that an earlier process encoded are removed.
        """
        key = hashlib.sha256(json.dumps(self._described, sort_keys=True).encode()).hexdigest()[:16]
        work = (run.work.parents[1] if self.keeps else run.work) / key
        if not self._described and self._work is None:
            # Without a digest, an earlier process may have encoded with another model.
            shutil.rmtree(work, ignore_errors=True)
        work.mkdir(exist_ok=True)
        self._work = work
        with silence_libraries(*(sys.modules[name] for name in _NOISY if name in sys.modules)):
            yield from self.search.rankings(self.model, replace(run, work=work))

    def forget(self) -> None:
        """Remove the encoded passages that were kept for other shifts."""
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)
            with suppress(OSError):  # The parent has other folders, or does not exist.
                for parent in list(self._work.parents)[:2]:
                    parent.rmdir()


class PerGroupSystem(GivenSystem):
    """A system with one model per held-out group, which was trained elsewhere.

    Each model is opened for its run, and freed after it.

    Attributes:
        architecture: the source of the models, for the sidecar: ``factory`` or ``folders``.
        search: the options of the search that the caller set; JSON values.
        seed: the seed of a replicate; `None` without replicates.
    """

    per_group = True
    trains = False

    architecture: ClassVar[str]
    search: dict[str, Any] = Field(default_factory=dict)
    seed: int | None = None

    _hardware: Mapping[str, object] = PrivateAttr(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters known before a model is opened, with `seed` and `given` if set."""
        return {
            "architecture": self.architecture,
            **({} if self.seed is None else {"seed": self.seed}),
            "search": self.search,
            **({"given": self.given} if self.given else {}),
        }

    def hardware(self) -> Mapping[str, object]:
        """Return the hardware of the model that `rank` opened last; `{}` before."""
        return self._hardware

    @abstractmethod
    def open(self, run: Run) -> ModelSystem:
        """Return the system of the model that was trained without the run's held-out group."""

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Open the model, set the run's tag, and return an iterator of (query_id, ranking)."""
        with run.stage("model"):
            system = self.open(run)
        run.facts["model"] = system.parameters()
        system.check_installed()
        run.tag, self._hardware = system.tag(run.tag), system.hardware()
        return system.rank(run)


class FactorySystem(PerGroupSystem):
    """A system whose models a factory makes, one per held-out group.

    Attributes:
        make: takes a run and a seed or `None`, and returns the model for the run's held-out group.
        system_of: takes a model, its kind and its searcher class, and returns its system.
    """

    architecture = "factory"

    make: Callable[[Run, int | None], object]
    system_of: Callable[..., ModelSystem]

    def open(self, run: Run) -> ModelSystem:
        """Make the model of the run's held-out group, and return its system.

        Raises:
            UsageError: if the factory raises an exception or returns no model.
        """
        model = unwrap(self.make(run, self.seed))
        known = find_searcher(model)
        if known is None:
            raise UsageError(
                f"{self.label} returned {quoted(model)} for {run.held_out!r}, which is no model; "
                + model_needs(model)
            )
        return self.system_of(model, *known)


class ModelFolders(PerGroupSystem):
    """A system of models in folders, one for each held-out group.

    Attributes:
        pattern: the path of the folders, with ``{held_out}`` in place of the group's name;
            ``{seed}`` and ``{shift}`` are optional.
        changes: new values of fields, as for `open_model`.
    """

    architecture = "folders"

    pattern: str
    changes: dict[str, Any]

    def replicates(self) -> list[int]:
        """Return the sorted seeds in the folders' names; empty if `pattern` has no ``{seed}``.

        Raises:
            NotFoundError: if `pattern` has ``{seed}``, but no folder matches it.
        """
        if "{seed}" not in self.pattern:
            return []
        seeds = {
            int(names["seed"]) for _, names in self._matching_folders() if names["seed"].isdecimal()
        }
        if not seeds:
            raise NotFoundError(
                f"no folder matches {self.pattern} with a number for {{seed}}; correct the path"
            )
        return sorted(seeds)

    def model_facts(self, shift: Shift, held_out: str | None) -> Mapping[str, object]:
        """Return ``model_files_sha256``, the digest of the model's files except Markdown files.

        Raises:
            UsageError: if a folder matches `pattern` with an unknown group or seed, or the system
                has a seed and `pattern` has no ``{seed}``.
            NotFoundError: if the model's folder does not exist.
        """
        if self.seed is not None and "{seed}" not in self.pattern:
            raise UsageError(f"{self.pattern} has no {{seed}}, so it has no replicates; add it")
        shifts = (shift, *SHIFTS.values(), *SIZED.values())
        known = {group for each in shifts for group in each.groups}
        for match, names in self._matching_folders():
            if names["held_out"] not in known or not names.get("seed", "0").isdecimal():
                raise UsageError(
                    f"unexpected folder {match}; expected {self.pattern}, where held_out is a "
                    f"group of {shift.name} ({', '.join(shift.groups)})"
                    f"{', and seed a number' * ('seed' in names)}: rename or remove it"
                )
        folders = {group: self._folder(shift, group) for group in shift.groups}
        folder = folders[str(held_out)]
        if not folder.is_dir():
            missing = [str(path) for path in folders.values() if not path.is_dir()]
            raise NotFoundError(
                f"missing folder {' and '.join(missing)}; expected one model for each held-out "
                f"group of {shift.name} ({', '.join(shift.groups)}): train the missing models, or "
                "name the groups that have models (--held-out)"
            )
        files = sorted(
            path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md"
        )
        lines = [f"{sha256_of(path)} {path.relative_to(folder).as_posix()}\n" for path in files]
        return {"model_files_sha256": hashlib.sha256("".join(lines).encode()).hexdigest()}

    def check(self, run: Run) -> None:
        """Check that `changes` or the settings of the run's model contain its kind.

        Raises:
            UsageError, NotFoundError: see `kind_of_model`.
        """
        if "kind" not in self.changes:
            kind_of_model(str(self._folder(run.shift, str(run.held_out))))

    def open(self, run: Run) -> ModelSystem:
        """Load the model of the run's held-out group, and return its system; see `open_model`."""
        folder = str(self._folder(run.shift, str(run.held_out)))
        return open_model(folder, self.changes, keeps=False)

    def _folder(self, shift: Shift, held_out: str) -> Path:
        names = {"shift": shift.name, "held_out": held_out, "seed": str(self.seed)}
        return Path(re.sub(r"\{(\w+)\}", lambda name: names[name[1]], self.pattern)).expanduser()

    def _matching_folders(self) -> Iterator[tuple[Path, dict[str, str]]]:
        """Yield the sorted folders that match `pattern`, with placeholder -> name in the path."""
        pattern = Path(self.pattern).expanduser()
        parts = re.split(r"\{(\w+)\}", str(pattern))
        named = "".join(
            f"(?P<{part}>[^/.][^/]*)" if place % 2 else re.escape(part)
            for place, part in enumerate(parts)
        )
        root = Path(pattern.anchor)
        any_name = re.sub(r"\{\w+\}", "*", glob.escape(str(pattern.relative_to(root))))
        for path in sorted(root.glob(any_name)):
            match = re.fullmatch(named, str(path))
            if match and path.is_dir():
                yield path, match.groupdict()


def open_folders(pattern: str, changes: Mapping[str, Any]) -> ModelFolders:
    """Return the system of models in folders, one for each held-out group.

    Args:
        pattern: the path of the folders, e.g. ``models/seed-{seed}/{held_out}``. It must have
            ``{held_out}``; ``{seed}`` and ``{shift}`` are optional.
        changes: new values of fields, as for `open_model`.

    Raises:
        UsageError: if the pattern lacks ``{held_out}``, or has an unknown or repeated placeholder.
    """
    names = re.findall(r"\{(.*?)\}", pattern)
    if "held_out" not in names or {*names} > set(_PLACEHOLDERS) or len({*names}) < len(names):
        raise UsageError(
            f"the path of folders of models must have {{held_out}} once, {{seed}} and {{shift}} "
            f"at most once, and no other name in braces, got {pattern!r}; use e.g. "
            "models/seed-{seed}/{held_out}"
        )
    # The device and the batch size do not determine a model.
    given = {k: v for k, v in changes.items() if k not in ("search", "device", "batch_size")}
    fixed = [part for part in Path(pattern).parts if "{" not in part and part.strip("./~")]
    return ModelFolders(
        pattern=pattern.rstrip("/"),
        changes=dict(changes),
        label=fixed[-1] if fixed else "models",
        search=changes.get("search", {}),
        given={"models": pattern, **given},
    )


def open_model(model: str, changes: Mapping[str, Any], *, keeps: bool = True) -> ModelSystem:
    """Return the system of a published model, which ranks without being trained.

    Args:
        model: a folder, or an id of the Hugging Face Hub.
        changes: new values of these fields: ``kind``, a name in `neural_systems`, by default the
            kind in the model's settings; the fields of `ModelSettings`; and ``search``, the fields
            of ``[search]`` in recipes of this kind. The default search is exact, with 1000 passages
            per ranking and 64 texts per batch.
        keeps: see `ModelSystem`.

    Raises:
        UsageError: if the model's settings name no kind or another kind, its files lack weights of
            this kind, or a field is unknown, invalid or does not apply to this kind.
        NotFoundError: if the model does not exist or cannot be loaded.
        MissingExtraError: if the neural libraries are not installed.
        DataError: if the model's weights are pickles.
    """
    kind, revision, kinds = changes.get("kind"), changes.get("revision"), neural_systems()
    if kind not in (None, *kinds):
        raise UnknownNameError("kind of model", str(kind), kinds)
    chosen = kind or kind_of_model(model, revision)
    system = kinds[chosen]
    values = {name: value for name, value in changes.items() if name not in ("kind", "search")}
    settings = ModelSettings.of(values, system, model)
    search = system.searcher().with_defaults(
        {"batch_size": settings.batch_size, **changes.get("search", {})},
        f"the search with {chosen}",
    )
    label = Path(model).name
    require_libraries(label)
    named = None if kind else chosen
    if kind:
        with suppress(NotFoundError):  # Loading has a better message, or finds it in the cache.
            named = named_kind(model, revision)
    if named not in (None, chosen):
        raise UsageError(
            f"{model} is a model of kind {named} according to its settings, got kind {chosen!r}; "
            "remove kind"
        )
    load = partial(_load, system, model, settings)
    with quiet_libraries():
        loaded = settings.set_up(load() if named else _load_checked(system, search, model, load))
    idle = unused_prompts(loaded)
    if idle:
        _logger.warning(
            "%s: its prompts %s are not used; choose one with --set query_prompt=NAME or "
            "--set document_prompt=NAME",
            *(model, ", ".join(idle)),
        )
    return ModelSystem(
        kind=chosen,
        model=loaded,
        search=search,
        settings=settings.parameters(),
        label=label,
        origin=model,
        keeps=keeps,
    )


def _load_checked(system: Any, search: Any, model: str, load: Any) -> Any:
    """Return a model whose settings name no kind, and check that no needed weights are missing.

    sentence-transformers draws missing weights at random, without an error. Some of them do not
    change scores, such as BERT's pooler in a bi-encoder. So models loaded with two seeds must score
    equally.

    Raises:
        UsageError: if the scores differ.
    """
    models = [load(seed) for seed in (0, 1)]
    scores = [
        np.concatenate(list(search.score(loaded, *_TEXTS, [np.arange(len(_TEXTS[1]))])))
        for loaded in models
    ]
    if not np.allclose(scores[1], scores[0], rtol=1e-3, atol=1e-6, equal_nan=True):
        raise UsageError(
            f"{model} lacks weights of a model of kind {system.name}, which would be random; use "
            f"a model that was trained as {system.name}, or name another kind with --set kind=KIND"
        )
    return models[0]


def _load(system: Any, model: str, settings: ModelSettings, seed: int = 0) -> Any:
    """Load a model; the seed determines the weights that its files lack."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return system.load_model(model, settings)


def unwrap(model: Any) -> Any:
    """Return the model inside torch's wrappers, or the model itself if it has no wrapper."""
    while inner := _WRAPPERS.get(type(model).__name__):
        model = getattr(model, inner)
    return model


def unused_prompts(model: Any) -> list[str]:
    """Return the names of a model's prompts that it adds neither to queries nor to passages.

    Empty prompts and copies of a used prompt do not count.
    """
    prompts = getattr(model, "prompts", None) or {}
    default = getattr(model, "default_prompt_name", None)
    # The names that a model looks for, in order; a model that scores pairs has one prompt for both.
    sides = [("query",), ("document", "passage", "corpus")] if has(model, *ENCODES) else [()]
    used = {next((name for name in side if name in prompts), default) for side in sides}
    texts = {prompt for name, prompt in prompts.items() if name in used}
    return [name for name, prompt in prompts.items() if prompt and prompt not in texts]


def describe_model(model: Any) -> dict[str, object]:
    """Return the settings and the weights' digest that determine a torch model's scores.

    Returns:
        JSON values, `{}` for other models: ``weights_sha256``; ``settings``: the prompts, the
        longest input in tokens, the dimensions that vectors are truncated to, and the digest of the
        modules' settings; and ``similarity``, if the model has one.
    """
    if not has(model, "state_dict"):
        return {}
    similarity = getattr(model, "similarity_fn_name", None)
    settings = {
        "modules_sha256": hashlib.sha256(_ADDRESS.sub("", repr(model)).encode()).hexdigest(),
        **{name: getattr(model, name, None) for name in ("prompts", "max_seq_length")},
        "truncate_dim": getattr(model, "truncate_dim", None),
    }
    return {
        "weights_sha256": weights_digest(model),
        "settings": as_json(settings, "settings", lambda value, _: str(value)),
        **({"similarity": str(similarity)} if similarity is not None else {}),
    }
