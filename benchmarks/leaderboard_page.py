"""How long does the leaderboard take to open and to sort, with many systems on it?

Copies this project's entries of `mini` under as many names, builds the pages, opens one in headless
Chromium from the disk, and measures wall time: from the navigation until the table is shown, and
from a click on a column's head until the next frame is drawn. The target with 500 systems is 1 s
each::

    scripts/bench leaderboard_page --systems 500
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.support.chromium import FLAGS, find_chromium
from msshift_bench.leaderboard import entries_folder
from msshift_bench.leaderboard.site import build_site

COLUMNS = ("system", "out", "group-C3", "family", "rel_loss")
SORT = """async column => {
  const start = performance.now();
  document.querySelector(`#systems [data-sort="${column}"]`).click();
  await new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn)));
  return performance.now() - start;
}"""
SHOWN = "performance.getEntriesByName('table-shown')"


def load(page: Page, address: str) -> float:
    """Return the milliseconds until the table is shown."""
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_function(f"() => {SHOWN}.length")
    return float(page.evaluate(f"{SHOWN}[0].startTime"))


def copy_entries(board: Path, count: int) -> None:
    """Write so many entries of systems that are trained per group, under names of their own."""
    entries = [
        path for path in sorted(entries_folder().glob("mini/*/v1")) if "bm25" not in str(path)
    ]
    for number in range(count):
        source, name = entries[number % len(entries)], f"system-{number:03}"
        copy = Path(shutil.copytree(source, board / name / "v1"))
        description = (copy / "system.toml").read_text("utf-8")
        old = f'name = "{source.parent.name}"'
        assert old in description
        (copy / "system.toml").write_text(description.replace(old, f'name = "{name}"'), "utf-8")


def main() -> None:
    """Measure, and print the rows of the table in docs/benchmarks.md."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--systems", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        copy_entries(Path(folder) / "entries" / "mini", arguments.systems)
        start = time.perf_counter()
        index = build_site(Path(folder) / "site", Path(folder) / "entries")
        building = time.perf_counter() - start
        table = index.parent / "mini" / "topics-rr-10.html"
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        page = chromium.new_page(viewport={"width": 1440, "height": 1000})
        loads = [load(page, table.as_uri()) for _ in range(arguments.rounds)]
        sorts = [page.evaluate(SORT, name) for _ in range(arguments.rounds) for name in COLUMNS]
        assert page.locator("#systems tr[data-system]").count() >= arguments.systems
        size = table.stat().st_size
    print(f"| {arguments.systems} systems | median | slowest |\n|---|---:|---:|")
    print(f"| load, the first time | {loads[0]:.0f} ms | |")
    for name, times in (("load again", loads[1:]), ("sort", sorts)):
        print(f"| {name} | {statistics.median(times):.0f} ms | {max(times):.0f} ms |")
    print(f"| the page | {size / 1e6:.1f} MB | |")
    print(f"| `msshift leaderboard build` | {building:.1f} s | |")


if __name__ == "__main__":
    main()
