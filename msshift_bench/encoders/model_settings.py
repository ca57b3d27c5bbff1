"""Settings of models: in recipes, for published models, and for encoders of queries."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt

from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.libraries import torch
from msshift_bench.settings import Table, added_field

_logger = logging.getLogger(__name__)

SIMILARITIES = ("dot", "cosine")
"""The similarities by which a search with dot products can rank."""

_OF_VECTORS = ("similarity", "normalize", "truncate_dim")
_OF_SIDES = ("query_prompt", "document_prompt", "query_length", "passage_length")
_OF_HUB = ("revision", "trust_remote_code")
OF_LOADING = (*_OF_HUB, "model_kwargs")
"""The names of the settings with which weights are loaded."""


class ModelSettings(Table):
    """Settings with which a model of sentence-transformers is loaded and encodes.

    `None` leaves the model as it was saved.

    Attributes:
        query_prompt: the text before each query, or the name of a prompt that the model has.
        document_prompt: the text before each passage, or the name of a prompt.
        truncate_dim: the number of first dimensions of each vector to keep; bi-encoders only.
        dtype: the type of the weights: ``float32``, ``float16`` or ``bfloat16``. On a CPU without
            AVX-512, 16 bits are slow.
        revision: the branch, tag or commit on the Hugging Face Hub.
        similarity: ``dot`` or ``cosine``; bi-encoders only.
        normalize: whether vectors are scaled to length 1, after truncation; bi-encoders only.
        batch_size: texts encoded together; by default ``search.batch_size``. On a CPU,
            transformers encode at most 16 together.
        device: the device, e.g. ``cuda``.
        query_length: most tokens of a query, special tokens included.
        passage_length: most tokens of a passage, special tokens included.
        model_kwargs: further options with which transformers loads the weights.
        trust_remote_code: whether code from the model's folder may run.
    """

    query_prompt: str | None = added_field(None)
    document_prompt: str | None = added_field(None)
    truncate_dim: PositiveInt | None = added_field(None)
    dtype: Literal["float32", "float16", "bfloat16"] | None = added_field(None)
    revision: str | None = added_field(None)
    # Sidecars have these three under other keys.
    similarity: Literal["dot", "cosine"] | None = Field(default=None, exclude=True)
    batch_size: PositiveInt | None = Field(default=None, exclude=True)
    device: str | None = Field(default=None, exclude=True)
    normalize: bool = added_field(default=False)
    query_length: int | None = added_field(None, ge=3)
    passage_length: int | None = added_field(None, ge=3)
    model_kwargs: dict[str, Any] = added_field({})
    trust_remote_code: bool = added_field(default=False)

    def __hash__(self) -> int:
        return hash(self.digest())

    @classmethod
    def of(cls, values: Mapping[str, Any], system: Any, model: str) -> Self:
        """Return the settings of a model, checked against its kind.

        Args:
            values: name of a setting -> value; `None` means the default.
            system: the class in `neural_systems` for the kind of the model.
            model: the name of the model, for messages.

        Raises:
            UsageError: if a name is unknown, a value is not allowed, or models of this kind lack a
                setting.
        """
        if values.get("similarity") not in (None, *SIMILARITIES):
            raise UnknownNameError("similarity", str(values["similarity"]), SIMILARITIES)
        settings = cls.with_defaults(values, f"the settings of {model}")
        lacked = cls.lacked_by(system)
        for name in (name for name in settings.given() if name in lacked):
            raise UsageError(
                f"{name} is a setting of {lacked[name]}, and {model} is a model of {system.name}: "
                f"remove {name}"
            )
        return settings

    def given(self) -> list[str]:
        """Return the names of the settings that differ from their defaults."""
        fields = type(self).model_fields.items()
        return [name for name, field in fields if getattr(self, name) != field.default]

    @classmethod
    def lacked_by(cls, system: Any) -> dict[str, str]:
        """Return each setting that models of a system's kind lack -> the kinds that have it."""
        lacks = {
            "bi-encoders": _OF_VECTORS if system.model_type != "SentenceTransformer" else (),
            "models that encode": _OF_SIDES if system.model_type == "CrossEncoder" else (),
            "transformers that are loaded as they are": OF_LOADING if system.module_name else (),
        }
        return {name: kinds for kinds, names in lacks.items() for name in names}

    def of_hub(self) -> dict[str, Any]:
        """Return `revision` and `trust_remote_code` as transformers' options, without defaults."""
        return {name: getattr(self, name) for name in _OF_HUB if name in self.given()}

    def set_up(self, model: Any, *, copies: bool = False) -> Any:
        """Return the model, changed to these settings.

        `batch_size` and `OF_LOADING` have no effect here.

        Args:
            model: the model.
            copies: whether to change a copy, which shares weights with the model where possible.
                If only the device is set, it is changed in place.

        Raises:
            UsageError: if a setting cannot be applied to the model.
        """
        if copies and (self.parameters() or self.similarity is not None):
            changes_modules = self.dtype or self.query_length or self.passage_length
            model = copy.deepcopy(model) if changes_modules else copy.copy(model)
        for side, prompt in (("query", self.query_prompt), ("document", self.document_prompt)):
            if prompt is not None:
                model.prompts = {**model.prompts, side: model.prompts.get(prompt, prompt)}
        lengths = {"query_length": self.query_length, "document_length": self.passage_length}
        for name, length in lengths.items():
            if length is not None:
                if not hasattr(model[0], name):
                    raise UsageError(
                        f"the length is {length}, but the model's {type(model[0]).__name__} reads "
                        "texts of any length: remove query_length and passage_length"
                    )
                setattr(model[0], name, length)
        if self.truncate_dim is not None:
            model.truncate_dim = None
            if self.truncate_dim > (most := model.get_embedding_dimension() or self.truncate_dim):
                raise UsageError(f"truncate_dim must be at most {most}, got {self.truncate_dim}")
            model.truncate_dim = self.truncate_dim
        if chosen := "cosine" if self.normalize else self.similarity:
            model.similarity_fn_name = chosen
        if self.dtype is not None:
            model.to(getattr(torch, self.dtype))
        try:
            model = model if self.device is None else model.to(self.device)
        except (AssertionError, RuntimeError) as error:
            why = str(error).partition("\n")[0]
            raise UsageError(
                f"device is {self.device!r}, which torch cannot use on this machine: {why}; give "
                'another device, e.g. "cpu", or remove device'
            ) from error
        if self.dtype not in (None, "float32"):
            warn_if_slow(f"dtype={self.dtype}", model.device.type)
        return model


@cache
def warn_if_slow(setting: str, device: str) -> None:
    """Log a warning if 16 bits are slow on a device: on a CPU with AVX2 and without AVX-512.

    There, torch computes products of matrices of 16 bits without vector instructions.

    Args:
        setting: the setting that asks for 16 bits, e.g. ``precision=bf16``.
        device: the type of torch's device, e.g. ``cpu``.
    """
    if device == "cpu" and torch.backends.cpu.get_cpu_capability() == "AVX2":
        _logger.warning(
            "%s is slow on this processor, which has no AVX-512: 32 bits are about 7 times as fast",
            setting,
        )


DEFAULTS = ModelSettings()
"""The settings that leave a model as it was saved."""
