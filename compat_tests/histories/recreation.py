"""A topic that is deleted and created again under its name: no record of one topic may come out of another one."""

from __future__ import annotations

import threading
from random import Random

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.uuids import uuid_to_text

from compat_tests.asking import ask_any

from .client import Identity, Key
from .operation import DELETE, OK, POLL, SEND, Operation
from .raw_client import RawClient
from .recorder import now_ns
from .session import Session
from .workloads import Setting, Worker

_NAME = "recreated"
_AGAIN_S = 0.3
_REPLICAS = 3
_TIMEOUT_MS = 5_000


def recreator() -> Worker:
    def work(setting: Setting, rng: Random) -> None:
        while not setting.stopped.wait(_AGAIN_S):
            topic_id = _create(setting.bootstrap)
            if topic_id is None:
                _delete(setting.bootstrap)
                continue
            key = Key(uuid_to_text(topic_id), 0)
            _use(setting, rng, key)
            now = now_ns()
            _delete(setting.bootstrap)
            setting.recorder.add(
                Operation(setting.recorder.next_process(), DELETE, OK, now, now_ns(), [str(key)], "raw")
            )

    return Worker(f"delete and create {_NAME}", work, (SEND, POLL, DELETE))


def _use(setting: Setting, rng: Random, key: Key) -> None:
    # The session ends with the topic, so it has an event of its own.
    session = Session(RawClient, Identity(setting.bootstrap, "none"), setting.recorder, threading.Event())
    session.assign([key])
    for _ in range(rng.randint(10, 60)):
        if setting.stopped.wait(rng.random() * 0.1):
            break
        if rng.random() < 0.5:
            session.send([key] * rng.randint(1, 4))
        else:
            session.poll()
    session.poll()
    session.close()


def _create(bootstrap: str) -> bytes | None:
    """Returns the id of the new topic, None if there is a topic of the name or no controller."""
    wanted = CreateTopicsRequest([CreatableTopic(_NAME, 1, _REPLICAS)], timeout_ms=_TIMEOUT_MS)
    response = ask_any(bootstrap, wanted, 7)
    if response is None or response.topics[0].error_code != ErrorCode.NONE:
        return None
    topic_id: bytes = response.topics[0].topic_id
    return topic_id


def _delete(bootstrap: str) -> None:
    ask_any(bootstrap, DeleteTopicsRequest(topic_names=[_NAME], timeout_ms=_TIMEOUT_MS), 5)
