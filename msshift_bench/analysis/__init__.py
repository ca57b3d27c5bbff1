"""Why systems lose: links between losses and similarity, with how sure they are, and predictions.

`analyse_run_sets` evaluates run sets and links what they lose to the similarity of the groups;
`analyse_report` does so for a report, `link_losses` for any losses and similarities. Each returns a
`Result`; `find_links` returns the points that its links rest on, and `predict_losses` applies one
of them to new queries. `align_scores` asks whether extrapolation says how models do elsewhere,
and `scores_of_runs` scores run sets for it.
`load_published` returns the papers' own tables as numbers, which `analyse_published` takes.
It may use `evaluation`, `similarity`, `stats`, `data`, `output`,
`plumbing`, `shifts`, `arrays` and `errors`.
"""

from msshift_bench.analysis.alignment import (
    align_scores,
    plot_alignment,
    read_model_scores,
    scores_of_runs,
)
from msshift_bench.analysis.analysing import (
    analyse_report,
    analyse_run_sets,
    link_losses,
    predict_losses,
)
from msshift_bench.analysis.group_links import (
    ALL_GROUPS,
    MEAN_OF_SYSTEMS,
    Link,
    find_links,
    link_text,
)
from msshift_bench.analysis.paper_tables import analyse_published, load_published
from msshift_bench.analysis.query_links import query_claims

__all__ = [
    "ALL_GROUPS",
    "Link",
    "MEAN_OF_SYSTEMS",
    "align_scores",
    "analyse_published",
    "analyse_report",
    "analyse_run_sets",
    "find_links",
    "link_losses",
    "query_claims",
    "load_published",
    "plot_alignment",
    "predict_losses",
    "read_model_scores",
    "link_text",
    "scores_of_runs",
]
