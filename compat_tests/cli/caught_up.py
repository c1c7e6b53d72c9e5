"""Waits until every broker has applied earlier changes: a client may connect to a broker that lags the controller."""

from __future__ import annotations

import contextlib
import itertools

from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

_GROUP_RESOURCE, _SET = 32, 0
#: A group without members; its config is the marker.
_GROUP, _KEY = "caught-up", "consumer.session.timeout.ms"
#: The key's values are from 45 to 60 seconds.
_values = itertools.cycle(range(45_001, 60_000))
_DEADLINE_S = 60


def await_brokers(bootstrap: str) -> None:
    """Waits until every broker shows a marker. The metadata log is ordered: such a broker has the changes before it.

    Apache Kafka applies a batch of changes in parts, configs first, so a second marker covers the rest of the first batch.
    """
    with contextlib.ExitStack() as stack:
        clients = []
        for address in bootstrap.split(","):
            with contextlib.suppress(OSError, EOFError):
                client = stack.enter_context(WireClient(address, timeout=_DEADLINE_S))
                _shown(client)
                clients.append(client)
        if not clients:
            return  # no listener, or only TLS or SASL: those tests have one broker
        for _ in range(2):
            value = str(next(_values))
            config = AlterableConfig(_KEY, _SET, value)
            change = IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP_RESOURCE, _GROUP, [config])])
            response = clients[0].call(change, 1)
            assert response.responses[0].error_code == 0, response
            for client in clients:
                eventually(
                    lambda client=client, value=value: _shown(client) == value,
                    what="the broker shows the mark",
                    deadline_s=_DEADLINE_S,
                )


def _shown(client: WireClient) -> str | None:
    response = client.call(DescribeConfigsRequest([DescribeConfigsResource(_GROUP_RESOURCE, _GROUP, [_KEY])]), 4)
    return next((config.value for config in response.results[0].configs or ()), None)
