"""The producer id of an idempotent producer of confluent-kafka, without the half second that librdkafka waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Producer


#: The limit for each of the two responses. An attempt that fails changes nothing: librdkafka asks again by its own timer.
_TIMEOUT_S = 1.0
#: The values of `enable.idempotence` that librdkafka takes for yes.
_YES = ("true", "t", "1")


def request_producer_id(producer: Producer, settings: Mapping[str, object], topic: str) -> None:
    """Has the producer ask for its id as soon as a connection is up, on a thread: records are queued meanwhile.

    librdkafka 2.16 asks when metadata arrives. The first metadata names the brokers, and the bootstrap connection is
    closed at once, so that attempt finds no connection. The next one is by a timer of 500 ms, and no record leaves before.
    The second metadata arrives over a connection that stays, so the attempt after it succeeds.
    """
    if str(settings.get("enable.idempotence", False)).lower() in _YES:
        threading.Thread(target=_read_metadata_twice, args=(producer, topic), name="producer-id", daemon=True).start()


def _read_metadata_twice(producer: Producer, topic: str) -> None:
    with contextlib.suppress(Exception):  # of a broker that does not respond: the records themselves say so
        producer.list_topics(topic, timeout=_TIMEOUT_S)
        producer.list_topics(topic, timeout=_TIMEOUT_S)
