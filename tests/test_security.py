"""The promises of SECURITY.md: no pickles, no code from models, no shell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from msshift_bench.encoders import ModelSettings
from tests.conftest import REPOSITORY

FOLDERS = ("msshift_bench", "dataset_builders", "baselines", "leaderboard")
"""The folders that become one package."""


@cache
def modules_in(folder: str) -> tuple[Path, ...]:
    """Return the files of one of `FOLDERS`, in order."""
    return tuple(sorted((REPOSITORY / folder).rglob("*.py")))


@cache
def syntax_tree(path: Path) -> ast.Module:
    """Return the syntax tree of a module, which is only read."""
    return ast.parse(path.read_text(encoding="utf-8"))


MODULES = {"pickle", "cPickle", "dill", "joblib", "shelve"}

CALLS = {"eval", "exec", "os.system", "os.popen", "torch.load", "yaml.load"}

OPTIONS = {("trust_remote_code", True), ("shell", True), ("allow_pickle", True)}

ALLOWED = {"msshift_bench": {"loading.py": ["trust_remote_code=settings.trust_remote_code"]}}
"""The setting of a user, off by default."""


def called(node: ast.Call) -> str:
    """Return the dotted name of the called function; a computed part has an empty name."""
    parts, function = [], node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    return ".".join([getattr(function, "id", ""), *reversed(parts)])


def forbidden(tree: ast.Module) -> Iterator[str]:
    """Yield every use in a module that SECURITY.md excludes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield node.module
        elif isinstance(node, ast.Call):
            if called(node) in CALLS:
                yield called(node)
            for option in node.keywords:
                value = option.value
                # A computed value might be true.
                is_false = isinstance(value, ast.Constant) and not value.value
                if (option.arg, True) in OPTIONS and not is_false:
                    yield f"{option.arg}={ast.unparse(value)}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_module_unpickles_or_runs_foreign_code(folder: str) -> None:
    assert modules_in(folder)
    found = {file.name: list(forbidden(syntax_tree(file))) for file in modules_in(folder)}
    assert {name: uses for name, uses in found.items() if uses} == ALLOWED.get(folder, {})


def test_code_of_a_model_runs_only_if_asked() -> None:
    assert ModelSettings().trust_remote_code is False


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from joblib import load",
        "eval(text)",
        "torch.load(path)",
        "load(name, trust_remote_code=flag)",
        "run(words, shell=True)",
        "np.load(path, allow_pickle=True)",
    ],
)
def test_every_forbidden_use_is_found(text: str) -> None:
    assert len(list(forbidden(ast.parse(text)))) == 1
    assert list(forbidden(ast.parse("np.load(path, allow_pickle=False); model.eval()"))) == []


LOADING = ("model_class", "Transformer", "SparseEncoder", "CrossEncoder", "MultiVectorEncoder")
"""The classes of sentence-transformers that load weights, and the name of such a class."""


def loads_weights(node: ast.AST) -> bool:
    """Say whether a node of a module's tree is a call that loads a model's weights."""
    if not isinstance(node, ast.Call):
        return False
    name = called(node)
    harmless = ("AutoConfig", "AutoTokenizer", "config_class", "Embedding")
    return (
        name.endswith(".from_pretrained")
        and not name.endswith(tuple(f"{one}.from_pretrained" for one in harmless))
    ) or name.endswith(LOADING)


def test_one_module_loads_weights_as_safetensors_only() -> None:
    found = []
    for folder in FOLDERS:
        for file in modules_in(folder):
            for node in filter(loads_weights, ast.walk(syntax_tree(file))):
                assert isinstance(node, ast.Call)
                # A model of modules that were loaded before reads no weights.
                if "modules" not in {option.arg for option in node.keywords}:
                    found.append(f"{file.name}: {called(node)}")
    assert found == [
        "loading.py: model_class",
        "loading.py: sentence_transformers.base.modules.Transformer",
        "loading.py: model_class.from_pretrained",
    ]
    loading = REPOSITORY / "msshift_bench" / "encoders" / "loading.py"
    functions = [node for node in syntax_tree(loading).body if isinstance(node, ast.FunctionDef)]
    loaders = [node for node in functions if node.name.startswith("load_")]
    assert len(loaders) == len(found)
    for loader in loaders:
        assert "_SAFETENSORS" in (text := ast.unparse(loader))
        assert "with only_safetensors(where):" in text
