"""aiokafka, whose event loop runs in a thread of its own, so that heartbeats go on between operations."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as Late
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from compat_tests import access

from .client import OPERATION_S, SESSION_S, TRANSACTION_TIMEOUT_S, Client, Got, Identity, Key, Sending, Unknown

T = TypeVar("T")
_BATCH = 200
_CLOSE_S = 3


class Runner(ABC):
    """Runs coroutines of one client, and what they start, on a loop."""

    @abstractmethod
    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result or raises the exception of `work`; TimeoutError after OPERATION_S."""

    @abstractmethod
    def close(self) -> None:
        """Ends everything that runs."""


class LoopThread(Runner):
    """A loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(OPERATION_S)
        except Late:
            running.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(_CLOSE_S)

    def _cancel(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_soon(self._loop.stop)


class AiokafkaClient(Client):
    name = "aiokafka"

    def __init__(self, identity: Identity) -> None:
        super().__init__(identity)
        self._settings = {
            "bootstrap_servers": identity.bootstrap.split(","),
            "request_timeout_ms": 5_000,
            "metadata_max_age_ms": 5_000,
            **access.aiokafka(),
        }
        self._reader_settings: dict[str, Any] = {
            "fetch_max_wait_ms": 50,
            "session_timeout_ms": int(SESSION_S * 1000),
            "heartbeat_interval_ms": 500,
        }
        self._runner = self._make_runner()
        self._consumer: AIOKafkaConsumer | None = None
        self._producer: AIOKafkaProducer | None = None
        self._is_started = False
        try:
            self._producer = self._wait(self._start_producer())
        except Unknown:
            self.close()
            raise

    def _make_runner(self) -> Runner:
        return LoopThread()

    async def _start_producer(self) -> AIOKafkaProducer:
        identity = self.identity
        producer = AIOKafkaProducer(
            **self._settings,
            enable_idempotence=True,
            transactional_id=identity.transactional_id or None,
            transaction_timeout_ms=int(TRANSACTION_TIMEOUT_S * 1000),
        )
        await producer.start()
        return producer

    async def _reader(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            self._consumer = AIOKafkaConsumer(
                **{**self._settings, "request_timeout_ms": 10_000},
                group_id=self.identity.group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                **self._reader_settings,
            )
            await self._consumer.start()
        return self._consumer

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.result(work)
        except Late:
            raise Unknown("no response") from None
        except (
            KafkaError,
            OSError,
            ValueError,
            asyncio.CancelledError,
            concurrent.futures.CancelledError,
        ) as error:
            raise Unknown(f"{type(error).__name__}: {error}") from None

    def send(self, records: Sequence[Sending]) -> list[int | None]:
        async def work() -> list[int | None]:
            assert self._producer is not None
            now_ms = int(time.time() * 1000)  # aiokafka's own is not that of a simulation
            waiting = [
                await self._producer.send(key.topic, value.encode(), partition=key.partition, timestamp_ms=now_ms)
                for key, value in records
            ]
            done = [await one for one in waiting]
            return [one.offset if one.offset is not None and one.offset >= 0 else None for one in done]

        return self._wait(work())

    def begin(self) -> None:
        assert self._producer is not None
        self._wait(self._producer.begin_transaction())

    def join_offsets(self, offsets: Mapping[Key, int]) -> None:
        assert self._producer is not None
        self._wait(self._producer.send_offsets_to_transaction(_places(offsets), self.identity.group))

    def end(self, *, commits: bool) -> None:
        assert self._producer is not None
        self._wait(self._producer.commit_transaction() if commits else self._producer.abort_transaction())

    def assign(self, offsets: Mapping[Key, int]) -> None:
        async def work() -> None:
            consumer = await self._reader()
            consumer.assign([_place(key) for key in offsets])
            for key, offset in offsets.items():
                consumer.seek(_place(key), offset)

        self._wait(work())

    def subscribe(self, topics: Sequence[str]) -> None:
        async def work() -> None:
            (await self._reader()).subscribe(list(topics), listener=_Listener(self))

        self._wait(work())

    def seek(self, offsets: Mapping[Key, int]) -> None:
        async def work() -> None:
            consumer = await self._reader()
            for key, offset in offsets.items():
                consumer.seek(_place(key), offset)

        self._wait(work())

    def poll(self, timeout_s: float) -> list[Got]:
        async def work() -> list[Any]:
            consumer = await self._reader()
            found = await consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=_BATCH)
            return list(itertools.chain.from_iterable(found.values()))

        records = self._wait(work())
        return [Got(Key(one.topic, one.partition), one.offset, one.value.decode()) for one in records]

    def commit(self, offsets: Mapping[Key, int]) -> None:
        async def work() -> None:
            await (await self._reader()).commit(_places(offsets))

        self._wait(work())

    def close(self) -> None:
        async def work() -> None:
            for one in (self._consumer, self._producer):
                if one is not None:
                    with contextlib.suppress(Exception):
                        await asyncio.wait_for(one.stop(), _CLOSE_S)

        with contextlib.suppress(Unknown):
            self._wait(work())
        self._runner.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, client: AiokafkaClient) -> None:
        self._client = client

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._client.moved.keys |= {Key(place.topic, place.partition) for place in revoked}

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.on_partitions_revoked(assigned)


def _place(key: Key) -> TopicPartition:
    return TopicPartition(key.topic, key.partition)


def _places(offsets: Mapping[Key, int]) -> dict[TopicPartition, int]:
    return {_place(key): offset for key, offset in offsets.items()}
