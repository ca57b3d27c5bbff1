"""Gathering what an indicator needs, from what the user said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msshift_bench.data import open_collection
from msshift_bench.encoders import OWN, EncoderSpec, choose_encoder
from msshift_bench.errors import UsageError
from msshift_bench.plumbing import silent
from msshift_bench.similarity.indicators import Indicator
from msshift_bench.similarity.ingredients import IndicatorOptions, Ingredients
from msshift_bench.similarity.text_vectors import embed_texts

__all__ = ["check_options", "gather", "gather_of_model"]


def check_options(indicator: Indicator, options: IndicatorOptions) -> None:
    """Check that an indicator takes the options that were given, and has those that it needs.

    Raises:
        UsageError: if not.
    """
    for name, value in options.items():
        if value is not None and name not in (*indicator.options, "progress"):
            takes = " and ".join(indicator.options)
            raise UsageError(f"{indicator.name} takes {takes}, and not {name}; leave it out")
    if indicator.needs == "model" and options.get("models") is None:
        raise UsageError(
            f"{indicator.name} needs the bi-encoders that were trained without each group: give "
            "models (--models), a folder of run sets made with 'msshift baseline run --keep-model'"
        )
    if indicator.needs == "collection" and options.get("collection") is None:
        raise UsageError(f"{indicator.name} searches passages: give the collection (--collection)")
    if options.get("depth", 1) < 1:
        raise UsageError(f"depth is {options['depth']}; it must be 1 or more")


def gather(
    indicator: Indicator, options: IndicatorOptions, texts: Iterable[str], layout: str
) -> Ingredients:
    """Return what an indicator computes with; of a model, see `gather_of_model`.

    Args:
        indicator: the indicator.
        options: what the user said.
        texts: the texts of all queries.
        layout: the layout of the queries' collection, which decides the default encoder; ``""`` if
            it is not known.
    """
    progress = options.get("progress", silent)
    if indicator.needs == "encoder":
        name = choose_encoder(options.get("encoder"), layout)
        spec = EncoderSpec(name, pooling=options.get("pooling", "cls"))
        return Ingredients(vectors=embed_texts(texts, spec, progress=progress), progress=progress)
    if indicator.needs == "collection":
        source = options["collection"]
        assert source is not None
        return Ingredients(
            collection=open_collection(source), depth=options.get("depth", 500), progress=progress
        )
    return Ingredients(tokenizer=options.get("tokenizer"), progress=progress)


def gather_of_model(
    model: Mapping[str, str | Path] | str | Path | None,
    options: IndicatorOptions,
    texts: Iterable[str],
) -> Ingredients:
    """Return what an indicator computes with under one model.

    Args:
        model: the model's folder.
        options: what the user said.
        texts: the texts of all queries.

    Raises:
        UsageError: if it is not one folder.
    """
    if model is None or isinstance(model, Mapping):
        raise UsageError("two sets of queries are compared under one model: give its folder")
    progress = options.get("progress", silent)
    spec = EncoderSpec(str(model), pooling=OWN)
    return Ingredients(vectors=embed_texts(texts, spec, progress=progress), progress=progress)
