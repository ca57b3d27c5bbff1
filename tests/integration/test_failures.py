"""What the system refuses, and what nobody foresaw: one sentence and an exit code, or a traceback.

Tests may run as root, whom no rights stop. Where a kernel has no refusal that binds everybody, the
call that it would refuse is replaced.
"""

from __future__ import annotations

import errno
import io
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.cli.failures import explain
from msshift_bench.data import dataset, open_collection
from msshift_bench.errors import UsageError
from tests.conftest import Build
from tests.support.command_line import SCRIPT, Done, run_msshift
from tests.support.fabricated import write_runs

TRACEBACK = "Traceback (most recent call last)"


@pytest.fixture(scope="module")
def data(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "msshift").symlink_to(build_once("mini:300", "length"))
    write_runs(folder / "runs" / "dense", folder / "msshift")
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder in which commands run."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


Run = Callable[..., Done]


@pytest.fixture
def run(data: Path, work: Path) -> Run:
    """Return a function that calls a command; DATA, RUNS and RUN are a data set and its runs."""
    places = {
        "RUNS": data / "runs",
        "DATA": data / "msshift",
        "RUN": data / "runs" / "dense" / "length" / "short.run.gz",
    }

    def call(line: str, setup: str = "", **environment: str) -> Done:
        subprocess.run(["bash", "-c", setup], cwd=work, check=True)
        words = [str(places.get(word, word)) for word in shlex.split(line)]
        return run_msshift(words, work, {"HF_HUB_OFFLINE": "1", **environment})

    return call


Shell = Callable[[str], Done]


@pytest.fixture
def shell(data: Path, work: Path) -> Shell:
    """Return a function that runs a line of sh; MSSHIFT is the console script."""

    def call(line: str) -> Done:
        return subprocess.run(
            ["bash", "-c", line.replace("MSSHIFT ", f"{SCRIPT} ")],
            cwd=work,
            env={
                # Under a limit of the size of files, what measures coverage would fail, too.
                **{
                    name: value
                    for name, value in os.environ.items()
                    if not ("ulimit" in line and name.startswith("COVERAGE"))
                },
                "DATA": str(data / "msshift"),
                "RUNS": str(data / "runs"),
                "PYTHONUNBUFFERED": "",
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return call


def check_refused(done: Done, code: int, sentence: str) -> None:
    assert done.returncode == code, done.stderr
    (last,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert done.stderr.splitlines()[-1] == last
    assert sentence in last
    assert TRACEBACK not in done.stderr


BUILD = "build length --collection mini:300"
SIMILARITY = "similarity --data DATA --indicator"
ANALYSE = "analyse --published"
EVALUATE = "evaluate RUNS --data DATA"
REPORT = "report RUNS --data DATA --out"
LONG = "x" * 300
QUERIES = "touch queries.tsv collection.tsv qrels.tsv"


@pytest.mark.parametrize(
    ("setup", "line", "code", "sentence"),
    [
        ("", f"{BUILD} --collection ./{LONG}", 2, "characters): the name is too long"),
        ("", f"{EVALUATE} --data /proc/self/mem", 2, "/proc/self/mem/manifest.json: a part"),
        ("", "score /proc/self/mem --test length-short --data DATA", 3, "/mem: Input/output error"),
        ("", "build --out d\udce9", 2, r"'d\udce9': the name is not UTF-8"),
        ("", r"verify '~nobody-of-this-name/msshift'", 3, "; set HOME, or write the path"),
        ("mkdir -p d/manifest.json", "verify d", 2, "d/manifest.json: this is a folder; give a"),
        ("ln -s loop loop", "verify loop", 2, "loop/manifest.json: its symbolic links form a loop"),
        ("touch f", f"{REPORT} f", 2, "f is a file; give the name of a folder"),
        ("touch f", f"{REPORT} f/r", 2, "f/r: "),
        ("mkdir d; touch d/f", f"{REPORT} d", 2, "d contains files but no report"),
        ("ln -s /dev/full x.csv", f"{ANALYSE} --output x.csv", 2, "x.csv is a pipe"),
        ("mkdir d.json", f"{SIMILARITY} unseen-words --output d.json", 2, "d.json is a folder"),
        ("", f"{SIMILARITY} mean-cosine --encoder some/model", 3, "no encoder 'some/model'"),
        ("mkdir d", f"{ANALYSE} --train d --test d", 2, "d is a folder; give a file"),
    ],
)
def test_refusals_are_one_sentence(
    run: Run, setup: str, line: str, code: int, sentence: str
) -> None:
    check_refused(run(line, setup), code, sentence)


FULL = "stdout: No space left on device; free disk space"


def extended(*rows: tuple[Any, ...]) -> list[Any]:
    """Return rows of a table for the second lane: each starts a process."""
    return [pytest.param(*row, marks=pytest.mark.extended) for row in rows]


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("MSSHIFT list --format json >/dev/full", 3, FULL),
        ("MSSHIFT list >&-", 3, "stdout is closed, and results go there; add >/dev/null"),
        *extended(
            ("MSSHIFT list >/dev/full", 3, FULL),
            ("MSSHIFT --help >/dev/full", 3, FULL),
            ("PYTHONUNBUFFERED=1 MSSHIFT list --format json >/dev/full", 3, FULL),
            (
                'MSSHIFT score - --test length-short --data "$DATA" <&-',
                3,
                "a run was to be read from stdin, which is closed; give a file",
            ),
            (
                'ulimit -f 1; MSSHIFT evaluate "$RUNS" --data "$DATA" --per-query x.parquet',
                3,
                "x.parquet: File too large; raise ",
            ),
            (
                rf"mkdir $'d\xe9'; cd $'d\xe9'; {QUERIES}; MSSHIFT build length --collection .",
                2,
                r"'d\udce9': the name is not UTF-8, and reports cannot hold it; rename it",
            ),
        ),
    ],
)
def test_refusals_of_streams_are_one_sentence(
    shell: Shell, line: str, code: int, sentence: str
) -> None:
    check_refused(shell(line), code, sentence)


UNREAD = "exec 3> >(true); wait $!"
"""Makes 3 a pipe whose reader has ended."""


@pytest.mark.parametrize(
    "line",
    [
        "MSSHIFT list --format json",
        *extended(("MSSHIFT list",), ("MSSHIFT --help",), ("MSSHIFT verify no 2>&3",)),
    ],
)
def test_a_pipe_without_a_reader_ends_the_command_silently(shell: Shell, line: str) -> None:
    done = shell(f"{UNREAD}; {line} >&3")
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.extended
@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("analyse --published --output x.json", "x.json"),
        *extended(
            (
                'evaluate "$RUNS" --data "$DATA" --plot losses.svg --output report.json '
                "--per-query scores.parquet",
                "losses.svg report.json scores.parquet",
            ),
            ("analyse --published --format json --output x.json", "x.json"),
            (
                'score "$RUNS/dense/length/short.run.gz" --test length-short --format json '
                '--reference "$RUNS/dense/length/long.run.gz" --data "$DATA" --output x.json',
                "x.json",
            ),
            ('similarity --data "$DATA" --indicator unseen-words --output x.json', "x.json"),
        ),
    ],
)
def test_files_are_written_though_nobody_reads_the_tables(
    shell: Shell, work: Path, line: str, names: str
) -> None:
    done = shell(f"{UNREAD}; exec >&3; MSSHIFT {line}")
    assert done.returncode == 3
    written = sorted(work.iterdir())
    assert [path.name for path in written] == names.split()
    assert all(path.stat().st_size for path in written)


@pytest.mark.extended
def test_messages_for_a_closed_stderr_do_not_get_into_the_results(shell: Shell) -> None:
    done = shell(f"MSSHIFT {BUILD} --format json 2>&-")
    assert (done.returncode, done.stdout[:1], done.stdout[-2:]) == (0, "{", "}\n")


def refuse(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, number: int, about: str
) -> None:
    """Have a function of the system refuse paths with an ending."""
    function = getattr(module, name)

    def refused(*arguments: Any, **options: Any) -> Any:
        if any(str(one).endswith(about) for one in arguments):
            raise OSError(number, os.strerror(number), *map(str, arguments[:1]))
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, refused)


@pytest.mark.parametrize(
    ("function", "number", "about", "line", "sentence"),
    [
        ((os, "open"), errno.EACCES, ".r.json.partial", f"{EVALUATE} --output r.json", "r.json: "),
        ((os, "open"), errno.EACCES, ".a.json.partial", f"{ANALYSE} --output a.json", "a.json: "),
        ((os, "mkdir"), errno.EROFS, ".r.partial", f"{REPORT} r", "error: r: "),
        ((os, "mkdir"), errno.EROFS, ".msshift.partial", BUILD, "error: msshift: "),
        ((io, "open"), errno.EACCES, "manifest.json", EVALUATE, "/msshift/manifest.json: "),
    ],
    ids=["output", "analysis", "report", "out", "manifest"],
)
def test_refusals_that_do_not_bind_root(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    function: tuple[Any, str],
    number: int,
    about: str,
    line: str,
    sentence: str,
) -> None:
    refuse(monkeypatch, *function, number, about)
    advice = "Permission denied; get permission for it, or choose another folder"
    if number == errno.EROFS:
        advice = "Read-only file system; choose another folder"
    check_refused(run(line), 3, f"{sentence}{advice}")


# Where there is a network, one that leads nowhere: the proxies are a port that nobody listens to.
NO_NETWORK = {
    **dict.fromkeys(("https_proxy", "http_proxy"), "http://127.0.0.1:9"),
    "no_proxy": "",
    "IR_DATASETS_DL_TRIES": "1",
}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        # The second one has two sources; what ir_datasets raises then is another error.
        ("build length --collection msmarco-passage/train", "ir_datasets could not download"),
        ("build length --collection vaswani", "ir_datasets could not download the queries of vas"),
        ("irds --data DATA export vaswani queries", "ir_datasets could not get a file: "),
    ],
)
def test_without_a_network_ir_datasets_gets_nothing(
    run: Run, tmp_path: Path, line: str, what: str
) -> None:
    done = run(line, **NO_NETWORK, IR_DATASETS_HOME=str(tmp_path / "irds"))
    check_refused(done, 3, f"error: {what}")
    assert "Connection refused" in done.stderr


def test_a_debugger_gets_the_traceback_too(run: Run) -> None:
    assert "MSSHIFT_DEBUG=1" in run("--help").stdout
    for debug, shown in (("1", True), ("0", False), ("", False)):
        done = run(f"{EVALUATE} --data nowhere", MSSHIFT_DEBUG=debug)
        assert done.returncode == 3
        assert (TRACEBACK in done.stderr) is shown
        assert done.stderr.splitlines()[-1].startswith("error: no built data set at nowhere")


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def test_no_memory_is_one_sentence_and_a_bug_keeps_its_traceback(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = MemoryError("Unable to allocate 7 TiB")
    monkeypatch.setattr(dataset, "read_manifest", failing(error))
    check_refused(run(EVALUATE), 3, f"not enough memory: {error}")
    monkeypatch.setattr(dataset, "read_manifest", failing(KeyError("a bug")))
    with pytest.raises(KeyError, match="a bug"):
        run(EVALUATE)


NO_ROOM = "No space left on device; free disk space and run the command again"


def caused(cause: Exception) -> Exception:
    """Return an error of a library with another behind it."""
    error = RuntimeError("generation failed")
    error.__cause__ = cause
    return error


def unencodable(text: str, encoding: str) -> UnicodeEncodeError:
    with pytest.raises(UnicodeEncodeError) as caught:
        text.encode(encoding)
    return caught.value


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (RuntimeError("Error in faiss: write error: No space left on device"), (NO_ROOM, 3)),
        (ValueError("serializing: I/O error: No space left on device (os error 28)"), (NO_ROOM, 3)),
        (
            ValueError("I/O error: File too large (os error 27)"),
            ("File too large; raise the limit (ulimit -f), or write to another file system", 3),
        ),
        (
            caused(OSError(errno.EROFS, "Read-only file system", "/data")),
            ("/data: Read-only file system; choose another folder", 3),
        ),
        (MemoryError(), ("not enough memory", 3)),
        (BrokenPipeError(), ("", 3)),
        (RuntimeError("something else"), None),
        (UsageError("of ours"), ("of ours", 2)),
        (
            unencodable("na\u00efve", "ascii"),
            (
                r"'\xef' cannot be written in ascii, the encoding of the environment; "
                "set PYTHONUTF8=1",
                2,
            ),
        ),
        (
            unencodable("d\udce9", "utf-8"),
            (r"'d\udce9': the name is not UTF-8, and reports cannot hold it; rename it", 2),
        ),
    ],
)
def test_the_sentence_and_the_exit_code_of_an_error(
    error: Exception, found: tuple[str, int] | None
) -> None:
    assert explain(error) == found


@pytest.mark.neural
def test_a_gpu_s_memory_is_memory() -> None:
    import torch

    found = explain(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 TiB\nand more"))
    message = "not enough memory: CUDA out of memory. Tried to allocate 7 TiB"
    assert found == (message, 3)


@pytest.fixture
def _nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a bug of every command that begins its work before it has tried where to write."""
    computing = failing(AssertionError("something was computed or read"))
    generated = type(open_collection("mini:300"))
    monkeypatch.setattr(generated, "passages", computing)
    monkeypatch.setattr(generated, "queries", property(computing))
    monkeypatch.setattr(dataset.Dataset, "rows", computing)


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        (f"{EVALUATE} --output /proc/x.csv", 3, "/proc/x.csv: No such file or directory; correct"),
        (f"{EVALUATE} --per-query DATA", 2, "/msshift is a folder; give the name of a file"),
        (f"{EVALUATE} --per-query {LONG}", 2, "(300 characters): the name is too long"),
        (f"score RUN --test length-short --data DATA --output {LONG}.json", 2, "(305 characters)"),
        ("compare RUNS --data DATA --output /proc/x.json", 3, "/proc/x.json: No such file"),
        (f"{BUILD} --out /proc/x", 3, "/proc/x: No such file or directory; correct the path"),
        (f"{BUILD} --out RUN", 2, "short.run.gz is a file; give the name of a folder"),
        (f"{BUILD} --out RUN/x", 2, "/x: a part of this path is a file"),
        (f"{BUILD} --out {LONG}", 2, "(300 characters): the name is too long"),
        (f"{BUILD} --out new/{LONG}", 2, "(304 characters): the name is too long"),
        ("demo --collection mini:300 --out /proc/x", 3, "/proc/x/msshift: No such file"),
        ("run bm25 --data DATA --out /proc/x", 3, "/proc/x: No such file"),
        ("export x /proc/x --data DATA", 3, "/proc/x: No such file"),
        ("submit RUNS/dense --system m --data DATA --out /proc/x", 3, "/proc/x: No such file"),
        ("leaderboard build --out /proc/x", 3, "/proc/x: No such file"),
    ],
)
@pytest.mark.usefixtures("_nothing_is_computed")
def test_targets_are_tried_before_anything_is_computed(
    run: Run, data: Path, work: Path, line: str, code: int, sentence: str
) -> None:
    before = sorted(data.rglob("*"))
    place = data / "runs"
    line = line.replace("RUN/x", f"{place}/dense/length/short.run.gz/x")
    check_refused(run(line.replace("RUNS/dense", f"{place}/dense")), code, sentence)
    assert (sorted(data.rglob("*")), list(work.iterdir())) == (before, [])


@pytest.fixture(scope="module")
def ids(build_once: Build) -> Path:
    return build_once("mini:300", "length", texts=False)


@pytest.mark.parametrize("command", ["triples", "import"])
@pytest.mark.usefixtures("_nothing_is_computed")
def test_a_data_set_s_place_is_tried_before_it_is_made_again(
    run: Run, work: Path, ids: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (work / "msshift").symlink_to(ids)
    refuse(monkeypatch, os, "mkdir", errno.EROFS, ".msshift.partial")
    check_refused(run(f"{command} msshift"), 3, "msshift: Read-only file system; choose another")
