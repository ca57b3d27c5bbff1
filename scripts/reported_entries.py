"""Write the entries of published results: `leaderboard/published` -> `leaderboard/entries`.

The tables in `leaderboard/published` are the source; run this again after a change there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from msshift_bench.leaderboard import load_published
from msshift_bench.leaderboard.file_list import write_file_list
from msshift_bench.leaderboard.layout import SUBMISSION_NAME
from msshift_bench.leaderboard.strict_files import dump_json
from msshift_bench.leaderboard.submission import parse_submission
from msshift_bench.shifts import SHIFTS

ENTRIES = Path(__file__).parent.parent / "leaderboard" / "entries"
SUBMITTED = "2026-11-21"

MSSHIFT = {
    "paper": "https://arxiv.org/abs/2205.02870",
    "code": "https://github.com/naver/ms-marco-shift",
}
MSSHIFT_AUTHORS = ["Simon Lupart", "Thibault Formal", "Stéphane Clinchant"]
ZHAN = {
    "paper": "https://doi.org/10.1145/3511808.3557312",
    "code": "https://github.com/jingtaozhan/extrapolate-eval",
}
ZHAN_AUTHORS = [
    "Jingtao Zhan",
    "Xiaohui Xie",
    "Jiaxin Mao",
    "Yiqun Liu",
    "Jiafeng Guo",
    "Min Zhang",
    "Shaoping Ma",
]
V1 = "MS-Shift, arXiv 2205.02870 v1 (2022)"
V2 = "MS-Shift, ECIR 2023, Tables 2 and 3"
ZHAN_SOURCE = "Zhan et al., CIKM 2022, Tables 6 and 7"

DISTILBERT = "DistilBERT"
TRIPLES = (
    "The training queries of the shift without the held-out group (for the topics about 100,000), "
    "with MS MARCO's judgements."
)
BM25_NEGATIVES = "sampled from BM25's ranking, and in-batch negatives"
FOUR_GPUS = "4 V100, 100k iterations of 128 queries; best checkpoint by validation"
TWO_GPUS = "2 V100, 150k iterations of 32 queries"

RERANKS_BM25 = "reranks BM25's first 1000"

# slug: title, family, description, backbone, negatives, hardware.
SYSTEMS = {
    "bi-encoder": (
        "Bi-encoder",
        "dense",
        "A query and a passage are a vector each, the encoder's [CLS]; scored by inner product.",
        DISTILBERT,
        BM25_NEGATIVES,
        FOUR_GPUS,
    ),
    "splade-max": (
        "SPLADE-max",
        "learned-sparse",
        "Sparse vectors over the vocabulary, max-pooled over the tokens.",
        DISTILBERT,
        BM25_NEGATIVES,
        FOUR_GPUS,
    ),
    "colbert": (
        "ColBERT",
        "late-interaction",
        "A vector per token; each token of the query is matched with its best in the passage.",
        DISTILBERT,
        BM25_NEGATIVES,
        TWO_GPUS,
    ),
    "monobert": (
        "monoBERT",
        "cross-encoder",
        "Reads query and passage together.",
        DISTILBERT,
        "sampled from BM25's ranking",
        TWO_GPUS,
    ),
    "bm25": ("BM25", "lexical", "Not trained: the point of reference.", "", "", ""),
}
BERT = "BERT-base-uncased"
ZHAN_SYSTEMS = {
    "DR": ("Dense retrieval", "dense", "A vector each for query and passage.", "1,024 random"),
    "SPLADE": ("SPLADE", "learned-sparse", "Sparse vectors over the vocabulary.", ""),
    "ColBERT": ("ColBERT", "late-interaction", "A vector per token.", ""),
    "Reranker": (
        "BERT reranker",
        "cross-encoder",
        "Reads query and passage together.",
        "",
    ),
    "BM25": ("BM25", "lexical", "Not trained.", ""),
}


def fraction(percent: float) -> float:
    """Return a percentage as the fraction whose digits are the same."""
    return float(Decimal(str(percent)) / 100)


def shift_of(group: str) -> str:
    """Return the shift that a group is of."""
    return next(name for name, shift in SHIFTS.items() if group in shift.groups)


def losses(rows: list[dict[str, Any]], system: str, *, percent: bool) -> dict[str, Any]:
    """Return shift -> group -> figures of one system."""
    found: dict[str, Any] = {}
    for row in rows:
        if row["system"] == system:
            figures = {
                name: fraction(row[name]) if percent else row[name] for name in ("avg_in", "out")
            }
            figures["rel_loss"] = fraction(row["rel_loss_pct"])
            found.setdefault(shift_of(row["group"]), {})[row["group"]] = figures
    return found


def full_collection(published: str) -> dict[str, Any]:
    """Return the table of the first version on MS MARCO's own test sets."""
    table = load_published("ms_shift_v1")["full_collection"]
    return {
        "title": "MS MARCO's own test sets",
        "note": f"{V1}, Table 5: the mean over the models of a shift, each trained without one of "
        "its groups; 'all' was trained on all queries.",
        "columns": table["columns"],
        "rows": [{"name": name, "values": values} for name, values in table[published].items()],
    }


def with_delta(values: list[float]) -> list[float]:
    """Return inter, extra and extra / inter - 1 for each pair of figures."""
    pairs = zip(values[::2], values[1::2], strict=True)
    return [x for inter, extra in pairs for x in (inter, extra, round(extra / inter - 1, 4))]


def resampled(table: dict[str, Any], rows: dict[str, list[float]], title: str) -> dict[str, Any]:
    """Return a table of interpolation and extrapolation."""
    names = [name.removesuffix(" inter") for name in table["columns"][::2]]
    return {
        "title": title,
        "note": "Interpolation: trained on queries like those of the test; extrapolation: trained "
        "without them. The paper gives means over the resampled sets, not each group. "
        "Change is extrapolation / interpolation - 1, computed here from the rounded figures.",
        "columns": [f"{name} {kind}" for name in names for kind in ("inter", "extra", "change")],
        "rows": [{"name": name, "values": with_delta(values)} for name, values in rows.items()],
    }


def submission(
    name: str,
    about: tuple[str, str, str, str, str, str],
    reported: dict[str, Any],
    *,
    authors: list[str],
    links: dict[str, str],
    year: int,
    data: str,
    version: int = 1,
    note: str = "",
) -> dict[str, Any]:
    """Return a submission of a paper's results."""
    title, family, description, backbone, negatives, hardware = about
    trained = family != "lexical"
    empty: dict[str, Any] = {"shifts": {}, "untrained": {}, "matrix": {}, "other": []}
    return {
        "schema": 1,
        "board": "ms-marco",
        "version": version,
        "note": note,
        "submitted": SUBMITTED,
        "badge": "reported",
        "system": {
            "name": name,
            "title": title,
            "family": family,
            "description": description,
            "backbone": backbone,
            "backbone_revision": "",
            "candidates": RERANKS_BM25 if family == "cross-encoder" else "",
            "licence": "",
            "year": year,
            "parameters": None if trained else 0,  # The papers state no numbers of weights.
            "links": links,
        },
        "authors": authors,
        "training": {
            "data": data if trained else "",
            "per_group": trained,
            "hard_negatives": negatives,
            "distillation": "",
            "seeds": [],
            "hardware": hardware,
            "class": "held-out-reported" if trained else "none",
            "queries": {},
        },
        "reproduction": None,
        "report": None,
        "reported": {**empty, "measure": "RR@10", **reported},
        "files": [],
    }


def msshift() -> Iterator[dict[str, Any]]:
    """Yield the systems of MS-Shift: of its second version, and of the first where it differs."""
    first, second = load_published("ms_shift_v1"), load_published("ms_shift_v2")
    rows = [*second["topics"], *second["wh_and_length"]]
    matrix = first["splade_topics_matrix"]
    common: dict[str, Any] = {
        "authors": MSSHIFT_AUTHORS,
        "links": MSSHIFT,
        "year": 2023,
        "data": TRIPLES,
    }
    for name, about in SYSTEMS.items():
        if name == "bm25":
            untrained: dict[str, Any] = {}
            for group, mean in (second["topics_bm25"] | second["wh_and_length_bm25"]).items():
                untrained.setdefault(shift_of(group), {})[group] = fraction(mean)
            yield submission(name, about, {"source": V2, "untrained": untrained}, **common)
            continue
        reported = {"source": V2, "shifts": losses(rows, name, percent=True)}
        if name == "colbert":
            old = {
                "source": f"{V1}, Tables 4 and 5",
                "shifts": losses(first["wh_and_length"], name, percent=False),
                "other": [full_collection(name)],
            }
            yield submission(name, about, old, **common | {"year": 2022}, note=first["note"])
            note = (
                "Replaces the figures of the paper's first version for wh-words and length, and "
                "adds the topics."
            )
            yield submission(name, about, reported, **common, version=2, note=note)
            continue
        if name == "splade-max":
            reported["source"] = f"{V2}; the topics' matrix: {V1}, Table 2"
            columns = matrix["columns"]
            reported["matrix"] = {
                "topics": {
                    held_out: dict(zip(columns, means, strict=True))
                    for held_out, means in matrix["rows"].items()
                }
            }
        if name != "monobert":
            published = "siamese" if name == "bi-encoder" else name
            reported["other"] = [full_collection(published)]
        yield submission(name, about, reported, **common)


def zhan() -> Iterator[dict[str, Any]]:
    """Yield the systems that ReSTTest and ReSTrain were shown on."""
    tables = load_published("interpolation_extrapolation")
    test, train = tables["resttest_msmarco_dev"], tables["restrain_trec_dl_19_20"]
    sizes = [size for size in train if size != "columns"]
    for name, (title, family, description, negatives) in ZHAN_SYSTEMS.items():
        backbone = "" if name == "BM25" else BERT
        about = (title, family, description, backbone, negatives, "")
        by_size = {
            f"{size} training queries": train[size][name] for size in sizes if name in train[size]
        }
        other = [
            resampled(test, {"mean of the buckets": test[name]}, "ReSTTest: MS MARCO dev"),
            resampled(train, by_size, "ReSTrain: TREC Deep Learning 2019 and 2020"),
        ]
        yield submission(
            f"zhan2022-{name.lower()}",
            (f"{title} (Zhan et al.)", *about[1:]),
            {"source": ZHAN_SOURCE, "measure": "MRR@10, nDCG@10 and R@100", "other": other},
            authors=ZHAN_AUTHORS,
            links=ZHAN,
            year=2022,
            data="MS MARCO's training queries, resampled: four buckets of five for ReSTTest.",
        )


def write(entries: Path = ENTRIES) -> list[Path]:
    """Write all entries and return their folders."""
    written = []
    for value in (*msshift(), *zhan()):
        parse_submission(value)
        folder = entries / value["board"] / value["system"]["name"] / f"v{value['version']}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SUBMISSION_NAME).write_bytes(dump_json(value))
        write_file_list(folder)
        written.append(folder)
    return written


if __name__ == "__main__":
    for path in write(*map(Path, sys.argv[1:])):
        print(path)
