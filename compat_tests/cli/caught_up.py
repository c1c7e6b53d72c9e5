"""Waits until every broker shows what was changed before: a client asks any of them, and one may lag the controller."""

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
#: A group that has no members; its config is the mark.
_GROUP, _KEY = "caught-up", "consumer.session.timeout.ms"
#: The key's values are from 45 to 60 seconds.
_values = itertools.cycle(range(45_001, 60_000))
_DEADLINE_S = 60


def await_brokers(bootstrap: str) -> None:
    """The metadata log has an order: a broker that shows a mark shows the changes before it.

    Apache Kafka applies a batch of changes part by part, configs first, so a second mark is for the rest of the first one's.
    """
    with contextlib.ExitStack() as stack:
        clients = []
        for address in bootstrap.split(","):
            with contextlib.suppress(OSError, EOFError):
                client = stack.enter_context(WireClient(address, timeout=_DEADLINE_S))
                _shown(client)
                clients.append(client)
        if not clients:
            return  # nothing listens there, or with TLS or SASL: those tests have one broker
        for _ in range(2):
            value = str(next(_values))
            config = AlterableConfig(_KEY, _SET, value)
            change = IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP_RESOURCE, _GROUP, [config])])
            answer = clients[0].call(change, 1)
            assert answer.responses[0].error_code == 0, answer
            for client in clients:
                eventually(
                    lambda client=client, value=value: _shown(client) == value,
                    what="the broker shows the mark",
                    deadline_s=_DEADLINE_S,
                )


def _shown(client: WireClient) -> str | None:
    answer = client.call(DescribeConfigsRequest([DescribeConfigsResource(_GROUP_RESOURCE, _GROUP, [_KEY])]), 4)
    return next((config.value for config in answer.results[0].configs or ()), None)
