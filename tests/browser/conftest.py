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


@pytest.fixture(scope="module")
def windows(chromium: Any) -> Any:
    """Return where the windows of a module's tests are, which are used again: a new one is slow."""
    context = chromium.new_context(
        accept_downloads=True, permissions=["clipboard-read", "clipboard-write"]
    )
    context.set_default_timeout(60_000)  # An overloaded machine is slow, not wrong.
    return context


@pytest.fixture
def open_page(windows: Any) -> Iterator[OpenPage]:
    """Return a function that opens a file of a site in a window that shows nothing.

    Afterwards, no page has written to its console, failed, shown a dialog of the browser, been
    wider than its window, or asked for anything but files.
    """
    problems: list[tuple[str, str]] = []
    unused, used = list(windows.pages), []

    def failed(request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # The page was left before it had its icon.
            problems.append(("failed", request.url))

    def requested(request: Any) -> None:
        if not request.url.startswith(("file://", "blob:", "about:")):
            problems.append(("request", request.url))

    events = {
        "console": lambda message: problems.append(("console", message.text)),
        "weberror": lambda error: problems.append(("error", str(error.error))),
        "dialog": lambda dialog: (problems.append(("dialog", "")), dialog.dismiss()),
        "requestfailed": failed,
        "request": requested,
    }
    for event, note in events.items():
        windows.on(event, note)

    def opened(path: Path, hash_: str = "", *, width: int = 1440, scheme: str = "light") -> Any:
        page = unused.pop() if unused else windows.new_page()
        used.append(page)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.goto(path.as_uri() + hash_)
        return page

    yield opened
    for page in used:
        too_wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not too_wide, f"{page.url} scrolls sideways"
        page.evaluate("localStorage.clear()")
        page.goto("about:blank")
    for event, note in events.items():
        windows.remove_listener(event, note)
    assert problems == []


@pytest.fixture
def open_board(open_page: OpenPage, board_site: Path) -> OpenPage:
    """Return a function that opens the made-up board, and waits until its script has shown it."""

    def opened(hash_: str = "", **options: Any) -> Any:
        page = open_page(board_site / "mini" / "topics-rr-10.html", hash_, **options)
        shown(page)
        return page

    return opened
