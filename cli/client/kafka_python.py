"""kafka-python's admin client: Kafka's client properties as its settings, and its connections to brokers.

The connections serve a cluster in which one broker hangs: its port accepts connections, nothing responds. The library waits
for it as long as for any other, and may choose it again for each request that any broker serves.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafka.errors import KafkaTimeoutError
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from ...client.any_broker import ANY_S, only_reads
from .properties import Security, TokenProvider, ssl_context

if TYPE_CHECKING:
    from kafka.cluster import BrokerMetadata
    from kafka.future import Future
    from kafka.net.connection import KafkaConnection
    from kafka.protocol.api_message import ApiMessage


# ---- settings


def admin_settings(properties: Mapping[str, str], security: Security, timeout_s: float) -> dict[str, object]:
    """Returns keyword arguments of `kafka.KafkaAdminClient`."""
    timeout_ms = int(timeout_s * 1000)
    made: dict[str, object] = {
        "bootstrap_servers": [one.strip() for one in properties["bootstrap.servers"].split(",") if one.strip()],
        "client_id": properties.get("client.id", "odradek-cli"),
        "request_timeout_ms": timeout_ms,
        "bootstrap_timeout_ms": timeout_ms,
        "reconnect_backoff_max_ms": 1000,
        "metadata_max_age_ms": 1000,  # a broker that dies is not asked for long
        "security_protocol": security.protocol,
    }
    if security.has_tls:
        made["ssl_context"] = ssl_context(security)
        made["ssl_check_hostname"] = security.verifies_host
    if security.has_sasl:
        made |= _sasl(security)
    return made


def _sasl(security: Security) -> dict[str, object]:
    made: dict[str, object] = {"sasl_mechanism": security.mechanism}
    if security.mechanism == "OAUTHBEARER":
        made["sasl_oauth_token_provider"] = TokenProvider(security)
    elif security.mechanism == "GSSAPI":
        made["sasl_kerberos_service_name"] = security.kerberos_service
    else:
        made |= {"sasl_plain_username": security.username, "sasl_plain_password": security.password}
    return made


# ---- connections

#: A broker's number, or the name of a bootstrap address whose number is unknown.
NodeId = int | str
#: For the first connection to each of the addresses; twice as long in each later round.
_BOOTSTRAP_MS = 3000.0


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc, unused-ignore]
    """Connections that try each address before one a second time. A request that only reads and that any broker serves goes
    to another broker when the first takes longer than ANY_S; brokers that took so long come last until they respond.
    """

    def __init__(self, net: NetworkSelector, **settings: object) -> None:
        super().__init__(net, **settings)
        self._slow: set[NodeId] = set()
        self._tries: Counter[NodeId] = Counter()
        self._addresses = self.cluster.bootstrap_brokers
        self.cluster.bootstrap_brokers = self._least_tried

    def _least_tried(self) -> list[BrokerMetadata]:
        known = self._addresses()
        least = min((self._tries[one.node_id] for one in known), default=0)
        return [one for one in known if self._tries[one.node_id] == least]

    def get_connection(self, node_id: NodeId, timeout_ms: float | None = None, **named: object) -> KafkaConnection:
        if timeout_ms is None or not self.cluster.is_bootstrap(node_id):
            return super().get_connection(node_id, timeout_ms, **named)
        limit_ms = _BOOTSTRAP_MS * 2 ** self._tries[node_id]
        made = super().get_connection(node_id, min(timeout_ms, limit_ms), **named)
        self._tries[node_id] += 1
        return made

    def least_loaded_node(self) -> NodeId:
        found: NodeId = super().least_loaded_node()
        if found not in self._slow:
            return found
        others: list[NodeId] = [one.node_id for one in self.cluster.brokers() if one.node_id not in self._slow]
        ready = [one for one in others if self.connection_delay(one) == 0]
        return random.choice(ready) if ready else found

    def send(
        self, request: ApiMessage, node_id: NodeId | None = None, request_timeout_ms: float | None = None
    ) -> Future:
        if node_id is None and only_reads(request):
            return self.call_soon(self._sent_to_any, request, request_timeout_ms)
        return self._sent_to(node_id if node_id is not None else self.least_loaded_node(), request, request_timeout_ms)

    def _sent_to(self, node_id: NodeId, request: ApiMessage, timeout_ms: float | None) -> Future:
        future = super().send(request, node_id, timeout_ms)
        future.add_callback(lambda _: self._slow.discard(node_id))
        return future

    async def _sent_to_any(self, request: ApiMessage, timeout_ms: float | None) -> ApiMessage:
        while True:
            node_id = self.least_loaded_node()
            future = self._sent_to(node_id, copy.copy(request), timeout_ms)
            if node_id is None or node_id in self._slow:
                return await future
            try:
                return await self.wait_for(future, ANY_S * 1000)
            except KafkaTimeoutError:
                self._slow.add(node_id)


def network_client(**settings: object) -> KafkaNetClient:
    """The network client of kafka-python that asks another broker where one hangs, and without the 10 KB of figures that it
    keeps for each connection.
    """
    without = {**settings, "metrics": None}
    net = NetworkSelector(**without)
    return KafkaNetClient(net, ConnectionManager(net, **without))
