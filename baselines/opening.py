"""Opening a system: by its name or class, or of models that were not trained here.

Such models are objects in memory, come from a factory, or are published, in folders or on the Hub.
The table `msshift_bench.baselines.adapters.ADAPTERS` has the kinds of objects that are models.
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
"""The fields of a published model."""

_PLACES = ("held_out", "seed", "shift")
"""The names that the path of folders of models may hold."""

_TEXTS = ["what is a word"], ["A word is what is said.", "Frogs live in ponds."]
"""A query, and passages, to see whether a model's scores are its own."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DataParallel": "module",
    "DistributedDataParallel": "module",
}
"""The classes in which torch wraps a model that it compiles, or copies to several GPUs."""

_LOUD = ("datasets", "transformers")


def open_system(
    what: str, recipe: str | Path | None = None, changes: Mapping[str, Any] | None = None
) -> System:
    """Return a system, ready for a `Plan`.

    Args:
        what: the name of a system of this package or of another, ``module:Class`` of one that no
            package registers, or the folder or the id on the Hugging Face Hub of a model, which
            then ranks as it is; or a folder for each held-out group, and perhaps seed, as
            ``models/seed-{seed}/{held_out}``; see `ModelFolders`.
        recipe: of a system that is trained: the name of a recipe that comes along, by default
            ``mini``, or a TOML file.
        changes: replaces fields: name -> value, for a field of a table ``table.name``. What can be
            replaced for a model, see `open_model`.

    Returns:
        The system; what `find_systems` holds tells its class.

    Raises:
        UnknownNameError: if there is no such system, recipe or field.
        UsageError: if a value is impossible, or a system that has no recipe is given one.
        NotFoundError: if there is no such file or model.

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
        return trained.with_changes(values, _who_has)
    if recipe is not None:
        raise UsageError(f"{what} is not trained by a recipe; leave {str(recipe)!r} out")
    if kind is None:
        changed = nested(values)
        for name in changed:
            check_name("field of a published model", name, _FIELDS)
        return (open_folders if "{" in what else open_model)(what, changed)
    where = f"the fields of {kind.name}"
    kind.check_names(values, _who_has)
    return check_value(nested(values), kind, where, partial(refusal, where))


def _who_has(name: str) -> str:
    """Say which systems have a field; "" if none does."""
    systems = [system.name for system in find_systems().values() if name in system.model_fields]
    return f"it is a field of {', '.join(systems)}" if systems else ""


class GivenSystem(System):
    """A system of models that were not trained here.

    Attributes:
        label: the name of its runs, unless the plan gives one.
        given: what else decides its models; JSON values.
    """

    name = ""

    label: str
    given: dict[str, Any] = Field(default_factory=dict)

    def run_set(self) -> str:
        """Return the label."""
        return self.label


class ModelSystem(GivenSystem):
    """A model in memory, the same for all groups.

    Attributes:
        kind: what kind of model it is, for the sidecar.
        model: the model.
        search: how passages are searched with it.
        origin: where the model is from, for the sidecar: a folder, an id, or the name of a class.
        settings: the settings of the model that are not its own; JSON values.
        keeps: whether what it encodes is kept until `forget`, for the runs on other shifts.

    Raises:
        UsageError: if the model cannot rank passages as it is.
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
        """Check the model, and describe it."""
        self.search.check_model(self.model)
        self._described = describe_model(self.model)

    def tag(self, name: str) -> str:
        """Return the run tag, which says if the model only reranks."""
        return name + self.search.tag

    def parameters(self) -> dict[str, Any]:
        """Return the model, the digests of its weights and settings, and how it searches."""
        return {
            "architecture": self.kind,
            "model": self.origin,
            **self._described,
            **({"model_settings": self.settings} if self.settings else {}),
            "search": self.search.parameters(),
            **({"given": self.given} if self.given else {}),
        }

    def hardware(self) -> Mapping[str, object]:
        """Return the device of the model, and the threads that torch uses."""
        device = getattr(self.model, "device", None)
        if not self._described or device is None:
            return {}
        kind = torch.device(device).type
        return {
            "device": torch.cuda.get_device_name(device) if kind == "cuda" else kind,
            "torch_threads": torch.get_num_threads(),
        }

    def check_installed(self) -> None:
        """Check for BM25, if its passages are reranked."""
        if self.search.reranks:
            Bm25([Passage("1", "word")])

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Encode the passages unless that is done, and rank."""
        key = hashlib.sha256(json.dumps(self._described, sort_keys=True).encode()).hexdigest()[:16]
        work = (run.work.parents[1] if self.keeps else run.work) / key
        if not self._described and self._work is None:
            # Nothing tells whether an earlier process had the same model.
            shutil.rmtree(work, ignore_errors=True)
        work.mkdir(exist_ok=True)
        self._work = work
        with silence_libraries(*(sys.modules[name] for name in _LOUD if name in sys.modules)):
            yield from self.search.rankings(self.model, replace(run, work=work))

    def forget(self) -> None:
        """Remove what is kept for other shifts."""
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)
            with suppress(OSError):  # Something else is at work there, or nothing is left.
                for parent in list(self._work.parents)[:2]:
                    parent.rmdir()


class PerGroupSystem(GivenSystem):
    """A model for every held-out group, opened when its turn comes, and dropped after its run.

    Attributes:
        architecture: what the models are, for the sidecar.
        search: how passages are searched, as far as it was said; JSON values.
        seed: the seed of a replicate.
    """

    per_group = True
    trains = False

    architecture: ClassVar[str]
    search: dict[str, Any] = Field(default_factory=dict)
    seed: int | None = None

    _hardware: Mapping[str, object] = PrivateAttr(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        """Return what is known before a model is opened."""
        return {
            "architecture": self.architecture,
            **({} if self.seed is None else {"seed": self.seed}),
            "search": self.search,
            **({"given": self.given} if self.given else {}),
        }

    def hardware(self) -> Mapping[str, object]:
        """Return the hardware of the model that `rank` made last."""
        return self._hardware

    @abstractmethod
    def open(self, run: Run) -> ModelSystem:
        """Return the system of the model that must not have seen the run's group."""

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Open the model, at once, so that its tag is known; then encode and rank."""
        with run.stage("model"):
            system = self.open(run)
        run.facts["model"] = system.parameters()
        system.check_installed()
        run.tag, self._hardware = system.tag(run.tag), system.hardware()
        return system.rank(run)


class FactorySystem(PerGroupSystem):
    """Models that a function makes.

    Attributes:
        make: takes the run, whose group the model must not have seen, and the seed, and returns the
            model.
        system_of: takes a model, its kind and searcher, and returns its system.
    """

    architecture = "factory"

    make: Callable[[Run, int | None], object]
    system_of: Callable[..., ModelSystem]

    def open(self, run: Run) -> ModelSystem:
        """Make the model."""
        model = unwrap(self.make(run, self.seed))
        known = find_searcher(model)
        if known is None:
            raise UsageError(
                f"{self.label} gave {quoted(model)} for {run.held_out!r}, no model; "
                + model_needs(model)
            )
        return self.system_of(model, *known)


class ModelFolders(PerGroupSystem):
    """Models that were trained elsewhere, each in a folder that its held-out group names.

    Attributes:
        pattern: the path of the folders, with ``{held_out}``, and perhaps ``{seed}`` and
            ``{shift}``, in place of the names.
        changes: as of `open_model`.
    """

    architecture = "folders"

    pattern: str
    changes: dict[str, Any]

    def replicates(self) -> list[int]:
        """Return the seeds that folders have.

        Raises:
            NotFoundError: if folders have seeds in their names, and there is none.
        """
        if "{seed}" not in self.pattern:
            return []
        seeds = {int(names["seed"]) for _, names in self._found() if names["seed"].isdecimal()}
        if not seeds:
            raise NotFoundError(f"there is no folder {self.pattern}, with a number for {{seed}}")
        return sorted(seeds)

    def model_facts(self, shift: Shift, held_out: str | None) -> Mapping[str, object]:
        """Return the digest of the model's files, if all folders have names of groups."""
        if self.seed is not None and "{seed}" not in self.pattern:
            raise UsageError(f"{self.pattern} has no {{seed}}, so it has no replicates; add it")
        shifts = (shift, *SHIFTS.values(), *SIZED.values())
        known = {group for one in shifts for group in one.groups}
        for found, names in self._found():
            if names["held_out"] not in known or not names.get("seed", "0").isdecimal():
                raise UsageError(
                    f"unexpected folder {found}; expected {self.pattern}, where held_out is a "
                    f"group of {shift.name} ({', '.join(shift.groups)}): rename or remove it"
                )
        folders = {group: self._folder(shift, group) for group in shift.groups}
        folder = folders[str(held_out)]
        if not folder.is_dir():
            missing = [str(path) for path in folders.values() if not path.is_dir()]
            raise NotFoundError(
                f"there is no folder {' and no folder '.join(missing)}; expected one model for "
                f"each held-out group of {shift.name} ({', '.join(shift.groups)}): train it, or "
                "name the groups that have models (--held-out)"
            )
        files = sorted(
            path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md"
        )
        lines = [f"{sha256_of(path)} {path.relative_to(folder).as_posix()}\n" for path in files]
        return {"model_files_sha256": hashlib.sha256("".join(lines).encode()).hexdigest()}

    def check(self, run: Run) -> None:
        """Check that the kind of the model is known, before any is searched."""
        if "kind" not in self.changes:
            kind_of_model(str(self._folder(run.shift, str(run.held_out))))

    def open(self, run: Run) -> ModelSystem:
        """Load the model of the run's group."""
        folder = str(self._folder(run.shift, str(run.held_out)))
        return open_model(folder, self.changes, keeps=False)

    def _folder(self, shift: Shift, held_out: str) -> Path:
        names = {"shift": shift.name, "held_out": held_out, "seed": str(self.seed)}
        return Path(re.sub(r"\{(\w+)\}", lambda name: names[name[1]], self.pattern)).expanduser()

    def _found(self) -> Iterator[tuple[Path, dict[str, str]]]:
        """Yield every folder that the pattern fits, with the names in it."""
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
    """Return the system of models that were trained elsewhere, one for each held-out group.

    Args:
        pattern: the path of their folders, e.g. ``models/seed-{seed}/{held_out}``.
        changes: as of `open_model`.

    Raises:
        UsageError: if the pattern lacks ``{held_out}``, or has other names, or one twice.
    """
    names = re.findall(r"\{(.*?)\}", pattern)
    if "held_out" not in names or {*names} > set(_PLACES) or len({*names}) < len(names):
        raise UsageError(
            f"{pattern!r} names a folder of models by {{held_out}}, and if needed {{seed}} and "
            "{shift}, each once; e.g. models/seed-{seed}/{held_out}"
        )
    # The device and the size of batches decide no model.
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
        changes: ``kind``, a name in `neural_systems`, by default the kind in its settings; the
            fields of `ModelSettings`; and ``search``, fields of ``[search]`` in the recipes of
            that kind, by default 1000 passages per ranking, 64 texts at a time, and exact search.
        keeps: see `ModelSystem`.

    Raises:
        UsageError: if the model's settings do not name its kind, or name another, if its files lack
            weights of that kind, or it cannot search like that.
        NotFoundError: if there is no such model.
        MissingExtraError: if the neural libraries are not installed.
    """
    kind, revision, kinds = changes.get("kind"), changes.get("revision"), neural_systems()
    if kind not in (None, *kinds):
        raise UnknownNameError("kind of model", str(kind), kinds)
    chosen = kind or kind_of_model(model, revision)
    system = kinds[chosen]
    given = {name: value for name, value in changes.items() if name not in ("kind", "search")}
    settings = ModelSettings.of(given, system, model)
    search = system.searcher().with_defaults(
        {"batch_size": settings.batch_size, **changes.get("search", {})},
        f"the search with {chosen}",
    )
    label = Path(model).name
    require_libraries(label)
    named = None if kind else chosen
    if kind:
        with suppress(NotFoundError):  # To load the model says more, and may find it in the cache.
            named = named_kind(model, revision)
    if named not in (None, chosen):
        raise UsageError(
            f"{model} is a model of {named}, as its settings say, and not of {chosen}; leave kind "
            "out"
        )
    load = partial(_load, system, model, settings)
    with quiet_libraries():
        loaded = settings.set_up(load() if named else _load_whole(system, search, model, load))
    idle = unused_prompts(loaded)
    if idle:
        _logger.warning("%s: its prompts %s stand before no text", model, ", ".join(idle))
    return ModelSystem(
        kind=chosen,
        model=loaded,
        search=search,
        settings=settings.parameters(),
        label=label,
        origin=model,
        keeps=keeps,
    )


def _load_whole(system: Any, search: Any, model: str, load: Any) -> Any:
    """Return a model whose settings name no kind, if its files hold all weights of this kind.

    sentence-transformers draws the weights that are missing, such as those of a head, without an
    error. Some take no part, such as BERT's pooler in a bi-encoder. So the scores decide.

    Raises:
        UsageError: if weights are missing that take part.
    """
    models = [load(seed) for seed in (0, 1)]
    scores = [
        np.concatenate(list(search.score(loaded, *_TEXTS, [np.arange(len(_TEXTS[1]))])))
        for loaded in models
    ]
    if not np.allclose(scores[1], scores[0], rtol=1e-3, atol=1e-6, equal_nan=True):
        raise UsageError(
            f"{model} lacks weights of a model of {system.name}: they would be random; take "
            "one that was trained as such, or name its kind with --set kind=KIND"
        )
    return models[0]


def _load(system: Any, model: str, settings: ModelSettings, seed: int = 0) -> Any:
    """Load a model; weights that its files lack are the same each time, for one seed."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return system.load_model(model, settings)


def unwrap(model: Any) -> Any:
    """Return the model inside torch's wrappers, which hide its class and its similarity."""
    while inner := _WRAPPERS.get(type(model).__name__):
        model = getattr(model, inner)
    return model


def unused_prompts(model: Any) -> list[str]:
    """Return the names of a model's prompts that it puts before neither queries nor passages."""
    prompts = getattr(model, "prompts", None) or {}
    default = getattr(model, "default_prompt_name", None)
    # Which one it chooses, first to last; a model that scores pairs has no sides.
    sides = [("query",), ("document", "passage", "corpus")] if has(model, *ENCODES) else [()]
    used = {next((name for name in side if name in prompts), default) for side in sides}
    texts = {prompt for name, prompt in prompts.items() if name in used}
    return [name for name, prompt in prompts.items() if prompt and prompt not in texts]


def describe_model(model: Any) -> dict[str, object]:
    """Return what is known to decide a model's scores; nothing for one that is not of torch.

    Returns:
        ``weights_sha256``; ``settings``: the prompts, the longest input, the dimensions that
        vectors are cut to, and the digest of the modules' settings; and ``similarity``, if the
        model names one. JSON values.
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
