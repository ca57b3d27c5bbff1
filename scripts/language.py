"""Count phrases that readers stumble over, in docstrings, comments, other strings and docs.

Usage: python -m scripts.language. It prints each phrase's number per 1,000 words, and exits with 1
if a phrase is more frequent than `MOST` allows. If a number falls, lower it in `MOST`.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

FOLDERS = ("msshift_bench", "dataset_builders", "baselines", "leaderboard")
PHRASES: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "what + verb": r"\bwhat (?:is|are|was|were|it|they|he|an?|the|this|that|its|their|no|each|"
        r"every|nothing|everything|else|[a-z]+s|[a-z]+ed)\b",
        "tell, say": r"\b(?:tells?|told|says?|said|foretells?|foretold)\b",
        "those of": r"\b(?:those|that) of\b",
        "stand": r"\bstands?\b",
    }.items()
}
MOST: Mapping[str, tuple[float, float, float, float]] = {
    "docstrings": (0.0, 0.1, 0.0, 0.0),
    "comments": (0.2, 0.0, 0.0, 0.0),
    "strings": (0.2, 0.0, 0.0, 0.0),
    "docs": (1.5, 0.3, 0.1, 0.1),
}
"""Kind of text -> the highest number of each of `PHRASES` per 1,000 words."""


def texts_of(source: str) -> Iterator[tuple[str, str]]:
    """Yield kind and content of each docstring, comment and other string of a module."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, documented):
            yield "docstrings", ast.get_docstring(node) or ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield "strings", node.value if " " in node.value else ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield "comments", token.string


def frequencies(root: Path) -> dict[str, tuple[float, ...]]:
    """Return kind of text -> the number of each phrase per 1,000 words, to one digit."""
    listed = subprocess.check_output(["git", "-C", root, "ls-files"], text=True).splitlines()
    words: dict[str, int] = defaultdict(int)
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * len(PHRASES))
    for name in listed:
        is_code = name.endswith(".py") and name.split("/")[0] in FOLDERS
        if not is_code and not (name == "README.md" or re.fullmatch(r"docs/.*\.md", name)):
            continue
        text = (root / name).read_text(encoding="utf-8")
        for kind, content in texts_of(text) if is_code else [("docs", text)]:
            words[kind] += len(content.split())
            for place, pattern in enumerate(PHRASES.values()):
                counts[kind][place] += len(pattern.findall(content))
    return {
        kind: tuple(round(1000 * count / words[kind], 1) for count in counts[kind]) for kind in MOST
    }


def main() -> int:
    """Print the frequencies; return 1 if one is too high."""
    too_high = False
    for kind, found in frequencies(Path(__file__).resolve().parents[1]).items():
        for phrase, count, most in zip(PHRASES, found, MOST[kind], strict=True):
            too_high |= count > most
            print(f"{kind}: {phrase} {count}, at most {most}" + ": too many" * (count > most))
    return int(too_high)


if __name__ == "__main__":
    sys.exit(main())
