"""kafka-python."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from compat_tests import access

from .client import (
    OPERATION_S,
    SESSION_S,
    TRANSACTION_TIMEOUT_S,
    Client,
    Got,
    Identity,
    Key,
    Sending,
    Unknown,
    within_time,
)

_CLOSE_S = 2
_BATCH = 200


class KafkaPythonClient(Client):
    name = "kafka-python"

    def __init__(self, identity: Identity) -> None:
        super().__init__(identity)
        self._settings = {
            "bootstrap_servers": identity.bootstrap.split(","),
            "request_timeout_ms": 5_000,
            "reconnect_backoff_max_ms": 500,
            "retry_backoff_ms": 50,
            "metadata_max_age_ms": 5_000,
            **access.kafka_python(),
        }
        transactional = {
            "transactional_id": identity.transactional_id,
            "transaction_timeout_ms": int(TRANSACTION_TIMEOUT_S * 1000),
        }
        self._consumer: KafkaConsumer | None = None
        with _unknown():
            self._producer = KafkaProducer(
                **self._settings,
                delivery_timeout_ms=int(OPERATION_S * 1000),
                max_block_ms=int(OPERATION_S * 1000),
                **(transactional if identity.transactional_id else {}),
            )
            if identity.transactional_id:
                within_time(self._producer.init_transactions)

    def _reader(self) -> KafkaConsumer:
        if self._consumer is None:
            with _unknown():
                self._consumer = KafkaConsumer(
                    **{**self._settings, "request_timeout_ms": 10_000},
                    group_id=self.identity.group,
                    enable_auto_commit=False,
                    auto_offset_reset="earliest",
                    isolation_level="read_committed",
                    fetch_max_wait_ms=50,
                    session_timeout_ms=int(SESSION_S * 1000),
                    heartbeat_interval_ms=500,
                    max_poll_records=_BATCH,
                )
        return self._consumer

    def send(self, records: Sequence[Sending]) -> list[int | None]:
        with _unknown():
            waiting = [
                self._producer.send(key.topic, value.encode(), partition=key.partition) for key, value in records
            ]
            self._producer.flush(OPERATION_S)
            offsets = [one.get(OPERATION_S).offset for one in waiting]
        return [offset if offset is not None and offset >= 0 else None for offset in offsets]

    def begin(self) -> None:
        with _unknown():
            self._producer.begin_transaction()

    def join_offsets(self, offsets: Mapping[Key, int]) -> None:
        with _unknown():
            metadata = self._reader().group_metadata()
            within_time(lambda: self._producer.send_offsets_to_transaction(_places(offsets), metadata))

    def end(self, *, commits: bool) -> None:
        with _unknown():
            within_time(self._producer.commit_transaction if commits else self._producer.abort_transaction)

    def assign(self, offsets: Mapping[Key, int]) -> None:
        with _unknown():
            self._reader().assign([_place(key) for key in offsets])
        self.seek(offsets)

    def subscribe(self, topics: Sequence[str]) -> None:
        with _unknown():
            self._reader().subscribe(list(topics), listener=_Listener(self._move))

    def _move(self, places: Iterable[TopicPartition]) -> None:
        self.moved.keys |= {Key(place.topic, place.partition) for place in places}

    def seek(self, offsets: Mapping[Key, int]) -> None:
        with _unknown():
            for key, offset in offsets.items():
                self._reader().seek(_place(key), offset)

    def poll(self, timeout_s: float) -> list[Got]:
        with _unknown():
            found = self._reader().poll(timeout_ms=int(timeout_s * 1000))
        return [
            Got(Key(record.topic, record.partition), record.offset, record.value.decode())
            for record in itertools.chain.from_iterable(found.values())
        ]

    def commit(self, offsets: Mapping[Key, int]) -> None:
        with _unknown():
            self._reader().commit(_places(offsets), timeout_ms=int(OPERATION_S * 1000))

    def generation(self) -> int:
        generation: int = self._reader().group_metadata().generation_id
        return generation

    def close(self) -> None:
        for one in (self._producer, self._consumer):
            if one is not None:
                with contextlib.suppress(Exception):
                    one.close(**({"timeout": _CLOSE_S} if one is self._producer else {"timeout_ms": _CLOSE_S * 1000}))


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, move: Callable[[Iterable[TopicPartition]], None]) -> None:
        self._move = move

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._move(revoked)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._move(assigned)


@contextlib.contextmanager
def _unknown() -> Iterator[None]:
    try:
        yield
    except (KafkaError, OSError, ValueError) as error:
        raise Unknown(f"{type(error).__name__}: {error}") from None


def _place(key: Key) -> TopicPartition:
    return TopicPartition(key.topic, key.partition)


def _places(offsets: Mapping[Key, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {_place(key): OffsetAndMetadata(offset, "", -1) for key, offset in offsets.items()}
