"""`odradek.Broker` in synchronous programs and in coroutines: start, stop, reset, and errors."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import socket
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest

from compat_tests.wire import WireClient

DEADLINE_S = 60


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """Asserts that no test causes a warning of an awaitable that was not awaited, or of a broker that was not stopped."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(warning.message) for warning in caught if "Broker" in str(warning.message)] == []


def create_topic(broker: odradek.Broker, name: str) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        response = client.call(CreateTopicsRequest(topics=[CreatableTopic(name, 1, 1)], timeout_ms=10_000), 7)
        assert response.topics[0].error_code == 0


def topics(broker: odradek.Broker) -> list[str]:
    with WireClient(broker.bootstrap_servers) as client:
        return [topic.name for topic in client.call(MetadataRequest(topics=None), 9).topics]


def data_of(broker: odradek.Broker) -> Path:
    (folder,) = broker.server.config.log_dirs
    return Path(folder)


def accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=DEADLINE_S).close()
    except ConnectionRefusedError:
        return False
    return True


def odradek_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "odradek"}


def temporary_folders() -> set[str]:
    prefix = f"odradek-{os.getpid()}-"
    return {path.name for path in Path(tempfile.gettempdir()).iterdir() if path.name.startswith(prefix)}


class Left:
    """Threads and folders added since its creation: the shared broker of other tests may have its own."""

    def __init__(self) -> None:
        self._threads = odradek_threads()
        self._folders = temporary_folders()

    @property
    def threads(self) -> int:
        return len(odradek_threads() - self._threads)

    @property
    def folders(self) -> int:
        return len(temporary_folders() - self._folders)


@pytest.fixture
def left() -> Left:
    return Left()


# Synchronous programs.


@pytest.mark.usefixtures("sockets")
def test_reset_in_plain_with_deletes_topics() -> None:
    with odradek.Broker() as broker:
        create_topic(broker, "one")
        broker.reset()
        assert topics(broker) == []


@pytest.mark.usefixtures("sockets")
def test_start_and_stop_without_with_block(left: Left) -> None:
    broker = odradek.Broker()
    broker.start()
    create_topic(broker, "one")
    assert topics(broker) == ["one"]
    address, folder = broker.bootstrap_servers, data_of(broker)
    broker.stop()
    assert not accepts(address)
    assert not folder.exists()
    assert left.threads == 0


@pytest.mark.usefixtures("sockets")
def test_completion_of_plain_start_holds_broker() -> None:
    broker = odradek.Broker()
    assert broker.start().result is broker
    assert broker.reset().is_done
    broker.stop()


@pytest.mark.usefixtures("sockets")
def test_two_brokers_in_one_with(left: Left) -> None:
    with odradek.Broker() as one, odradek.Broker() as other:
        create_topic(one, "only-in-one")
        assert topics(other) == []
        with odradek.Broker() as third:
            assert topics(third) == []
        assert topics(one) == ["only-in-one"]
    assert left.threads == 0


@pytest.mark.usefixtures("sockets")
def test_nested_with_of_same_broker_is_refused_and_outer_serves_on() -> None:
    with odradek.Broker() as broker:
        with pytest.raises(RuntimeError, match="running already"), broker:
            pass
        with pytest.raises(RuntimeError, match="running already"):
            broker.start()
        create_topic(broker, "one")
        broker.reset()
    assert not broker.is_running


@pytest.mark.usefixtures("sockets")
def test_second_stop_does_nothing() -> None:
    broker = odradek.Broker()
    broker.stop()
    broker.start()
    broker.stop()
    broker.stop()
    with odradek.Broker() as stopped_inside:
        stopped_inside.stop()


@pytest.mark.usefixtures("sockets")
def test_stopped_broker_starts_again_and_is_empty() -> None:
    broker = odradek.Broker()
    for _ in range(2):
        with broker:
            assert topics(broker) == []
            create_topic(broker, "one")


@pytest.mark.usefixtures("sockets")
def test_stopped_broker_with_data_dir_keeps_topics(tmp_path: Path) -> None:
    broker = odradek.Broker(data_dir=tmp_path)
    with broker:
        create_topic(broker, "kept")
    with broker:
        assert topics(broker) == ["kept"]
    assert tmp_path.exists()


@pytest.mark.parametrize("name", ["reset", "server", "bootstrap_servers"])
def test_use_of_stopped_broker_says_that_it_is_not_running(name: str) -> None:
    broker = odradek.Broker()
    with pytest.raises(RuntimeError, match="not running"):
        found = getattr(broker, name)
        found()


@pytest.mark.usefixtures("sockets")
def test_start_and_reset_from_several_threads() -> None:
    broker = odradek.Broker()
    outcomes: list[object] = []

    def start() -> None:
        try:
            broker.start()
            outcomes.append("started")
        except RuntimeError as error:
            outcomes.append(str(error))

    starters = [threading.Thread(target=start) for _ in range(4)]
    for thread in starters:
        thread.start()
    for thread in starters:
        thread.join(DEADLINE_S)
    assert outcomes.count("started") == 1, outcomes
    resets = [threading.Thread(target=broker.reset) for _ in range(4)]
    create_topic(broker, "one")
    for thread in resets:
        thread.start()
    for thread in resets:
        thread.join(DEADLINE_S)
    assert topics(broker) == []
    broker.stop()


# Coroutines.


@pytest.mark.usefixtures("sockets")
async def test_reset_is_awaited_in_async_with(left: Left) -> None:
    async with odradek.Broker() as broker:
        await asyncio.to_thread(create_topic, broker, "one")
        await broker.reset()
        assert await asyncio.to_thread(topics, broker) == []
        assert left.threads == 0


@pytest.mark.usefixtures("sockets")
async def test_start_and_stop_are_awaited() -> None:
    broker = odradek.Broker()
    assert await broker.start() is broker
    with pytest.raises(RuntimeError, match="running already"):
        await broker.start()
    with pytest.raises(RuntimeError, match="running already"):
        async with broker:
            pass
    folder = data_of(broker)
    await broker.stop()
    await broker.stop()
    assert not folder.exists()
    async with broker:
        assert accepts(broker.bootstrap_servers)


@pytest.mark.usefixtures("sockets")
async def test_second_start_under_way_is_refused() -> None:
    broker = odradek.Broker()
    outcomes = await asyncio.gather(broker.start(), broker.start(), return_exceptions=True)
    assert outcomes[0] is broker
    assert isinstance(outcomes[1], RuntimeError)
    await broker.stop()


@pytest.mark.usefixtures("sockets")
async def test_completions_are_coroutines_for_asyncio() -> None:
    broker = odradek.Broker()
    await asyncio.create_task(broker.start())
    await asyncio.wait_for(broker.reset(), DEADLINE_S)
    await asyncio.gather(broker.stop())


@pytest.mark.usefixtures("sockets")
async def test_call_that_is_not_awaited_warns_and_does_nothing() -> None:
    async with odradek.Broker() as broker:
        await asyncio.to_thread(create_topic, broker, "one")
        with pytest.warns(RuntimeWarning, match=r"reset\(\) was never awaited.*await broker.reset\(\)"):
            broker.reset()
            gc.collect()
        assert await asyncio.to_thread(topics, broker) == ["one"]
    with pytest.warns(RuntimeWarning, match=r"start\(\) was never awaited"):
        broker.start()
        gc.collect()
    assert not broker.is_running


@pytest.mark.usefixtures("sockets")
async def test_plain_with_in_running_loop_starts_thread() -> None:
    with odradek.Broker() as broker:
        create_topic(broker, "one")  # blocks the loop: the broker must not need it
        broker.reset()
        await broker.reset()
        assert topics(broker) == []


@pytest.mark.usefixtures("sockets")
async def test_broker_of_running_loop_is_used_from_other_thread() -> None:
    def plain(broker: odradek.Broker) -> list[str]:
        create_topic(broker, "one")
        broker.reset()
        return topics(broker)

    async def with_own_loop(broker: odradek.Broker) -> None:
        await broker.reset()

    async with odradek.Broker() as broker:
        assert await asyncio.to_thread(plain, broker) == []
        await asyncio.to_thread(asyncio.run, with_own_loop(broker))


@pytest.mark.usefixtures("sockets")
def test_asyncio_run_of_start_starts_broker_on_thread() -> None:
    broker = odradek.Broker()
    assert asyncio.run(broker.start()) is broker
    broker.reset()
    broker.stop()


@pytest.mark.usefixtures("sockets")
def test_broker_whose_loop_does_not_run_refuses_reset() -> None:
    loop = asyncio.new_event_loop()
    broker = odradek.Broker()
    loop.run_until_complete(broker.__aenter__())
    with pytest.raises(RuntimeError, match="event loop that is not running"):
        broker.reset()
    loop.run_until_complete(broker.__aexit__())
    loop.close()


@pytest.mark.usefixtures("sockets")
async def test_cancelled_start_leaves_nothing() -> None:
    broker = odradek.Broker(config={"odradek.metrics.port": "0"})
    for turns in range(12):
        starting = asyncio.ensure_future(broker.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        if not starting.cancelled():
            await broker.stop()
        assert not broker.is_running
    async with broker:
        assert accepts(broker.bootstrap_servers)


# Starts that fail.


REJECTED = {
    "unknown value": ({"config": {"num.partitions": "many"}}, "num.partitions"),
    "listeners and port": ({"config": {"listeners": "PLAINTEXT://127.0.0.1:0"}, "port": 9092}, "listeners"),
    "log.dirs and data_dir": ({"config": {"log.dirs": "/nowhere"}, "data_dir": "/nowhere"}, "log.dirs"),
    "empty data_dir": ({"data_dir": ""}, "data_dir is empty"),
    "port out of range": ({"port": 99999}, "99999"),
}


@pytest.mark.parametrize("case", REJECTED)
async def test_refused_configuration_raises_invalid_config(case: str, left: Left) -> None:
    arguments, words = REJECTED[case]
    broker = odradek.Broker(**arguments)  # type: ignore[arg-type]
    for start in (broker.__enter__, lambda: asyncio.run(broker.__aenter__())):
        with pytest.raises(odradek.InvalidConfig, match=words):
            await asyncio.to_thread(start)
    assert left.threads == 0
    assert left.folders == 0


@pytest.mark.usefixtures("sockets")
def test_taken_port_raises_os_error_and_leaves_nothing(left: Left) -> None:
    with odradek.Broker() as first:
        broker = odradek.Broker(port=int(first.bootstrap_servers.rpartition(":")[2]))
        with pytest.raises(OSError, match="in use"):
            broker.start()
        with pytest.raises(OSError, match="in use"), broker:
            pass
        assert left.threads == 1
        assert left.folders == 1
    with broker:
        assert accepts(broker.bootstrap_servers)


@pytest.mark.usefixtures("sockets")
def test_configured_listeners_and_log_dirs_are_used(tmp_path: Path) -> None:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data"), "num.partitions": 2}
    with odradek.Broker(config=settings) as broker:
        assert data_of(broker) == tmp_path / "data"
    assert (tmp_path / "data").exists()


def test_pickled_broker_says_what_to_send() -> None:
    with pytest.raises(TypeError, match="bootstrap_servers"):
        pickle.dumps(odradek.Broker())


def test_public_names_are_importable_from_top() -> None:
    from odradek import Broker, InvalidConfig

    assert Broker is odradek.Broker
    assert issubclass(InvalidConfig, ValueError)
    assert {"Broker", "InvalidConfig"} <= set(dir(odradek))
    with pytest.raises(AttributeError, match="Producer"):
        _ = odradek.Producer  # type: ignore[attr-defined]
