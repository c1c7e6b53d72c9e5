"""Kafka Streams, Spark and franz-go over SASL_SSL with SCRAM: each checks its counts. There is no other listener."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.cli.scram_option import scram_user
from odradek.server.access.authority import Authority
from odradek.server.access.client_files import ClientFiles
from odradek.server.access.provisioning import NODE_NAME, Security
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import format_directories

from compat_tests import access
from compat_tests.broker_process import free_port
from compat_tests.franz_go.harness.program import program  # noqa: F401  (a fixture)
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE
from compat_tests.recipes import make_topic
from compat_tests.secured_nodes import PASSWORD, USER
from compat_tests.streams.word_count import WordCount, Words, exactly, lines_of
from spark_examples.tests.quick_jvm import QUICK_JVM

RECORDS = 1_000
SPARK_S = 240
_SPARK = Path(__file__).resolve().parent / "spark_secured.py"
#: Checks that read what they wrote, and count it.
GO_CHECKS = ("batches-of-zstd", "group-goes-on", "transactions", "admin-of-the-cluster")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker, while clients have access to it."""
    directory = tmp_path_factory.mktemp("scram-ecosystem")
    security, authority = Security(users={USER: PASSWORD}), Authority.new()
    bootstrap = f"localhost:{free_port()}"
    properties = {
        **SINGLE_NODE,
        **security.properties(several_nodes=False),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "listeners": f"{security.protocol}://{bootstrap}",
        "log.dirs": str(directory / "data"),
        "ssl.keystore.location": str(directory / "node.pem"),
        "ssl.truststore.location": str(directory / "authority.pem"),
    }
    node = authority.issue(NODE_NAME, ("localhost",))
    (directory / "node.pem").write_text(node.key_pem + node.chain_pem)
    files = ClientFiles(directory, security)
    files.write(authority)
    files.write_properties(bootstrap)
    user = scram_user(f"{security.mechanism}=[name={USER},password={PASSWORD}]")
    format_directories(BrokerConfig(properties), users=[user])
    with access.granted(files.properties_file(USER)), OdradekProcess(directory, properties) as broker:
        yield bootstrap
        assert "failed authentication" not in broker.log_file.read_text()


@pytest.mark.oracle
def test_kafka_streams_counts_words_exactly_once(address: str, java_tools: None, tmp_path: Path) -> None:
    topics = ("lines", "counts")
    for name in topics:
        make_topic(address, name, 2)
    words = Words(address, topics, 2)
    words.write(lines_of(200))
    application = WordCount(address, "application", topics, tmp_path / "instance")
    application.settings |= {**access.java(), "processing.guarantee": "exactly_once_v2"}
    try:
        application.start()
        words.read_all()
        assert sum(words.written.values()) == RECORDS
        assert words.counts == exactly(words.written)
        application.close()
    finally:
        application.kill()
        words.close()


@pytest.mark.timeout(SPARK_S + 30)
def test_spark_writes_copies_in_a_stream_and_reads_every_record(address: str, tmp_path: Path) -> None:
    for name in ("spark", "spark-copy"):
        make_topic(address, name, 2)
    command = [sys.executable, str(_SPARK), address, "spark", "spark-copy", str(RECORDS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SPARK_S, env=os.environ | QUICK_JVM)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"records {RECORDS} values {RECORDS}" in done.stdout


@pytest.mark.parametrize("check", GO_CHECKS)
def test_franz_go_finds_what_it_wrote(address: str, check: str, program: Path, topic: str, group: str) -> None:  # noqa: F811
    properties = access.librdkafka()
    login = {
        "FRANZ_CA_FILE": properties["ssl.ca.location"],
        "FRANZ_USER": properties["sasl.username"],
        "FRANZ_PASSWORD": properties["sasl.password"],
    }
    command = [str(program), address, check, topic, group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **login})
    assert done.returncode == 0, done.stdout + done.stderr
