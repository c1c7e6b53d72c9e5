"""Poisoned batches in a log: the cleaner goes on, the broker reports them, and `odradek log` lets consumers skip them."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.cli.main import main
from odradek.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.records.batch import patch, read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.errors import BatchError
from odradek.storage.compaction.cleaning_job import finish, job
from odradek.storage.compaction.dirty_range import look
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.storage.segments.poison import fault_of, readable_records

from compat_tests.batches import read_batches
from compat_tests.broker_process import free_port
from compat_tests.fixtures import java_tools, tools  # noqa: F401  (found by being here)
from compat_tests.java.tool import ToolHost
from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient
from tests.hostile.batch_readers import LAST, PYTHON_READERS, Stopped, dump, read_by_console_consumer
from tests.hostile.batch_sender import BatchSender
from tests.hostile.poisoned_batches import KINDS, ODD, batch, good_batch, record
from tests.server.harness.data_path import wait_until

NOW = 1_700_000_000_000
COMPACT = LogConfig(compact=True, delete=False, segment_bytes=3000, min_cleanable_dirty_ratio=0.0)
#: Kinds that are not damage to a log's files.
STORED = {
    name: make
    for name, make in {**KINDS, **ODD}.items()
    if "behind" not in name and "batch" not in name and name not in ("negative last offset", "no bytes")
}
UNVALIDATED = {"odradek.produce.validation": "header"}
#: One kind for each way in which a reader may fail.
STOPPING = ("count of 4", "rubbish payload", "null header key", "count and last offset of 2,000", "record length of -1")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def stored(name: str, codec: Compression, base_offset: int, at_ms: int) -> bytearray:
    made = bytearray(STORED[name](codec, at_ms))
    patch(made, 0, base_offset, 0)
    return made


def keyed(base_offset: int, key: bytes, value: bytes) -> bytearray:
    made = bytearray(batch(record(key=key, value=value), Compression.NONE, NOW, count=1))
    patch(made, 0, base_offset, 0)
    return made


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_cleaner_keeps_poisoned_batches_and_cleans_the_rest(tmp_path: Path, codec: Compression) -> None:
    log = Log.open(str(tmp_path / "t-0"), "t", 0, COMPACT, now_ms=NOW)
    lying = set()
    for name in STORED:
        made = stored(name, codec, log.log_end_offset, NOW)
        header = read_header(made)
        if header.last_offset_delta < 0:
            continue
        for value in (b"old", b"new"):
            log.append(keyed(log.log_end_offset, b"key of " + name.encode(), value), None, NOW)
        patch(made, 0, log.log_end_offset, 0)
        try:
            readable_records(read_header(made), made)
        except BatchError:
            lying.add(log.log_end_offset)
        log.append(made, None, NOW)
    log.append(keyed(log.log_end_offset, b"last", bytes(3000)), None, NOW)
    log.append(keyed(log.log_end_offset, b"active", b""), None, NOW)
    dirt = look(log, None, log.log_end_offset, NOW)
    cleaning = job(log, dirt, NOW, 100_000)
    result = cleaning.run()
    assert finish(log, cleaning, result, NOW)
    assert {one.base_offset for one in result.poisoned} == {offset for offset in lying if offset < result.end_offset}
    assert len(lying) > 20
    values = []
    for segment in log.segments[:-1]:
        for position, header in segment.headers(0):
            if header.base_offset not in lying:
                found = readable_records(header, segment.batch_bytes(position, header.size))
                values += [one.value for one in found if (one.key or b"").startswith(b"key of ")]
    assert values.count(b"new") > 50
    assert b"old" not in values
    log.close(NOW)


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    """A stopped broker whose topics were poisoned without validation; each ends with a good record."""
    broker = OdradekProcess(tmp_path_factory.mktemp("poisoned"), {**UNVALIDATED})
    with broker, BatchSender(broker.bootstrap) as sender:
        sender.create_topics({topic_of(name): {} for name in STOPPING})
        for name in STOPPING:
            assert not sender.error(topic_of(name), good_batch(Compression.NONE, now_ms()))
            assert not sender.error(topic_of(name), STORED[name](Compression.NONE, now_ms()))
            assert not sender.error(topic_of(name), batch(record(value=LAST), Compression.NONE, now_ms(), count=1))
        broker.stop()
        yield broker


def topic_of(name: str) -> str:
    return name.replace(" ", "-").replace(",", "").replace("^", "")


def test_skipped_batches_let_every_consumer_pass(
    poisoned: OdradekProcess,
    tools: ToolHost,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = ["--data-dir", str(poisoned.data_dir)]
    assert main(["log", "check", *place]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if ": offsets " in line]
    assert len(lines) == len(STOPPING)
    with pytest.raises(Stopped):
        dump(tools, (poisoned.data_dir / f"{topic_of('rubbish payload')}-0").glob("*.log"))
    for line in lines:
        name, _, rest = line.partition("-0: offsets ")
        offsets = rest.split(" ")[0]
        skip = ["log", "skip", *place, "--topic", name, "--partition", "0", "--offsets", offsets]
        assert main([*skip, "--dry-run"]) == 0
        assert main(skip) == 0
        assert main(skip) == 1, "there is nothing left to skip"
    assert main(["log", "check", *place]) == 0
    assert "0 bad batches" in capsys.readouterr().out
    with poisoned.start():
        for name in STOPPING:
            topic = topic_of(name)
            assert {read(poisoned.bootstrap, topic) for read in PYTHON_READERS} == {4}
            (poison,) = [header for header, records in read_batches(poisoned.bootstrap, topic, 0) if not records]
            assert poison.base_offset == 3
        read_by_console_consumer(tools, poisoned.bootstrap, topic_of(STOPPING[3]), 4)
    for name in STOPPING:
        dump(tools, (poisoned.data_dir / f"{topic_of(name)}-0").glob("*.log"))


@pytest.mark.usefixtures("processes")
def test_skip_needs_a_stopped_broker_and_exact_offsets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OdradekProcess(tmp_path, {**UNVALIDATED}) as broker, BatchSender(broker.bootstrap) as sender:
        sender.create_topics({"t": {}})
        assert not sender.error("t", STORED["count of 4"](Compression.NONE, now_ms()))
        skip = ["log", "skip", "--data-dir", str(broker.data_dir), "--topic", "t", "--partition", "0", "--offsets"]
        assert main([*skip, "0-3"]) == 1
        assert "in use" in capsys.readouterr().err
        broker.stop()
        for wrong in ("0-2", "1-3", "0", "x-y"):
            assert main([*skip, wrong]) == 1
        assert main(["log", "check", "--data-dir", str(broker.data_dir), "--topic", "other"]) == 1
        capsys.readouterr()
        assert main(["doctor", "--data-dir", str(broker.data_dir), "--output", "jsonl"]) == 1
        (shown,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert shown["check"] == "poisoned batch" and "offsets 0 to 3" in shown["finding"]
        assert f"`odradek {' '.join([*skip, '0-3'])}`" in shown["advice"]
        assert main([*skip, "0-3"]) == 0
        assert main(["doctor", "--data-dir", str(broker.data_dir)]) == 0


@pytest.mark.usefixtures("processes")
def test_cleaner_reports_poisoned_batches_once_and_delete_records_passes_them(tmp_path: Path) -> None:
    properties = {**UNVALIDATED, "log.cleaner.backoff.ms": "50", "odradek.metrics.port": str(free_port())}
    with OdradekProcess(tmp_path, properties) as broker, BatchSender(broker.bootstrap) as sender:
        sender.create_topics({"t": {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.0"}})
        assert not sender.error("t", STORED["rubbish payload"](Compression.NONE, now_ms()))
        fill(sender)
        set_config(broker, "cleanup.policy", "compact,delete")
        wait_until(lambda: cleaned_up_to(broker) > 0, "it was not cleaned")
        before = cleaned_up_to(broker)
        fill(sender)
        wait_until(lambda: cleaned_up_to(broker) > before, "it was not cleaned again")
        lines = [line for line in broker.log_file.read_text().splitlines() if "are poisoned" in line]
        assert len(lines) == 1
        assert "t-0: offsets 0 to 2" in lines[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{properties['odradek.metrics.port']}/metrics") as metrics:
            assert 'odradek_log_poisoned_batches{partition="0",topic="t"} 1.0' in metrics.read().decode()
        assert [delete_records(broker, offset) for offset in (1, 3)] == [1, 3]


@pytest.mark.usefixtures("processes")
def test_verification_in_the_background_reports_poisoned_batches_of_any_topic(tmp_path: Path) -> None:
    properties = {**UNVALIDATED, "odradek.scrub.interval.ms": "100", "odradek.scrub.bytes.per.second": "100000000"}
    with OdradekProcess(tmp_path, properties) as broker, BatchSender(broker.bootstrap) as sender:
        sender.create_topics({"t": {"segment.bytes": "1048576"}})
        assert not sender.error("t", good_batch(Compression.ZSTD, now_ms()))
        assert not sender.error("t", STORED["null header key"](Compression.LZ4, now_ms()))
        fill(sender)
        wait_until(lambda: "are poisoned" in broker.log_file.read_text(), "it was not reported")
        fill(sender)
        lines = [line for line in broker.log_file.read_text().splitlines() if "are poisoned" in line]
        assert len(lines) == 1
        assert "t-0: offsets 3 to 5" in lines[0]


def fill(sender: BatchSender) -> None:
    """Produces enough to roll the segment."""
    for _ in range(3):
        assert not sender.error("t", batch(record(value=bytes(600_000)), Compression.NONE, now_ms(), count=1))


def cleaned_up_to(broker: OdradekProcess) -> int:
    checkpoint = broker.data_dir / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
    return max((int(line.split()[2]) for line in lines if line.startswith("t 0 ")), default=0)


def set_config(broker: OdradekProcess, key: str, value: str) -> None:
    change = AlterConfigsResource(2, "t", [AlterableConfig(key, 0, value)])
    with WireClient(broker.bootstrap) as client:
        response = client.call(IncrementalAlterConfigsRequest(resources=[change]), 1)
    assert not response.responses[0].error_code


def delete_records(broker: OdradekProcess, offset: int) -> int:
    topic = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)])
    with WireClient(broker.bootstrap) as client:
        (response,) = client.call(DeleteRecordsRequest([topic], 10_000), 2).topics[0].partitions
    assert not response.error_code
    start: int = response.low_watermark
    return start


def test_timestamps_are_looked_up_in_poisoned_batches(tmp_path: Path) -> None:
    log = Log.open(str(tmp_path / "t-0"), "t", 0, LogConfig(), now_ms=NOW)
    log.append(stored("rubbish payload", Compression.ZSTD, 0, NOW), None, NOW)
    found = log.offset_for_timestamp(NOW - 5)
    assert found is not None
    assert found.offset == 0
    log.close(NOW)


def test_faults_name_what_is_wrong() -> None:
    for name in STOPPING:
        made = stored(name, Compression.NONE, 0, NOW)
        assert fault_of(read_header(made), made)
    good = good_batch(Compression.ZSTD, NOW)
    assert fault_of(read_header(good), good) is None
