"""BM25's runs, their sidecars and states, and requests that are refused."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import Run, open_system
from msshift_bench.baselines.systems.finding import our_systems
from msshift_bench.baselines.systems.lexical import Bm25System
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
from tests.support.trained import SYSTEMS

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


# ---- files ----------------------------------------------------------------------------------


def test_a_data_set_of_ids_only_gives_the_same_run(data: Path, tmp_path: Path) -> None:
    build_dataset(open_collection(COLLECTION), ["length"], tmp_path / "ids", texts=False)
    (ids_only,) = bm25(tmp_path / "ids", tmp_path / "a")
    (with_texts,) = bm25(data, tmp_path / "b")
    assert ids_only.read_bytes() == with_texts.read_bytes()
    import_official([write_checkout(tmp_path / "one")], tmp_path / "other", texts=False)
    with pytest.raises(UsageError, match=r"other has only ids, and mini:300 lacks \d+ of \d+ q"):
        bm25(tmp_path / "other", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_bm25_gives_one_run_per_shift(data: Path, tmp_path: Path) -> None:
    runs = bm25(data, tmp_path / "runs", "wh-words", "length", depth=50)
    folder = tmp_path / "runs" / "bm25"
    assert runs == [folder / "wh-words.run.gz", folder / "length.run.gz"]
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
    assert [one.shift.name for one in found] == ["wh-words", "length"]
    assert [one.files for one in found] == [[run] for run in runs]
    assert [entry.name for entry in (tmp_path / "runs").iterdir()] == ["bm25"]


def test_the_sidecar_of_a_run(data: Path, tmp_path: Path) -> None:
    (run,) = bm25(data, tmp_path, k1=1.2)
    manifest = json.loads((data / "manifest.json").read_bytes())
    facts = sidecar(run)
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
        "parameters": {
            "variant": "lucene",
            "k1": 1.2,
            "b": 0.68,
            "stemmer": "english",
            "stop_words": "english",
            "depth": 1000,
            "engine": "bm25s",
        },
    }
    assert {key: facts[key] for key in expected} == expected
    assert facts["versions"]["numba"]
    assert facts["hardware"]["cpus"] == os.cpu_count()
    assert set(facts["seconds"]) == {"index", "search", "total"}


# ---- existing files -------------------------------------------------------------------------


def test_a_complete_run_is_skipped(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = bm25(data, tmp_path)
    before = run.stat().st_mtime_ns
    monkeypatch.setattr(Bm25System, "rank", None)
    assert bm25(data, tmp_path) == [run]
    assert run.stat().st_mtime_ns == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["bm25"]


def test_a_run_that_another_process_made_meanwhile_is_skipped(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    check = Bm25System.check

    def late(system: Bm25System, run: Run) -> None:
        monkeypatch.setattr(Bm25System, "check", check)
        bm25(data, tmp_path)
        caplog.clear()

    monkeypatch.setattr(Bm25System, "check", late)
    with caplog.at_level("INFO", "msshift_bench"):
        (run,) = bm25(data, tmp_path)
    assert caplog.messages == ["bm25 on length: complete already, skipped"]
    assert sidecar(run)["run_sha256"] == sha256_of(run)


def change_sidecar(run: Path) -> None:
    path = sidecar_path(run)
    path.write_text(path.read_text().replace('"cpus": ', '"cpus": 1'))


def begin(run: Path, **changes: str) -> None:
    """Move a run's sidecar, with changes, to the folder of unfinished work, and remove the run."""
    work = run.parents[1] / ".work" / "bm25" / "length" / "all"
    work.mkdir(parents=True)
    (work / "plan.json").write_text(json.dumps({**sidecar(run), **changes}))
    run.unlink()
    sidecar_path(run).unlink()


@pytest.mark.parametrize(
    ("spoil", "changes", "words"),
    [
        (
            lambda run: None,
            {"k1": 0.9, "stemmer": "none"},
            'SIDECAR differs from this request: k1 0.82 instead of 0.9; stemmer "english" instead '
            'of "none". Choose another --out or --name, or remove SIDECAR and length.run.gz',
        ),
        (lambda run: run.write_bytes(b"x"), {}, "is not the run that length.run.json describes"),
        (lambda run: sidecar_path(run).unlink(), {}, "; choose another --out or --name"),
        (lambda run: sidecar_path(run).write_text("[]"), {}, "run.json is not a JSON object"),
        (change_sidecar, {}, "; remove it and length.run.gz to make"),
        (
            lambda run: begin(run, edition="official-2022"),
            {},
            'edition "official-2022" instead of "rebuilt"',
        ),
    ],
    ids=["request", "run", "no sidecar", "sidecar", "changed sidecar", "begun"],
)
def test_existing_files_of_another_request_are_refused_and_kept(
    spoil: Any, changes: dict[str, Any], words: str, data: Path, tmp_path: Path
) -> None:
    (run,) = bm25(data, tmp_path)
    spoil(run)
    before = file_bytes(tmp_path)
    for refuse in (states, bm25):
        with pytest.raises(UsageError) as caught:
            refuse(data, tmp_path, **changes)
        assert words.replace("SIDECAR", str(sidecar_path(run))) in str(caught.value)
        assert file_bytes(tmp_path) == before


def test_the_states_of_a_run(data: Path, tmp_path: Path) -> None:
    (run,) = bm25(data, tmp_path)
    content = run.read_bytes()
    assert states(data, tmp_path) == ["complete"]
    run.unlink()
    assert states(data, tmp_path) == ["new"]
    bm25(data, tmp_path)
    begin(run)
    assert states(data, tmp_path) == ["begun"]
    # Another process at work holds a lock.
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


# ---- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"what": "bm52"}, UnknownNameError, "unknown system 'bm52': did you mean 'bm25'"),
        ({"shifts": ["lenght"]}, UnknownNameError, "'lenght': did you mean 'length'"),
        ({"shifts": ["topics"]}, UnknownNameError, "'topics': valid are length"),
        ({"k2": 3}, UnknownNameError, "unknown field of bm25 'k2': did you mean 'k1'"),
        (
            {"what": "bi-encoder", "held_out": ["shrt"]},
            UnknownNameError,
            "unknown group of length 'shrt': did you mean 'short'",
        ),
        (
            {"what": "bi-encoder", "shifts": ["length", "wh-words"], "held_out": ["short"]},
            UnknownNameError,
            "unknown group of wh-words 'short'",
        ),
        ({"what": "bi-encoder", "recipe": "pol"}, UnknownNameError, "'pol': did you mean"),
        ({"held_out": ["short"]}, UsageError, "bm25 is not trained, so it has no held-out groups"),
        ({"seeds": [1]}, UsageError, "bm25 has no seed, so it has no replicates"),
        ({"keep_model": True}, UsageError, "bm25 is not trained, so it has no model to keep"),
        ({"data": "none"}, NotFoundError, "no built data set at"),
        ({"out": None}, UsageError, "must be a folder of run sets, but is a built data set"),
        ({"collection": "./none"}, NotFoundError, "no folder"),
        ({"collection": "mini:301"}, UsageError, r"collection 'mini:300' .* 'mini:301' have"),
        *(
            ({"name": name}, UsageError, "name must have no space or '/'.*choose another")
            for name in ("", ".", "a/b", "a b", ".hidden", "length")
        ),
    ],
)
def test_requests_that_are_refused(
    given: dict[str, Any], error: type[Exception], message: str, data: Path, tmp_path: Path
) -> None:
    request = {"what": "bm25", "data": data, "out": tmp_path, **given}
    request["out"] = request["out"] or data
    with pytest.raises(error, match=message):
        make_runs(**request)
    assert list(tmp_path.iterdir()) == []


def test_training_on_a_test_query_is_refused(data: Path) -> None:
    source = ShiftData.read(get_shift("length"), open_dataset(data), open_collection(COLLECTION))
    train = source.split("short", "train")
    assert source.split(None, "train") == ()  # without a held-out group
    assert source.check_disjoint(train, "short") == {"leaked": 0, "equal_texts": 0}
    tested = next(iter(source.tests["short"]))
    twin = tested._replace(query_id="another id")
    assert source.check_disjoint((*train, twin), "short") == {"leaked": 0, "equal_texts": 1}
    with pytest.raises(DataError, match="1 training queries are also test queries of length-short"):
        source.check_disjoint((*train, tested), "short")


def test_relevant_passages_that_the_collection_lacks_are_counted(
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
        (run,) = bm25(tmp_path / "data", tmp_path / "runs", collection=folder)
    assert sidecar(run)["relevant_not_in_collection"] == {"test": 2}
    (message,) = caplog.messages
    assert message.startswith("2 of 4 passages relevant to the test queries of length are not in")


def test_the_systems() -> None:
    assert tuple(our_systems()) == ("bm25", "bm25-tuned", *SYSTEMS)
    for name, kind in our_systems().items():
        assert open_system(name).name == kind.name == name
        assert len(kind.about()) > 20
