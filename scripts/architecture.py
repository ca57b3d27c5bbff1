"""Write the rooms and arrows of docs/architecture.md from the package's imports.

Rooms are the modules and packages that lie directly in ``msshift_bench``, arrows the imports
between them, and floors the longest chain of arrows. The package's own ``__init__`` is none: it
names what lies in the rooms, and imports it when it is first used; whoever imports it uses those
rooms::

    python scripts/architecture.py
    python scripts/architecture.py --check
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Mapping
from pathlib import Path

import grimp

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "architecture.md"
BEGIN, END = "<!-- from scripts/architecture.py -->\n", "<!-- end -->\n"
TOP_FOLDERS = ("baselines", "dataset_builders", "leaderboard")

Arrows = Mapping[str, set[str]]
"""Room -> the rooms that it imports."""


def read_package() -> tuple[Arrows, dict[str, str]]:
    """Return the arrows between the rooms, and room -> the first line of its docstring."""
    package = REPOSITORY / "msshift_bench"
    sys.path.insert(0, str(REPOSITORY))
    graph = grimp.build_graph(package.name, cache_dir=None)
    arrows, purposes = {}, {}
    for name in graph.find_children(package.name):
        room = name.rpartition(".")[2]
        purposes[room] = _purpose(package / room)
        graph.squash_module(name)
    public = graph.find_modules_directly_imported_by(package.name)
    for room in purposes:
        imported = graph.find_modules_directly_imported_by(f"{package.name}.{room}")
        if package.name in imported:
            imported = (imported | public) - {package.name}
        arrows[room] = {name.rpartition(".")[2] for name in imported} - {room}
    return arrows, purposes


def _purpose(room: Path) -> str:
    file = room / "__init__.py" if room.is_dir() else room.with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]


def _link(room: str) -> str:
    if room in TOP_FOLDERS:
        return f"../{room}"
    path = f"msshift_bench/{room}"
    return f"../{path}" if (REPOSITORY / path).is_dir() else f"../{path}.py"


def floors(arrows: Arrows) -> dict[str, int]:
    """Return room -> its floor: 1 if it imports no other, else one above the highest of those."""
    found: dict[str, int] = {}

    def floor(room: str) -> int:
        if room not in found:
            found[room] = 1 + max(map(floor, arrows[room]), default=0)
        return found[room]

    for room in arrows:
        floor(room)
    return found


def reached(arrows: Arrows, room: str) -> set[str]:
    """Return the rooms that arrows lead to from a room, in any number of steps."""
    return set(arrows[room]).union(*(reached(arrows, other) for other in arrows[room]))


def count(arrows: Arrows) -> str:
    """Say how many rooms, floors and arrows there are."""
    return (
        f"{len(arrows)} rooms on {max(floors(arrows).values())} floors, "
        f"with {sum(map(len, arrows.values()))} arrows between them"
    )


def describe() -> str:
    """Return the part of the page that imports decide."""
    arrows, purposes = read_package()
    core = {room: arrows[room].difference(TOP_FOLDERS) for room in arrows.keys() - set(TOP_FOLDERS)}
    on_floor = floors(arrows)
    rooms = sorted(arrows, key=lambda room: (-on_floor[room], room))
    drawn = [
        f"    {room} --> {other}"
        for room in rooms
        for other in sorted(arrows[room])
        if not any(other in reached(arrows, between) for between in arrows[room])
    ]
    rows = [
        f"| {on_floor[room]} | [`{room}`]({_link(room)}) | {purposes[room]} "
        f"| {', '.join(sorted(arrows[room]))} |"
        for room in rooms
    ]
    return "\n".join(
        [
            f"The folder `msshift_bench/` has {count(core)}.",
            f"The whole package has {count(arrows)}.",
            "The diagram leaves out arrows that follow from others; the table has them all.",
            "",
            "```mermaid",
            "flowchart TD",
            *drawn,
            "```",
            "",
            "| floor | room | what it is for | what it imports |",
            "|---:|---|---|---|",
            *rows,
            "",
        ]
    )


def main() -> None:
    """Write the page's part, or with ``--check`` compare it with the page."""
    parser = argparse.ArgumentParser(description="Write the rooms of docs/architecture.md.")
    parser.add_argument("--check", action="store_true", help="compare with what the page says")
    check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    made = f"{before}{BEGIN}{describe()}{END}{rest.partition(END)[2]}"
    if not check:
        PAGE.write_text(made, encoding="utf-8")
    elif made != text:
        sys.exit(f"docs/{PAGE.name} is stale: run scripts/architecture.py")


if __name__ == "__main__":
    main()
