"""The papers to cite, as BibTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msshift_bench.shifts import SHIFTS

__all__ = ["BIBTEX", "cited"]

BIBTEX: Mapping[str, str] = MappingProxyType(
    {
        "Lupart2023MsShift": """\
@inproceedings{Lupart2023MsShift,
  title={MS-Shift: An Analysis of MS MARCO Distribution Shifts on Neural Retrieval},
  author={Simon Lupart and Thibault Formal and St{\\'e}phane Clinchant},
  booktitle={ECIR},
  year={2023},
  note={arXiv:2205.02870}
}""",
        "Zhan2022Extrapolation": """\
@inproceedings{Zhan2022Extrapolation,
  title={Evaluating Interpolation and Extrapolation Performance of Neural Retrieval Models},
  author={Jingtao Zhan and Xiaohui Xie and Jiaxin Mao and Yiqun Liu and Jiafeng Guo and Min Zhang
    and Shaoping Ma},
  booktitle={CIKM},
  year={2022}
}""",
    }
)
"""Citation key -> entry."""


def cited(shifts: Iterable[str]) -> dict[str, str]:
    """Return the papers to cite for shifts: citation key -> BibTeX entry."""
    return {SHIFTS[shift].citation: BIBTEX[SHIFTS[shift].citation] for shift in shifts}
