"""What a reader does with the leaderboard's pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msshift_bench.leaderboard.site import data_script
from tests.support.site_files import registered

WIDTHS = (360, 1440)


def board(open_page: Any, site: Path, hash_: str = "", **options: Any) -> Any:
    page = open_page(site / "index.html", hash_, **options)
    page.wait_for_selector("#systems tbody tr")
    return page


def multiply_systems(site: Path, times: int) -> None:
    """Make a built site's tables show every system so many times, each under a name of its own."""

    def multiplied(by_name: dict[str, Any]) -> dict[str, Any]:
        return {f"{name}-{n}": one for name, one in by_name.items() for n in range(times)}

    for script in site.rglob("board.js"):
        if script.parent.name != "static":
            head = registered(script)
            script.write_text(
                data_script("board", {**head, "systems": multiplied(head["systems"])})
            )
    for script in site.rglob("tables/*.js"):
        table = registered(script)
        key = f"table/{table['shift']}/{table['measure']}"
        script.write_text(data_script(key, {**table, "rows": multiplied(table["rows"])}))


def says(page: Any, selector: str, text: str) -> None:
    """Wait until an element holds a text."""
    page.wait_for_function(
        "([selector, text]) => document.querySelector(selector)?.textContent.includes(text)",
        arg=[selector, text],
    )


def fits(page: Any) -> bool:
    """Say whether a page fits its width, at the latest in two seconds, as on a busy machine."""
    for _ in range(40):
        page.wait_for_timeout(50)
        if page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            return True
    return False


def faults_of(page: Any) -> list[dict[str, Any]]:
    """Return the rules of axe that a page breaks, with the places and axe's words.

    To describe what keeps the rules, and to hand it over, would take axe as long again.
    """
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(AXE_SCRIPT)
    # Preloading would request the style sheets, which a page's policy or its disk forbids.
    options = '{ preload: false, resultTypes: ["violations"] }'
    found: list[dict[str, Any]] = page.evaluate(f"axe.run({options}).then(all => all.violations)")
    return found


def names(page: Any, table: str = "#systems") -> list[str]:
    rows = f"[...document.querySelectorAll('{table} tbody tr')]"
    found: list[str] = page.evaluate(f"{rows}.map(row => row.dataset.system)")
    return found


def saved(page: Any, button: str) -> tuple[str, str]:
    with page.expect_download() as download:
        page.locator(button).click()
    return download.value.suggested_filename, Path(download.value.path()).read_text("utf-8")
