"""The report: pictures of what systems lose, the numbers behind them, and one page that holds all.

`write_report` makes it from run sets, `draw_result` one picture of a result. Each chart of the page
is a function and a row of `SECTIONS`; the function returns the chart, or why it cannot be drawn.

The room may use `analysis`, `arrays`, `data`,
`dataset_builders`, `encoders`, `errors`, `evaluation`, `output`, `plumbing`,
`records`, `runs`, `shifts`, `similarity` and `stats`.
"""

from msshift_bench.report.losses import draw_result
from msshift_bench.report.writing import (
    MissingChart,
    WrittenReport,
    check_report_folder,
    write_report,
)

__all__ = ["MissingChart", "WrittenReport", "check_report_folder", "draw_result", "write_report"]
