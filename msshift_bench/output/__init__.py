"""Output: tables and their text formats, figures as long tables, pictures, pages, JSON.

It may use `_version`, `errors` and `stats`.
"""

from msshift_bench.output.jsonable import plain, report_head, with_head
from msshift_bench.output.page_parts import (
    inline_script,
    inline_styles,
    page_environment,
    static_files,
)
from msshift_bench.output.page_policy import script_policy
from msshift_bench.output.pictures import (
    COLOURS,
    INK,
    LINE,
    PALE_INK,
    PICTURE_FORMATS,
    SHADES,
    Look,
    looks_of,
    picture_bytes,
    picture_style,
    shorten,
)
from msshift_bench.output.rendering import RENDERERS, render_notes, to_markdown, to_rich, to_text
from msshift_bench.output.tables import (
    INTERVAL,
    P_VALUE,
    PERCENT_ENDS,
    QUERIES,
    REL_LOSS,
    Format,
    Head,
    Table,
    TableCell,
    heads_of,
    pivot,
    say_level,
    say_p,
    show_p,
    show_percent,
    show_percent_interval,
)
from msshift_bench.output.tidy import FIGURE_COLUMNS, FigureRow, LongTable, WithFigures, csv_text

__all__ = [
    "COLOURS",
    "INK",
    "LINE",
    "Look",
    "PALE_INK",
    "PICTURE_FORMATS",
    "SHADES",
    "csv_text",
    "inline_script",
    "inline_styles",
    "page_environment",
    "static_files",
    "looks_of",
    "picture_bytes",
    "picture_style",
    "script_policy",
    "shorten",
    "FIGURE_COLUMNS",
    "Format",
    "Head",
    "INTERVAL",
    "PERCENT_ENDS",
    "P_VALUE",
    "QUERIES",
    "REL_LOSS",
    "heads_of",
    "pivot",
    "FigureRow",
    "LongTable",
    "RENDERERS",
    "Table",
    "TableCell",
    "WithFigures",
    "plain",
    "render_notes",
    "report_head",
    "show_percent_interval",
    "say_level",
    "say_p",
    "show_p",
    "show_percent",
    "to_markdown",
    "to_rich",
    "to_text",
    "with_head",
]
