"""Draw docs/demo.svg, the picture at the top of the README: answers and loss tables of the demo.

Usage: python scripts/picture.py DEMO_FOLDER > docs/demo.svg
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from msshift_bench import evaluate_run_sets
from msshift_bench.evaluation import Settings, loss_table
from msshift_bench.output import to_text

WIDTH = 80


def main() -> None:
    """Print the picture."""
    folder = Path(sys.argv[1])
    settings = Settings()
    result = evaluate_run_sets([folder / "runs"], folder / "msshift", settings=settings)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
    for answer in result.answers:
        console.print(answer.text)
    console.print()
    for _, losses in result.figures.each("shift"):
        table = loss_table(losses, settings.measures[0], settings, brief=True)
        console.print(table.title, style="bold")
        console.print(Text.from_ansi(to_text(table, is_styled=True)), end="")
    # The stock picture fetches a font from a server; a reader's own will do.
    without_fonts = re.sub(r"@font-face {{.*?}}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    print(
        console.export_svg(
            title="scripts/demo", theme=MONOKAI, code_format=without_fonts, unique_id="msshift"
        )
    )


if __name__ == "__main__":
    main()
