"""rsyslog with omkafka: lines over TCP become records; lines sent while the broker is down arrive after its restart."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from compat_tests.broker_process import BrokerProcess, free_port
from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import Running, libraries, unpacked

COUNT = 1000
CONFIG = """
module(load="imtcp")
module(load="omkafka")
global(workDirectory="{folder}")
template(name="value" type="string" string="%msg:2:$%")
template(name="program" type="string" string="%programname%")
input(type="imtcp" address="127.0.0.1" port="{port}")
action(
  type="omkafka" broker=["{bootstrap}"] topic="{topic}" key="program" dynaKey="on" template="value"
  confParam=["compression.codec=lz4", "queue.buffering.max.ms=20", "acks=all", "enable.idempotence=true"]
  partitions.auto="on" resubmitOnFailure="on" keepFailedMessages="on" failedMsgFile="{folder}/failed"
  action.resumeRetryCount="-1" action.resumeInterval="1" queue.type="LinkedList"
)
"""


def send(port: int, lines: range) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for number in lines:
            connection.sendall(f"<14>Jan  1 00:00:00 host app-{number % 5}: line {number}\n".encode())


def rsyslogd(bootstrap: str, topic: str, port: int, folder: Path) -> Running:
    config = folder / "rsyslog.conf"
    config.write_text(CONFIG.format(folder=folder, port=port, bootstrap=bootstrap, topic=topic))
    modules = unpacked("rsyslog", "usr/lib/*-linux-gnu/rsyslog/omkafka.so").parent
    command = [str(unpacked("rsyslog", "usr/sbin/rsyslogd")), "-n", "-f", str(config), "-i", str(folder / "pid")]
    daemon = Running([*command, "-M", str(modules)], folder / "rsyslog.log", env=libraries("rsyslog"))
    daemon.wait_for(lambda: is_listening(port), "listener")
    return daemon


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def test_lines_become_records_with_keys(bootstrap: str, topic: str, tmp_path: Path) -> None:
    reference_client.create(bootstrap, topic, 3)
    port = free_port()
    with rsyslogd(bootstrap, topic, port, tmp_path) as daemon:
        send(port, range(COUNT))
        found = reference_client.await_records(bootstrap, topic, COUNT)
        daemon.stop()
    wanted = sorted((f"app-{number % 5}", f"line {number}") for number in range(COUNT))
    assert sorted((one.key or "", one.value or "") for one in found) == wanted


def test_lines_survive_a_restart_of_the_broker(
    new_broker: Callable[[dict[str, str]], BrokerProcess], topic: str, tmp_path: Path
) -> None:
    # The broker keeps its port through the restart.
    broker = new_broker({})
    reference_client.create(broker.bootstrap, topic)
    port = free_port()
    with rsyslogd(broker.bootstrap, topic, port, tmp_path) as daemon:
        send(port, range(COUNT))
        reference_client.await_records(broker.bootstrap, topic, COUNT)
        broker.kill()
        send(port, range(COUNT, 2 * COUNT))
        broker.start()
        found = reference_client.await_records(broker.bootstrap, topic, 2 * COUNT)
        daemon.stop()
    assert {one.value for one in found} == {f"line {number}" for number in range(2 * COUNT)}
