"""Public names and the modules that define them; `__init__.py` imports each on first use."""

from msshift_bench.analysis import (
    analyse_report as analyse_report,
    analyse_run_sets as analyse_run_sets,
    link_losses as link_losses,
    predict_losses as predict_losses,
)
from msshift_bench.annotation import (
    Annotations as Annotations,
    read_annotations as read_annotations,
)
from msshift_bench.baselines import (
    Plan as Plan,
    System as System,
    evaluate as evaluate,
    make_runs as make_runs,
    open_system as open_system,
    training_pairs as training_pairs,
    validation_candidates as validation_candidates,
)
from msshift_bench.data import (
    Dataset as Dataset,
    install_dataset as install_dataset,
    load_dataset as load_dataset,
    load_triples as load_triples,
    open_collection as open_collection,
    open_dataset as open_dataset,
    push_dataset as push_dataset,
    verify_dataset as verify_dataset,
)
from msshift_bench.dataset_builders.audit import add_split_leakage as add_split_leakage
from msshift_bench.dataset_builders.build import (
    build_dataset as build_dataset,
    import_official as import_official,
)
from msshift_bench.dataset_builders.cut import SampleSizes as SampleSizes
from msshift_bench.dataset_builders.triples import add_triples as add_triples
from msshift_bench.dataset_builders.typos import (
    import_variants as import_variants,
    make_variants as make_variants,
)
from msshift_bench.dataset_builders.write import hydrate_dataset as hydrate_dataset
from msshift_bench.doctor import diagnose as diagnose
from msshift_bench.errors import MsShiftError as MsShiftError
from msshift_bench.evaluation import (
    Result as Result,
    Settings as Settings,
    compare_run_sets as compare_run_sets,
    evaluate_extra_tests as evaluate_extra_tests,
    evaluate_run_sets as evaluate_run_sets,
    open_test_set as open_test_set,
    score_runs as score_runs,
)
from msshift_bench.leakage import (
    LeakageResult as LeakageResult,
    clean_training as clean_training,
    find_leakage as find_leakage,
    read_leaked_queries as read_leaked_queries,
    review_leakage as review_leakage,
)
from msshift_bench.mteb import mteb_tasks as mteb_tasks
from msshift_bench.report import draw_result as draw_result, write_report as write_report
from msshift_bench.runs import (
    find_run_sets as find_run_sets,
    read_qrels as read_qrels,
    read_run as read_run,
    validate_run as validate_run,
    write_run as write_run,
)
from msshift_bench.shifts import SHIFTS as SHIFTS
from msshift_bench.similarity import (
    INDICATORS as INDICATORS,
    IndicatorOptions as IndicatorOptions,
    Similarity as Similarity,
    group_similarity as group_similarity,
    set_similarity as set_similarity,
)
from msshift_bench.stats import (
    Figure as Figure,
    Figures as Figures,
    detectable_rel_loss as detectable_rel_loss,
)

__version__: str

def __dir__() -> list[str]: ...
