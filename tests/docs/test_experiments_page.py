"""The scripts that make the tables of docs/experiments.md, and its page of commands."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.output import to_markdown
from msshift_bench.runs import sidecar_path
from msshift_bench.stats import Figure, Figures
from scripts.experiments.plans import names
from scripts.experiments.tables import FEW, MANY, main, orders_of, published, sizes_of
from scripts.site.reproduce import reproduce_page, sections
from tests.conftest import REPOSITORY, Build, Command

EXPERIMENTS = REPOSITORY / "docs" / "experiments.md"
PAGE = EXPERIMENTS.read_text("utf-8")


def test_every_section_with_a_table_has_command_numbers_and_log() -> None:
    made = reproduce_page(EXPERIMENTS)
    with_tables = [
        part.partition("\n")[0]
        for part in re.split(r"(?m)^###? ", PAGE)[1:]
        if re.search(r"(?m)^\|", part)
    ]
    found = list(sections(PAGE))
    assert [one.title for one in found] == with_tables
    assert len(found) >= 8
    for one in found:
        assert one.commands or one.tests, one.title
        assert one.expected, one.title
        assert f"| [{one.title}](#{one.anchor}) |" in made
        assert all(f"```sh\n{command}```" in made for command in one.commands)
        assert all((REPOSITORY / path).is_file() for path in one.tests)
    assert all(f"`scripts/reproduce {name}`" in made for name in names())


def test_a_table_of_losses_is_cut_to_its_means() -> None:
    page = (
        "## One's own, twice\n\n```sh\ndo it\n```\n\nContent `0123456789ab`:\n\n**Here**\n\n"
        "| system |  | a | mean |\n|---|---|---|---|\n| bm25 |  | 1 | 2 |\n"
        "| us | Avg In | 3 | 4 |\n|  | Rel Loss | 5% | **6%**\\* |\n"
    )
    (found,) = sections(page)
    assert found.anchor == "ones-own-twice"
    assert found.losses == {"us": "6%"}
    assert found.log == ["- data set: content 0123456789ab"]
    (table,) = found.expected
    assert "| bm25 | 2 |  |  |  |  |\n| us |  | 4 |  | **6%**\\* |  |\n" in table


# Orders, compared with the paper's.


def test_the_paper_s_means() -> None:
    assert published("topics")["bi-encoder"] == pytest.approx(0.11, abs=0.001)
    assert published("topics")["colbert"] == pytest.approx(0.041, abs=0.0005)
    assert set(published("length")) == {"bi-encoder", "colbert", "splade", "monobert"}


def test_resttest_s_losses_are_those_of_zhan_et_al() -> None:
    # Table 7 prints them as Delta: -12, -10, -13 and -6%.
    assert published("resttest") == pytest.approx(
        {"bi-encoder": 0.115, "colbert": 0.095, "splade": 0.13, "monobert": 0.062}, abs=0.0005
    )


def test_an_order_is_stated_only_where_a_difference_is_significant() -> None:
    differences = [
        Figure(
            "rel_loss", system=first, against=second, value=value, low=value - 0.01, high=0.2, p=p
        )
        for first, second, value, p in (
            ("bi-encoder", "colbert", 0.02, 0.03),
            ("bi-encoder", "splade", -0.02, 0.03),
            ("colbert", "splade", -0.02, 0.051),
        )
    ]
    text = to_markdown(orders_of("topics", Figures(differences)))
    assert "| bi-encoder - colbert | 2.0% | [1.0, 20.0] | 0.030 | 7.0% | agrees |" in text
    assert "| -2.0% | [-3.0, 20.0] | 0.030 | 5.2% | disagrees |" in text
    assert "| 0.051 | -1.8% | cannot tell |" in text


def test_folders_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["orders", "no-data", "no-runs"]) == 3
    assert "no-" in capsys.readouterr().err


# Trainings, from sidecars.


def write(run: Path, system: str, group: str, seed: int, history: object = None) -> None:
    run.parent.mkdir(parents=True, exist_ok=True)
    sidecar = {
        "shift": "length",
        "system": system,
        "held_out": group,
        "data_digest": "abcdef0123456789",
        "encoder": {"weights_sha256": "0123456789abcdef"},
        "parameters": {"seed": seed},
        "training": {"history": history},
        "seconds": {"negatives": 360, "train": 1080, "encode": 700, "total": 5400},
        "hardware": {"torch_threads": 2},
    }
    run.write_bytes(b"")
    sidecar_path(run).write_text(json.dumps(sidecar))


def test_trainings_are_counted_with_their_hours_and_digests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    for seed in (0, 1):
        write(runs / f"a/length/seed-{seed}/short.run.gz", "a", "short", seed)
    # An extra test set needs no further training.
    write(runs / "a/extra/typos/length/seed-0/short.run.gz", "a", "short", 0)
    (runs / "bm25").mkdir()
    (runs / "bm25/length.run.gz").write_bytes(b"")
    run = runs / "b/length/short.run.gz"
    write(run, "b", "short", 0)
    without = {**json.loads(sidecar_path(run).read_text()), "encoder": None}
    sidecar_path(run).write_text(json.dumps(without))
    assert main(["costs", str(runs)]) == 0
    printed = capsys.readouterr().out
    assert "| length | a | 2 | 2 | 1.6 | 4.4 | `abcdef01` | pre-trained |" in printed
    assert "| length | b | 1 | 1 | 0.8 | 2.2 | `abcdef01` | random |" in printed


def test_curves_with_equal_steps_share_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a/length/short.run.gz", "a", "short", 0, {"100": 0.5, "200": 0.625})
    write(tmp_path / "b/length/short.run.gz", "b", "short", 0, {"100": 0.25, "200": 0.75})
    assert main(["curves", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "| system | model | 100 | 200 |" in printed
    assert "| b | without short, seed 0 | 25.0 | 75.0 |" in printed
    write(tmp_path / "c/length/short.run.gz", "c", "short", 0, {"100": 0.25})
    assert main(["curves", str(tmp_path)]) == 3
    assert "not all validated after the same steps" in capsys.readouterr().err
    assert main(["costs", str(tmp_path / "none")]) == 3
    assert "none" in capsys.readouterr().err


# Sizes.


def test_groups_are_compared_with_their_seeds_and_queries() -> None:
    rng = np.random.default_rng(0)
    base = {group: rng.random((3, 400)) for group in ("short", "long")}
    lower = {
        "short": base["short"] - rng.normal(0.05, 0.02, (3, 400)),
        "long": rng.permutation(base["long"].T).T,
    }

    table = sizes_of({MANY: base, FEW: lower}, "short", (2_000, 1_000))
    text = to_markdown(table)
    assert "**Without short, 3 seeds, MRR@10 x 100**" in text
    assert "trained on 2,000 | trained on 1,000" in text
    assert "| short (held out) |" in text
    assert "| 5.0 | [4." in text
    assert "| <0.001 |" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| long |")]
    difference, p = float(row.split("|")[4]), float(row.split("|")[6])
    expected = 100 * (base["long"].mean() - lower["long"].mean())
    assert difference == pytest.approx(expected, abs=0.05)
    assert p > 0.05


@pytest.mark.extended
def test_run_sets_that_do_not_fit(
    build_once: Build, msshift: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = build_once("mini:300", "length")
    made = msshift("run", "bm25", "--data", data, "--collection", "mini:300")
    assert made.returncode == 0, made.stderr
    runs = str(tmp_path / "runs")
    assert main(["sizes", str(data), runs, str(data), runs]) == 2
    assert "holds 1 run sets; one of trained models is needed" in capsys.readouterr().err
    for source in (tmp_path / "runs/bm25").glob("length.run.gz"):
        folder = tmp_path / "trained/model/length/seed-1"
        folder.mkdir(parents=True)
        for group in ("short", "long"):
            (folder / f"{group}.run.gz").write_bytes(source.read_bytes())
    trained, other = str(tmp_path / "trained"), str(build_once("mini:200", "length"))
    assert main(["sizes", str(data), trained, other, trained]) == 2
    assert "differ in their test queries" in capsys.readouterr().err
    few = tmp_path / "few/model/length/seed-1"
    few.mkdir(parents=True)
    shutil.copy(folder / "short.run.gz", few)
    assert main(["sizes", str(data), trained, str(data), str(tmp_path / "few")]) == 0
    assert capsys.readouterr().out.count("**Without short, 1 seeds") == 1
    (folder / "short.run.gz").unlink()
    assert main(["sizes", str(data), trained, str(data), str(tmp_path / "few")]) == 2
    assert "have no held-out group in common" in capsys.readouterr().err
    shutil.copy(few / "short.run.gz", folder)
    assert main(["sizes", str(data), trained, str(data), trained]) == 0
    printed = capsys.readouterr().out
    assert printed.count("**Without ") == 2
    assert printed.count("| 0.0 |") == 4
