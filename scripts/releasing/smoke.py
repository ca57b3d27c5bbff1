"""Every command of an installed package, once: ``python smoke.py``, in an empty folder.

It imports nothing of the repository. A command whose extra is not installed must say so in one
sentence, with the line that installs it; any other must end with the exit code 0.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

MODULES = {
    "hf": "huggingface_hub",
    "irds": "ir_datasets",
    "bm25": "rank_bm25",
    "leaderboard": "jinja2",
    "plots": "matplotlib",
    "neural": "torch",
}
"""An extra -> a module that comes with it, and with nothing else that is tried."""

COMMANDS: tuple[tuple[str, str], ...] = (
    ("list --format json", ""),
    ("list bi-encoder", ""),
    ("list splade-paper", ""),
    ("build topics --collection mini:500 --out small", ""),
    ("verify small --topics replay", ""),
    ("verify small --topics embed", ""),
    ("verify small --topics retrain", ""),
    ("build length --collection mini", ""),
    ("verify ./msshift", ""),
    ("doctor --prune 30", ""),
    ("leakage find --data ./msshift", ""),
    ("build length --collection mini:500 --ids-only --out ids", ""),
    ("import ids --collection mini:500", ""),
    ("install ./msshift", "hf"),
    ("push ./msshift --repo my-org/msshift", "hf"),
    ("irds list", "irds"),
    ("triples ./msshift --collection mini --shift length", "bm25"),
    ("export length-short-triples triples.tsv.gz", "bm25 before"),
    ("variants typos --shift length --out typos.tsv", ""),
    ("import ms-marco-shift --check --format markdown", ""),
    ("import CharacterBERT-DR --out published.tsv", ""),
    ("score made.run --test length-short --check", ""),
    ("evaluate runs/ --output figures.json", ""),
    ("score made.run --test length-short", ""),
    ("compare runs/one runs/two", ""),
    ("report runs/ --out report", "plots"),
    ("similarity --shift length --indicator weighted-jaccard", ""),
    ("similarity --indicator overlap --train ours=qrels.tsv --test theirs=qrels.tsv", ""),
    ("analyse --published --train train.tsv --test test.tsv --extrapolate", ""),
    ("analyse --published", ""),
    ("leakage find --train train.tsv --test test.tsv --out found", ""),
    ("leakage clean --found found --train train.tsv --out clean", ""),
    ("annotate --candidates found/ --certain --out review.csv", ""),
    ("agree judged.csv", ""),
    ("leakage experiment --collection mini:300 --sizes 20 --leaked 8 --seeds 1", "neural"),
    ("annotate --train train.tsv --test test.tsv", "bm25"),
    ("agree sheet-a.csv sheet-b.csv", ""),
    ("run bm25 --shift length --out bm25-runs", "bm25"),
    ("pretrain --collection mini:300 --recipe mini --out encoder", "neural"),
    ("run ./encoder --set kind=bi-encoder --shift length", "neural"),
    ("demo --out msshift-demo", "neural"),
    ("submit runs/one --system system.toml --out submission", ""),
    ("leaderboard check --entries submission/entries", ""),
    ("leaderboard build --out site", "leaderboard"),
    ("leaderboard check mini/bm25", ""),
)
"""A command and the extra that it needs: after each other, in one folder.

``before``: a command before it needs the extra, and without it there is nothing to do.
"""

_COMMAND = Path(sysconfig.get_path("scripts")) / "msshift"

_REFUSED = 3
"""The exit code of a command that misses something."""

_FILLED_IN = {
    "board": '"mini"',
    "authors": '["A Person"]',
    "name": '"one"',
    "title": '"One"',
    "family": '"dense"',
    "description": '"Rankings without a system."',
    "licence": '"Apache-2.0"',
    "code": '"https://example.org/code"',
    "data": '"None."',
    "hardware": '"none"',
}
"""What is filled into the template of a system's description."""


def write_materials(folder: Path) -> None:
    """Write what the commands name: rankings, queries, qrels, sheets, parts of two releases.

    Args:
        folder: where the commands run; `msshift` is built there already.
    """
    from msshift_bench import load_dataset

    rows = list(load_dataset("msshift", "length", split="queries"))
    for name, places in (("one", (1, 2)), ("two", (2, 1))):
        lines = [
            f"{row.query_id} Q0 {doc_id} {place} {1 / place} {name}\n"
            for row in rows
            for doc_id, place in zip((row.relevant_doc_ids[0], "filler"), places, strict=True)
        ]
        run = folder / "runs" / name / "length.run"
        run.parent.mkdir(parents=True)
        run.write_text("".join(lines))
    (folder / "made.run").write_text(run.read_text())
    judged = (f"{row.query_id} 0 {one} 1\n" for row in rows for one in row.relevant_doc_ids)
    (folder / "qrels.tsv").write_text("".join(judged))
    (folder / "train.tsv").write_text("1\tcheap flights\n2\tlong words of a few\n")
    (folder / "test.tsv").write_text("3\tcheap rooms\n4\tCheap flights\n")
    (folder / "system.toml").write_text(_described())
    for name in "ab":
        sheet = "test_id,test_text,train_id,train_text,found_by,entity,intent\n"
        sheet += "3,cheap rooms,1,cheap flights,BM25,1,0\n"
        (folder / f"sheet-{name}.csv").write_text(sheet)
    typos = folder / "CharacterBERT-DR"
    typos.mkdir()
    for name in ("", ".typo1"):
        (typos / f"queries.dev.small{name}.tsv").write_text("1\tcheap flights\n")
    for name in (*"01234", "wha", "how", "who", "short", "long"):
        number = ord(name[0])
        for place, text in (
            (f"queries/queries_{name}.tsv", f"{number}\twhat is {name}\n"),
            (f"qrel/qrel_{name}.json", f'{{"{number}": {{"7": 1}}}}'),
        ):
            file = folder / "ms-marco-shift" / "EVAL" / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def _described() -> str:
    """Return the template of a description, filled in for rankings that nothing was trained for."""
    done = subprocess.run([_COMMAND, "submit", "--template"], capture_output=True, check=True)
    text = done.stdout.decode().partition("[training.queries]")[0]
    for key, value in _FILLED_IN.items():
        text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
    return f'{text}[training.queries]\nlength = "none"\n'


def run_all(folder: Path, extras: set[str]) -> list[str]:
    """Run every command.

    Args:
        folder: an empty folder.
        extras: the extras that are installed.

    Returns:
        What went otherwise than it should.
    """
    environment = {
        **os.environ,
        "HOME": str(folder),
        "MSSHIFT_CACHE": str(folder / "cache"),
        "HF_HUB_OFFLINE": "1",
    }
    wrong = []
    for line, need in COMMANDS:
        extra, _, before = need.partition(" ")
        if before and extra not in extras:
            continue
        if line.startswith("variants typos"):
            write_materials(folder)
        if line.startswith("agree judged"):
            (folder / "judged.csv").write_text(_judged((folder / "review.csv").read_text()))
        done = subprocess.run(
            [_COMMAND, *shlex.split(line)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        complaint = _complaint(done, extra if extra not in extras else "")
        # Nothing is sent anywhere: with its extra, `push` must say that the Hub is out of reach.
        if line.startswith("push") and extra in extras and done.returncode == _REFUSED:
            complaint = ""
        if complaint:
            wrong.append(f"msshift {line}: {complaint}")
    return wrong


def _judged(sheet: str) -> str:
    """Return a sheet of candidates with a judgement in every row."""
    first, *rows = sheet.splitlines()
    return "\n".join([first, *(row.removesuffix(",,") + ",smoke,identical" for row in rows), ""])


def _complaint(done: subprocess.CompletedProcess[str], missing: str) -> str:
    """Return what is wrong with the end of a command, or nothing."""
    said = done.stderr.strip()
    if "Traceback" in said:
        return said
    if not missing:
        return "" if done.returncode == 0 else f"exit code {done.returncode}: {said}"
    if done.returncode != _REFUSED:
        return f"exit code {done.returncode} without the extra {missing!r}: {said}"
    last = said.splitlines()[-1]
    is_cure = last.startswith("error: ") and "pip install -e '.[" in last
    return "" if is_cure else f"no line that installs the extra {missing!r}: {said}"


def main() -> None:
    """Run every command in the working directory; exit with 1 if one went wrong."""
    extras = {name for name, module in MODULES.items() if importlib.util.find_spec(module)}
    folder = Path.cwd()
    if any(folder.iterdir()):
        sys.exit(f"{folder} is not empty")
    wrong = run_all(folder, extras)
    for line in wrong:
        print(line)
    print(f"{len(COMMANDS) - len(wrong)} of {len(COMMANDS)} commands as they should")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
