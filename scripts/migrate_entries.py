"""Write every entry anew, from a stored report to what it is derived from, and compare all figures.

    python scripts/migrate_entries.py OLD NEW MINI

OLD is leaderboard/entries of 99e2470, NEW the folder to write, MINI the data set of the entries on
`mini` (its counts of leaked queries were never taken). It prints how many figures were compared and
ends with 1 if one differs by more than 1e-9 of its size, as the gate allowed. Commands in the
descriptions get the names that they have now. This script goes with the next commit.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from msshift_bench.checked import write_rows
from msshift_bench.data import open_dataset, sha256_of
from msshift_bench.leaderboard import Description, TrainedOn, count_training, write_description
from msshift_bench.leaderboard.entries import PrintedFigure, Rescored, open_entry
from msshift_bench.shifts import SHIFTS

OLD, NEW, MINI = map(Path, sys.argv[1:])
RESAMPLED = {"inter": "avg_in", "extra": "out"}
compared: Counter[str] = Counter()
differences: list[str] = []


def compare(kind: str, name: str, new: float | None, old: float | None) -> None:
    """Count a comparison, and keep it if the two differ."""
    compared[kind] += 1
    if new is None or old is None:
        if new is not old:
            differences.append(f"{kind} {name}: {new} for {old}")
    elif not math.isclose(new, old, rel_tol=1e-9, abs_tol=1e-13):
        differences.append(f"{kind} {name}: {new!r} for {old!r}")


def described(value: dict[str, Any]) -> Description:
    """Return the description of an old submission."""
    system, training, reported = value["system"], value["training"], value["reported"]
    queries = {}
    for system_report in (value["report"] or {"systems": []})["systems"]:
        models = training["queries"].get(system_report["shift"], {})
        trained = any(ids["count"] for ids in models.values())
        queries[system_report["shift"]] = (
            "undeclared" if not models else "msshift" if trained else "none"
        )
    shifts = [shift for shift in SHIFTS if shift in queries]
    source = "" if reported is None else reported["source"]
    if reported is not None and any(t["title"].startswith("MS MARCO") for t in reported["other"]):
        source += (
            "; on MS MARCO's own test sets: arXiv 2205.02870 v1, Table 5, means over the models of "
            "a shift ('all queries': one model that was trained on all)"
        )
    reproduction = value["reproduction"] or {"commands": [], "tolerance": None}
    commands = [
        command.replace("leaderboard reproduce", "leaderboard check")
        for command in reproduction["commands"]
    ]
    return Description.model_validate(
        {
            "board": value["board"],
            "version": value["version"],
            "authors": value["authors"],
            "note": value["note"],
            "submitted": value["submitted"],
            "source": source,
            "system": {
                **system,
                "links": {name: system["links"].get(name) for name in ("paper", "code", "model")},
            },
            "training": {
                **{k: training[k] for k in ("data", "hard_negatives", "distillation", "hardware")},
                "queries": {shift: queries[shift] for shift in shifts},
            },
            "reproduction": {**reproduction, "commands": commands},
        }
    )


def printed(reported: dict[str, Any]) -> list[PrintedFigure]:
    """Return a paper's figures as it prints them."""
    rows = []

    def add(shift: str, measure: str, group: str, figure: str, value: float) -> None:
        rows.append(
            PrintedFigure(shift=shift, measure=measure, group=group, figure=figure, value=value,
                          low=None, high=None)
        )  # fmt: skip

    measure = reported["measure"]
    for shift in (s for s in SHIFTS if s in reported["shifts"]):
        for group in SHIFTS[shift].groups:
            for name in ("avg_in", "out", "rel_loss"):
                add(shift, measure, group, name, reported["shifts"][shift][group][name])
    for shift in (s for s in SHIFTS if s in reported["untrained"]):
        for group in SHIFTS[shift].groups:
            add(shift, measure, group, "out", reported["untrained"][shift][group])
    for shift, matrix in reported["matrix"].items():
        for held_out, row in matrix.items():
            for group, value in row.items():
                add(shift, measure, group, f"without {held_out}", value)
    for table in reported["other"]:
        for row in table["rows"]:
            for column, value in zip(table["columns"], row["values"], strict=True):
                if table["title"].startswith("MS MARCO"):
                    names = {"topics": "topics", "wh": "wh-words", "length": "length"}
                    test_set, _, name = column.rpartition(" ")
                    of = {"MRR@10": "RR@10", "R@1k": "R@1000", "nDCG@10": "nDCG@10"}[name]
                    test_set = test_set.replace("msmarco", "MS MARCO")
                    shift = names.get(row["name"], "all queries")
                    add(shift, of, test_set, "mean of models", value)
                elif not column.endswith("change"):
                    name, kind = column.split()
                    size = row["name"].split()[0]
                    shift = "resttest" if table["title"].startswith("ReSTT") else f"restrain-{size}"
                    of = name.replace("MRR", "RR")
                    add(shift, of, "mean", RESAMPLED[kind], value)
    return rows


def check(value: dict[str, Any], folder: Path) -> None:
    """Compare every figure of an entry with the stored one."""
    entry = open_entry(folder)
    new = {figure[:4]: figure for figure in entry.figures}
    used = set()

    def number(kind: str, key: tuple[str, str, str, str], old: float | None) -> None:
        used.add(key)
        compare(kind, f"{folder} {key}", new[key].value if key in new else None, old)

    for system in (value["report"] or {"systems": []})["systems"]:
        shift = system["shift"]
        for measure, record in system["measures"].items():
            loss = record["loss"]
            means: dict[tuple[str, Any], list[float]] = {}
            missing: Counter[str] = Counter()
            for cell in record["cells"]:
                means.setdefault((cell["group"], cell["held_out"]), []).append(cell["mean"])
                missing[cell["group"]] += cell["missing"]
            for (group, held_out), values in means.items():
                name = f"without {held_out}" if held_out else "out"
                number("matrix", (shift, measure, group, name), math.fsum(values) / len(values))
            for group, count in missing.items():
                number("missing", (shift, measure, group, "missing"), count)
            if loss is None:
                continue
            parts = {**loss["groups"], "mean": loss["overall"]}
            for group, part in parts.items():
                for name in ("avg_in", "out", "loss", "rel_loss"):
                    key = (shift, measure, group, name)
                    number("value", key, part[name])
                    for end in ("low", "high"):
                        old = part["intervals"][name][end]
                        compare("interval end", f"{folder} {key}", getattr(new[key], end), old)
                p = loss["overall"]["adjusted_p"].get(group)
                compare("p", f"{folder} {key}", new[key].p, p if part["seeds"] > 1 else None)
                if group != "mean":
                    key = (shift, measure, group, "effect_size")
                    number("effect size", key, part["tests"]["d_z"])
                if part["spread"] is not None:
                    key = (shift, measure, group, "sd_of_seeds")
                    number("sd of seeds", key, part["spread"]["rel_loss"])
    if value["reported"] is not None:
        for row in printed(value["reported"]):
            number("printed", (row.shift, row.measure, row.group, row.figure), row.value)
        for table in value["reported"]["other"]:
            for row in table["rows"]:
                for column, old in zip(table["columns"], row["values"], strict=True):
                    if column.endswith("change"):
                        size = row["name"].split()[0]
                        is_test = table["title"].startswith("ReSTT")
                        shift = "resttest" if is_test else f"restrain-{size}"
                        key = (shift, column.split()[0].replace("MRR", "RR"), "mean", "rel_loss")
                        used.add(key)
                        compare("change (rounded)", f"{key}", round(new[key].value, 4), -old)
        for shift, groups in value["reported"]["shifts"].items():
            for name in ("avg_in", "out", "rel_loss"):
                mean = math.fsum(group[name] for group in groups.values()) / len(groups)
                number("mean", (shift, "RR@10", "mean", name), mean)


def main() -> None:
    """Migrate all entries."""
    shutil.rmtree(NEW, ignore_errors=True)
    rescored = []
    mini = open_dataset(MINI)
    for path in sorted(OLD.glob("*/*/*/submission.json")):
        value = json.loads(path.read_bytes())
        folder = NEW / path.parent.relative_to(OLD)
        folder.mkdir(parents=True)
        description = described(value)
        write_description(folder / "system.toml", description)
        if value["reported"] is not None:
            write_rows(folder / "figures.csv", PrintedFigure, printed(value["reported"]))
        else:
            shutil.copyfile(path.parent / "scores.parquet", folder / "scores.parquet")
            entry = open_entry(folder)
            rows = []
            for shift, scores in entry.scores.items():
                models = value["training"]["queries"].get(shift, {})
                for model in ["*"] if "*" in models else SHIFTS[shift].groups:
                    ids = models[model]
                    for group in scores.groups:
                        leaked = (ids.get("leaked") or {}).get(group)
                        rows.append(
                            TrainedOn(
                                shift=shift,
                                model="all" if model == "*" else model,
                                queries=ids["count"],
                                sha256=ids["sha256"],
                                group=group,
                                test_queries=ids["test_queries"][group],
                                leaked=0 if not ids["count"] else leaked,
                            )
                        )
            if value["board"] == "mini":
                counted = [
                    row
                    for scores in entry.scores.values()
                    for row in count_training(description, folder, scores, mini)
                ]
                assert [row.model_dump(exclude={"leaked"}) for row in counted] == [
                    row.model_dump(exclude={"leaked"}) for row in rows
                ], folder
                rows = counted
            write_rows(folder / "training.csv", TrainedOn, rows)
            if value["badge"] == "rescored":
                digest = sha256_of(folder / "scores.parquet")
                day = value["submitted"]
                rescored.append(Rescored(entry=description.place, sha256=digest, date=day))
        check(value, folder)
    write_rows(NEW / "rescored.csv", Rescored, rescored)
    for kind, count in compared.items():
        print(f"{count:6,} {kind}")
    print(f"{sum(compared.values()):,} compared, {len(differences)} differ")
    print("\n".join(differences[:20]))
    raise SystemExit(bool(differences))


main()
