"""What the responsible-AI fields of Croissant say of a data set, and its card in the same words.

Vocabulary: http://mlcommons.org/croissant/RAI/1.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from msshift_bench.data import Manifest
from msshift_bench.dataset_builders.licences import GENERATED, MS_MARCO, origin_of

__all__ = ["TITLES", "responsible_use"]

TITLES: Mapping[str, str] = {
    "dataCollection": "Collection",
    "dataCollectionType": "Kind of collection",
    "dataPreprocessingProtocol": "Groups and splits",
    "dataAnnotationProtocol": "Relevance",
    "dataUseCases": "Uses",
    "dataBiases": "Known biases",
    "dataLimitations": "Limits",
    "personalSensitiveInformation": "Personal information",
    "dataSocialImpact": "Impact",
    "dataReleaseMaintenancePlan": "Maintenance",
}
"""A field of the vocabulary -> its title in the card."""

_ANY: Mapping[str, str] = {
    "dataPreprocessingProtocol": "Queries with a relevant passage are cut into groups by rules "
    "that manifest.json names, and sampled by a keyed hash of their ids. Texts are not changed, "
    "and nothing is filled in. Nothing depends on people or on the clock: the same collection "
    "gives the same rows.",
    "dataUseCases": "Measuring how much a retriever loses on queries that differ from those it "
    "was trained on, and comparing retrievers by that. Not for ranking people, for profiling "
    "whoever typed a query, or for claims about how good a retriever is in use.",
    "dataLimitations": "Relevance is judged sparsely, about one passage a query: a passage that "
    "nobody judged may well be relevant. Groups differ in more than what names them, so compare "
    "systems within a group, not groups with each other. The labels of the test queries are "
    "public: say what a system was trained on.",
    "dataSocialImpact": "A retriever that is chosen by its losses here is chosen on these groups "
    "only; who asks otherwise, or in another language, is not represented.",
    "dataReleaseMaintenancePlan": "A data version never changes its rows: what is mended gets a "
    "new version, and CHANGELOG.md of msshift-bench says what changed.",
}

_BY_ORIGIN: Mapping[str, Mapping[str, str]] = {
    MS_MARCO: {
        "dataCollection": "Microsoft sampled the queries from the anonymised logs of its search "
        "engine, and took the passages from the web pages that the engine found for them (MS "
        "MARCO, Bajaj et al., 2016). Nothing was collected for this data set.",
        "dataCollectionType": "Secondary Data Analysis",
        "dataAnnotationProtocol": "Editors of MS MARCO marked the passages that they used to "
        "answer a query, among the ones that the engine had found. Nobody judged anything again.",
        "dataBiases": "Queries are English, or translated from it, of one engine and of years "
        "before 2019, and only those that a passage answers. The judged passages are ones that "
        "the engine ranked high, which favours systems that rank as it did. Questions about "
        "health, prices and definitions are frequent.",
        "personalSensitiveInformation": "Queries were typed by people and anonymised by "
        "Microsoft; names of persons and places, and questions about health, occur in them. "
        "Passages are not part of the data set.",
    },
    GENERATED: {
        "dataCollection": "A program of msshift-bench invented passages, queries and relevance "
        "from lists of words. Nobody was asked, and nothing was collected.",
        "dataCollectionType": "Software Collection",
        "dataAnnotationProtocol": "Relevance follows from how a query was generated from a "
        "passage.",
        "dataBiases": "An invented world of templates: queries share few forms, and words of "
        "passages and queries match more often than those of people.",
        "personalSensitiveInformation": "None: names are invented.",
    },
}

_IMPORTED = (
    "Groups, training queries and test queries are those of the release that manifest.json "
    "names, imported without a change of text. Validation queries, which it lacks, are "
    "sampled by a keyed hash of their ids."
)

_OTHER: Mapping[str, str] = {
    "dataCollection": "The queries are those of the collection {name}; how they were collected "
    "is for its authors to say. Nothing was collected for this data set.",
    "dataCollectionType": "Secondary Data Analysis",
    "dataAnnotationProtocol": "Relevance is that of the collection {name}, unchanged.",
    "dataBiases": "Those of the collection {name}, and of its queries with a relevant passage, "
    "which alone are kept.",
    "personalSensitiveInformation": "Not examined: what the queries of {name} hold is in the "
    "data set, unless it is one of ids only.",
}


def responsible_use(manifest: Manifest) -> dict[str, str]:
    """Return what is said of a data set by field of the vocabulary, in the order of `TITLES`.

    Args:
        manifest: the manifest; what is said depends on the collection that it names.
    """
    own = _BY_ORIGIN.get(origin_of(manifest), _OTHER)
    name = str(manifest.collection["name"])
    said = {**_ANY, **{field: text.format(name=name) for field, text in own.items()}}
    if manifest.edition != "rebuilt":
        said["dataPreprocessingProtocol"] = _IMPORTED
    return {field: said[field] for field in TITLES}
