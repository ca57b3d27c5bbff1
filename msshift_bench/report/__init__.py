"""The report: figures of an evaluation, the numbers behind them, and one page that holds all.

`write_report` makes it from run sets. A figure is a module: a function from typed values to a
`ReportFigure`, or to `LeftOut` where its data are not there.

The room stands above those that it draws from: it may use `analysis`, `arrays`, `data`,
`dataset_builders`, `encoders`, `errors`, `evaluation`, `output`, `plumbing`,
`records`, `runs`, `shifts`, `similarity` and `stats`.
"""

from msshift_bench.report.report_figure import LeftOut, ReportFigure
from msshift_bench.report.report_writer import WrittenReport, check_report_folder, write_report

__all__ = ["LeftOut", "ReportFigure", "WrittenReport", "check_report_folder", "write_report"]
