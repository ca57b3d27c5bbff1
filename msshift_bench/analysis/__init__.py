"""Links between Rel Loss and similarity, predictions of Rel Loss, and alignments.

`analyse_run_sets` evaluates run sets and links their Rel Losses to the similarity of the groups.
`analyse_report` does the same for a report, and `link_losses` for any losses and similarities.
Each returns a `Result`. `find_links` returns the links with their points, and `predict_losses`
applies a link to new queries. `align_scores` compares models' interpolation and extrapolation with
their scores on other test sets, and `scores_of_runs` computes these scores from run sets.
`load_published` returns tables of papers as numbers, and `analyse_published` links their losses.
This package may use `evaluation`, `similarity`, `stats`, `data`, `output`,
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
