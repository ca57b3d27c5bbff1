"""The parts of a release: pinned actions, a smoke test of every command, licences, facts."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
import zipfile
from email.message import Message
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any, cast

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.releasing import dependencies, facts, smoke
from scripts.releasing.__main__ import CHEAP
from tests.conftest import REPOSITORY
from tests.support.commands import COMMANDS

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))


def test_every_action_is_pinned_by_its_complete_hash() -> None:
    pins: dict[str, set[str]] = {}
    for file in WORKFLOWS:
        for line in re.findall(r"uses: (.*)", file.read_text("utf-8")):
            pinned = re.fullmatch(r"([\w-]+/[\w-]+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+", line)
            assert pinned, f"{file.name}: {line}"
            pins.setdefault(pinned[1], set()).add(pinned[2])
    assert len(pins) >= 5
    assert {len(hashes) for hashes in pins.values()} == {1}


def test_only_publishing_may_write_and_only_with_the_identity_of_the_workflow() -> None:
    for file in WORKFLOWS:
        text = file.read_text("utf-8")
        assert re.search(r"^permissions:\n  contents: read\n", text, re.MULTILINE), file.name
        assert set(re.findall(r"([\w-]+): write", text)) <= {"id-token", "pages"}, file.name
        assert "secrets." not in text
    published = (REPOSITORY / ".github" / "workflows" / "release.yml").read_text("utf-8")
    assert "attestations: true" in published
    assert "password" not in published.partition("on:")[2]


def test_the_smoke_test_runs_every_command() -> None:
    lines = [line for line, _ in smoke.COMMANDS]
    for words in COMMANDS:
        called = f"{' '.join(words)} "
        assert any(f"{line} ".startswith(called) for line in lines), f"add: msshift {called}"
    needs = {need.partition(" ")[0] for _, need in smoke.COMMANDS if need}
    assert needs <= set(smoke.MODULES)


def test_the_smoke_test_knows_an_extra_by_a_module_that_it_installs() -> None:
    brought = packages_distributions()
    for extra, module in smoke.MODULES.items():
        said = (Requirement(line) for line in requires("msshift-bench") or ())
        of_extra = {
            canonicalize_name(one.name)
            for one in said
            if one.marker and one.marker.evaluate({"extra": extra})
        }
        assert of_extra & {canonicalize_name(one) for one in brought[module]}, (extra, module)


def test_the_extras_that_a_release_is_tried_with_exist() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert {*CHEAP.split(","), "neural"} <= project["optional-dependencies"].keys()


def test_the_readme_has_links_that_work_on_a_page_of_the_package() -> None:
    text = (REPOSITORY / "README.md").read_text("utf-8")
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    names = listed.stdout.split("\0")
    mended = facts.mend_links(text, names, "https://example.org/x/", "v1.2.3")
    assert len(re.findall(r"\]\(https://example.org/x/(?:blob|raw)/v1\.2\.3/", mended)) > 12
    assert not re.search(r"\]\((?!https?:|mailto:|#)", re.sub(r"(?ms)^```.*?^```$", "", mended))
    assert "(https://example.org/x/blob/v1.2.3/docs/data.md)" in mended
    assert "(https://example.org/x/raw/v1.2.3/docs/demo.svg)" in mended
    kept = "[a](https://a.org) [b](#part)\n```\n[f](docs/g.md)\n```\n# Part"
    assert facts.mend_links(f"[z](z)\n{kept}", ["z"], "u", "v") == f"[z](u/blob/v/z)\n{kept}"
    with pytest.raises(ValueError, match=r"links to docs/no\.md#x, which is not in"):
        facts.mend_links("[a\nb](docs/no.md#x)", names, "https://example.org", "v1")


@pytest.mark.parametrize(
    ("code", "said", "missing", "complaint"),
    [
        (0, "", "", ""),
        (3, "error: no file", "", "exit code 3"),
        (3, "error: it needs the 'x' extra; run: pip install -e '.[x]'", "x", ""),
        (0, "", "x", "exit code 0 without"),
        (3, "error: no module named x", "x", "no line that installs"),
        (1, "Traceback (most recent call last)", "", "Traceback"),
    ],
)
def test_the_complaints_of_the_smoke_test(
    code: int, said: str, missing: str, complaint: str
) -> None:
    done = subprocess.CompletedProcess(["msshift"], code, "", said)
    assert smoke._complaint(done, missing).startswith(complaint)
    assert bool(smoke._complaint(done, missing)) == bool(complaint)


class Stated:
    """A distribution with a licence."""

    version = "1.0"

    def __init__(self, name: str, *fields: tuple[str, str]) -> None:
        self.metadata = Message()
        for field, value in (("Name", name), *fields):
            self.metadata[field] = value


def test_licences_that_bind_others_are_found() -> None:
    known = [
        Stated("a", ("License-Expression", "MIT OR GPL-3.0-only")),
        Stated("b", ("Classifier", "License :: OSI Approved :: BSD License")),
        Stated("c", ("License", "LGPL-2.1")),
        Stated("d", ("License-Expression", "GPL-3.0-only")),
        Stated("e"),
        Stated("f", ("Classifier", "License :: OSI Approved :: GNU Affero General Public License")),
    ]
    wrong = dependencies.refused(cast("list[Any]", known))
    assert [line.partition(" ")[0] for line in wrong] == ["d", "e", "f"]
    assert wrong[1] == "e 1.0: not stated"
    needed = {one.metadata["Name"] for one in dependencies.dependencies(extras=())}
    assert {"numpy", "pyarrow", "typer", "Pygments"} <= needed
    assert "torch" not in needed


@pytest.mark.parametrize(
    ("licence", "weak", "printed", "code"),
    [
        ("MIT", 0, "", 0),
        ("MIT", 1, "a 1.0 X-1", 1),
        ("MIT", 1, "", 0),  # Offline.
        ("AGPL", 0, "", 1),
    ],
)
def test_a_refused_licence_or_a_known_weakness_ends_the_check(
    monkeypatch: pytest.MonkeyPatch, licence: str, weak: int, printed: str, code: int
) -> None:
    asked: list[str] = []

    def run(*_: object, **options: Any) -> subprocess.CompletedProcess[str]:
        asked.append(options["input"])
        return subprocess.CompletedProcess([], weak, printed)

    monkeypatch.setattr(dependencies, "dependencies", lambda: [Stated("a", ("License", licence))])
    monkeypatch.setattr(dependencies.subprocess, "run", run)
    assert dependencies.main() == code
    assert asked == (["a==1.0\n"] if licence == "MIT" else [])


def test_what_is_to_be_filled_in_before_a_release_is_named(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "msshift_bench/_version.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("*")
    assert {line.split()[0] for line in facts.missing_facts(tmp_path)} == {
        "pyproject.toml",
        "CITATION.cff",
        "CHANGELOG.md",
    }
    changes = {
        "pyproject.toml": ("[project.urls]", '[project.urls]\nRepository = "https://example.org"'),
        "CHANGELOG.md": ("## 0.1.0 - unreleased", "## 0.1.0 - 2026-12-01"),
    }
    for name, (old, new) in changes.items():
        text = (tmp_path / name).read_text("utf-8")
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new), "utf-8")
    citation = (tmp_path / "CITATION.cff").read_text("utf-8")
    filled_in = re.sub(r"^# (repository-code|date-released|doi): .*", r"\1: x", citation, flags=8)
    (tmp_path / "CITATION.cff").write_text(filled_in, "utf-8")
    assert facts.missing_facts(tmp_path) == []


def test_a_wheel_that_lacks_something_is_found(tmp_path: Path) -> None:
    wheel = tmp_path / "msshift_bench-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("msshift_bench-0.1.0.dist-info/licenses/LICENSE", "")
        archive.writestr("msshift_bench/notes.txt", "")
    wrong = facts.files_of_wheel(wheel, REPOSITORY)
    assert "msshift_bench-0.1.0.dist-info/licenses/NOTICE is not in the wheel" in wrong
    assert "msshift_bench/leaderboard/boards.toml is not in the wheel" in wrong
    assert wrong[-1] == "msshift_bench/notes.txt should not be in the wheel"
    assert "msshift_bench-0.1.0.dist-info/licenses/LICENSE is not in the wheel" not in wrong
