"""Systems of other packages: the page's own example, and packages that cannot be used."""

from __future__ import annotations

import ast
import gzip
import logging
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from msshift_bench.baselines import Run, System, open_system
from msshift_bench.baselines.systems import finding
from msshift_bench.baselines.systems.finding import find_systems, our_systems
from msshift_bench.errors import UnknownNameError, UsageError
from tests.conftest import REPOSITORY, Command
from tests.support.command_line import SCRIPT, run_script
from tests.support.making import make_runs
from tests.support.run_files import sidecar

STRICT = """
[mypy]
strict = True
warn_unreachable = True
follow_imports = skip
[mypy-msshift_bench.*,numpy.*,pydantic.*]
follow_imports = silent
[mypy-matplotlib.*,pandas.*]
follow_imports_for_stubs = True
"""
"""The rules of the package, with the types of what a class is made of, and none of torch's."""


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


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder whose packages are installed."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    before = set(sys.modules)
    find_systems.cache_clear()
    yield tmp_path / "site"
    find_systems.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith(("my_package", "more")):
            del sys.modules[name]


def section(title: str) -> list[str]:
    """Return the blocks of code below a title of the page."""
    page = (REPOSITORY / "docs" / "baselines.md").read_text(encoding="utf-8")
    text = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"```\w+\n(.*?)```", text, re.DOTALL)


def test_the_page_adds_a_system(data: Path, site: Path, tmp_path: Path, msshift: Command) -> None:
    project, module, commands = section("Add a system")
    assert list(install(site, project, module)) == ["first"]
    _, *commands_to_run = map(shlex.split, commands.splitlines())
    for command, name, doc_id in zip(commands_to_run, ("first", "other"), "79", strict=True):
        done = msshift(*command[1:], "--data", data)
        assert (done.returncode, done.stdout) == (0, f"runs/{name}/length.run.gz\n"), done.stderr
        run = tmp_path / "runs" / name / "length.run.gz"
        lines = gzip.decompress(run.read_bytes()).decode().splitlines()
        assert {line.split(" ", 1)[1] for line in lines} == {f"Q0 {doc_id} 1 1.0 {name}"}
        assert sidecar(run)["parameters"] == {"doc_id": doc_id}
    done = msshift(*command[1:3], "--set", "docid=9", "--data", data)
    assert done.returncode == 2
    assert "unknown field of first 'docid': did you mean 'doc_id'? valid are doc_id" in done.stderr


@pytest.mark.extended
@pytest.mark.neural
def test_the_page_s_retriever_is_short_and_typed_and_trains(data: Path, tmp_path: Path) -> None:
    module, commands = section("Add a retriever that is trained")[:2]
    nodes = [node for node in ast.walk(ast.parse(module)) if isinstance(node, ast.stmt)]
    documented = [
        node
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    assert len(nodes) - len(documented) <= 60

    file = tmp_path / "my_package" / "triplet.py"
    file.parent.mkdir()
    (file.parent / "__init__.py").touch()
    file.write_text(module)
    settings = tmp_path / "mypy.ini"
    settings.write_text(STRICT)
    check = [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", os.devnull]
    typed = subprocess.run(
        [*check, file],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert typed.returncode == 0, typed.stdout

    _, run = commands.splitlines()
    change = "sed -i -E '1i margin = 0.3\n/^(pooling|normalize|loss_scale)/d' triplet.toml"
    steps = "--set steps=2 --set checkpoint_every=2 --set warmup_steps=0"
    script = commands.replace(run, f"{change}\n{run} {steps} --data {data}")
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=tmp_path, env={**os.environ, "PATH": f"{SCRIPT.parent}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "runs/triplet/length/short.run.gz\n"
    said = sidecar(tmp_path / "runs" / "triplet" / "length" / "short.run.gz")
    assert (said["parameters"]["margin"], said["training"]["steps"]) == (0.3, 2)


class First(System):
    """Ranks one passage first for every query."""

    name = "first"

    def rank(self, run: Run) -> Iterator[tuple[str, dict[str, float]]]:
        for row in run.queries:
            yield row.query_id, {"7": 1.0}


class Other(First):
    """Ranks one passage first, too."""

    name = "other"


class Unready(System):
    """Lacks what ranks."""

    name = "unready"


class Nameless(System):
    """Lacks a name."""

    def rank(self, run: Run) -> Iterator[tuple[str, dict[str, float]]]:
        yield from ()


class Trained(System):
    """Ranks what a group's triples name most often: it is given them without asking."""

    name = "trained"
    per_group = True

    def rank(self, run: Run) -> Iterator[tuple[str, dict[str, float]]]:
        assert run.triples is not None
        relevant = Counter(triple.positive_id for triple in run.triples.load())
        assert {triple.query_id for triple in run.triples.load()} <= {
            row.query_id for row in run.train
        }
        for row in run.queries:
            yield row.query_id, {doc_id: float(n) for doc_id, n in relevant.most_common(3)}


def test_a_class_of_one_s_own_gets_its_group_s_triples(with_triples: Path, tmp_path: Path) -> None:
    runs = make_runs(f"{__name__}:Trained", data=with_triples, out=tmp_path / "runs")
    assert [run.name for run in runs] == ["short.run.gz", "long.run.gz"]
    assert runs[0].read_bytes() != runs[1].read_bytes()
    assert sidecar(runs[0])["released_triples"]["config"] == "length-short-triples"


@pytest.mark.extended
def test_a_module_that_ends_the_program_has_the_last_word(
    data: Path, script: Command, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("raise SystemExit('no licence for this model')\n")
    done = script("run", "mine:First", "--data", data)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no licence for this model\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("no_such_module:First", "cannot be used as a system: No module named"),
        (f"{__name__}:Frist", "cannot be used as a system: module .* has no attribute 'Frist'"),
        (f"{__name__}:STRICT", "must be a subclass of System, got "),
        (f"{__name__}:Unready", "its class Unready must define rank in its body"),
    ],
)
def test_what_cannot_be_a_system(place: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        open_system(place)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Return the list of entry points that are said to be installed."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(finding, "entry_points", lambda group: points)
    find_systems.cache_clear()
    yield points
    find_systems.cache_clear()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("first", f"{__name__}:STRICT", "must be a subclass of System, got "),
        ("second", f"{__name__}:First", "its class has the name 'first'; both must be equal"),
        ("bm25", f"{__name__}:First", "its class has the name 'first'; both must be equal"),
        ("unready", f"{__name__}:Unready", "its class Unready must define rank in its body"),
        ("unready", f"{__name__}:Nameless", "its class Nameless must define name in its body"),
        ("gone", "no_such_package.systems:Gone", 'ModuleNotFoundError("No module named'),
        ("gone", f"{__name__}:Gone", "AttributeError("),
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
    installed.append(EntryPoint(name, value, finding.ENTRY_POINTS))
    installed.append(EntryPoint("other", f"{__name__}:Other", finding.ENTRY_POINTS))
    request = {"data": data, "out": tmp_path}
    with pytest.raises(UnknownNameError, match=r"unknown system 'third'.* valid are bm25"):
        make_runs("third", **request)
    assert list(find_systems()) == [*our_systems(), "other"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"the system {name} is omitted: the entry point {name}")
    assert reason in record.getMessage()


def test_a_name_that_is_taken_is_left_out(
    installed: list[EntryPoint], caplog: pytest.LogCaptureFixture
) -> None:
    installed += [EntryPoint("first", f"{__name__}:First", finding.ENTRY_POINTS)] * 2
    assert list(find_systems()) == [*our_systems(), "first"]
    assert caplog.messages[0].endswith("another system has this name; choose another name")


MORE = (
    '[project]\nname = "more"\nversion = "1"\n'
    '[project.entry-points."msshift_bench.baselines"]\n'
    'gone = "more.systems:Gone"\nsecond = "more.systems:Second"\n'
)
SECOND = """
from msshift_bench.baselines import System
class Second(System):
    '''Ranks second.'''
    name = "second"
    def rank(self, run):
        yield from ()
"""


def test_the_list_shows_systems_of_other_packages(
    site: Path, msshift: Command, caplog: pytest.LogCaptureFixture
) -> None:
    install(site, MORE, SECOND)
    assert "second       Ranks second" in msshift("list").stdout
    (message,) = caplog.messages
    assert message.startswith("the system gone is omitted: the entry point gone = 'more.")


@pytest.mark.extended
def test_an_installed_package_adds_a_system_to_the_console_script(tmp_path: Path) -> None:
    install(tmp_path / "site", MORE, SECOND)
    done = run_script(["list"], tmp_path, {"PYTHONPATH": str(tmp_path / "site")})
    assert "second       Ranks second" in done.stdout
    assert done.stderr.startswith("the system gone is omitted: the entry point gone = 'more.")
