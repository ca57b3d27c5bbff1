"""The page of all messages: the text of every error and finding, from the package's source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from msshift_bench import errors

__all__ = ["messages_in", "messages_page"]

REPOSITORY = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("msshift_bench", "dataset_builders", "baselines", "leaderboard")

ERRORS = tuple(name for name in errors.__all__ if name.endswith("Error"))
"""Classes whose first text is the message."""

FINDINGS = ("Finding", "add", "wrong", "_refuse")
"""What makes findings: a code, a message, and perhaps a fix."""


def messages_page() -> str:
    """Return the page as Markdown: a block per module, a line per message."""
    parts = [
        "# Messages\n\nThe text of every error and finding, module by module, from the source. "
        "A name in braces stands for a value, `->` precedes the fix. "
        "[Error codes](../error-codes.md) explains the codes.\n"
    ]
    for folder in FOLDERS:
        for file in sorted((REPOSITORY / folder).rglob("*.py")):
            if lines := sorted(messages_in(file.read_text(encoding="utf-8"))):
                name = file.relative_to(REPOSITORY).with_suffix("").as_posix()
                parts.append(f"## {name}\n\n```text\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


def messages_in(source: str) -> set[str]:
    """Return the messages of a module: ``class: text``, or ``[code] text -> fix``."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {line for call in calls for line in _messages_of(call)}


def _messages_of(call: ast.Call) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    values = [*call.args, *(word.value for word in call.keywords if word.arg != "severity")]
    texts = [text for value in values if _is_text(value) and (text := _template(value))]
    if name == "UnknownNameError" and texts:
        yield f"{name}: unknown {texts[0]} {{name}}: did you mean {{nearest}}? valid are {{names}}"
    elif name in ERRORS and texts:
        yield f"{name}: {texts[0]}"
    elif name in FINDINGS and len(texts) > 1:
        code, message, *fixes = texts
        fix = f" -> {fixes[-1]}" if fixes and " " in fixes[-1] else ""
        yield f"[{code}] {message}{fix}"


def _is_text(value: ast.AST) -> bool:
    if isinstance(value, ast.BinOp):
        return _is_text(value.left) or _is_text(value.right)
    if isinstance(value, ast.IfExp):
        return _is_text(value.body) or _is_text(value.orelse)
    return isinstance(value, ast.JoinedStr) or (
        isinstance(value, ast.Constant) and isinstance(value.value, str)
    )


def _template(value: ast.AST) -> str:
    """Return a text with its values as names in braces."""
    if isinstance(value, ast.Constant):
        return " ".join(str(value.value).split())
    if isinstance(value, ast.JoinedStr):
        return "".join(
            " ".join(part.value.split("\n")) if isinstance(part, ast.Constant) else _template(part)
            for part in value.values
        )
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _template(value.left) + _template(value.right)
    if isinstance(value, ast.IfExp):
        return f"{_template(value.body)} | {_template(value.orelse)}"
    inner = value.value if isinstance(value, ast.FormattedValue) else value
    names = [part for part in ast.walk(inner) if isinstance(part, (ast.Name, ast.Attribute))]
    shortest = inner if isinstance(inner, (ast.Name, ast.Attribute)) else (names or [inner])[-1]
    return "{" + ast.unparse(shortest).replace("self.", "") + "}"
