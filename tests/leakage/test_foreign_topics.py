"""Topics and queries as TREC's tracks, CLEF, NTCIR and others publish them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import msshift_bench as ms
from msshift_bench.data import read_queries, read_variants
from msshift_bench.errors import CollectionError
from msshift_bench.leakage import find_leakage, read_topics
from msshift_bench.similarity import read_query_set

TIPSTER = """<top>
<head> Tipster Topic Description
<num> Number:  051
<dom> Domain:  International Economics
<title> Topic:  Airbus Subsidies
<desc> Description:

Document will discuss government assistance to Airbus Industrie

<smry> Summary:

Document will discuss government assistance to Airbus Industrie, or trade disputes.

<narr> Narrative:

A relevant document will cite or discuss assistance.

<con> Concept(s):

1. Airbus Industrie

<fac> Factor(s):
<nat> Nationality: U.S.
</fac>

<def> Definition(s):
</top>
"""

TOPICS: dict[str, tuple[str, set[tuple[str, str, str]]]] = {
    "TREC 1, topics 51 to 150": (
        TIPSTER,
        {
            ("051", "Airbus Subsidies", "title"),
            (
                "051",
                "Document will discuss government assistance to Airbus Industrie",
                "description",
            ),
        },
    ),
    "TREC 4, which has no titles": (
        "<top>\n<num> Number: 202\n<desc> Description:\nStatus of nuclear treaties\n</top>\n",
        {("202", "Status of nuclear treaties", "description")},
    ),
    "Web track": (
        """<?xml version="1.0"?>
<webtrack2009><topic number="1" type="faceted">
  <query>obama family tree</query>
  <description> Find information on Obama's family &amp; genealogy. </description>
  <subtopic number="1" type="nav">Find the TIME magazine photo essay.</subtopic>
</topic>
<topic number='2' type="ambiguous"><query>horse</query></topic></webtrack2009>""",
        {
            ("1", "obama family tree", "query"),
            ("1", "Find information on Obama's family & genealogy.", "description"),
            ("2", "horse", "query"),
        },
    ),
    "Microblog track of 2011": (
        "<top>\n<num> Number: MB001 </num>\n<title> BBC staff cuts </title>\n<querytime> Tue Feb 08"
        " </querytime>\n<querytweettime> 34952 </querytweettime>\n</top>\n",
        {("MB001", "BBC staff cuts", "title")},
    ),
    "Microblog track of 2012": (
        "<top>\n<num> Number: MB51 </num>\n<query> british museums </query>\n</top>\n"
        "<top>\n<num> Number: MB52 </num>\n<query> bedbug epidemic </query>\n</top>\n",
        {("MB51", "british museums", "query"), ("MB52", "bedbug epidemic", "query")},
    ),
    "TREC-COVID": (
        '<topics task="COVIDSearch"><topic number="1"><query>coronavirus origin</query>'
        "<question>what is the origin of COVID-19</question>"
        "<narrative>seeking a range of information</narrative></topic></topics>",
        {("1", "coronavirus origin", "query"), ("1", "what is the origin of COVID-19", "question")},
    ),
    "Touché, and PyTerrier's trecxml": (
        "<topics>\n<topic>\n<number>1</number>\n<title>Should teachers get tenure?</title>\n"
        "<description>A user thinks.</description>\n<narrative>Long</narrative></topic></topics>",
        {("1", "Should teachers get tenure?", "title"), ("1", "A user thinks.", "description")},
    ),
    "NTCIR WWW": (
        "<queries>\n<query>\n<qid>0001</qid>\n<content>Halloween picture</content>\n"
        "<description>Halloween is coming.</description>\n</query>\n"
        "<query><qid>0002</qid><content>Ashes</content></query></queries>",
        {
            ("0001", "Halloween picture", "query"),
            ("0001", "Halloween is coming.", "description"),
            ("0002", "Ashes", "query"),
        },
    ),
    "CLEF": (
        '<topics><topic lang="en"><identifier>10.2452/451-AH</identifier><title>Roman Army</title>'
        "<description>Find books.</description></topic></topics>",
        {
            ("10.2452/451-AH", "Roman Army", "title"),
            ("10.2452/451-AH", "Find books.", "description"),
        },
    ),
    "clinical trials": (
        '<topics task="2021 TREC Clinical Trials">\n<topic number="1">\nPatient is a 45-year-old '
        "man\n</topic>\n</topics>",
        {("1", "Patient is a 45-year-old man", "query")},
    ),
    "comments, CDATA and markup in a text": (
        '<topics><!-- <topic number="9"><title>old</title></topic> --><topic number="1">'
        "<title><![CDATA[H<sub>2</sub>O <b>purity</b>]]></title></topic></topics>",
        {("1", "H2O purity", "title")},
    ),
    "queries with ids of their own": (
        '<queries><query id="q1">who is pope</query><query id="q2">ashes</query></queries>',
        {("q1", "who is pope", "query"), ("q2", "ashes", "query")},
    ),
}


@pytest.mark.parametrize("kind", TOPICS)
def test_topics_are_read_with_their_ids_and_texts(tmp_path: Path, kind: str) -> None:
    content, expected = TOPICS[kind]
    path = tmp_path / "topics.txt"
    path.write_text(content)
    assert set(map(tuple, read_topics(path))) == expected


@pytest.mark.parametrize("kind", TOPICS)
def test_an_equal_training_query_leaks_whatever_the_topics_are(tmp_path: Path, kind: str) -> None:
    content, expected = TOPICS[kind]
    path = tmp_path / "topics.txt"
    path.write_text(content)
    test_id, text, _ = min(expected)
    train = {"t1": text, "t2": "recipe for a cake without eggs", "t3": "height of mount everest"}
    found = find_leakage(train, path, separate_ids=True)
    assert [(pair.test_id, pair.train_id, pair.tier) for pair in found.pairs] == [
        (test_id, "t1", "same-text")
    ]


@pytest.mark.parametrize(
    "content",
    ["<top><title>Airbus</title></top>", "<queries><query><content>a</content></query></queries>"],
)
def test_a_topic_without_a_number_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "topics.txt"
    path.write_text(content.replace("<queries>", '<queries><query id="1">b</query>'))
    with pytest.raises(CollectionError) as caught:
        read_topics(path)
    assert [finding.code for finding in caught.value.findings] == ["empty-id"]


QUESTIONS = "who is pope\tFrancis\nhow old is rome\t2,778 years\n"
JSON_LINES = '{"_id": "who is pope", "text": "Francis"}\n'


def beir(folder: Path) -> object:
    (folder / "queries.jsonl").write_text(JSON_LINES)
    (folder / "corpus.jsonl").write_text('{"_id": "1", "text": "Francis"}\n')
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\t1\t1\n")
    return ms.open_collection(folder).queries


def tsv(folder: Path) -> object:
    for name in ("collection.tsv", "qrels.tsv"):
        (folder / name).write_text("1\t1\t1\n")
    return ms.open_collection(folder).queries


DOORS: dict[str, Callable[[Path], object]] = {
    "find_leakage, test": lambda folder: find_leakage({"1": "a b"}, folder / "queries.tsv"),
    "find_leakage, train": lambda folder: find_leakage(folder / "queries.tsv", {"1": "a b"}),
    "find_leakage in memory": lambda _: find_leakage({"1": "a"}, {"who is pope": "Francis"}),
    "read_query_set": lambda folder: read_query_set(folder / "queries.tsv"),
    "set_similarity": lambda folder: ms.set_similarity(folder / "queries.tsv", {"1": "a b"}),
    "read_queries": lambda folder: read_queries(folder / "queries.tsv"),
    "read_variants": lambda folder: read_variants(folder / "variants.tsv"),
    "open_collection": tsv,
    "open_collection of BEIR": beir,
}


@pytest.mark.parametrize("door", DOORS)
def test_ids_of_queries_hold_no_white_space(tmp_path: Path, door: str) -> None:
    """A table of questions and answers is no file of ids and texts."""
    (tmp_path / "queries.tsv").write_text(QUESTIONS)
    (tmp_path / "variants.tsv").write_text("who is pope\two is pope\ttypo\n")
    with pytest.raises(CollectionError, match="'who is pope'") as caught:
        DOORS[door](tmp_path)
    assert {finding.code for finding in caught.value.findings} == {"id-of-words"}
    assert caught.value.findings[0].fix
