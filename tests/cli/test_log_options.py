"""`odradek start --log-level --log-format --host`, the log of slow requests, and the limit on repeated lines."""

from __future__ import annotations

import argparse
import concurrent.futures
import io
import json
import logging
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from odradek.cli import logs
from odradek.cli.log_levels import LOGGERS, LoggerLevel, logger_level
from odradek.cli.logs import LimitedHandler
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.broker_process import free_port
from compat_tests.recipes import eventually, make_topic
from compat_tests.wire import WireClient
from tests.cli.harness.started import Started, change_topics
from tests.docs.pages import DOCS, ROOT


def as_json(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def refused(*arguments: str) -> str:
    """Returns the error line of `odradek start` for arguments that it rejects."""
    command = [sys.executable, "-m", "odradek", "start", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.usefixtures("processes")
def test_json_lines_of_chosen_loggers_show_start_and_stop(tmp_path: Path) -> None:
    words = ("--log-format", "json", "--log-level", "info", "--log-level", "odradek.metadata=off")
    started = Started(tmp_path, *words)
    change_topics(started.address)
    lines = as_json(started.end(signal.SIGTERM))
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    messages = [line["message"] for line in lines if line["logger"] == "odradek.broker"]
    assert [next(i for i, m in enumerate(messages) if m.startswith(w)) for w in ("starting", "node 1 of", "stopping")]
    assert re.fullmatch(r"node 1 stopped in \d+ ms", messages[-1])
    assert not [line for line in lines if line["logger"] == "odradek.metadata"]
    assert {"odradek.quorum", "odradek.broker"} <= {line["logger"] for line in lines}


@pytest.mark.usefixtures("processes")
def test_message_of_a_failed_start_is_json_too(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "odradek", "start", "--port", str(port), "--data-dir", str(tmp_path)]
        done = subprocess.run([*command, "--log-format", "json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    (line,) = as_json(done.stderr.splitlines())
    assert line["level"] == "ERROR" and "it is in use" in line["message"]


@pytest.mark.usefixtures("processes")
def test_levels_of_one_logger_and_of_all() -> None:
    assert logger_level("WARN") == LoggerLevel("", 30)
    assert logger_level("root=Debug") == LoggerLevel("", 10)
    assert logger_level("odradek.quorum=trace") == LoggerLevel("odradek.quorum", 5)
    assert logger_level("asyncio=off") == LoggerLevel("asyncio", 100)
    for wrong in ("loud", "=info", "odradek.quorum=", ""):
        with pytest.raises(argparse.ArgumentTypeError):
            logger_level(wrong)
    assert "did you mean odradek.quorum?" in refused("--log-level", "odradek.quorom=info")
    assert "a level is one of trace, debug" in refused("--log-level", "loud")
    assert "not one of text, json" in refused("--log-format", "xml")


@pytest.mark.usefixtures("processes")
def test_every_logger_of_a_broker_is_known_and_in_the_docs() -> None:
    calls = re.compile(r'getLogger\("(odradek[^"]*)"\)')
    packages = ("client", "server", "storage", "coordinator", "replication", "metadata")
    files = [file for package in packages for file in (ROOT / package).rglob("*.py")]
    used = {name for file in files for name in calls.findall(file.read_text(encoding="utf-8"))}
    assert used - {"odradek"} == set(LOGGERS)
    page = (DOCS / "specialists" / "loggers.md").read_text(encoding="utf-8")
    assert [name for name in LOGGERS if f"| `{name}` |" not in page] == []


def test_repeated_lines_are_written_some_times_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    written = io.StringIO()
    handler = LimitedHandler(written)
    logger = logging.Logger("odradek.test")
    logger.addHandler(handler)
    for _ in range(9):
        logger.warning("the disk is %s", "slow")
    logger.warning("another")
    assert written.getvalue().splitlines() == ["the disk is slow"] * 5 + ["another"]
    now[0] += logs.PERIOD_S
    logger.warning("the disk is slow")
    assert written.getvalue().splitlines()[6:] == ["4 more like: the disk is slow", "the disk is slow"]
    for _ in range(5):
        logger.warning("the disk is slow")
    handler.close()
    assert written.getvalue().splitlines()[-1] == "1 more like: the disk is slow"


def test_limit_bounds_how_many_lines_are_remembered() -> None:
    handler = LimitedHandler(io.StringIO())
    logger = logging.Logger("odradek.test")
    logger.addHandler(handler)
    for number in range(logs.MOST_LINES + 50):
        logger.warning("line %d", number)
    assert len(handler._seen) == logs.MOST_LINES


def produce(address: str, topic: str) -> None:
    batch = encode_batch([Record(0, 0, b"k", b"v" * 100)])
    data = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    with WireClient(address) as client:
        assert client.call(request, 9).responses[0].partition_responses[0].error_code == 0


@pytest.mark.usefixtures("processes")
def test_slow_requests_are_logged_with_the_parts_of_their_time(tmp_path: Path) -> None:
    """Thousands of partitions take long to create; a Fetch that waits no longer than its max_wait_ms is not slow."""
    started = Started(tmp_path, "--log-format", "json", "--override", "odradek.slow.request.ms=100")
    topic_id = make_topic(started.address, "orders")
    with WireClient(started.address) as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topic = FetchTopic(topic_id=topic_id, partitions=[partition])
        fetch = FetchRequest(replica_id=-1, max_wait_ms=60_000, min_bytes=1, topics=[topic])
        waiting = pool.submit(client.call, fetch, 13)
        with WireClient(started.address) as other:
            wide = CreateTopicsRequest(topics=[CreatableTopic("wide", 1500, 1)], timeout_ms=60_000)
            assert other.call(wide, 7).topics[0].error_code == 0
        produce(started.address, "orders")
        assert waiting.result(60).responses[0].partitions[0].records
    lines = [line for line in as_json(started.end(signal.SIGTERM)) if line["logger"] == "odradek.slow"]
    # On a busy machine the work may be slow; the wait that the request allows does not count.
    waits = [line for line in lines if line["api"] == "Fetch" and line["handled_ms"] + line["answered_ms"] < 100]
    assert waits == []
    slow = max((line for line in lines if line["api"] == "CreateTopics"), key=lambda line: float(line["total_ms"]))
    assert slow["client"].startswith("127.0.0.1:") and slow["request_bytes"] > 20 and slow["response_bytes"] > 20
    parts = [slow[f"{part}_ms"] for part in ("handled", "waited", "answered")]
    assert slow["total_ms"] >= 100 and abs(sum(parts) - slow["total_ms"]) < 1
    assert re.match(r"CreateTopics v7 of client \S+ at \S+ took [\d.]+ ms: handled [\d.]+ ms, waited", slow["message"])


@pytest.mark.usefixtures("processes")
def test_host_is_where_a_broker_listens(tmp_path: Path) -> None:
    port = free_port()
    started = Started(tmp_path, "--host", "127.0.0.2", "--port", str(port))
    assert started.address == f"127.0.0.2:{port}"
    socket.create_connection(("127.0.0.2", port), timeout=30).close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    started.end(signal.SIGTERM)
    assert "name different addresses" in refused("--host", "::1", "--override", "listeners=PLAINTEXT://127.0.0.1:9092")
    assert "not an address" in refused("--host", "a b")
    assert eventually(lambda: started.process.poll() is not None, what="it has stopped")
