"""Evaluation has one way in: each folder is listed, each sidecar and each run is read, once.

The two sides of a shift are made in one module, and so is Rel Loss.
"""

from __future__ import annotations

import ast
import functools
import gzip
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from msshift_bench.data import Variant, open_dataset, write_variants
from msshift_bench.leaderboard.submit import submit_system
from msshift_bench.runs import FOR_ALL, find_run_sets, sidecar_path
from tests.conftest import REPOSITORY, Build, MakeOnce
from tests.support.command_line import run_msshift
from tests.support.fabricated import write_run, write_runs, write_system
from tests.support.watching import watching

# ---- folders, sidecars and runs -----------------------------------------------------------------

_EXTRA = {"x1": "d1", "x2": "d2"}
"""The queries of the extra test set, each with its relevant passage."""


def _write_world(folder: Path, data: Path) -> None:
    """Write run sets with sidecars, a test set, variants, a submission, and hostile runs."""
    rows = [row for part in open_dataset(data).test_sets("length").values() for row in part]
    runs = folder / "runs"
    for shift in ("length", "wh-words"):
        write_runs(runs / "dense", data, shift, seeds=(1, 2))
        write_runs(runs / "late", data, shift)
        write_runs(runs / "bm25", data, shift, one=True)
    for group, ranking in {"short": ["d1", "d2"], "long": ["d2", "d1"]}.items():
        name = f"length/{group}.run.gz"
        write_run(runs / "late/extra/dl" / name, [(query, ranking) for query in _EXTRA])
        typed = [
            (f"{row.query_id}#typo", [*["x"] * (row.group == group), *row.relevant_doc_ids])
            for row in rows
        ]
        write_run(runs / "late/extra/typed" / name, typed)
    write_run(runs / "late-all/extra/dl/length.run.gz", [("x1", ["d1"]), ("x2", ["d2"])])
    write_runs(runs / "late-all", data, "length", one=True)
    (folder / "dl").mkdir()
    (folder / "dl/queries.tsv").write_text("".join(f"{query}\tnew query\n" for query in _EXTRA))
    (folder / "dl/qrels.tsv").write_text("".join(f"{q} 0 {d} 1\n" for q, d in _EXTRA.items()))
    variants = [Variant(row.query_id, f"{row.text}x", "typo") for row in rows]
    write_variants(folder / "typed.tsv", variants)
    _write_sidecars(runs)
    shutil.copytree(runs / "dense/length/seed-1", folder / "kept/kept/length")
    for group in ("short", "long"):
        (folder / f"kept/kept/length/{group}.model").mkdir()
    write_system(folder / "system.toml", length="msshift", wh_words="msshift")
    submit_system(runs / "late", folder / "system.toml", folder / "submission", data)
    lines = gzip.decompress((runs / "bm25/length.run.gz").read_bytes()).decode().splitlines()
    # The first query goes on at the end.
    (folder / "interleaved.run").write_text("\n".join([*lines[1:], lines[0], ""]))
    # The same ranking, but for ties at its end.
    tied = [line.replace(" 12 88 ", " 12 87 ") for line in lines]
    (folder / "tied.run").write_text("\n".join([*tied, ""]))


def _write_sidecars(runs: Path) -> None:
    folders = [runs, *(path for path in runs.glob("*/extra/*"))]
    for run_set in find_run_sets(folders):
        for (group, _), run in run_set.runs.items():
            held_out = None if group == FOR_ALL else group
            facts = {"shift": run_set.shift.name, "held_out": held_out}
            sidecar_path(run).write_text(json.dumps(facts))


@pytest.fixture(scope="module")
def world(build_once: Build, make_once: MakeOnce) -> Path:
    data = build_once("mini", "length", "wh-words")

    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "msshift").symlink_to(data)
        _write_world(folder, data)

    return make_once("one-way-in", write)


_RUN = "runs/dense/length/seed-1/short.run.gz"
_BM25 = "runs/bm25/length.run.gz"
_OUT = "--output {out}/figures.json"
COMMANDS: Mapping[str, str] = {
    "score": f"score {_RUN} {_BM25} --test length-short {_OUT}",
    "score --reference": f"score {_RUN} --test length-short --reference {_BM25}",
    "score --shift": f"score {_BM25} --shift length {_OUT}",
    "score of ir_measures": f"score {_BM25} --test length-short --measures SetF",
    "score --check": f"score {_RUN} --test length-short --check",
    "score interleaved": "score interleaved.run --test length-short",
    "score tied": f"score {_BM25} tied.run --test length-short",
    "evaluate": f"evaluate runs {_OUT} --per-query {{out}}/scores.parquet",
    "evaluate --by": f"evaluate runs --by length {_OUT}",
    "evaluate --shift": "evaluate runs/dense runs/late --shift length --delta",
    "evaluate --extra-test": f"evaluate runs --extra-test dl=dl --allow leaked {_OUT}",
    "evaluate variants": f"evaluate runs --extra-test typed=typed.tsv {_OUT}",
    "compare": f"compare runs {_OUT}",
    "compare --reference NAME": f"compare runs --reference bm25 {_OUT}",
    "compare --reference FOLDER": f"compare runs/dense runs/late --reference runs/bm25 {_OUT}",
    "compare --reference AGAIN": f"compare runs --reference ./runs/dense {_OUT}",
    "submit": "submit runs/late --system system.toml --out {out}/submission",
    "leaderboard check": "leaderboard check --entries submission/entries --data msshift "
    "--runs submission/runs",
    "report": "report runs/late --shift length --out {out}/report",
    "analyse": f"analyse runs --shift wh-words {_OUT}",
    "similarity": "similarity --shift length --indicator model-based --models kept",
    "analyse --models": "analyse runs/late --indicator model-based --models runs/late",
}
"""Case -> the words of a command."""

FIRST = ("score", "evaluate --extra-test", "compare --reference FOLDER", "leaderboard check")
"""The cases of the first lane."""

ENDS: Mapping[str, int] = {"similarity": 3, "analyse --models": 3}
"""Commands that end with another code: their models cannot be loaded."""

TWICE = ("score interleaved",)
"""Cases in which a run is decoded twice: its queries are interleaved."""


@pytest.mark.every(4)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[
                *([pytest.mark.neural] if "model-based" in words else []),
                *([pytest.mark.extended] if name not in FIRST else []),
            ],
        )
        for name, words in COMMANDS.items()
    ],
)
def test_nothing_is_read_twice(
    name: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = COMMANDS[name].format(out=tmp_path).split()
    with watching(monkeypatch) as watched:
        done = run_msshift(words, world)
    assert done.returncode == ENDS.get(name, 0), done.stderr
    folders = {str((world / top).resolve()) for top in ("runs", "kept", "submission/runs")}

    def below(counts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        tops = (*folders, str(tmp_path))
        return ((path, n) for path, n in counts.items() if path.startswith(tops))

    listed = {path: n for path, n in below(watched.listed) if ".model" not in path}
    sidecars = {path: n for path, n in below(watched.opened) if path.endswith(".run.json")}
    assert watched.decoded or name in ENDS
    assert sidecars or name == "score interleaved"
    assert listed or name.startswith("score")
    assert not {path: n for path, n in listed.items() if n > 1 and str(tmp_path) not in path}
    # A submission copies the sidecars that it has read.
    assert max(sidecars.values(), default=1) == (2 if name == "submit" else 1)
    assert {*watched.decoded.values()} <= ({2} if name in TWICE else {1})


def test_a_run_of_a_shift_that_the_data_lack_is_named(world: Path, build_once: Build) -> None:
    data = build_once("mini", "length")
    done = run_msshift(["evaluate", "runs", "--data", data], world)
    assert done.returncode == 2
    assert all(name in done.stderr for name in ("wh-words", str(data), "--shift"))
    assert run_msshift(["evaluate", "runs", "--data", data, "--shift", "length"], world)


# ---- sides and losses ---------------------------------------------------------------------------

PRODUCT = [
    path
    for top in ("msshift_bench", "baselines", "leaderboard", "dataset_builders")
    for path in sorted((REPOSITORY / top).resolve().rglob("*.py"))
]
LOSSES = "msshift_bench/stats/estimates.py"
SIDES = "msshift_bench/evaluation/scores.py"
NAMED = {
    "msshift_bench/shifts.py": "defines the rule",
    "msshift_bench/data/dataset.py": "names the config of a group's test queries",
    "msshift_bench/evaluation/tables.py": "marks the cells of a matrix",
    "msshift_bench/evaluation/trained.py": "names the groups that a model did not train on",
    "msshift_bench/report/losses.py": "frames the cells of a matrix",
    "leaderboard/description.py": "counts the test queries that are zero-shot to a model",
    SIDES: "makes the sides",
}
"""Modules that may ask which model did not see a group, and why."""


@functools.cache
def _modules() -> list[tuple[str, ast.Module]]:
    return [
        (str(path.relative_to(REPOSITORY)), ast.parse(path.read_text(encoding="utf-8")))
        for path in dict.fromkeys(PRODUCT)
    ]


def _is_loss(node: ast.AST) -> bool:
    """Whether an expression is (a - b) / a, perhaps times a sign; or x / inside."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
        return False
    loss, level = node.left, ast.unparse(node.right)
    if isinstance(loss, ast.BinOp) and isinstance(loss.op, ast.Mult):
        loss = loss.right
    is_share = (
        isinstance(loss, ast.BinOp)
        and isinstance(loss.op, ast.Sub)
        and not isinstance(loss.right, ast.Constant)
        and ast.unparse(loss.left) == level
    )
    return is_share or level.split(".")[0] in ("inside", "avg_in")


NOT_LOSSES = {"(left - relevant) / left"}
"""Shares of other things: of places that hold no relevant passage."""


def test_one_module_computes_rel_loss() -> None:
    found = {
        f"{name}: {ast.unparse(node)}"
        for name, tree in _modules()
        for node in ast.walk(tree)
        if name != LOSSES and _is_loss(node) and ast.unparse(node) not in NOT_LOSSES
    }
    assert found == set()
    for expression in (
        "sign * (a.value - b.value) / a.value",
        "(a - b) / a",
        "loss / inside.value",
    ):
        assert _is_loss(ast.parse(expression, mode="eval").body)


def test_one_module_makes_the_sides_of_a_shift() -> None:
    asking, making = set(), set()
    for name, tree in _modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "out_model":
                asking.add(name)
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr == "models_by_side":
                making.add(name)
    assert asking <= {*NAMED}
    assert making <= {SIDES, "msshift_bench/evaluation/extra_tests.py"}
