"""What the system refuses, and what nobody foresaw: one sentence and an exit code, or a traceback.

Tests may run as root, whom no rights stop. Where a kernel has no refusal that binds everybody, the
call that it would refuse is replaced in the command's own process.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.cli.failures import explain
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import UsageError
from tests.support.fabricated import write_runs
from tests.support.forking import write_msshift

TRACEBACK = "Traceback (most recent call last)"

REFUSE = """
import errno, os
from pathlib import Path
def refuse(function, number, about):
    def refused(*arguments, **options):
        if any(str(one).endswith(about) for one in arguments):
            raise OSError(number, os.strerror(number), *map(str, arguments[:1]))
        return function(*arguments, **options)
    return refused
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    build_dataset(open_collection("mini:300"), ["length"], folder / "msshift")
    write_runs(folder / "runs" / "dense", folder / "msshift")
    return folder


Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def shell(data: Path, tmp_path: Path) -> Shell:
    """Return a function that runs a line of sh in a folder of its own; MSSHIFT is the command."""

    def run(line: str, before: str = "") -> subprocess.CompletedProcess[str]:
        command = write_msshift(tmp_path / "bin", before=before)
        (tmp_path / "work").mkdir(exist_ok=True)
        return subprocess.run(
            ["bash", "-c", line.replace("MSSHIFT ", f"{command} ")],
            cwd=tmp_path / "work",
            env={
                **os.environ,
                "DATA": str(data / "msshift"),
                "RUNS": str(data / "runs"),
                "HF_HUB_OFFLINE": "1",
                "PYTHONUNBUFFERED": "",
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


REPORT = 'MSSHIFT report "$RUNS" --data "$DATA"'
SIMILARITY = 'MSSHIFT similarity --data "$DATA"'
UNSEEN = f"{SIMILARITY} --indicator unseen-words"
EVALUATE = 'MSSHIFT evaluate "$RUNS" --data "$DATA"'
BUILD = "MSSHIFT build length --collection mini:300"
ONE = 'MSSHIFT score {} --test length-short --data "$DATA"'
LONG = "x" * 300
UNREAD = "exec 3> >(true); wait $!"
"""Makes 3 a pipe whose reader has ended."""


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        (f"{BUILD} --collection ./{LONG}", 2, "characters): the name is too long for the file"),
        (f"{EVALUATE} --data /proc/self/mem", 2, "/proc/self/mem/manifest.json: a part of this "),
        (f"{ONE.format('/proc/self/mem')}", 3, "/proc/self/mem: Input/output error"),
        (f"{ONE.format('-')} <&-", 3, "stdin is closed, and a run was to be read from it"),
        (f"ulimit -f 1; {EVALUATE} --per-query x.parquet", 3, "x.parquet: File too large; raise "),
        ("MSSHIFT list >/dev/full", 3, "stdout: No space left on device; make room"),
        ("MSSHIFT list --format json >/dev/full", 3, "stdout: No space left on device; make room"),
        ("MSSHIFT --help >/dev/full", 3, "stdout: No space left on device; make room"),
        ("MSSHIFT list >&-", 3, "stdout is closed, and results go there; to drop them: >/dev/nul"),
        (r"MSSHIFT build --out $'d\xe9'", 2, r"'d\udce9': the name is not UTF-8, and reports "),
        (
            r"mkdir $'d\xe9'; cd $'d\xe9'; touch queries.tsv collection.tsv qrels.tsv; "
            "MSSHIFT build length --collection .",
            2,
            r"'d\udce9': the name is not UTF-8, and reports cannot hold it; rename it",
        ),
        (r"MSSHIFT verify \~nobody-of-this-name/msshift", 3, "; set HOME, or write the path"),
        ("mkdir d; mkdir d/manifest.json; MSSHIFT verify d", 2, "d/manifest.json: it is a folder"),
        ("ln -s loop loop; MSSHIFT verify loop", 2, "loop/manifest.json: its links lead in a "),
        (f"touch f; {REPORT} --out f", 2, "f is not a folder; give the name of a folder to write"),
        (f"touch f; {REPORT} --out f/r", 2, "f/r: "),
        (f"mkdir d; touch d/f; {REPORT} --out d", 2, "d is not a report that was written before"),
        ("ln -s /dev/full x.csv; MSSHIFT analyse --published --output x.csv", 2, "x.csv is a pipe"),
        (f"mkdir d.json; {UNSEEN} --output d.json", 2, "d.json is a folder; give the name of a f"),
        (
            f"{SIMILARITY} --indicator mean-cosine --encoder some/model",
            3,
            "no encoder 'some/model': there is no such folder, and the Hugging Face Hub could not",
        ),
        ("mkdir d; MSSHIFT analyse --published --train d --test d", 2, "d is a folder, not a file"),
    ],
)
def test_refusals_are_one_sentence(shell: Shell, line: str, code: int, sentence: str) -> None:
    check_refused(shell(line), code, sentence)


def test_a_full_stdout_without_a_buffer_is_refused_likewise() -> None:
    # A process of its own: one that is forked keeps the buffer of the process that it is from.
    program = "import sys; from msshift_bench.cli import main; sys.argv[0] = 'msshift'; main()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-u", "-c", program, "list", "--format", "json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    check_refused(done, 3, "stdout: No space left on device; make room")


def check_refused(done: subprocess.CompletedProcess[str], code: int, sentence: str) -> None:
    assert done.returncode == code, done.stderr
    (last,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert done.stderr.splitlines()[-1] == last
    assert sentence in last
    assert TRACEBACK not in done.stderr


@pytest.mark.parametrize(
    ("before", "line", "sentence"),
    [
        (
            "os.open = refuse(os.open, errno.EACCES, '.r.json.partial')",
            f"{EVALUATE} --output r.json",
            "r.json: Permission denied; get the right to it, or choose another place",
        ),
        (
            "os.mkdir = refuse(os.mkdir, errno.EROFS, '.r.partial')",
            f"{REPORT} --out r",
            "error: r: Read-only file system; choose another place",
        ),
        (
            "os.open = refuse(os.open, errno.EACCES, '.a.json.partial')",
            "MSSHIFT analyse --published --output a.json",
            "a.json: Permission denied; get the right to it, or choose another place",
        ),
        (
            "os.mkdir = refuse(os.mkdir, errno.EROFS, '.msshift.partial')",
            BUILD,
            "error: msshift: Read-only file system; choose another place",
        ),
        (
            "import io; io.open = refuse(io.open, errno.EACCES, 'manifest.json')",
            EVALUATE,
            "/msshift/manifest.json: Permission denied; get the right to it",
        ),
        (
            "import msshift_bench.dataset_builders.build as b\n"
            "def build_dataset(*_, **__): raise MemoryError('Unable to allocate 7 TiB')\n"
            "b.build_dataset = build_dataset",
            BUILD,
            "there is not enough memory for this: Unable to allocate 7 TiB",
        ),
    ],
    ids=["output", "report", "analysis", "out", "manifest", "memory"],
)
def test_refusals_that_do_not_bind_root(
    shell: Shell, before: str, line: str, sentence: str
) -> None:
    done = shell(line, REFUSE + before)
    assert done.returncode == 3, done.stderr
    assert sentence in done.stderr.splitlines()[-1]
    assert TRACEBACK not in done.stderr


@pytest.mark.parametrize(
    "line",
    ["MSSHIFT list", "MSSHIFT list --format json", "MSSHIFT --help", "MSSHIFT verify no 2>&3"],
)
def test_a_pipe_that_nobody_reads_is_no_news(shell: Shell, line: str) -> None:
    done = shell(f"{UNREAD}; {line} >&3")
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (
            f"{EVALUATE} --plot losses.svg --output report.json --per-query scores.parquet",
            ["losses.svg", "report.json", "scores.parquet"],
        ),
        ("MSSHIFT analyse --published --output x.json", ["x.json"]),
        ("MSSHIFT analyse --published --format json --output x.json", ["x.json"]),
        (
            'cd "$RUNS/dense/length"; MSSHIFT score short.run.gz --reference long.run.gz --test '
            'length-short --format json --data "$DATA" --output "$OLDPWD/x.json"',
            ["x.json"],
        ),
        (f"{UNSEEN} --output x.json", ["x.json"]),
    ],
)
def test_files_are_written_though_nobody_reads_the_tables(
    shell: Shell, tmp_path: Path, line: str, names: list[str]
) -> None:
    done = shell(f"{UNREAD}; exec >&3; {line}")
    assert done.returncode == 3
    written = sorted((tmp_path / "work").iterdir())
    assert [path.name for path in written] == names
    assert all(path.stat().st_size for path in written)


def test_what_goes_to_a_closed_stderr_does_not_get_into_the_results(shell: Shell) -> None:
    done = shell(f"{BUILD} --format json 2>&-")
    assert (done.returncode, done.stdout[:1], done.stdout[-2:]) == (0, "{", "}\n")


# Where there is a network, one that leads nowhere: the proxies are a port that nobody listens to.
NO_NETWORK = (
    "export IR_DATASETS_HOME=$PWD/irds https_proxy=http://127.0.0.1:9 "
    "http_proxy=http://127.0.0.1:9 no_proxy= IR_DATASETS_DL_TRIES=1; "
)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "MSSHIFT build length --collection msmarco-passage/train",
            "the queries of msmarco-passage/train come from ir_datasets, which did not get them: ",
        ),
        # This one has two sources; what ir_datasets raises then is another error.
        (
            "MSSHIFT build length --collection vaswani",
            "the queries of vaswani come from ir_datasets, which did not get them: ",
        ),
        (
            f"{BUILD} && MSSHIFT irds export vaswani queries",
            "ir_datasets did not get what it needs: ",
        ),
    ],
)
def test_without_a_network_ir_datasets_gets_nothing(shell: Shell, line: str, sentence: str) -> None:
    done = shell(f"{NO_NETWORK} {line}")
    assert done.returncode == 3, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"error: {sentence}")
    assert "Connection refused" in last
    assert TRACEBACK not in done.stderr


def test_a_debugger_gets_the_traceback_too(shell: Shell) -> None:
    assert "MSSHIFT_DEBUG=1" in shell("MSSHIFT --help").stdout
    for debug, shown in (("1", True), ("0", False), ("", False)):
        done = shell(f"MSSHIFT_DEBUG={debug} {EVALUATE} --data nowhere")
        assert done.returncode == 3
        assert (TRACEBACK in done.stderr) is shown
        assert done.stderr.splitlines()[-1].startswith("error: no built data set at nowhere")


def test_a_bug_keeps_its_traceback(shell: Shell) -> None:
    done = shell(EVALUATE, "import msshift_bench.evaluation as e\ndel e.evaluate_run_sets")
    assert done.returncode == 1
    assert TRACEBACK in done.stderr
    assert "error: " not in done.stderr


FULL = "No space left on device; make room and run the command again"


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
        (RuntimeError("Error in faiss: write error: No space left on device"), (FULL, 3)),
        (ValueError("serializing: I/O error: No space left on device (os error 28)"), (FULL, 3)),
        (
            ValueError("I/O error: File too large (os error 27)"),
            ("File too large; raise the limit (ulimit -f), or write elsewhere", 3),
        ),
        (
            caused(OSError(errno.EROFS, "Read-only file system", "/data")),
            ("/data: Read-only file system; choose another place", 3),
        ),
        (MemoryError(), ("there is not enough memory for this", 3)),
        (RuntimeError("something else"), None),
        (UsageError("of ours"), ("of ours", 2)),
        (
            unencodable("na\u00efve", "ascii"),
            (
                r"'\xef' cannot be written in ascii, which the environment asks for; "
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
def test_what_is_said_of_an_error(error: Exception, found: tuple[str, int] | None) -> None:
    assert explain(error) == found


@pytest.mark.neural
def test_a_gpu_s_memory_is_memory() -> None:
    import torch

    found = explain(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 TiB\nand more"))
    message = "there is not enough memory for this: CUDA out of memory. Tried to allocate 7 TiB"
    assert found == (message, 3)


NEVER = """
from pathlib import Path
import msshift_bench.data.collection as collection
import msshift_bench.data.dataset as dataset, msshift_bench.evaluation as evaluation
def computing(*_, **__): raise AssertionError("something was computed or read")
collection._Mini._read = collection._Mini.passages = computing
dataset.Dataset.rows = evaluation.score_runs = computing
"""
"""What makes a bug of every command that begins its work before it has tried where to write."""


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        (
            f"{EVALUATE} --output /proc/x.csv",
            3,
            "/proc/x.csv: No such file or directory; correct the",
        ),
        (f"{EVALUATE} --per-query $DATA", 2, "/msshift is a folder; give the name of a file"),
        (
            f"{EVALUATE} --per-query {LONG}",
            2,
            "(300 characters): the name is too long for the file",
        ),
        (f"{ONE.format('$RUN')} --output {LONG}.json", 2, "(305 characters): the name is too"),
        ('MSSHIFT compare "$RUNS" --data "$DATA" --output /proc/x.json', 3, "x.json: No such file"),
        (f"{BUILD} --out /proc/x", 3, "/proc/x: No such file or directory; correct the name"),
        (f"{BUILD} --out $RUN", 2, "short.run.gz is not a folder; give the name of a folder"),
        (f"{BUILD} --out $RUN/x", 2, "/x: a part of this path is a file, and a folder was"),
        (f"{BUILD} --out {LONG}", 2, "(300 characters): the name is too long for the file system"),
        (f"{BUILD} --out new/{LONG}", 2, "(304 characters): the name is too long for the file"),
        ("MSSHIFT demo --collection mini:300 --out /proc/x", 3, "/proc/x/msshift: No such file"),
        ('MSSHIFT run bm25 --data "$DATA" --out /proc/x', 3, "/proc/x: No such file"),
        ('MSSHIFT export x /proc/x --data "$DATA"', 3, "/proc/x: No such file"),
        (
            'MSSHIFT submit "$RUNS/dense" --system m --data "$DATA" --out /proc/x',
            3,
            "/proc/x: No su",
        ),
        ("MSSHIFT leaderboard build --out /proc/x", 3, "/proc/x: No such file"),
    ],
)
def test_targets_are_tried_before_anything_is_computed(
    shell: Shell, data: Path, tmp_path: Path, line: str, code: int, sentence: str
) -> None:
    before = sorted(data.rglob("*"))
    run = data / "runs" / "dense" / "length" / "short.run.gz"
    check_refused(shell(f"RUN={run}; {line}", NEVER), code, sentence)
    assert (sorted(data.rglob("*")), list((tmp_path / "work").iterdir())) == (before, [])


@pytest.mark.parametrize("command", ["triples", "import"])
def test_a_data_set_s_place_is_tried_before_it_is_made_again(shell: Shell, command: str) -> None:
    assert shell(f"{BUILD} --ids-only").returncode == 0
    refused = "os.mkdir = refuse(os.mkdir, errno.EROFS, '.msshift.partial')"
    done = shell(f"MSSHIFT {command} msshift", f"{REFUSE}{NEVER}\n{refused}")
    assert done.returncode == 3, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last == "error: msshift: Read-only file system; choose another place"
