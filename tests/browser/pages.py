"""What a reader does with the leaderboard's pages."""

from __future__ import annotations

from typing import Any

WIDTHS = (390, 1440)


def shown(page: Any) -> None:
    """Wait until the page's script has shown its table."""
    page.wait_for_function("() => performance.getEntriesByName('table-shown').length")


def fits(page: Any, width: int) -> bool:
    """Say whether a page fits a width, at the latest in two seconds, as on a busy machine."""
    page.set_viewport_size({"width": width, "height": 900})
    is_met = f"innerWidth === {width} && document.documentElement.scrollWidth <= {width}"
    for _ in range(40):
        if page.evaluate(is_met):
            return True
        page.wait_for_timeout(50)
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


def names(page: Any, within: str = "tbody:not(.on-test)") -> list[str]:
    """Return the systems whose rows are to be seen, in their order."""
    rows = f"[...document.querySelectorAll('#systems {within} tr[data-system]:not([hidden])')]"
    found: list[str] = page.evaluate(f"{rows}.map(row => row.dataset.system)")
    return found
