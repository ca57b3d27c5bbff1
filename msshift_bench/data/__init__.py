"""The data: collections of passages, queries and qrels, and data sets that were built from them.

`open_collection` opens a collection; `load_dataset` loads a config of a data set. The room also
holds manifests, content digests, the Hub, and training triples. It may use `plumbing`, `mini`,
`checked`, `shifts`, `records` and `errors`.
"""

from msshift_bench.data.collection import (
    IR_DATASETS_FAILURES,
    Collection,
    is_double_encoded,
    open_collection,
    reason_of,
)
from msshift_bench.data.dataset import (
    COLLECTION_VARIABLE,
    HOME_VARIABLE,
    Dataset,
    Triple,
    TripleStream,
    installed_folder,
    load_dataset,
    load_triples,
    locate,
    open_dataset,
    open_source,
    verify_dataset,
)
from msshift_bench.data.digests import (
    ContentDigest,
    count_rows,
    digest_of_lines,
    row_lines,
    rows_digest,
    rows_of,
    sha256_of,
)
from msshift_bench.data.hub import ask_only_if_it_answers, install_dataset, push_dataset
from msshift_bench.data.manifest import (
    CARD_NAME,
    CROISSANT_NAME,
    DATA_VERSION,
    DataInfo,
    FileEntry,
    Manifest,
    SplitEntry,
    check_collection_name,
    cited,
    content_digest,
    holds_manifest,
    is_balanced,
    read_manifest,
    write_manifest,
)
from msshift_bench.data.reading import Variant, read_queries, read_variants, write_variants
from msshift_bench.data.test_sets import TestSet, read_extra_tests, read_test_folder
from msshift_bench.data.triples import export_triples

__all__ = [
    "CARD_NAME",
    "COLLECTION_VARIABLE",
    "CROISSANT_NAME",
    "Collection",
    "ContentDigest",
    "DATA_VERSION",
    "DataInfo",
    "Dataset",
    "TestSet",
    "FileEntry",
    "HOME_VARIABLE",
    "IR_DATASETS_FAILURES",
    "Manifest",
    "SplitEntry",
    "Triple",
    "TripleStream",
    "Variant",
    "count_rows",
    "digest_of_lines",
    "row_lines",
    "rows_of",
    "check_collection_name",
    "cited",
    "content_digest",
    "export_triples",
    "holds_manifest",
    "ask_only_if_it_answers",
    "install_dataset",
    "installed_folder",
    "is_balanced",
    "is_double_encoded",
    "load_dataset",
    "load_triples",
    "locate",
    "open_collection",
    "open_dataset",
    "open_source",
    "push_dataset",
    "read_extra_tests",
    "read_manifest",
    "read_queries",
    "read_test_folder",
    "read_variants",
    "reason_of",
    "rows_digest",
    "sha256_of",
    "verify_dataset",
    "write_manifest",
    "write_variants",
]
