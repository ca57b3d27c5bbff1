"""Chromium for the tests of this folder, and pages that must behave while they are open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.chromium import FLAGS, find_chromium
from tests.browser.pages import shown

OpenPage = Callable[..., Any]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Start Chromium, or skip.

    It is stopped after every module: while it runs, no other test of the process could start an
    event loop.
    """
    executable = find_chromium()
    if executable is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # As below: an overloaded machine is slow, not wrong.

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[OpenPage]:
    """Return a function that opens a file of a site in a new window of its own.

    Afterwards, no page has written to its console, failed, shown a dialog of the browser, been
    wider than its window, or asked for anything but files.
    """
    contexts, problems = [], []

    def failed(request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # The page was left before it had its icon.
            problems.append(("failed", request.url))

    def opened(path: Path, hash_: str = "", *, width: int = 1440, scheme: str = "light") -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            accept_downloads=True,
            permissions=["clipboard-read", "clipboard-write"],
        )
        page = context.new_page()
        page.set_default_timeout(60_000)  # An overloaded machine is slow, not wrong.
        page.on("console", lambda message: problems.append(("console", message.text)))
        page.on("pageerror", lambda error: problems.append(("error", str(error))))
        page.on("dialog", lambda dialog: (problems.append(("dialog", "")), dialog.dismiss()))
        page.on("requestfailed", failed)
        page.on(
            "request",
            lambda request: (
                request.url.startswith(("file://", "blob:", "about:"))
                or problems.append(("request", request.url))
            ),
        )
        contexts.append(context)
        page.goto(path.as_uri() + hash_)
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            too_wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
            assert not too_wide, f"{page.url} scrolls sideways"
        context.close()
    assert problems == []


@pytest.fixture
def open_board(open_page: OpenPage, board_site: Path) -> OpenPage:
    """Return a function that opens the made-up board, and waits until its script has shown it."""

    def opened(hash_: str = "", **options: Any) -> Any:
        page = open_page(board_site / "mini" / "topics-rr-10.html", hash_, **options)
        shown(page)
        return page

    return opened
