"""The README as a package registry shows it: without the repository around it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from html.parser import HTMLParser
from urllib.parse import urlsplit

from readme_renderer import markdown

__all__ = ["mend_links", "wrong_links"]

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

_LINK = re.compile(r"(!?)(\[[^\[\]]*\])\((?!https?:|mailto:|#)([^()\s]+)\)")

_OURS = "user-content-"
"""What the renderer puts before the names of places, and of the links to them."""


def mend_links(text: str, names: Iterable[str], address: str, tag: str) -> str:
    """Return a README whose relative links lead to a repository on the web.

    Args:
        text: the README, in Markdown; its code blocks are left alone.
        names: every file of the repository.
        address: where the repository is on the web, laid out as GitHub and GitLab do.
        tag: the tag of the release, so that the page shows the files of its own version.

    Raises:
        ValueError: if a link leads to no file of the repository.
    """
    known = set(names)

    def mended(link: re.Match[str]) -> str:
        image, label, target = link.groups()
        file = posixpath.normpath(target.partition("#")[0])
        if file not in known:
            raise ValueError(f"README.md links to {target}, which is not in the repository")
        kind = "raw" if image else "blob"
        return f"{image}{label}({address.rstrip('/')}/{kind}/{tag}/{target})"

    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(mended, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(mended, text[end:])])


def wrong_links(text: str) -> list[str]:
    """Render a README as PyPI does, and return what leads nowhere on its page, a line each.

    Args:
        text: the README of a distribution, in Markdown.
    """
    rendered = markdown.render(text)
    if rendered is None:
        return ["README.md is not rendered: pip install 'readme_renderer[md]'"]
    page = _Page()
    page.feed(rendered)
    return [
        f"README.md: the link {target} leads nowhere on the page of the package"
        for target in page.targets
        if not (
            urlsplit(target).scheme in ("https", "http", "mailto")
            or (target.startswith("#") and target[1:] in page.anchors)
        )
    ]


class _Page(HTMLParser):
    """What a page links to and shows, and the places in it that a link can name."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.targets.append(value.replace(f"#{_OURS}", "#", 1))
            elif value and name == "id":
                self.anchors.add(value.removeprefix(_OURS))
