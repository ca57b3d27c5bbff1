"""Print results on stdout and messages on stderr, and check output files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msshift_bench.errors import UsageError
from msshift_bench.plumbing import check_target

if TYPE_CHECKING:
    from msshift_bench.output import Answer, Summary, Table


def _is_styled() -> bool:
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return is_terminal or bool(os.environ.get("FORCE_COLOR"))


def _print_styled(text: str, code: int) -> None:
    """Print a line on stdout, on a terminal in a style: 1 is bold, and 2 dim."""
    print(f"\x1b[{code}m{text}\x1b[0m" if _is_styled() else text)


def print_tables(tables: Iterable[Table], notes: Iterable[str] = (), chosen: str = "text") -> None:
    """Print tables, and below them notes: policies, versions and warnings, one line each.

    As text, a table wider than the screen is not folded. `chosen` is ``text`` or a name in
    `RENDERERS`.
    """
    from msshift_bench.output import RENDERERS, render_notes, to_text

    if chosen != "text":
        tables, render = list(tables), RENDERERS[chosen]
        print("".join(f"{render(table)}\n" for table in tables), end="")
        if any(cell.best for table in tables for row in table.rows for cell in row):
            notes = [*notes, "bold: the best of the systems that were trained per group"]
        print(render_notes(list(notes), chosen))
        return
    # The rule is ours to draw, with what the environment's encoding has; names are not.
    rule = "─" if "─".encode(sys.stdout.encoding or "utf-8", "ignore") else "-"
    for table in tables:
        _print_styled(table.title, 1)
        print(to_text(table, rule, is_styled=_is_styled()), end="")
    for line in notes:
        _print_styled(f"  {line}", 2)


def print_answers(answers: Sequence[Answer], chosen: str) -> None:
    """Print sentences above tables: a line each, a list in Markdown, and comments in LaTeX."""
    from msshift_bench.output import render_notes

    lines = [answer.text for answer in answers]
    if lines:
        print("\n".join(lines) + "\n" if chosen == "text" else render_notes(lines, chosen))


def print_json(value: object) -> None:
    """Print a result as JSON on stdout; NaN and infinity raise ValueError."""
    print(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def show(account: Summary, chosen: str) -> None:
    """Print a summary in the format `chosen`; see `show_facts`."""
    show_facts(account.facts, chosen, account.tables, account.notes)


def show_facts(
    facts: Mapping[str, Any], chosen: str, tables: Iterable[Table] = (), notes: Iterable[str] = ()
) -> None:
    """Print facts if `chosen` is ``json``; otherwise the tables with the notes below them."""
    if chosen == "json":
        print_json(facts)
    else:
        print_tables(tables, notes, chosen)


def note(message: str) -> None:
    """Print a message on stderr."""
    print(message, file=sys.stderr, flush=True)


def warn(messages: Iterable[str]) -> None:
    """Print each message on stderr as a warning."""
    for message in messages:
        note(f"warning: {message}")


def check_outputs(
    *outputs: Path | None,
    data: str | None = None,
    runs: Iterable[str | Path] = (),
    inputs: Iterable[str | Path | None] = (),
) -> None:
    """Check that a command can write its outputs, and that no output is an input.

    Args:
        outputs: the files to write; `None` for an output that was not requested.
        data: the data set that the command reads.
        runs: run files; the command reads their sidecars, too.
        inputs: other files that the command reads, and folders that it must not write into; `None`
            for an input that was not given.

    Raises:
        NotFoundError: if an output's folder does not exist.
        UsageError: if an output cannot be a file, is an input or in one, or is given twice. Also if
            it is being written, or would overwrite a TOML file or an annotated sheet.
        OSError: if a file cannot be written; its ``filename`` is the output.
    """
    wanted = [output for output in outputs if output is not None]
    if not wanted:
        return
    from msshift_bench.annotation import check_not_filled
    from msshift_bench.data import find_dataset_folder
    from msshift_bench.runs import sidecar_path

    if data is not None:
        inputs = [*inputs, find_dataset_folder(data)]
    files = [Path(run) for run in runs]
    read = [*(Path(path) for path in inputs if path is not None), *files, *map(sidecar_path, files)]
    for place, output in enumerate(wanted):
        try:
            check_target(output, inputs=read, others=wanted[:place])
        except OSError as error:
            error.filename, error.filename2 = str(output), None
            raise
        if not output.is_file():
            continue
        if output.suffix == ".toml":
            raise UsageError(
                f"{output} is a TOML file, which would be overwritten; give another name"
            )

        check_not_filled(output)
