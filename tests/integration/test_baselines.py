from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.systems.finding import our_systems
from msshift_bench.baselines.systems.shift_data import ShiftData
from msshift_bench.data import open_dataset
from msshift_bench.data.collection import open_collection
from msshift_bench.data.digests import ContentDigest, sha256_of
from msshift_bench.dataset_builders.build import build_dataset, import_official
from msshift_bench.errors import DataError, NotFoundError, UnknownNameError, UsageError
from msshift_bench.mini.generator import passages
from msshift_bench.runs import find_run_sets, sidecar_path
from msshift_bench.shifts import get_shift
from tests.conftest import Build
from tests.support.file_bytes import file_bytes
from tests.support.making import make_runs, plan_runs
from tests.support.official_checkout import write_checkout
from tests.support.run_files import queries_of, read_run, sidecar

SIZE = 300
COLLECTION = f"mini:{SIZE}"


@pytest.fixture(scope="session")
def data(build_once: Build) -> Path:
    return build_once(COLLECTION, "length", "wh-words")


def bm25(data: Path, out: Path, *shifts: str, **options: Any) -> list[Path]:
    chosen = shifts or ("length",)
    return make_runs("bm25", chosen, data=data, out=out, **options)


def states(data: Path, out: Path, **options: Any) -> list[str]:
    """Return the states of BM25's runs, as a plan gives them."""
    runs = plan_runs("bm25", data=data, out=out, **options)
    return [run.state() for run in runs]


# ---- what is written ------------------------------------------------------------------------


def test_a_data_set_of_ids_only_gives_the_same_run(data: Path, tmp_path: Path) -> None:
    build_dataset(open_collection(COLLECTION), ["length"], tmp_path / "ids", texts=False)
    (ids_only,) = bm25(tmp_path / "ids", tmp_path / "a")
    (with_texts,) = bm25(data, tmp_path / "b")
    assert ids_only.read_bytes() == with_texts.read_bytes()


def test_an_import_of_ids_needs_the_texts_of_its_queries(tmp_path: Path) -> None:
    import_official([write_checkout(tmp_path / "one")], tmp_path / "ids", texts=False)
    with pytest.raises(UsageError, match=r"ids holds ids only, and mini:300 lacks \d+ of \d+ quer"):
        bm25(tmp_path / "ids", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_bm25_gives_one_run_per_shift(data: Path, tmp_path: Path) -> None:
    runs = bm25(data, tmp_path / "runs", "wh-words", "length", depth=50)
    assert [run.relative_to(tmp_path).as_posix() for run in runs] == [
        "runs/bm25/wh-words.run.gz",
        "runs/bm25/length.run.gz",
    ]
    for run, shift in zip(runs, ("wh-words", "length"), strict=True):
        lines = read_run(run)
        assert set(lines) == {row.query_id for row in queries_of(shift, data)}
        for ranking in lines.values():
            assert 0 < len(ranking) <= 50
            assert [place for _, place, _, _ in ranking] == list(range(1, len(ranking) + 1))
            keys = [(score, doc_id) for doc_id, _, score, _ in ranking]
            assert keys == sorted(keys, reverse=True)
            assert {tag for _, _, _, tag in ranking} == {"bm25"}
    found = find_run_sets([tmp_path / "runs"])
    assert [(run_set.shift.name, *run_set.files) for run_set in found] == [
        ("wh-words", runs[0]),
        ("length", runs[1]),
    ]
    assert [entry.name for entry in (tmp_path / "runs").iterdir()] == ["bm25"]


def test_a_sidecar_says_what_made_the_run(data: Path, tmp_path: Path) -> None:
    (run,) = bm25(data, tmp_path, k1=1.2)
    manifest = json.loads((data / "manifest.json").read_bytes())
    said = sidecar(run)
    expected = {
        "system": "bm25",
        "shift": "length",
        "held_out": None,
        "edition": "rebuilt",
        "data_version": manifest["data_version"],
        "data_digest": manifest["content_digest"],
        "text_variant": "raw",
        "tag": "bm25",
        "queries": len(list(queries_of("length", data))),
        "passages": {
            "rows": SIZE,
            "sha256": ContentDigest.of(passages(SIZE)).hexdigest(),
            "double_encoded": 0,
        },
        "relevant_not_in_collection": {"test": 0},
        "run_sha256": sha256_of(run),
    }
    assert {key: said[key] for key in expected} == expected
    assert said["parameters"] == {
        "variant": "lucene",
        "k1": 1.2,
        "b": 0.68,
        "stemmer": "english",
        "stop_words": "english",
        "depth": 1000,
        "engine": "bm25s",
    }
    assert said["versions"]["numba"]
    assert said["hardware"]["cpus"] == os.cpu_count()
    assert set(said["seconds"]) == {"index", "search", "total"}


# ---- doing it again -------------------------------------------------------------------------


def test_what_is_complete_is_skipped(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = bm25(data, tmp_path)
    before = run.stat().st_mtime_ns
    monkeypatch.setattr(
        "msshift_bench.baselines.systems.lexical.Bm25System.rank",
        lambda *_: pytest.fail("it was run again"),
    )
    assert bm25(data, tmp_path) == [run]
    assert run.stat().st_mtime_ns == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bm25"]


def change_sidecar(run: Path) -> None:
    path = sidecar_path(run)
    path.write_text(path.read_text().replace('"cpus": ', '"cpus": 1'))


def begin(run: Path, **changes: str) -> None:
    """Put a run's sidecar, with changes, where its work was begun, and remove the run."""
    work = run.parents[1] / ".work" / "bm25" / "length" / "all"
    work.mkdir(parents=True)
    (work / "plan.json").write_text(json.dumps({**sidecar(run), **changes}))
    run.unlink()
    sidecar_path(run).unlink()


IN_THE_WAY: dict[str, tuple[Callable[[Path], object], dict[str, Any], str]] = {
    "another request": (
        lambda run: None,
        {"k1": 0.9, "stemmer": "none"},
        'SIDECAR differs from this request: k1 0.82 instead of 0.9; stemmer "english" instead of '
        '"none". Choose another --out or --name, or remove SIDECAR and length.run.gz',
    ),
    "a run that was changed": (
        lambda run: run.write_bytes(b"another"),
        {},
        "is not the run that length.run.json describes",
    ),
    "a run of unknown origin": (
        lambda run: sidecar_path(run).unlink(),
        {},
        "nothing says what made it; choose another --out or --name",
    ),
    "a sidecar that is none": (
        lambda run: sidecar_path(run).write_text("[]"),
        {},
        "length.run.json is not a JSON object",
    ),
    "a sidecar that was changed": (change_sidecar, {}, "; remove it and length.run.gz, and"),
    "work for another request": (
        lambda run: begin(run, edition="official-2022"),
        {},
        'edition "official-2022" instead of "rebuilt"',
    ),
}


@pytest.mark.parametrize("case", IN_THE_WAY)
def test_what_stands_in_the_way_of_a_run_or_its_plan_is_refused_and_left(
    data: Path, tmp_path: Path, case: str
) -> None:
    spoil, changes, words = IN_THE_WAY[case]
    (run,) = bm25(data, tmp_path)
    spoil(run)
    before = file_bytes(tmp_path)
    for refuse in (states, bm25):
        with pytest.raises(UsageError) as caught:
            refuse(data, tmp_path, **changes)
        assert words.replace("SIDECAR", str(sidecar_path(run))) in str(caught.value)
        assert file_bytes(tmp_path) == before


def test_work_that_was_begun_is_told_from_that_of_another_process(
    data: Path, tmp_path: Path
) -> None:
    (run,) = bm25(data, tmp_path)
    content = run.read_bytes()
    assert states(data, tmp_path) == ["complete"]
    run.unlink()
    assert states(data, tmp_path) == ["new"]
    bm25(data, tmp_path)
    begin(run)
    assert states(data, tmp_path) == ["begun"]
    descriptor = os.open(tmp_path / ".work" / "bm25" / "length" / "all", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert states(data, tmp_path) == ["running"]
        with pytest.raises(UsageError, match="another process is writing"):
            bm25(data, tmp_path)
    finally:
        os.close(descriptor)
    bm25(data, tmp_path)
    assert run.read_bytes() == content
    assert not (tmp_path / ".work").exists()


# ---- what cannot be -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"what": "bm52"}, "unknown system 'bm52': did you mean 'bm25'"),
        ({"shifts": ["lenght"]}, "unknown shift 'lenght': did you mean 'length'"),
        ({"k2": 3}, "unknown field of bm25 'k2': did you mean 'k1'"),
        (
            {"what": "bi-encoder", "held_out": ["shrt"]},
            "unknown group of length 'shrt': did you mean 'short'",
        ),
        (
            {"what": "bi-encoder", "shifts": ["length", "wh-words"], "held_out": ["short"]},
            "unknown group of wh-words 'short'",
        ),
        ({"what": "bi-encoder", "recipe": "pol"}, "recipe of bi-encoder 'pol': did you mean"),
        ({"shifts": ["topics"]}, "unknown shift in .*msshift 'topics': valid are length"),
    ],
)
def test_unknown_names(data: Path, tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"what": "bm25", "shifts": ["length"], **arguments}
    with pytest.raises(UnknownNameError, match=message):
        make_runs(data=data, out=tmp_path, **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"held_out": ["short"]}, UsageError, "bm25 is not trained, so no group can be held out"),
        ({"seeds": [1]}, UsageError, "bm25 takes no seed, so there are no replicates of it"),
        ({"keep_model": True}, UsageError, "bm25 is not trained, so there is no model to keep"),
        ({"data": "none"}, NotFoundError, "no built data set at"),
        ({"out": "DATA"}, UsageError, "is a built data set, not a folder of run sets"),
        ({"collection": "./none"}, NotFoundError, "no folder"),
        (
            {"collection": "mini:301"},
            UsageError,
            r"built from the collection 'mini:300' with the queries .* and 'mini:301' holds",
        ),
        *(
            ({"name": name}, UsageError, "cannot be a system's name: it names its folder and")
            for name in ("", ".", "a/b", "a b", ".hidden", "length")
        ),
    ],
)
def test_requests_that_cannot_be(
    data: Path, tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    given: dict[str, Any] = {"data": data, "out": tmp_path, **changes}
    if given["out"] == "DATA":
        given["out"] = data
    with pytest.raises(error, match=message):
        make_runs("bm25", **given)
    assert list(tmp_path.iterdir()) == []


def test_training_on_a_test_query_is_refused(data: Path) -> None:
    source = ShiftData.read(get_shift("length"), open_dataset(data), open_collection(COLLECTION))
    train = source.split("short", "train")
    assert source.split(None, "train") == ()  # of a system that trains on no group's experiment
    assert source.check_disjoint(train, "short") == {"leaked": 0, "equal_texts": 0}
    tested = next(iter(source.tests["short"]))
    twin = tested._replace(query_id="another id")
    assert source.check_disjoint((*train, twin), "short") == {"leaked": 0, "equal_texts": 1}
    with pytest.raises(DataError, match="1 training queries of length-short are test queries"):
        source.check_disjoint((*train, tested), "short")


def test_relevant_passages_that_are_not_there_are_counted(
    tsv_folder: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = ["red", "green", "blue", "black", "white", "brown", "pink", "grey"]
    texts = [f"{word} thing" for word in words] + [f"a very long {word} thing" for word in words]
    folder = tsv_folder(
        collection="".join(f"d{i}\t{text}\n" for i, text in enumerate(texts) if i >= len(words)),
        queries="".join(f"q{i}\t{text}\n" for i, text in enumerate(texts)),
        qrels="".join(f"q{i} 0 d{i} 1\n" for i in range(len(texts))),
    )
    build_dataset(open_collection(folder), ["length"], tmp_path / "data")
    with caplog.at_level(logging.WARNING, "msshift_bench"):
        (run,) = make_runs("bm25", data=tmp_path / "data", collection=folder, out=tmp_path / "runs")
    assert sidecar(run)["relevant_not_in_collection"] == {"test": 2}
    (record,) = caplog.records
    assert record.getMessage() == (
        "2 of 4 passages relevant to the test queries of length are not in toy"
    )


def test_the_systems() -> None:
    assert list(our_systems()) == [
        *("bm25", "bm25-tuned", "bi-encoder", "splade", "colbert", "monobert"),
        *("monot5", "knrm", "duet", "pacrr"),
    ]
    for name, kind in our_systems().items():
        assert open_system(name).name == kind.name == name
        assert len(kind.about()) > 20
