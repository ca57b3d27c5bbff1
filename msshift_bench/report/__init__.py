"""The report: charts of the losses of systems, their numbers, and a page that contains all.

`write_report` makes a report from run sets. `draw_result` draws a result as one picture. Each chart
of the page has a function in `SECTIONS`, which returns the chart or the reason why it is missing.

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
