from __future__ import annotations

import pytest

from msshift_bench.checked import Checked, ShiftName, check_value
from msshift_bench.errors import Finding, UnknownNameError, UsageError
from msshift_bench.shifts import SHIFTS, get_shift, parse_config


def test_groups_are_those_of_the_papers() -> None:
    assert {name: tuple(shift.groups) for name, shift in SHIFTS.items()} == {
        "topics": ("C0", "C1", "C2", "C3", "C4"),
        "wh-words": ("wha", "how", "who"),
        "length": ("short", "long"),
        "rare-terms": ("seen", "rare"),
        "resttest": ("1", "2", "3", "4", "5"),
    }


def test_every_config_parses_back() -> None:
    for shift in SHIFTS.values():
        assert parse_config(shift.name) == (shift, None)
        for config, group in shift.configs.items():
            assert parse_config(config) == (shift, group)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'length'"):
        get_shift("lenght")
    with pytest.raises(UnknownNameError, match="did you mean 'topics-C2'"):
        parse_config("topics-c2")
    with pytest.raises(UnknownNameError, match="group of length 'shrt': did you mean 'short'"):
        get_shift("length").check_group("shrt")
    for name in ("restain-14k", "restrain-14000"):  # a size has one name
        with pytest.raises(UnknownNameError, match="did you mean 'restrain-<size>'"):
            get_shift(name)


def test_files_know_the_shifts_that_come_in_sizes() -> None:
    class Listed(Checked):
        shifts: dict[ShiftName, int]

    findings: list[Finding] = []

    def refuse(refused: list[Finding]) -> UsageError:
        findings.extend(refused)
        return UsageError("a file")

    with pytest.raises(UsageError):
        check_value({"shifts": {"restrain-14k": 1, "topcs": 1}}, Listed, "a file", refuse)
    assert [finding.fix for finding in findings] == [
        "one of: topics, wh-words, length, rare-terms, resttest, restrain-<size>"
    ]
