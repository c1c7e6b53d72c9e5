"""The ground that the other tests stand on: both brokers start, answer, are killed and come back."""

from __future__ import annotations

from odradek.protocol.messages.metadata import MetadataRequest

from compat_tests.broker_process import BrokerProcess
from compat_tests.java.tool import ToolHost
from compat_tests.wire import WireClient


def test_a_broker_answers_metadata_with_its_own_address(broker: BrokerProcess) -> None:
    with WireClient(broker.bootstrap) as client:
        answer = client.call(MetadataRequest(topics=[]), 1)
    assert [(node.host, node.port) for node in answer.brokers] == [(broker.host, broker.port)]


def test_apaches_tools_run_one_after_the_other_in_one_jvm(tools: ToolHost, bootstrap: str, topic: str) -> None:
    command = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", bootstrap)
    assert f"Created topic {topic}" in tools.run(*command, "--create", "--topic", topic).checked().out
    assert topic in tools.run(*command, "--list").checked().out.splitlines()
    again = tools.run(*command, "--create", "--topic", topic)
    assert again.status == 1
    assert "already exists" in again.out
