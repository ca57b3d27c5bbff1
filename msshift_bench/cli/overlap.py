"""``msshift overlap``: test queries that share relevant passages with training queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from msshift_bench.cli import options
from msshift_bench.cli.console import print_json, print_notes, print_table
from msshift_bench.errors import UsageError

if TYPE_CHECKING:
    from msshift_bench.records import Qrel

__all__ = ["register"]

_NOTES = (
    "a test query of 1 or more shared passages counts in the text of Zhan et al. (CIKM 2022); the "
    "script that made their Table 3 counts from 2 on",
)


def overlap(
    train: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=QRELS",
            help="A training set: a name, and its qrels file (TREC's four columns, or three). "
            "Repeat it for several; files of one name are one set together.",
        ),
    ],
    test: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=QRELS",
            help="A test set: a name, and its qrels file, which may be graded. Repeat it likewise.",
        ),
    ],
    as_json: options.AsJson = False,
) -> None:
    """Count the test queries that share a relevant passage with a training query.

    Two queries with the same relevant passage are likely to be alike, and a model can remember the
    passage. It counts at every relevance that the test set grades, from one and from two shared
    passages on.

    Example: `msshift overlap --train ours=qrels.txt --test dl19=qrels.dl19.txt`
    """
    from msshift_bench.similarity import count_overlap

    found = count_overlap(_read(train, "--train"), _read(test, "--test"))
    if as_json:
        print_json(found.to_json())
        return
    for table in found.tables():
        print_table(table)
    print_notes(_NOTES)


def _read(named: Sequence[str], option: str) -> dict[str, list[Qrel]]:
    from msshift_bench.runs import read_qrels

    found: dict[str, list[Qrel]] = {}
    for one in named:
        name, equals, path = one.partition("=")
        if not (name and equals and path):
            raise UsageError(f"{option} takes NAME=QRELS, e.g. dl19=qrels.dl19.txt, not {one!r}")
        found.setdefault(name, []).extend(read_qrels(path))
    return found


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("overlap")(overlap)
