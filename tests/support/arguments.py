"""A collection whose queries are documents of it, as ArguAna's: each asks for its counter-argument.

A document contains its own text, so that a system that is not told to leave it out finds it first.
"""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["write_arguments"]

_LONG = "this house believes that {topic} {stance} because it matters to {reason}"


def write_arguments(folder: Path, topics: int = 130) -> Path:
    """Write a folder in BEIR's layout, and return it.

    Args:
        folder: the folder.
        topics: pairs of an argument and its counter-argument; every second pair is short (at most
            five words), and every third has a document that no query asks for.
    """
    arguments: dict[str, str] = {}
    others: dict[str, str] = {}
    for number in range(topics):
        topic = f"topic{number} policy{number}"
        for side, stance in (("pro", "should stay"), ("con", "must end")):
            short, reason = f"{topic} {stance}", f"everyone in group{number % 7} {side}"
            long = _LONG.format(topic=topic, stance=stance, reason=reason)
            arguments[f"arg-{number:03}-{side}"] = long if number % 2 else short
        if number % 3 == 0:
            others[f"news-{number:03}"] = f"{topic} should stay and must end soon, {topic}"
    counter = {"pro": "con", "con": "pro"}
    (folder / "qrels").mkdir(parents=True)
    passages = [
        {"_id": doc_id, "title": f"debate {doc_id[4:7]}", "text": text}
        for doc_id, text in (*arguments.items(), *others.items())
    ]
    queries = [{"_id": query_id, "text": text} for query_id, text in arguments.items()]
    for name, rows in (("corpus", passages), ("queries", queries)):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    judged = "".join(f"{name}\t{name[:-3]}{counter[name[-3:]]}\t1\n" for name in arguments)
    qrels = f"query-id\tcorpus-id\tscore\n{judged}"
    (folder / "qrels/test.tsv").write_text(qrels, encoding="utf-8")
    return folder
