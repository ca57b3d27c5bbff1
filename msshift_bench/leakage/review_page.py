"""A page on which people judge candidates with the keyboard alone; it opens from the disk."""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template

from msshift_bench.leakage.pair_labels import REFORMULATIONS, SHEET_COLUMNS, ReviewPair
from msshift_bench.output import script_policy

__all__ = ["review_page"]


def review_page(pairs: Sequence[ReviewPair], name: str) -> str:
    """Return a page that shows pair after pair, takes labels, and saves them as a sheet.

    What was judged is kept in the browser, for these pairs, whatever the file's name.

    Args:
        pairs: the pairs, in the order in which they are shown.
        name: what the page is called, and the files that it saves begin with.
    """
    rows = [{key: _written(value) for key, value in pair._asdict().items()} for pair in pairs]
    sheet = {
        "name": name,
        "digest": hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16],
        "columns": SHEET_COLUMNS,
        "labels": dict(REFORMULATIONS),
        "pairs": rows,
    }
    script = _part("review.js")
    return Template(_part("review.html")).substitute(
        name=html.escape(name),
        policy=script_policy([script]),
        styles=_part("review.css"),
        # Queries are a stranger's: "</script>" must not end the element.
        sheet=json.dumps(sheet, ensure_ascii=False).replace("<", "\\u003c"),
        script=script,
    )


def _written(value: str | float | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.10g}"


def _part(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text("utf-8")
