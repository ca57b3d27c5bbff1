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


LEAVE_ONE_OF_EACH_LOOK = """() => {
  const looks = new Map([[null, ""]]), seen = new Set();
  const look = (one) => {
    if (!looks.has(one)) {
      const { color, backgroundColor, fontSize, fontWeight } = getComputedStyle(one);
      const itself = [one.localName, one.getAttribute("class"), color, backgroundColor, fontSize];
      looks.set(one, [look(one.parentElement), ...itself, fontWeight].join());
    }
    return looks.get(one);
  };
  for (const part of document.querySelectorAll("tbody tr, pre span, svg text")) {
    const shown = [part, ...part.querySelectorAll("*")].map(look);
    if (!shown.every((one) => seen.has(one))) shown.forEach((one) => seen.add(one));
    else if (part.localName === "tr") part.remove();
    else part.textContent = "";
  }
}"""
"""Removes rows and words of code that look like earlier ones."""


def faults_of(page: Any) -> list[dict[str, Any]]:
    """Return the rules of axe that a page breaks, with the places and axe's words.

    One of each look stays on the page, because axe computes the contrast of every cell.
    """
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(LEAVE_ONE_OF_EACH_LOOK)
    page.evaluate(AXE_SCRIPT)
    # Preloading would request the style sheets, which a page's policy or its disk forbids.
    options = '{ preload: false, resultTypes: ["violations"] }'
    found: list[dict[str, Any]] = page.evaluate(f"axe.run({options}).then(all => all.violations)")
    return found


def assert_accessible(page: Any) -> None:
    """Assert that a page keeps the rules of axe."""
    faults = [(one["id"], one["nodes"][0]["target"]) for one in faults_of(page)]
    assert faults == []


def names(page: Any, within: str = "tbody:not(.on-test)") -> list[str]:
    """Return the systems of the visible rows, in their order."""
    rows = f"[...document.querySelectorAll('#systems {within} tr[data-system]:not([hidden])')]"
    found: list[str] = page.evaluate(f"{rows}.map(row => row.dataset.system)")
    return found
