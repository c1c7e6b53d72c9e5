"""The audit log of a broker with an authorizer: denials, and changes of the cluster."""

from __future__ import annotations

import json
import logging

import odradek
import pytest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest

from compat_tests.wire import WireClient

pytestmark = pytest.mark.usefixtures("sockets")

_STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ANY = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "odradek.audit"]


def test_a_denial_is_written_once_as_kafka_writes_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "odradek.audit")
    config = {"authorizer.class.name": _STANDARD}
    with odradek.Broker(config=config) as broker, WireClient(broker.bootstrap_servers) as client:
        assert [client.call(_ANY, 3).error_code for _ in range(3)] == [31, 31, 31]
        assert lines(caplog) == [
            "Principal = User:ANONYMOUS is Denied operation = DESCRIBE from host = 127.0.0.1 on resource = "
            "Cluster:LITERAL:kafka-cluster for request = DescribeAcls with resourceRefCount = 1 based on rule DefaultDeny"
        ]
    assert lines(caplog)[1].startswith("2 more like: Principal = User:ANONYMOUS is Denied")


def test_a_change_is_written_as_json(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "odradek.audit")
    config = {
        "authorizer.class.name": _STANDARD,
        "super.users": "User:ANONYMOUS",
        "odradek.audit.format": "json",
    }
    request = CreateTopicsRequest(topics=[CreatableTopic("orders", 1, 1)], timeout_ms=5000)
    with odradek.Broker(config=config) as broker, WireClient(broker.bootstrap_servers) as client:
        assert client.call(request, 7).topics[0].error_code == 0
    (line,) = map(json.loads, lines(caplog))
    assert line.pop("time_ms") > 0
    assert line == {
        "event": "change",
        "principal": "User:ANONYMOUS",
        "host": "127.0.0.1",
        "request": "CreateTopics",
        "names": "orders",
    }
