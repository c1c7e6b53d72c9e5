"""syslog-ng with its kafka-c destination: lines over TCP become records with keys and fields as JSON."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from compat_tests.broker_process import free_port
from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import Running, libraries, unpacked

COUNT = 1000
CONFIG = """
@version: 3.38
@module json-plugin
source s_tcp {{ network(ip("127.0.0.1") port({port}) transport("tcp")); }};
destination d_kafka {{
  kafka-c(
    bootstrap-servers("{bootstrap}") topic("{topic}") key("$PROGRAM")
    message("$(format-json program=$PROGRAM text=$MSG level=$LEVEL)")
    config("compression.codec"("snappy") "queue.buffering.max.ms"("20") "acks"("all"))
    sync-send(no) batch-lines(100) batch-timeout(100)
  );
}};
log {{ source(s_tcp); destination(d_kafka); flags(flow-control); }};
"""


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def syslog_ng(bootstrap: str, topic: str, port: int, folder: Path) -> Running:
    config = folder / "syslog-ng.conf"
    config.write_text(CONFIG.format(port=port, bootstrap=bootstrap, topic=topic))
    modules = unpacked("syslog_ng", "usr/lib/syslog-ng/*/libkafka.so").parent
    places = ("--persist-file", "--pidfile", "--control")
    files = [word for option in places for word in (option, str(folder / option.strip("-")))]
    command = [str(unpacked("syslog_ng", "usr/sbin/syslog-ng")), "--foreground", "--stderr", "--no-caps", *files]
    command += ["--module-path", str(modules), "--cfgfile", str(config)]
    daemon = Running(command, folder / "syslog-ng.log", env=libraries("syslog_ng"))
    daemon.wait_for(lambda: is_listening(port), "listener")
    return daemon


def test_lines_become_records_across_a_restart_of_the_daemon(bootstrap: str, topic: str, tmp_path: Path) -> None:
    reference_client.create(bootstrap, topic, 3)
    port = free_port()
    for part in (0, 1):
        numbers = range(part * COUNT, (part + 1) * COUNT)
        with syslog_ng(bootstrap, topic, port, tmp_path) as daemon:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                for number in numbers:
                    connection.sendall(f"<14>Jan  1 00:00:00 host app-{number % 5}: line {number}\n".encode())
            reference_client.await_records(bootstrap, topic, numbers.stop)
            daemon.stop()
    found = [(one.key, json.loads(one.value or "")) for one in reference_client.records(bootstrap, topic)]
    assert len(found) == 2 * COUNT
    assert {(key, reported["text"], reported["level"]) for key, reported in found} == {
        (f"app-{number % 5}", f"line {number}", "info") for number in range(2 * COUNT)
    }
    assert all(key == reported["program"] for key, reported in found)
