"""Names in files that users keep, and names that enter digests, stay as they are."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pydantic import BaseModel

from msshift_bench.baselines import recipe_files
from msshift_bench.baselines.systems import lexical
from msshift_bench.dataset_builders import negatives
from msshift_bench.encoders import embeddings
from msshift_bench.evaluation import evaluate_run_sets
from msshift_bench.leaderboard.description import Description, TrainedOn
from msshift_bench.leaderboard.entries import ReportedFigure
from msshift_bench.runs import CODES, sidecar_path
from msshift_bench.stats import FIGURES, Figure
from tests.conftest import REPOSITORY, Build
from tests.docs.test_error_codes_page import FOLDERS, codes_in
from tests.support.golden import WRITE
from tests.support.making import make_runs

GOLDEN = Path(__file__).parent / "golden" / "frozen_names.json"

STORED = [
    (embeddings._encode, embeddings._VectorBlock),
    (lexical._find, lexical._RankingBlock),
    (negatives._negatives, negatives._NegativesBlock),
]
"""Task of the engine -> its items: the task's name and the items' fields name a stored result."""


def keys_of(value: Any, place: str = "") -> Iterator[str]:
    """Yield the keys of nested JSON objects; keys below shifts and groups are data."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield f"{place}{key}"
            if key not in ("configs", "shifts", "files", "written_with", "machine", "parameters"):
                yield from keys_of(part, f"{place}{key}.")


def fields_of(model: type[BaseModel], place: str = "") -> Iterator[str]:
    """Yield the fields of a model and, behind a dot, of the models in it."""
    for name, field in model.model_fields.items():
        yield f"{place}{name}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from fields_of(field.annotation, f"{place}{name}.")


def names(build_once: Build, folder: Path) -> dict[str, list[str]]:
    """Return kind of names -> the names."""
    data = build_once("mini:300", "length")
    run, *_ = make_runs("bm25", data=data, out=folder)
    result = evaluate_run_sets(folder, data)
    recipes = {name: tomllib.loads(file.text) for name, file in recipe_files().items()}
    modules = [path for name in FOLDERS for path in (REPOSITORY / name).rglob("*.py")]
    with gzip.open(run, "rt") as file:
        tag = file.readline().split()[-1]
    split = next(data.rglob("*.parquet"))
    found = {
        "finding codes": {*CODES, *(code for path in modules for code in codes_in(path))},
        "figures": set(FIGURES),
        "columns of figures": set(Figure._fields),
        "keys of a result": set(result.to_json()),
        "columns of scores": set(result.per_query().column_names),
        "keys of a manifest": {*keys_of(json.loads((data / "manifest.json").read_text()))},
        "columns of a split": set(pq.read_schema(split).names),
        "keys of a sidecar": {*keys_of(json.loads(sidecar_path(run).read_text()))},
        "tag of a run": {tag},
        "keys of recipes": {
            f"{name.split('-')[0]}: {key}" for name, recipe in recipes.items()
            for key in keys_of(recipe)
        },
        "keys of an entry": {*fields_of(Description)},
        "columns of an entry": {*TrainedOn.model_fields, *ReportedFigure.model_fields},
        "names of stored results": {
            f"{task.__module__}.{task.__qualname__}: {field.name}"
            for task, items in STORED for field in fields(items)
        },
    }  # fmt: skip
    return {kind: sorted(of_kind) for kind, of_kind in found.items()}


def test_no_frozen_name_is_gone(build_once: Build, tmp_path: Path) -> None:
    now = names(build_once, tmp_path / "runs")
    if WRITE:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(now, indent=1) + "\n")
    frozen = json.loads(GOLDEN.read_text())
    gone = {kind: sorted({*of_kind} - {*now.get(kind, ())}) for kind, of_kind in frozen.items()}
    assert {kind: of_kind for kind, of_kind in gone.items() if of_kind} == {}
    # A new name is frozen, too: MSSHIFT_WRITE_GOLDEN=1 adds it.
    new = {kind: sorted({*of_kind} - {*frozen.get(kind, ())}) for kind, of_kind in now.items()}
    assert {kind: of_kind for kind, of_kind in new.items() if of_kind} == {}
