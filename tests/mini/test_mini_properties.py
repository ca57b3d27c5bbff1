"""What holds for the generated collection of any size."""

from __future__ import annotations

from itertools import islice

from hypothesis import given, settings, strategies as st

from msshift_bench.mini import generator as mini

small_sizes = st.integers(min_value=1, max_value=200)
any_sizes = st.integers(min_value=200, max_value=mini.MAX_SIZE)


@settings(max_examples=40)
@given(size=small_sizes)
def test_a_whole_collection_is_consistent(size: int) -> None:
    passages, queries = list(mini.passages(size)), list(mini.queries(size))
    qrels = list(mini.qrels(size))
    assert len(passages) == len({passage.text for passage in passages}) == size
    assert len(queries) == len({query.query_id for query in queries}) == size + size // 2
    assert len({query.text.lower().rstrip("?") for query in queries}) == len(queries)
    assert len({(qrel.query_id, qrel.doc_id) for qrel in qrels}) == len(qrels)
    assert {qrel.query_id for qrel in qrels} == {query.query_id for query in queries}
    assert {qrel.doc_id for qrel in qrels} <= {passage.doc_id for passage in passages}
    assert all(len(query.text.split(" ")) >= 3 for query in queries)


@settings(max_examples=60)
@given(size=any_sizes)
def test_the_head_of_any_collection_is_well_formed(size: int) -> None:
    passages = list(islice(mini.passages(size), 60))
    texts = [passage.text for passage in passages]
    assert len(set(texts)) == len(texts)
    for text in texts:
        assert 30 <= len(text.split(" ")) <= 70
        assert text.isascii()
        assert text.split(" ") == text.split()
        assert "{" not in text
    queries = list(islice(mini.queries(size), 60))
    for query_id, text in queries:
        assert query_id == str(int(query_id))
        assert text.isascii()
        assert text.split(" ") == text.split()
        assert "{" not in text
    assert len({query.text.lower() for query in queries}) == len(queries)


@settings(max_examples=60)
@given(size=any_sizes, data=st.data())
def test_any_passage_follows_from_its_index_alone(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(min_value=0, max_value=size - 1))
    text = mini._passage_text(size, index)
    mini._entity.cache_clear()
    assert mini._passage_text(size, index) == text
    assert 30 <= len(text.split(" ")) <= 70
