"""Pictures and pages: colours and markers of systems, files of pictures, assets of pages.

Colours are the palette of Okabe and Ito, which colour-blind readers can distinguish. Every system
also has its own marker, for prints without colours. Pages share templates, style sheets, scripts
and a font; no other scripts can run in them.
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
"""From pale to dark; `INK` is readable on all of them."""

INK = "#171b1f"
"""Colour of letters and axes."""

PALE_INK = "#545c65"
"""Colour of notes next to figures."""

LINE = "#c9ccc7"
"""Colour of grid lines."""

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
"""Letters are outlines in SVG and embedded fonts in PDF, and look equal everywhere."""


class SystemStyle(NamedTuple):
    """Colour and marker of a system.

    Attributes:
        colour: a colour of matplotlib.
        marker: a marker of matplotlib.
    """

    colour: str
    marker: str


def styles_of(names: Iterable[str]) -> dict[str, SystemStyle]:
    """Return name -> style; the first seven names differ in both colour and marker, 49 in one."""
    return {
        name: SystemStyle(
            COLOURS[n % len(COLOURS)], _MARKERS[(n // len(COLOURS) + n) % len(_MARKERS)]
        )
        for n, name in enumerate(dict.fromkeys(names))
    }


def picture_style(**changes: Any) -> AbstractContextManager[None]:
    """Return a context manager with this package's style of matplotlib, and `changes` to it."""
    from matplotlib import style

    context: AbstractContextManager[None] = style.context(["default", {**_STYLE, **changes}])
    return context


def picture_bytes(
    figure: Figure, picture_format: str, title: str, *, density: float = 192
) -> bytes:
    """Return the bytes of a picture file; equal for equal figures and the same matplotlib.

    Args:
        figure: the figure.
        picture_format: one of `PICTURE_FORMATS`.
        title: the title in the file's metadata.
        density: pixels per inch of a PNG; by default twice the 96 of a page.
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
    """Write a drawn figure to a file, atomically, in the format of the file's ending.

    Args:
        figure: the figure.
        path: the file; see `check_plot`.
        title: the title in the file's metadata.
        density: pixels per inch of a PNG.

    Raises:
        UnknownNameError: if the file's ending is not a format.
        MissingExtraError: if matplotlib is not installed.
    """
    drawn = picture_bytes(figure, check_plot(path), title, density=density)
    with write_atomically(Path(path)) as file:
        file.write(drawn)


def shorten(name: str, most: int) -> str:
    """Return a name cut to at most `most` letters, with "…" for its middle if it is longer."""
    if len(name) <= most:
        return name
    half = most // 2
    return f"{name[: half - 1]}…{name[-half:]}"


def check_plot(path: str | Path) -> str:
    """Return a plot's format, e.g. ``svg``, after checking that it can be drawn.

    Args:
        path: the file to write.

    Raises:
        UnknownNameError: if its ending is not a format.
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
    """Return the folder of the style sheets, scripts and the font of all pages."""
    return Path(str(files(__package__))) / "static"


def page_environment(package: str, extra: str, what: str) -> Environment:
    """Return a Jinja2 environment with a package's templates and the skeleton of all pages.

    Args:
        package: the package whose folder ``templates`` has the page's templates.
        extra: the extra that installs Jinja2.
        what: the feature that needs it, for the message.

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
    """Return style sheets as one text, with the font embedded.

    Args:
        names: files of `static_files`.
    """

    def embed(match: re.Match[str]) -> str:
        font = (static_files() / match[1]).read_bytes()
        return f'url("data:font/woff2;base64,{base64.b64encode(font).decode()}")'

    sheets = ((static_files() / name).read_text("utf-8") for name in names)
    return _FONT.sub(embed, "\n".join(sheets))


def inline_script(name: str) -> str:
    """Return a script of `static_files` as text to embed in a page."""
    return (static_files() / name).read_text("utf-8")


def script_policy(scripts: Iterable[str]) -> str:
    """Return the sources of a content security policy that allows only these inline scripts."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
