"""Viewers whose searches and downloads take all time that there is: others are served, and work ends with its reader."""

from __future__ import annotations

import gc
import json
import socket
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from types import FrameType

import odradek
import pytest
from odradek.client.user_errors import Misused
from odradek.console.budgets import USER_CPU_S, Account, Budget, Stopped
from odradek.console.cluster.filters import filters
from odradek.console.cluster.query import Query
from odradek.console.cluster.records import Record

from compat_tests.console.process import Visitor
from compat_tests.recipes import eventually
from tests.hostile.harness.served_console import served_console

#: Filters that take a power of a document's depth, on documents that are deep.
HOSTILE = ("@..a..b..a..b", "@..*..*..*", "$..[?@..a..b]..a..b", "@[?@[?@..a]..b]..a")
DEPTH, VIEWERS = 80, 8
#: CPU of this process, which serves the console, during a page beside the attack, and until work of readers who left has
#: ended: other processes of the machine do not count. Without budgets it was tens of seconds.
MOST_PAGE_CPU_S, MOST_LEFT_CPU_S = 5.0, 5.0
#: On a machine that has no time for the test.
DEADLINE_S = 300.0


def deep_document() -> object:
    made: object = 1
    for number in range(DEPTH):
        made = {"ab"[number % 2]: made, "c": [1, 2]}
    return made


def record_of(document: object) -> Record:
    return Record("t", 0, 0, 0, None, "", [], 0, document)


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Objects of other tests in this process would take seconds to collect, which no budget can end."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("where", HOSTILE)
def test_filter_ends_with_the_budget_of_its_request(where: str) -> None:
    budget = Budget(0.3)
    with budget.running():
        (passes,) = filters(Query("t", where=where), budget)
        began = time.thread_time()
        try:
            for _ in range(1000):
                passes(record_of(deep_document()), None)  # type: ignore[arg-type]
                budget.check()
        except Stopped:
            pass
        else:
            pytest.fail("the filter is not stopped")
        assert time.thread_time() - began < 1
    assert sys.getprofile() is None


def test_filter_ends_when_its_reader_leaves() -> None:
    budget = Budget(60)
    with budget.running():
        (passes,) = filters(Query("t", where=HOSTILE[0]), budget)
        threading.Timer(0.2, setattr, (budget, "is_abandoned", True)).start()
        began = time.thread_time()
        with pytest.raises(Stopped):
            while True:
                passes(record_of(deep_document()), None)  # type: ignore[arg-type]
                budget.check()
        assert time.thread_time() - began < 2


@pytest.mark.parametrize("expression", ["(.*a){1000}", "x{1,900}y{1,900}", "((a{1,30}){1,30}){1,30}"])
def test_expression_of_too_many_states_is_refused(expression: str) -> None:
    with pytest.raises(Misused):
        filters(Query("t", value=expression))


@pytest.mark.parametrize("expression", ["(.*a){90}", "x{1,450}y", "(a|b|ab)*c", "[a-z]*[a-z]*[a-z]*[a-z]*!"])
@pytest.mark.parametrize("text", ["b" * 300_000, "ab" * 150_000, "x" * 300_000, "x" * 5_000_000])
def test_search_of_one_record_takes_seconds_at_most(expression: str, text: str) -> None:
    (passes,) = filters(Query("t", value=expression))
    one = record_of(None)
    one.value = text
    began = time.thread_time()
    try:
        passes(one, None)  # type: ignore[arg-type]
    except Misused as error:
        assert "too complex" in str(error)
    assert time.thread_time() - began < 6


@pytest.mark.parametrize("where", ["@.match == 1", "@['search'] == 1", "@.a == 'search'"])
def test_names_of_functions_are_names_of_fields(where: str) -> None:
    assert filters(Query("t", where=where))


@pytest.mark.parametrize("where", ["match(@.a, 'x')", "search (@.a, 'x')", "@.a =~ /x/"])
def test_expressions_of_pythons_are_refused(where: str) -> None:
    with pytest.raises(Misused):
        filters(Query("t", where=where))


def test_account_has_a_share_of_each_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr("odradek.console.budgets.time.monotonic", lambda: now_s[0])
    account = Account()
    account.spend(USER_CPU_S / 2)
    now_s[0] = 30.0
    account.spend(USER_CPU_S / 2)
    assert account.left_s() == 0
    now_s[0] = 61.0
    assert account.left_s() == USER_CPU_S / 2


@pytest.fixture(scope="module")
def console() -> Iterator[int]:
    with odradek.Broker() as broker:
        value = json.dumps(deep_document()).encode()
        for _ in range(20):
            broker.topic("deep").send(*[value] * 100)
        broker.topic("deeper").send(
            b'{"n": 1}', b"[" * 5000 + b"]" * 5000, b'{"a":' * 300 + b"1" + b"}" * 300, b'{"n": 2}'
        )
        with served_console(broker.bootstrap_servers) as port:
            yield port


def begun(port: int, query: str) -> socket.socket:
    """Sends a request and reads nothing."""
    made = socket.create_connection(("127.0.0.1", port))
    made.sendall(f"GET /topics/deep/messages?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return made


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize(
    "attack", [*(f"where={urllib.parse.quote(one)}" for one in HOSTILE[:2]), "download=json", "download=csv"]
)
def test_others_are_served_beside_hostile_searches_which_end_with_their_readers(console: int, attack: str) -> None:
    visitor = Visitor(f"http://127.0.0.1:{console}")
    eventually(lambda: "deep" in visitor.get("/topics"), what="the cluster is read")
    viewers = [begun(console, attack) for _ in range(VIEWERS)]
    try:
        for path in ("/topics", "/topics/deep/partitions", "/brokers", "/health"):
            began = time.process_time()
            visitor.get(path)
            assert visitor.status == 200 and time.process_time() - began < MOST_PAGE_CPU_S, path
    finally:
        for one in viewers:
            one.close()
    began = time.process_time()
    visitor.get("/topics/deep/messages?limit=1")
    assert visitor.status in (200, 429)
    eventually(lambda: working() == 0, what="the work of the readers who left ends", deadline_s=DEADLINE_S)
    assert time.process_time() - began < MOST_LEFT_CPU_S + MOST_PAGE_CPU_S


def working() -> int:
    """The threads that read records now."""
    frames = sys._current_frames().values()
    return sum(
        any(one.f_code.co_name == "run_records" or one.f_code.co_name == "_drawn" for one in stack(frame))
        for frame in frames
    )


def stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@pytest.mark.usefixtures("sockets")
def test_deep_value_hides_no_other_value_from_a_filter(console: int) -> None:
    visitor = Visitor(f"http://127.0.0.1:{console}")
    for where in ("@.n > 0", "@..n", "$..[?@ == 2]", "@.a", "$..*"):
        page = visitor.get(f"/topics/deeper/messages?where={urllib.parse.quote(where)}")
        assert visitor.status == 200 and " of 4 read" in page, where
    assert "2 shown of 4 read" in visitor.get("/topics/deeper/messages?where=%40.n%20%3E%200")
    for offset in range(4):
        visitor.get(f"/topics/deeper/messages/0/{offset}")
        assert visitor.status == 200
    for name in ("json", "csv", "csv-escaped", "parquet"):
        with socket.create_connection(("127.0.0.1", console)) as one:
            one.sendall(f"GET /topics/deeper/messages?download={name} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            assert one.makefile("rb").readline().split()[1] == b"200"
