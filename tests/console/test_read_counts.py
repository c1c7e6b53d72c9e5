"""Records that a search has read: each is counted once, however often it was fetched, and over all its pages."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import odradek
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.console.cluster import merge
from odradek.console.cluster.masks import Masks
from odradek.console.cluster.query import NEWEST, OLDEST, Query
from odradek.console.cluster.record_reader import RecordReader
from odradek.console.cluster.records import RecordMaker
from odradek.console.cluster.search_result import SearchResult

from tests.harness.examples import examples

pytestmark = pytest.mark.usefixtures("sockets")

_NAMES = itertools.count()
#: In place of 16 MB: a window with more of them is read again in parts.
_SHOWN_BYTES = 4_000


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


def pages(broker: odradek.Broker, query: Query, seconds: float = merge.MOST_SECONDS) -> Iterator[SearchResult]:
    connection = Connection({"bootstrap.servers": broker.bootstrap_servers})
    reader = RecordReader(connection, RecordMaker(connection, Masks(()), None))
    while True:
        result = reader.read(query, seconds=seconds)
        yield result
        if not result.edges:
            return
        query = replace(query, edges=result.edges)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 2 * _SHOWN_BYTES), min_size=1, max_size=12),
    limit=st.integers(1, 12),
    order=st.sampled_from([NEWEST, OLDEST]),
    value=st.sampled_from(["", "a", "b"]),
)
def test_pages_together_read_each_record_once(
    broker: odradek.Broker,
    monkeypatch: pytest.MonkeyPatch,
    sizes: list[int],
    limit: int,
    order: str,
    value: str,
) -> None:
    monkeypatch.setattr(merge, "MOST_SHOWN_BYTES", _SHOWN_BYTES)
    topic = f"sized-{next(_NAMES)}"
    fillings = [b"ab"[number % 2 : number % 2 + 1] for number in range(len(sizes))]
    broker.topic(topic).send(*[filling * (size + 1) for filling, size in zip(fillings, sizes, strict=True)])
    found = list(pages(broker, Query(topic, limit=limit, order=order, value=value)))
    expected = [offset for offset, filling in enumerate(fillings) if value in ("", filling.decode())]
    shown = [record.offset for page in found for record in page.records]
    assert shown == (expected if order == OLDEST else expected[::-1])
    assert sum(page.read for page in found) == len(sizes), [page.read for page in found]
    assert all(len(page.records) <= page.read <= page.scanned for page in found)


def test_records_that_were_fetched_again_are_read_once(broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "MOST_SHOWN_BYTES", _SHOWN_BYTES)
    broker.topic("large").send(*[b"x" * _SHOWN_BYTES] * 4)
    (first, *_) = pages(broker, Query("large", order=OLDEST))
    assert first.scanned > 4 >= first.read == len(first.records)


@pytest.mark.parametrize("order", [NEWEST, OLDEST])
@pytest.mark.parametrize(
    ("limit", "bound"), [("_MOST_ROUND_BYTES", 2 * _SHOWN_BYTES), ("_MOST_ROUND_SECONDS", 0), ("_ROUND_SECONDS", 0)]
)
def test_filtered_search_of_large_records_moves_on_with_each_page(
    broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch, order: str, limit: str, bound: int
) -> None:
    """No time is left for any page, and no round may have more than two records, or take any time."""
    monkeypatch.setattr(merge, limit, bound)
    topic, count = f"large-{next(_NAMES)}", 12
    for number in range(count):
        broker.topic(topic).send(b'{"n": %d, "text": "%s"}' % (number, b"x" * _SHOWN_BYTES))
    query = Query(topic, order=order, value='"n": 3,', limit=2)
    found = list(itertools.islice(pages(broker, query, seconds=0.0), count + 1))
    assert not found[-1].edges and len(found) <= count, [one.edges for one in found]
    assert [record.offset for one in found for record in one.records] == [3]
    assert sum(one.read for one in found) == count


def test_slow_filter_of_many_small_records_moves_on(broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose records take longer than a round may is read in parts."""
    monkeypatch.setattr(merge, "_MOST_ROUND_SECONDS", 0)
    topic, count = f"small-{next(_NAMES)}", 150
    broker.topic(topic).send(*[b'{"n": %d}' % number for number in range(count)])
    found = list(itertools.islice(pages(broker, Query(topic, value='"n": 7}'), seconds=0.0), count + 1))
    assert not found[-1].edges and [record.offset for one in found for record in one.records] == [7]
    assert sum(one.read for one in found) == count
