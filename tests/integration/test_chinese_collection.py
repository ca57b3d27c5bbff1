"""A collection in Chinese, from the build to the losses, as typed; its texts have no spaces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from msshift_bench import load_dataset, load_triples, open_dataset
from tests.conftest import Command
from tests.support.refusals import check_exits

pytestmark = pytest.mark.extended

BUILD = (
    *("build", "length", "wh-words", "--collection", "zh", "--words", "characters"),
    *("--rule", "wh-words=question-words.tsv", "--licence", "cc-by-4.0"),
)
QUESTION_WORDS = {
    "什么": "wha",
    "怎么": "how",
    "多少": "how",
    "谁": "who",
    "什么时候": "who",
    "哪年": "who",
}
FIRST = "金银铜铁石木水火风云天日月星春夏秋冬东西南北青红白黑黄龙虎马牛羊鹤凤松竹梅兰菊莲泉雪霜露雨"
SECOND = "山河湖海城桥寺塔园林村镇岛港洞谷坡井庙亭楼阁堂宫关台池潭滩渡"
NAMES = [FIRST[n % 45] + SECOND[7 * n % 30] for n in range(90)]


def passages() -> Iterator[tuple[str, str]]:
    """Yield the ids and texts of three passages on each place."""
    for number, name in enumerate(NAMES):
        person = "赵钱孙李周吴郑王"[number % 8] + "明华强丽军"[number % 5]
        yield f"w{number}", f"{name}位于本省东部,是一座有名的古迹,每天都有许多客人来参观。"
        yield f"h{number}", f"去{name}可以乘坐{number + 3}路公共汽车,下车以后再步行几分钟。"
        yield f"p{number}", f"{person}在{1500 + number}年建造了{name},后来的人又重新整理过。"


def queries() -> Iterator[tuple[str, str, str]]:
    """Yield ids, texts and groups of queries; the id begins with the passage's.

    Some have a twin that is longer by a particle.
    """
    for number, name in enumerate(NAMES):
        is_long = number % 2
        yield f"w{number}", (f"{name}是什么地方", f"请问{name}到底是什么样的地方")[is_long], "wha"
        yield f"h{number}", (f"怎么到{name}最快", f"从车站怎么到{name}最方便")[is_long], "how"
        yield f"p{number}", (f"谁修了{name}的", f"{name}是什么时候由谁修的")[is_long], "who"
        if number % 4 == 0:
            yield f"p{number}-7", f"谁修了{name}这座桥", "who"
            yield f"p{number}-8", f"谁修了{name}这座桥呢", "who"


def write_world(folder: Path) -> None:
    """Write the collection ``zh``, and the files of question words, into a folder."""
    asked = list(queries())
    lines = [f"{query_id}\t{text}" for query_id, text, _ in asked]
    files = {
        "zh/collection.tsv": ["\t".join(passage) for passage in passages()],
        "zh/queries.tsv": lines,
        "zh/qrels.tsv": [f"{key} 0 {key.partition('-')[0]} 1" for key, _, _ in asked],
        "question-words.tsv": ["\t".join(pair) for pair in QUESTION_WORDS.items()],
        "train.tsv": lines,
        "test.tsv": [
            "t1\t金山是什么地方?",
            f"t2\t请问{NAMES[1]}到底是什么样地方",
            "t3\t今天天气好",
        ],
    }
    (folder / "zh").mkdir()
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")


@pytest.fixture
def world(tmp_path: Path, msshift: Command, caplog: pytest.LogCaptureFixture) -> Path:
    """Return a folder with the collection and the data set that was built from it."""
    write_world(tmp_path)
    done = msshift(*BUILD)
    assert (done.returncode, caplog.text) == (0, ""), done.stderr
    return tmp_path


def figures_of(path: Path) -> list[dict[str, Any]]:
    report = json.loads(path.read_text("utf-8"))
    assert report["data"]["words"] == "characters"
    figures: list[dict[str, Any]] = report["figures"]
    return figures


def test_queries_are_in_the_groups_of_their_words(world: Path) -> None:
    dataset = open_dataset(world / "msshift")
    assert dataset.words == dataset.manifest.parameters["words"] == "characters"
    group_of = {query_id: group for query_id, _, group in queries()}
    for group, part in dataset.test_sets("wh-words").items():
        assert {group_of[row.query_id] for row in part} == {group}
        assert len(part) > 15
    cut = dataset.manifest.shifts["length"]["parameters"]["cut"]
    assert 5 < cut < 12
    for row in load_dataset(dataset, "length", split="queries"):
        letters = sum(letter.isalpha() for letter in row.text)
        assert row.group in ("others", "short" if letters < cut else "long")
    card = (world / "msshift/README.md").read_text("utf-8")
    assert '"characters"' in card
    assert "谁, 什么时候, 哪年" in card


@pytest.mark.extended
def test_every_command_reads_the_words_from_the_data_set(
    world: Path, msshift: Command, caplog: pytest.LogCaptureFixture
) -> None:
    commands = (
        "verify",
        "run bm25 --collection zh",
        "run bm25-tuned --collection zh",
        "evaluate runs --output losses.json",
        "similarity --output words.json",
        "similarity --indicator unseen-words --output unseen.json",
        "similarity --indicator nearest-query --encoder terms --output nearest.json",
        "leakage find --data msshift",
        "analyse runs/bm25-tuned --shift wh-words --measures RR@10 --indicator weighted-jaccard "
        "--train train.tsv --test test.tsv --extrapolate --output links.json",
        "triples --collection zh --shift length --negatives 2",
    )
    for command in commands:
        done = msshift(*command.split())
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert "are a single word" not in caplog.text, command

    losses = figures_of(world / "losses.json")
    scores = [row["value"] for row in losses if row["figure"] == "score"]
    chance = sum(1 / rank for rank in range(1, 11)) / len(list(passages()))
    assert len(scores) > 4
    assert min(scores) > 30 * chance
    for shift, groups in {"length": ("short", "long"), "wh-words": ("wha", "how", "who")}.items():
        found = {
            (row["figure"], row["group"]): row["value"]
            for row in losses
            if row["figure"] in ("avg_in", "out", "rel_loss") and row["shift"] == shift
        }
        for group in groups:
            avg_in, out = found["avg_in", group], found["out", group]
            assert 0.4 < out <= avg_in <= 1
            assert found["rel_loss", group] == pytest.approx((avg_in - out) / avg_in)
        assert 0 < found["rel_loss", "mean"] < 0.5

    for name in ("words", "unseen", "nearest", "links"):
        values = [
            row["value"]
            for row in figures_of(world / f"{name}.json")
            if row["figure"] == "similarity"
        ]
        assert all(0.02 < value < 1 for value in values), name
        assert len(set(values)) > 2

    sidecar = json.loads((world / "runs/bm25/length.run.json").read_text("utf-8"))
    assert sidecar["words"] == "characters"
    dataset = open_dataset(world / "msshift")
    triples = dataset.manifest.shifts["length"]["triples"]
    assert triples["bm25"]["words"] == "characters"
    relevant = {row.query_id: row.text for row in load_dataset(dataset, "length", split="queries")}
    named = [
        name
        for triple in load_triples(dataset, "length-short-triples")
        for name in [next(name for name in NAMES if name in relevant[triple.query_id])]
    ]
    assert len(named) > 100
    leaked = dataset.manifest.shifts["length"]["near_duplicates"]["test_queries"]
    assert sum(counts["near-duplicate"] for counts in leaked.values()) > 0


@pytest.mark.parametrize(("words", "near"), [("characters", {"t1", "t2"}), ("unicode", {"t1"})])
def test_files_of_queries_take_words_as_an_option(
    tmp_path: Path, msshift: Command, caplog: pytest.LogCaptureFixture, words: str, near: set[str]
) -> None:
    write_world(tmp_path)
    files = f"--train train.tsv --test test.tsv --words {words}"
    for command in ("leakage find", "similarity --output near.json", "annotate --per-test 1"):
        caplog.clear()
        done = msshift(*command.split(), *files.split())
        assert done.returncode == 0, done.stderr
        assert ("--words characters" in caplog.text) == (words == "unicode")
    found = json.loads((tmp_path / "found/found.json").read_text("utf-8"))
    assert found["settings"]["words"] == words
    pairs = pq.read_table(tmp_path / "found/candidates.parquet").to_pylist()
    assert {pair["test_id"] for pair in pairs} == near
    report = json.loads((tmp_path / "near.json").read_text("utf-8"))
    assert report["settings"]["words"] == words
    (value,) = [row["value"] for row in report["figures"] if row["figure"] == "similarity"]
    assert 0.02 < value < 0.99 if words == "characters" else value < 0.02
    by_bm25 = "BM25" in (tmp_path / "sheet.csv").read_text("utf-8")
    assert by_bm25


def test_topics_have_characters_as_terms_and_are_built_again(
    tmp_path: Path, msshift: Command
) -> None:
    write_world(tmp_path)
    shifts = "topics wh-words rare-terms --encoder terms --out built"
    done = msshift("build", *shifts.split(), *BUILD[3:])
    assert done.returncode == 0, done.stderr
    for mode in ("replay", "retrain"):
        done = msshift("verify", "built", "--topics", mode, "--collection", "zh")
        assert done.returncode == 0, done.stderr
    facts = open_dataset(tmp_path / "built").manifest.shifts
    terms = [term for of_topic in facts["topics"]["found"]["terms"].values() for term in of_topic]
    assert {len(term) for term in terms} == {1}
    assert len(set(terms)) > 20
    assert set(terms) <= {*FIRST, *SECOND, *"".join(text for _, text, _ in queries())}


def test_without_characters_a_build_warns_and_has_no_short_query(
    tmp_path: Path, msshift: Command, caplog: pytest.LogCaptureFixture
) -> None:
    write_world(tmp_path)
    done = msshift("build", "length", "--collection", "zh", "--licence", "cc-by-4.0")
    assert "--words characters" in caplog.text
    assert (done.returncode, "'short'" in done.stderr) == (1, True)


def test_words_are_refused_where_they_have_no_meaning(world: Path, msshift: Command) -> None:
    del world
    check_exits(
        msshift,
        {
            "build length --collection zh --words letters": "2 letters characters unicode",
            "similarity --shift length --words characters": "2 --words remove",
            "leakage find --data msshift --words characters": "2 --words remove",
            "annotate --candidates train.tsv --words characters": "2 --words remove",
            "build wh-words --collection zh --rule wh-words=none.tsv": "2 none.tsv substring",
        },
    )


def test_wrong_question_words_are_refused_with_file_and_line(
    tmp_path: Path, msshift: Command
) -> None:
    write_world(tmp_path)
    lines = ["什么\twha", "怎么 how", "谁\twhere", "什么\twho"]
    (tmp_path / "question-words.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    done = msshift(*BUILD)
    assert done.returncode == 1
    for line in (2, 3, 4):
        assert f"question-words.tsv:{line}" in done.stderr
    assert "question-words.tsv:1" not in done.stderr
    assert "[question-word]" in done.stderr
    assert not (tmp_path / "msshift").exists()
