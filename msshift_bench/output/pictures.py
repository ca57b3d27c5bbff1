"""Pictures and pages: how systems look, how a drawing becomes a file, and what pages are made of.

Colours are those of Okabe and Ito, which people who see colours differently tell apart, and every
system has a marker of its own beside its colour, so that a print without colours will do. Pages
share templates, style sheets, scripts and a font; only their own scripts may run in them.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msshift_bench.errors import UnknownNameError, require
from msshift_bench.plumbing import write_atomically

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from jinja2 import Environment
    from matplotlib.figure import Figure

PICTURE_FORMATS = ("svg", "png", "pdf")

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#171b1f")
_MARKERS = "osD^vPX"

SHADES = (
    "#f7fafd", "#e8f1f9", "#dae7f4", "#cbdef0", "#b9d4ea",
    "#a4c8e3", "#8dbadb", "#77abd2", "#629cc8",
)  # fmt: skip
"""From pale to dark; ink can be read on all of them."""

INK = "#171b1f"
"""Of letters and axes."""

PALE_INK = "#545c65"
"""Of what is said beside the figures."""

LINE = "#c9ccc7"
"""Of lines to read along."""

_STYLE = {
    "axes.edgecolor": PALE_INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8.5,
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "msshift-bench",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}
"""Letters are outlines in SVG and whole fonts in PDF, so that they look alike everywhere."""


class Look(NamedTuple):
    """How a system is drawn.

    Attributes:
        colour: as matplotlib names it.
        marker: as matplotlib names it.
    """

    colour: str
    marker: str


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """Return name -> a colour and a marker; the first seven names differ in both."""
    return {
        name: Look(COLOURS[n % len(COLOURS)], _MARKERS[(n // len(COLOURS) + n) % len(_MARKERS)])
        for n, name in enumerate(dict.fromkeys(names))
    }


def picture_style(**changes: Any) -> AbstractContextManager[None]:
    """Return a context in which matplotlib draws as all pictures of this package look."""
    from matplotlib import style

    context: AbstractContextManager[None] = style.context(["default", {**_STYLE, **changes}])
    return context


def picture_bytes(
    figure: Figure, picture_format: str, title: str, *, density: float = 192
) -> bytes:
    """Return a drawn figure as a file; equal figures give equal bytes with the same matplotlib.

    Args:
        figure: the figure.
        picture_format: one of `PICTURE_FORMATS`.
        title: what a viewer shows as the file's title.
        density: pixels per inch of a PNG; by default twice the 96 of a page, for screens that show
            four pixels in the place of one.
    """
    out = io.BytesIO()
    undated: dict[str, Any] = {
        "svg": {"Date": None, "Title": title},
        "pdf": {"CreationDate": None, "Title": title},
        "png": {"Title": title},
    }
    figure.savefig(out, format=picture_format, dpi=density, metadata=undated[picture_format])
    return out.getvalue()


def write_picture(figure: Figure, path: str | Path, title: str, *, density: float = 192) -> None:
    """Write a drawn figure to a file, whole or not at all, in the format that its ending names.

    Args:
        figure: the figure.
        path: the file; see `check_plot`.
        title: what a viewer shows as the file's title.
        density: pixels per inch of a PNG.
    """
    drawn = picture_bytes(figure, check_plot(path), title, density=density)
    with write_atomically(Path(path)) as file:
        file.write(drawn)


def shorten(name: str, most: int) -> str:
    """Return a name that fits, its middle left out if it has more than `most` letters."""
    if len(name) <= most:
        return name
    half = most // 2
    return f"{name[: half - 1]}…{name[-half:]}"


def check_plot(path: str | Path) -> str:
    """Return the format of a plot, and check that it can be drawn here.

    Args:
        path: the file to write.

    Raises:
        UnknownNameError: if its name ends on no format.
        MissingExtraError: if matplotlib is not installed.
    """
    suffix = Path(path).suffix
    endings = [f".{name}" for name in PICTURE_FORMATS]
    if suffix.lower() not in endings:
        raise UnknownNameError("ending of a plot's name", suffix, endings)
    require("matplotlib.figure", "plots", "a plot")
    return suffix.lower()[1:]


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
