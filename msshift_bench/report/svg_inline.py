"""Pictures within the page: they take its colours, light and dark, its font, and its width."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msshift_bench.output import (
    COLOURS,
    INK,
    LINE,
    PALE_INK,
    SHADES,
    picture_bytes,
    picture_style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["inline_svg"]

_VARIABLES = {
    **{colour: f"--mark-{number}" for number, colour in enumerate(COLOURS)},
    **{shade: f"--shade-{number}" for number, shade in enumerate(SHADES)},
    INK: "--ink",
    PALE_INK: "--ink-2",
    LINE: "--line-2",
    "#ffffff": "--surface",
}
"""The colours of pictures -> the page's variables for them."""

_PAINT = re.compile(r"\b(fill|stroke): ?(#[0-9a-f]{6})\b")
_SIZE = re.compile(r'\s(?:width|height)="[^"]*pt"')
_HEAD = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL)
_ATTRIBUTE = re.compile(r'="[^"]*"')
_DIGITS = re.compile(r"(\.\d\d)\d+")
_ID = re.compile(r'(\bid="|url\(#|href="#)')


def inline_svg(figure: Figure, name: str) -> str:
    """Return a picture as SVG to stand in an HTML page; its letters are letters.

    Args:
        figure: the picture.
        name: the name of the figure, unique in the page; ids begin with it.
    """
    with picture_style(**{"svg.fonttype": "none"}):
        text = picture_bytes(figure, "svg", name, density=72).decode()
    text = _HEAD.sub("", text)
    text = _SIZE.sub("", text, count=2)
    text = _PAINT.sub(_as_variable, text)
    text = _ATTRIBUTE.sub(lambda found: _DIGITS.sub(r"\1", found[0]), text)
    text = _ID.sub(rf"\g<1>{name}-", text)
    return text.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1).strip()


def _as_variable(found: re.Match[str]) -> str:
    variable = _VARIABLES.get(found[2])
    return found[0] if variable is None else f"{found[1]}: var({variable})"
