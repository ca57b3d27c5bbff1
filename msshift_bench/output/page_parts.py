"""What pages are made of: templates, style sheets, scripts, a font, and which scripts may run."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from msshift_bench.errors import require

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["inline_script", "inline_styles", "page_environment", "script_policy", "static_files"]

_FONT = re.compile(r'url\("(vendor/[^"]+\.woff2)"\)')


def static_files() -> Path:
    """Return the folder of the style sheets, scripts and the font that all pages share."""
    return Path(str(files(__package__))) / "static"


def page_environment(package: str, extra: str, what: str) -> Environment:
    """Return where templates are found: those of a package, and the skeleton of all pages.

    Args:
        package: the package whose folder ``templates`` holds the page's own.
        extra: the extra that installs Jinja2.
        what: what needs it.

    Raises:
        MissingExtraError: if Jinja2 is not installed.
    """
    jinja2 = require("jinja2", extra, what)
    packages = dict.fromkeys((package, __package__))
    environment: Environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name, "templates") for name in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment


def inline_styles(*names: str) -> str:
    """Return style sheets as one text that refers to no other file: the font is in it.

    Args:
        names: files of `static_files`.
    """

    def embed(match: re.Match[str]) -> str:
        font = (static_files() / match[1]).read_bytes()
        return f'url("data:font/woff2;base64,{base64.b64encode(font).decode()}")'

    sheets = ((static_files() / name).read_text("utf-8") for name in names)
    return _FONT.sub(embed, "\n".join(sheets))


def inline_script(name: str) -> str:
    """Return a script of `static_files` as text, to stand in a page."""
    return (static_files() / name).read_text("utf-8")


def script_policy(scripts: Iterable[str]) -> str:
    """Return the sources that a content security policy allows: these inline scripts only."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
