"""The metadata refresh of kafka-python 3.0.12, and how a reset connection ends it for good over TLS.

While a broker's process ends, the system may accept a connection and reset it at once. If the reset is there before the
client makes its TLS object, Python's `SSLContext.wrap_socket` raises ConnectionResetError. kafka-python does not turn this
OSError into a KafkaError (`KafkaConnectionManager._build_transport`), and its refresh expects KafkaError only
(`ClusterMetadata._refresh_loop`). So the refresh ends, and nothing starts it again. The client keeps its group and its
connections, but it does not find leaders that move later.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConnectionError
from kafka.net import manager


def refresh_state(client: KafkaConsumer | KafkaProducer) -> str:
    """Returns whether the client still fetches metadata, and the leaders in its last metadata, as words."""
    cluster: Any = client._metadata if isinstance(client, KafkaProducer) else client._client.cluster
    refresh = cluster._refresh_loop_future
    cause = refresh.exception if refresh is not None and refresh.is_done else None
    leaders = {
        f"{topic}-{index}": (partition.leader_id, partition.leader_epoch)
        for topic, partitions in list(cluster._partitions.items())
        for index, partition in list(partitions.items())
    }
    ended = f"its metadata refresh has ended for good ({cause!r}), " if cause is not None else ""
    return f"{ended}its leaders with epochs are {leaders}"


@contextlib.contextmanager
def outliving_resets() -> Iterator[list[OSError]]:
    """Turns the resets above into KafkaError, so that clients of this process go on; yields a list of these resets.

    Needed beside Apache Kafka, whose listening sockets sometimes close after its connections. Those of Odradek close first,
    so tests of Odradek alone use the client as it is.
    """
    resets: list[OSError] = []

    class Transport(manager.KafkaSSLTransport):  # type: ignore[misc,unused-ignore]
        def __init__(self, *args: Any, **configs: Any) -> None:
            try:
                super().__init__(*args, **configs)
            except OSError as reset:
                resets.append(reset)
                raise KafkaConnectionError(f"reset before TLS: {reset}") from reset

    with mock.patch.object(manager, "KafkaSSLTransport", Transport):
        yield resets
