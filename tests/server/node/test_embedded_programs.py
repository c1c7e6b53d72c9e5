"""Whole programs with an `odradek.Broker`: their exit and the files that they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 60

CLIENT = """
import gc, os, signal, socket, sys, threading, warnings
import odradek

def accepts(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True
"""


def run(program: str, folder: Path, *options: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs a program that must end by itself, and whose temporary folder must be empty then."""
    file, temporary = folder / "program.py", folder / "temporary"
    file.write_text(CLIENT + program)
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, *options, str(file)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert done.returncode == status, done.stderr
    assert [path.name for path in temporary.iterdir()] == []
    return done


EXITS = {
    "end of program": "broker = odradek.Broker(); broker.start()",
    "end of program in with": "odradek.Broker().__enter__(); kept = threading.enumerate()",
    "two brokers": "one = odradek.Broker(); one.start(); two = odradek.Broker(); two.start()",
    "executor in use": """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor()
broker = odradek.Broker()
pool.submit(broker.start).result()
""",
    "loop that ended": """
import asyncio
broker = odradek.Broker()
async def main():
    await broker.start()
asyncio.run(main())
""",
}


@pytest.mark.parametrize("case", EXITS)
def test_exit_without_stop_ends_quietly_and_removes_data(case: str, tmp_path: Path) -> None:
    done = run(EXITS[case], tmp_path)
    assert done.stderr == ""


def test_exit_in_sys_exit_keeps_status(tmp_path: Path) -> None:
    done = run("broker = odradek.Broker(); broker.start(); sys.exit(3)", tmp_path, status=3)
    assert done.stderr == ""


def test_exit_without_stop_closes_named_data_cleanly(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    run(f"broker = odradek.Broker(data_dir={str(folder)!r}); broker.start()", tmp_path)
    assert (folder / ".kafka_cleanshutdown").exists()


def test_exit_after_work_of_all_kinds_closes_data_without_a_new_thread(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    program = f"""
broker = odradek.Broker(data_dir={str(folder)!r}, config={{"num.partitions": 20}})
broker.start()
for name in ("one", "two"):
    broker.topic(name).send(*(b"%d" % number for number in range(100)))
"""
    done = run(program, tmp_path)
    assert "Traceback" not in done.stderr  # a busy machine may log slow requests
    assert (folder / ".kafka_cleanshutdown").exists()


LATE_WORK = """
import atexit
from odradek.server.runtime.thread_pools import ThreadPool
atexit.register(lambda: print(ThreadPool("late", 1).submit(threading.current_thread).result().name))
"""


def test_pool_works_on_the_callers_thread_when_the_interpreter_exits(tmp_path: Path) -> None:
    done = run(LATE_WORK, tmp_path)
    assert (done.stdout, done.stderr) == ("MainThread\n", "")


COLLECTED = """
broker = odradek.Broker()
broker.start()
address = broker.bootstrap_servers
(thread,) = [thread for thread in threading.enumerate() if thread.name == "odradek"]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    del broker
    gc.collect()
assert [warning.category for warning in caught] == [ResourceWarning], caught
assert "was not stopped" in str(caught[0].message)
thread.join(30)
assert not thread.is_alive()
assert not accepts(address)
"""


def test_collected_broker_warns_and_stops(tmp_path: Path) -> None:
    assert run(COLLECTED, tmp_path).stderr == ""


COLLECTED_IN_LOOP = """
import asyncio

async def main():
    broker = odradek.Broker()
    await broker.start()
    address = broker.bootstrap_servers
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del broker
        gc.collect()
    assert [warning.category for warning in caught] == [ResourceWarning], caught
    while accepts(address):
        await asyncio.sleep(0.01)
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0.01)

asyncio.run(main())
"""


def test_collected_broker_of_running_loop_warns_and_stops(tmp_path: Path) -> None:
    assert run(COLLECTED_IN_LOOP, tmp_path).stderr == ""


FORKED = """
with odradek.Broker() as broker:
    folder = broker.server.config.log_dirs[0]
    child = os.fork()
    if child == 0:
        assert accepts(broker.bootstrap_servers)
        assert not broker.is_running
        for use in (broker.reset, lambda: broker.server):
            try:
                use()
                sys.exit(4)
            except RuntimeError as error:
                assert "forked" in str(error), error
        with odradek.Broker() as own:
            assert accepts(own.bootstrap_servers)
            own.reset()
        sys.exit(0)  # through the `with` above, which must leave the parent's broker alone
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os.path.exists(folder)
    assert accepts(broker.bootstrap_servers)
    broker.reset()
"""


def test_forked_process_leaves_broker_of_parent_alone(tmp_path: Path) -> None:
    # CPython 3.12 and later warn any program that forks with threads, as an embedded broker has.
    assert run(FORKED, tmp_path, "-W", "ignore:This process:DeprecationWarning").stderr == ""


SPAWNED = """
import multiprocessing

def work(address, answers):
    with odradek.Broker() as own:
        answers.put((accepts(address), accepts(own.bootstrap_servers)))

if __name__ == "__main__":
    with odradek.Broker() as broker:
        for method in ("spawn", "fork"):
            context = multiprocessing.get_context(method)
            answers = context.Queue()
            child = context.Process(target=work, args=(broker.bootstrap_servers, answers))
            child.start()
            assert answers.get(timeout=40) == (True, True)
            child.join(40)
            assert child.exitcode == 0
"""


def test_spawned_and_forked_workers_have_brokers_of_their_own(tmp_path: Path) -> None:
    assert run(SPAWNED, tmp_path).stderr == ""


INTERRUPTED = """
from odradek.server.broker import BrokerServer
begun = BrokerServer.start

async def start(self):
    os.kill(os.getpid(), signal.SIGINT)  # to the main thread, which waits
    await begun(self)
    import asyncio
    await asyncio.sleep(3600)

BrokerServer.start = start
broker = odradek.Broker()
try:
    broker.start()
    sys.exit(4)
except KeyboardInterrupt:
    pass
assert not broker.is_running
assert [thread for thread in threading.enumerate() if thread.name == "odradek"] == []
BrokerServer.start = begun
with broker:
    broker.reset()
"""


def test_interrupted_start_leaves_nothing_and_broker_starts_again(tmp_path: Path) -> None:
    assert run(INTERRUPTED, tmp_path).stderr == ""


def test_ctrl_c_in_with_block_stops_broker(tmp_path: Path) -> None:
    program = (
        "with odradek.Broker() as broker:\n    os.kill(os.getpid(), signal.SIGINT)\n    threading.Event().wait()\n"
    )
    done = run(program, tmp_path, status=-signal.SIGINT)
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_fixtures_are_described(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--fixtures", "-p", "no:cacheprovider", str(tmp_path)]
    shown = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    ).stdout.splitlines()
    for name in ("odradek_broker", "odradek_session", "odradek_new_broker", "odradek_config"):
        (at,) = [number for number, line in enumerate(shown) if line.startswith(name)]
        assert "roker" in shown[at + 1], shown[at : at + 2]
