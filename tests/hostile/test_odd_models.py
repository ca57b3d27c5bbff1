"""Models in memory whose vectors are none, and prompts that nobody puts before a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from msshift_bench import evaluate
from msshift_bench.baselines import open_system
from msshift_bench.baselines.opening import unused_prompts
from msshift_bench.errors import UsageError
from tests.conftest import Build
from tests.support.tiny_models import save_tiny_models

COLLECTION = "mini:300"

Encode = Callable[[Sequence[str]], Any]


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once(COLLECTION, "length")


@pytest.mark.neural
@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda texts: np.zeros((len(texts), 0)), "returned vectors of 0 dimensions"),
        (lambda texts: np.ones((len(texts), 3), np.complex64), "complex64 is not"),
        (lambda texts: [[1j, 2.0] for _ in texts], "complex128 is not"),
    ],
)
def test_vectors_that_are_none_are_refused(encode: Encode, message: str, data: Path) -> None:
    model = SimpleNamespace(encode_query=encode, encode_document=encode)
    with pytest.raises(UsageError, match=re.escape(message)):
        evaluate(model, "length", data=data)


def encoder(**prompts: str) -> SimpleNamespace:
    return SimpleNamespace(encode_query=len, encode_document=len, prompts=prompts)


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (encoder(query="q: ", document="d: "), []),
        (encoder(query="q: ", passage="p: ", corpus="c: "), ["corpus"]),
        (encoder(search_query="q: ", search_document="d: "), ["search_query", "search_document"]),
        (encoder(query="", document="", other=""), []),
        (SimpleNamespace(predict=len, prompts={"query": "q: "}), ["query"]),
        (SimpleNamespace(), []),
    ],
)
def test_prompts_that_nobody_uses(model: SimpleNamespace, names: list[str]) -> None:
    assert unused_prompts(model) == names


def test_the_prompt_of_all_texts_is_used() -> None:
    model = encoder(sts="s: ", query="q: ")
    model.default_prompt_name = "sts"
    assert unused_prompts(model) == []


@pytest.mark.neural
@pytest.mark.extended
def test_they_are_remarked(data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from sentence_transformers import SentenceTransformer

    save_tiny_models(tmp_path)
    model = SentenceTransformer(str(tmp_path / "my-bi-encoder"), local_files_only=True)
    model.prompts = {"search_query": "query: ", "search_document": "passage: "}
    warnings = evaluate(model, "length", data=data, depth=5, progress=False).warnings
    assert any("prompts search_query, search_document are not used" in d for d in warnings)
    model.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    open_system(str(tmp_path / "saved"))
    assert "its prompts search_document, search_query are not used" in caplog.text
