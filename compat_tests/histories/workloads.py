"""The workloads of a round. Each is a loop of one thread until the round stops it; the seed draws its choices."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

from .client import SESSION_S, Client, Identity, Key, Refused, Unknown
from .coordinator_client import TRANSACTION, CoordinatorClient, RawMember
from .drain import text_of
from .operation import (
    COMMIT,
    FAIL,
    INFO,
    JOIN,
    OK,
    POLL,
    READ,
    RISE,
    SEND,
    SHARE_ACKNOWLEDGE,
    SHARE_POLL,
    SUBSCRIBE,
    TXN,
    WRITE,
    Content,
    Operation,
)
from .recorder import Recorder, now_ns
from .session import Session

QUEUE, APPEND, SOURCE, COPIES, SHARED = "queue", "append", "source", "copies", "shared"
TOPICS = {QUEUE: 3, APPEND: 2, SOURCE: 2, COPIES: 2, SHARED: 2}
CHAIN_GROUP, SHARE_GROUP, MEMBERS_GROUP = "chain", "sharers", "raw-members"
_CRASH_SHARE = 0.01
#: The time between two operations of a process: the machine is shared, and a history stays readable.
_PAUSE_S = 0.1
#: Polls of a share consumer may return what was fetched during this many earlier ones.
_BUFFERED_POLLS = 6


@dataclass
class Setting:
    """The surroundings of a workload. `stopped` ends it; `caught_up` ends those that have to catch up after the senders."""

    bootstrap: str
    recorder: Recorder
    stopped: threading.Event
    caught_up: threading.Event


@dataclass(frozen=True, eq=False)
class Worker:
    """A workload of one thread. `Setting.caught_up` ends it if it `catches_up`, otherwise `stopped`.

    `kinds`: the operations of which it completes some in every round.
    """

    name: str
    work: Callable[[Setting, Random], None]
    kinds: Sequence[str]
    catches_up: bool = False

    def run(self, setting: Setting, rng: Random) -> None:
        with suppress(Unknown):
            self.work(setting, rng)


Maker = type[Client]


def keys_of(topic: str) -> list[Key]:
    return [Key(topic, partition) for partition in range(TOPICS[topic])]


def sender(make: Maker, topic: str) -> Worker:
    def work(setting: Setting, rng: Random) -> None:
        session = Session(make, Identity(setting.bootstrap, "none"), setting.recorder, setting.stopped)
        while not setting.stopped.wait(rng.random() * _PAUSE_S):
            session.send(rng.choices(keys_of(topic), k=rng.randint(1, 4)))
            if rng.random() < _CRASH_SHARE:
                session.crash()
        session.close()

    return Worker(f"send to {topic} by {make.name}", work, (SEND,))


def reader(make: Maker, topics: Sequence[str], name: str) -> Worker:
    def work(setting: Setting, rng: Random) -> None:
        session = Session(make, Identity(setting.bootstrap, f"reader-{name}"), setting.recorder, setting.caught_up)
        session.assign([key for topic in topics for key in keys_of(topic)])
        while not setting.caught_up.wait(rng.random() * _PAUSE_S):
            session.poll()
            if rng.random() < _CRASH_SHARE:
                session.crash()
        session.close()

    return Worker(f"read {', '.join(topics)} as {name}", work, (POLL,), catches_up=True)


def subscriber(make: Maker, name: str, *, is_consumer_protocol: bool = False) -> Worker:
    """Reads as a member of a group, commits, and now and then leaves without a word."""

    def work(setting: Setting, rng: Random) -> None:
        group = "members-848" if is_consumer_protocol else "members"
        identity = Identity(setting.bootstrap, group, is_consumer_protocol=is_consumer_protocol)
        session = Session(make, identity, setting.recorder, setting.stopped)
        session.subscribe([QUEUE])
        while not setting.stopped.wait(rng.random() * _PAUSE_S):
            session.commit(session.poll())
            if rng.random() < _CRASH_SHARE:
                session.crash()
        session.close()

    return Worker(f"subscribe to {QUEUE} as {name}", work, (POLL, COMMIT))


def appender(make: Maker, name: str, aborted_share: float) -> Worker:
    """Transactions of sends and polls over all keys."""

    def work(setting: Setting, rng: Random) -> None:
        identity = Identity(setting.bootstrap, f"append-{name}", transactional_id=f"append-{name}")
        session = Session(make, identity, setting.recorder, setting.stopped)
        keys = keys_of(APPEND)
        session.assign(keys)
        while not setting.stopped.wait(rng.random() * _PAUSE_S):
            steps = [None if rng.random() < 0.4 else rng.choice(keys) for _ in range(rng.randint(1, 4))]
            session.transact(steps, commits=rng.random() > aborted_share)
            if rng.random() < _CRASH_SHARE:
                session.crash()
        session.close()

    return Worker(f"append in transactions as {name}", work, (TXN,))


def copier(make: Maker, name: str) -> Worker:
    """Copies the source topic, with the offsets of its group in the transactions."""

    def work(setting: Setting, rng: Random) -> None:
        identity = Identity(setting.bootstrap, CHAIN_GROUP, transactional_id=f"chain-{name}")
        session = Session(make, identity, setting.recorder, setting.caught_up)
        session.subscribe([SOURCE])
        while not setting.caught_up.wait(rng.random() * _PAUSE_S):
            session.transact([None], commits=rng.random() > 0.1, joins=True, copies=COPIES)
            if rng.random() < _CRASH_SHARE and not setting.stopped.is_set():
                session.crash()
        session.close()

    # There are more copiers than partitions: one of them may have nothing to copy.
    return Worker(f"copy {SOURCE} to {COPIES} as {name}", work, (SUBSCRIBE,), catches_up=True)


def register_user(number: int) -> Worker:
    """Writes and reads committed offsets and producer epochs, of the same names as the other users."""

    def work(setting: Setting, rng: Random) -> None:
        process = setting.recorder.next_process()
        offsets = CoordinatorClient(setting.bootstrap, "register-group")
        epochs = CoordinatorClient(setting.bootstrap, "register-producer", TRANSACTION)
        written = 0
        while not setting.stopped.wait(rng.random() * 4 * _PAUSE_S):
            kind = rng.choice((READ, READ, WRITE, RISE))
            written += 1
            value: Content = written * 10 + number if kind == WRITE else None
            name = "epoch of register-producer" if kind == RISE else "offset of register-group"
            invoked, outcome, error = now_ns(), OK, ""
            try:
                if kind == WRITE:
                    offsets.commit(QUEUE, value)
                else:
                    value = epochs.init_producer() if kind == RISE else offsets.committed(QUEUE)
            except Refused as refused:
                outcome, error = FAIL, str(refused)
            except Unknown as unknown:
                outcome, error = INFO, str(unknown)
            made = Operation(process, kind, outcome, invoked, now_ns(), value, register=name, client="raw", error=error)
            setting.recorder.add(made)
            if outcome == INFO:
                process = setting.recorder.next_process()
        offsets.close()
        epochs.close()

    return Worker(f"registers {number}", work, (READ, WRITE, RISE))


def raw_member(number: int, group: str = MEMBERS_GROUP) -> Worker:
    """A member that is silent for longer than its session now and then, and commits when it comes back."""

    def work(setting: Setting, rng: Random) -> None:
        process = setting.recorder.next_process()
        member = RawMember(setting.bootstrap, group)

        def add(f: str, work: Callable[[], None], value: Content = None) -> str:
            invoked, outcome, error = now_ns(), OK, ""
            try:
                work()
            except Refused as refused:
                outcome, error = FAIL, str(refused)
            except Unknown as unknown:
                outcome, error = INFO, str(unknown)
            made = Operation(process, f, outcome, invoked, now_ns(), value, "raw", group=group,
                             generation=member.generation, error=error)  # fmt: skip
            setting.recorder.add(made)
            return outcome

        offset, is_member = number, False
        while not setting.stopped.wait(0.2):
            if not is_member:
                is_member = add(JOIN, member.join) == OK
                continue
            if rng.random() < 0.05:
                setting.stopped.wait(SESSION_S * 1.5)
            elif not _goes_on(member):
                is_member = False
            offset += 10
            if add(COMMIT, lambda to=offset: member.commit(QUEUE, to), {f"{QUEUE}/0": offset}) != OK:  # type: ignore[misc]
                is_member = False
        member.close()

    return Worker(f"raw member {number}", work, (JOIN, COMMIT))


def _goes_on(member: RawMember) -> bool:
    try:
        return member.heartbeat()
    except (Refused, Unknown):
        return False


def sharer(number: int) -> Worker:
    """A member of a share group that accepts, releases and rejects, and accepts all after the senders have stopped."""

    def work(setting: Setting, rng: Random) -> None:
        while not setting.caught_up.is_set():
            consumer = ShareConsumer(
                {
                    "bootstrap.servers": setting.bootstrap,
                    "group.id": SHARE_GROUP,
                    "share.acknowledgement.mode": "explicit",
                    "reconnect.backoff.max.ms": 300,
                    "log_level": 0,
                }
            )
            consumer.subscribe([SHARED])
            with suppress(KafkaException):
                _share(consumer, setting, rng)
            # A member that leaves releases the records that it has.
            began = now_ns()
            with suppress(KafkaException, RuntimeError):
                consumer.close()
            setting.recorder.fault("a member of the share group left", began)

    return Worker(f"share as {number}", work, (SHARE_POLL, SHARE_ACKNOWLEDGE), catches_up=True)


_WORDS = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
}


def _share(consumer: ShareConsumer, setting: Setting, rng: Random) -> None:
    recorder = setting.recorder
    process = recorder.next_process()
    began: deque[int] = deque([now_ns()] * _BUFFERED_POLLS, maxlen=_BUFFERED_POLLS)
    while not setting.caught_up.wait(rng.random() * _PAUSE_S):
        began.append(now_ns())
        messages = [one for one in consumer.poll(0.2) if one.error() is None]
        if not messages:
            continue
        got = [[f"{m.topic()}/{m.partition()}", m.offset(), text_of(m), m.delivery_count()] for m in messages]
        recorder.add(Operation(process, SHARE_POLL, OK, began[0], now_ns(), got, "librdkafka", group=SHARE_GROUP))
        words: list[list[Content]] = []
        for message, (key, offset, _, _) in zip(messages, got, strict=True):
            weights = (80, 15, 5) if not setting.stopped.is_set() else (1, 0, 0)
            word = rng.choices(tuple(_WORDS), weights)[0]
            consumer.acknowledge(message, _WORDS[word])
            words.append([key, offset, word])
        invoked = now_ns()
        try:
            responses = {
                f"{place.topic}/{place.partition}": error for place, error in consumer.commit_sync(15.0).items()
            }
        except KafkaException:
            responses = {}
        for key in sorted({word[0] for word in words}):
            outcome = OK if key in responses and responses[key] is None else INFO
            value = [word for word in words if word[0] == key]
            made = Operation(process, SHARE_ACKNOWLEDGE, outcome, invoked, now_ns(), value, "librdkafka",
                             group=SHARE_GROUP, error=str(responses.get(key) or ""))  # fmt: skip
            recorder.add(made)
