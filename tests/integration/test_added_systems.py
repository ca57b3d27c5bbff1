"""Systems of other packages: the page's own example, and packages that cannot be used."""

from __future__ import annotations

import gzip
import logging
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from msshift_bench.baselines import registry
from msshift_bench.baselines.driver import run_baseline
from msshift_bench.baselines.registry import BASELINES, Baseline, find_baselines
from msshift_bench.baselines.system import System, Task
from msshift_bench.errors import UnknownNameError
from tests.conftest import REPOSITORY, Build
from tests.support.forking import run_forked
from tests.support.run_files import sidecar

COLLECTION = "mini:300"

INSTALLED = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from msshift_bench.cli import main
main()
"""


@pytest.fixture(scope="session")
def data(build_once: Build) -> Path:
    return build_once(COLLECTION, "length")


def install(folder: Path, project: str, module: str) -> dict[str, str]:
    """Write a package and the metadata that pip writes; return its entry points."""
    declared = tomllib.loads(project)["project"]
    (group,) = declared["entry-points"]
    points: dict[str, str] = declared["entry-points"][group]
    package = folder / next(iter(points.values())).partition(".")[0]
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "systems.py").write_text(module)
    metadata = folder / f"{package.name}-{declared['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {declared['name']}\nVersion: 1\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
    return points


def test_what_the_page_says_adds_a_system(data: Path, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "baselines.md").read_text(encoding="utf-8")
    _, _, section = page.partition("## Add a system\n")
    project, module, commands = re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)
    assert list(install(tmp_path / "site", project, module)) == ["first"]
    _, command = map(shlex.split, commands.splitlines())
    arguments = ["msshift", str(tmp_path / "site"), *command[1:], "--data", str(data)]
    done = run_forked(INSTALLED, arguments, tmp_path, os.environ)
    assert (done.returncode, done.stdout) == (0, "runs/first/length.run.gz\n"), done.stderr
    run = tmp_path / "runs" / "first" / "length.run.gz"
    lines = gzip.decompress(run.read_bytes()).decode().splitlines()
    assert {line.split(" ", 1)[1] for line in lines} == {"Q0 7 1 1.0 first"}
    assert sidecar(run)["parameters"] == {"doc_id": "7"}


class _First(System):
    """Ranks one passage first for every query."""

    name = "first"
    per_group = False
    tag = "first"
    parameters: Mapping[str, object] = {}

    def rankings(self, task: Task) -> Iterator[tuple[str, dict[str, float]]]:
        for row in task.queries:
            yield row.query_id, {"7": 1.0}


class _Unready(System):
    """Sets in `__init__` what its class has to define."""

    name = "unready"
    per_group = False
    tag = "unready"

    def __init__(self) -> None:
        self.parameters = {}


FIRST = Baseline("first", "one passage first", _First, ())
UNREADY = Baseline("unready", "lacks rankings and parameters", _Unready, ())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Return the list of entry points that are said to be installed."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    find_baselines.cache_clear()
    yield points
    find_baselines.cache_clear()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("first", f"{__name__}:COLLECTION", "it must name a Baseline whose name is 'first'"),
        ("second", f"{__name__}:FIRST", "it must name a Baseline whose name is 'second'"),
        ("bm25", "msshift_bench.baselines.registry:_TABLE", "it must name a Baseline whose"),
        ("unready", f"{__name__}:UNREADY", "its class _Unready must define parameters, rankings"),
        ("gone", "no_such_package.systems:GONE", 'ModuleNotFoundError("No module named'),
        ("gone", f"{__name__}:GONE", "AttributeError("),
    ],
)
def test_a_package_that_cannot_be_used_makes_a_warning(
    installed: list[EntryPoint],
    caplog: pytest.LogCaptureFixture,
    data: Path,
    tmp_path: Path,
    name: str,
    value: str,
    reason: str,
) -> None:
    installed.append(EntryPoint(name, value, registry.ENTRY_POINTS))
    installed.append(EntryPoint("other", f"{__name__}:OTHER", registry.ENTRY_POINTS))
    request = {"data": data, "collection": COLLECTION, "out": tmp_path}
    with pytest.raises(UnknownNameError, match=r"unknown system 'third'.* valid are bm25"):
        run_baseline("third", ["length"], **request)
    assert list(find_baselines()) == [*BASELINES, "other"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"the system {name} is left out: the entry point {name}")
    assert f"cannot be used: {reason}" in record.getMessage()


OTHER = Baseline("other", "one passage first", _First, ())


def test_a_name_that_is_taken_is_left_out(
    installed: list[EntryPoint], caplog: pytest.LogCaptureFixture
) -> None:
    installed += [EntryPoint("first", f"{__name__}:FIRST", registry.ENTRY_POINTS)] * 2
    assert list(find_baselines()) == [*BASELINES, "first"]
    assert caplog.messages[0].endswith("cannot be used: another system has this name")


def test_the_list_shows_systems_of_other_packages(tmp_path: Path) -> None:
    install(
        tmp_path / "site",
        '[project]\nname = "more"\nversion = "1"\n'
        '[project.entry-points."msshift_bench.baselines"]\n'
        'gone = "more.systems:GONE"\nsecond = "more.systems:SECOND"\n',
        "from tests.integration.test_added_systems import Baseline, _First\n"
        'SECOND = Baseline("second", "ranks second", _First, ())\n',
    )
    done = run_forked(INSTALLED, ["msshift", str(tmp_path / "site"), "list"], tmp_path, os.environ)
    assert "second       ranks second" in done.stdout
    assert done.stderr.startswith("the system gone is left out: the entry point gone = 'more.")
