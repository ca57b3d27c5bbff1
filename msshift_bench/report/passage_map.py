"""Maps of passages by their query, under a model that saw a group and one that did not.

After Zhan et al. (Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models, Table 10), who draw relevant passages in the colour of their query. MS MARCO has one
relevant passage for most queries, so the colour is that of the query's group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msshift_bench.arrays import Floats, Vectors
from msshift_bench.data import Collection, Dataset
from msshift_bench.dataset_builders.splits import sample
from msshift_bench.encoders import embed_passages
from msshift_bench.errors import MissingExtraError, NotFoundError, UsageError
from msshift_bench.output import INK, looks_of
from msshift_bench.report.report_figure import (
    Drawn,
    LeftOut,
    ReportFigure,
    Value,
    blank_figure,
    share_legend,
)
from msshift_bench.report.topic_map import flatten
from msshift_bench.shifts import Shift
from msshift_bench.similarity import unit_rows

__all__ = ["PassageSample", "draw_passage_map", "neighbours_alike", "sample_passages"]

_NEIGHBOURS = 10
_SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class PassageSample:
    """Relevant passages of test queries, and their vectors under two models of one system.

    Attributes:
        shift: the shift.
        system: the system.
        held_out: the group that one model did not see.
        other: the group that the other model did not see.
        query_ids: a query of each passage.
        doc_ids: the passages.
        groups: the group of each query.
        seen: vectors under the model that saw `held_out`, shape (passages, dimensions).
        unseen: under the one that did not, of the same shape.
    """

    shift: Shift
    system: str
    held_out: str
    other: str
    query_ids: tuple[str, ...]
    doc_ids: tuple[str, ...]
    groups: tuple[str, ...]
    seen: Vectors
    unseen: Vectors


def sample_passages(
    dataset: Dataset,
    shift: Shift,
    kept: Mapping[str, Mapping[str, Path]],
    losses: Mapping[str, Mapping[str, float]],
    collection: Collection | None,
    most: int,
) -> PassageSample | LeftOut:
    """Sample relevant passages of a shift's test queries, and embed them with two models.

    The models are those without the group that loses most, and without the one that loses least.

    Args:
        dataset: the data set.
        shift: the shift.
        kept: system -> held-out group -> its model; the first system that is a bi-encoder is taken.
        losses: system -> group -> Rel Loss.
        collection: the collection of the data set, which has the passages' texts; `None` if nobody
            said where it is.
        most: how many passages at most, the same ones for equal data.
    """
    title = _title(shift)
    if not kept:
        return LeftOut(
            title,
            "no system kept the models of its bi-encoders",
            "`msshift baseline run bi-encoder --keep-model`",
        )
    if collection is None:
        return LeftOut(
            title,
            f"nothing says where the passages of {dataset.manifest.collection['name']} are",
            "`msshift report --collection`, with the collection that the data set was built from",
        )
    query_of: dict[str, tuple[str, str]] = {}
    for group, rows in dataset.test_sets(shift).items():
        for row in rows:
            for doc_id in row.relevant_doc_ids:
                query_of.setdefault(doc_id, (row.query_id, group))
    chosen = sample(query_of, most, seed=_SEED, purpose="passages")
    texts = {one.doc_id: one.text for one in collection.passages() if one.doc_id in chosen}
    if absent := sorted(chosen - texts.keys()):
        return LeftOut(
            title,
            f"{collection.name} lacks {len(absent):,} of {len(chosen):,} relevant passages, "
            f"{absent[0]} for one",
            "the collection that the data set was built from (`--collection`)",
        )
    doc_ids = tuple(sorted(chosen))
    of_texts = [texts[doc_id] for doc_id in doc_ids]
    for system, models in kept.items():
        least, most_hurt = _extremes(models, losses.get(system, {}))
        try:
            seen, unseen = (embed_passages(of_texts, models[one]) for one in (least, most_hurt))
        except (NotFoundError, UsageError):  # these are no bi-encoders
            continue
        except MissingExtraError as error:
            return LeftOut(title, "a library is not installed", str(error))
        return PassageSample(
            shift,
            system,
            most_hurt,
            least,
            tuple(query_of[doc_id][0] for doc_id in doc_ids),
            doc_ids,
            tuple(query_of[doc_id][1] for doc_id in doc_ids),
            seen,
            unseen,
        )
    return LeftOut(
        title,
        f"the kept models ({', '.join(kept)}) are no bi-encoders",
        "`msshift baseline run bi-encoder --keep-model`",
    )


def _extremes(groups: Iterable[str], losses: Mapping[str, float]) -> tuple[str, str]:
    """Return the group that loses least and the one that loses most."""
    order = sorted(groups, key=lambda group: losses.get(group, 0.0))
    return order[0], order[-1]


def neighbours_alike(vectors: Vectors, groups: tuple[str, ...]) -> Floats:
    """Return the share of each passage's 10 nearest, by cosine, whose query is of its group.

    Args:
        vectors: shape (passages, dimensions), 2 passages or more.
        groups: the group of each passage.

    Returns:
        Shape (passages,), from 0 to 1; of fewer than 11 passages, all others are the nearest.
    """
    unit = unit_rows(vectors)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    most = min(_NEIGHBOURS, len(unit) - 1)
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :most]
    of_group = np.array(groups)
    shares: Floats = (of_group[nearest] == of_group[:, np.newaxis]).mean(axis=1)
    return shares


def draw_passage_map(found: PassageSample) -> Drawn:
    """Draw the passages as each of the two models places them, in the colour of their group."""
    held_out = found.held_out
    of_group = np.array(found.groups)
    groups = [group for group in found.shift.groups if group in set(found.groups)]
    looks = looks_of(found.shift.groups)
    figure = blank_figure(2.75)
    rows: list[list[Value]] = []
    said = []
    panels = (
        (f"saw {held_out}", found.other, found.seen),
        (f"did not see {held_out}", held_out, found.unseen),
    )
    for ax, (name, without, vectors) in zip(figure.subplots(1, 2), panels, strict=True):
        points = flatten(unit_rows(vectors))
        alike = neighbours_alike(vectors, found.groups)
        for group in sorted(groups, key=lambda group: group == held_out):
            where = of_group == group
            ax.plot(
                *points[where].T,
                looks[group].marker,
                ls="",
                ms=3.2 if group == held_out else 2.2,
                mew=0.3 if group == held_out else 0,
                mec=INK,
                alpha=0.9 if group == held_out else 0.55,
                color=looks[group].colour,
            )
        share = float(alike[of_group == held_out].mean())
        ax.set_title(f"model that {name}")
        ax.set_xlabel(f"{_NEIGHBOURS} nearest of {held_out}: {share:.0%} {held_out}")
        ax.set_xticks([])
        ax.set_yticks([])
        for side in ax.spines.values():
            side.set_visible(False)
        said.append(f"{share:.0%} under the model that {name}")
        rows += [
            [found.shift.name, found.system, without, *ids, *map(float, numbers)]
            for *ids, numbers in zip(
                found.query_ids,
                found.doc_ids,
                found.groups,
                np.column_stack([points, alike]),
                strict=True,
            )
        ]
    share_legend(figure, {group: looks[group] for group in groups})
    counts = ", ".join(f"{group} {(of_group == group).sum():,}" for group in groups)
    compared = " and ".join(said)
    return ReportFigure(
        f"passage-map-{found.shift.name}",
        _title(found.shift),
        f"t-SNE of {len(found.doc_ids):,} passages that are relevant to test queries, in the "
        f"colour of the query's group ({counts}), by the vectors of {found.system}: under the "
        f"model that was trained without {found.other}, the group that loses least, and under the "
        f"one without {held_out}, which loses most. Of the {_NEIGHBOURS} passages that lie nearest "
        f"to one of {held_out}, by cosine, those of {held_out} are {compared}. Distances between "
        "far points and the sizes of clouds mean nothing.",
        f"Two maps of the same {len(found.doc_ids):,} passages in {len(groups)} groups. Of the "
        f"nearest passages to one of {held_out}, those of {held_out} are {compared}.",
        ("shift", "system", "model_without", "query_id", "doc_id", "group", "x", "y", "alike"),
        rows,
        figure,
    )


def _title(shift: Shift) -> str:
    return f"{shift.title}: passages as two models place them"
