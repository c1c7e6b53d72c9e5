"""librdkafka as a member of a share group that accepts every record.

    python share_load.py begin|consume BOOTSTRAP TOPIC RECORDS

The group has the topic's name. `begin` creates the group's state: it joins, receives one record, and leaves without an
acknowledgement. `consume` takes RECORDS; its time runs from its subscription until the last of them is accepted. Prints a
line of JSON, as rdkafka_load.py does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from confluent_kafka import ShareConsumer

GIVE_UP_S = 120.0
_POLL_S = 0.1


def member(bootstrap: str, topic: str, mode: str) -> ShareConsumer:
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "share.acknowledgement.mode": mode}
    consumer = ShareConsumer({**settings, "log_level": 0})
    consumer.subscribe([topic])
    return consumer


def take(consumer: ShareConsumer, records: int) -> int:
    """Returns the number of records received, once they are at least `records`."""
    taken, give_up = 0, time.perf_counter() + GIVE_UP_S
    while taken < records:
        taken += sum(message.error() is None for message in consumer.poll(_POLL_S))
        assert time.perf_counter() < give_up, f"only {taken} came"
    return taken


def begin(bootstrap: str, topic: str, records: int) -> dict[str, Any]:
    consumer = member(bootstrap, topic, "explicit")
    started = time.perf_counter()
    taken = take(consumer, 1)
    seconds = time.perf_counter() - started
    # The member acknowledges nothing: its records are released when the member leaves.
    consumer.close()
    return {"records": taken, "seconds": seconds}


def consume(bootstrap: str, topic: str, records: int) -> dict[str, Any]:
    started = time.perf_counter()
    consumer = member(bootstrap, topic, "implicit")
    taken = take(consumer, records)
    rejected = [error for error in consumer.commit_sync(GIVE_UP_S).values() if error is not None]
    assert not rejected, rejected
    seconds = time.perf_counter() - started
    consumer.close()
    return {"records": taken, "seconds": seconds}


LOADS = {"begin": begin, "consume": consume}


def main() -> None:
    what, bootstrap, topic, records = sys.argv[1:]
    print(json.dumps(LOADS[what](bootstrap, topic, int(records))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
