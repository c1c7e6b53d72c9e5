"""The transaction of a task's attempt: it is aborted when nothing of it is on its way to a broker."""

from __future__ import annotations

import contextlib
import queue
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import odradek
import pyarrow as pa
import pytest
from odradek.admin.errors import ResponseError
from odradek.admin.transactions import describe_transactions
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.records.compression import Compression
from odradek.sink import sending
from odradek.sink.batches import Producer
from odradek.sink.requests import end
from odradek.sink.transaction import TransactionWriter

from compat_tests.recipes import make_topic
from tests.sink.intercepted_admin import InterceptedAdmin

DEADLINE_S = 30.0
#: Rows of more than one payload, so that a write sends some of them.
ROWS = pa.record_batch({"value": pa.array([b"v" * 1000] * 100)})
#: A row that fills a payload.
ONE_ROW = pa.record_batch({"value": pa.array([b"v" * 40_000])})


def writer(admin: InterceptedAdmin, topic: str) -> TransactionWriter:
    how = Producer(-1, -1, payload_bytes=1)
    return TransactionWriter(admin, f"{topic}.run.0.0", 60_000, how, topic, DEADLINE_S)


def test_abort_is_sent_after_the_responses_of_all_batches(
    admin: InterceptedAdmin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_sent, may_go_on = threading.Event(), threading.Event()
    events: list[str] = []

    class Threads(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            may_go_on.set()
            super().shutdown(wait, cancel_futures=cancel_futures)

    def before(request: Any) -> None:
        if isinstance(request, ProduceRequest):
            is_sent.set()
            assert may_go_on.wait(DEADLINE_S)
        elif isinstance(request, EndTxnRequest):
            events.append("abort")
            may_go_on.set()

    def after(request: Any) -> None:
        if isinstance(request, ProduceRequest):
            events.append("response")

    monkeypatch.setattr(sending, "ThreadPoolExecutor", Threads)
    admin.before, admin.after = before, after
    with closing(writer(admin, topic)) as writes:
        writes.write(ROWS)
        assert is_sent.wait(DEADLINE_S)
        writes.abort()
    assert events == ["response", "abort"]
    admin.before = admin.after = lambda request: None
    name = f"{topic}.run.0.0"
    assert describe_transactions(admin, [name])[name].state in ("PrepareAbort", "CompleteAbort")


def test_batches_leave_with_the_next_rows_once_their_leader_has_responded(admin: InterceptedAdmin, topic: str) -> None:
    responses: queue.SimpleQueue[ProduceRequest] = queue.SimpleQueue()
    admin.after = lambda request: responses.put(request) if isinstance(request, ProduceRequest) else None
    requests, deadline = 0, time.monotonic() + DEADLINE_S
    with closing(writer(admin, topic)) as writes:
        while requests < 5:
            assert time.monotonic() < deadline
            writes.write(ONE_ROW)  # the response may be on its way from the thread that has it
            with contextlib.suppress(queue.Empty):
                responses.get(timeout=0.1)
                requests += 1
        writes.abort()


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_batch_that_a_topic_does_not_take_is_sent_in_parts(
    broker: odradek.Broker, admin: InterceptedAdmin, codec: Compression
) -> None:
    """Producers of Java split it, too (KIP-126): only a single record can be too large."""
    name = f"narrow-{codec.name.lower()}"
    make_topic(broker.bootstrap_servers, name, 1, {"max.message.bytes": "5000"})
    texts = [random.Random(number).randbytes(90).hex().encode() for number in range(333)]
    rows = pa.record_batch({"key": pa.array(texts[::-1]), "value": pa.array(texts)})
    with closing(TransactionWriter(admin, name, 60_000, Producer(-1, -1, codec), name, 30.0)) as writes:
        for _ in range(2):  # the sequences go on behind the parts
            writes.write(rows)
            writes.flush()
        with pytest.raises(ResponseError, match="MESSAGE_TOO_LARGE"):
            writes.write(pa.record_batch({"value": pa.array([random.randbytes(6000)])}))
            writes.flush()
    with closing(TransactionWriter(admin, name, 60_000, Producer(-1, -1, codec), name, 30.0)) as writes:
        writes.write(rows)
        writes.flush()
        end(admin, name, writes.producer, commits=True)
    scan = odradek.scan(name, bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed")
    table = scan.to_table()
    assert table.column("value").to_pylist() == texts and table.column("key").to_pylist() == texts[::-1]
    offsets = table.column("offset").to_pylist()
    assert offsets == list(range(offsets[0], offsets[0] + 333)), "each record has an offset of its own"
