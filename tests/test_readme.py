"""The README's tour, pasted as a newcomer would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import odradek
import pytest

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
SNIPPETS = {code.splitlines()[0].lstrip("# "): code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL)}
DEADLINE_S = 60


def run(snippet: str, broker: odradek.Broker, folder: Path) -> str:
    program = folder / "snippet.py"
    program.write_text(SNIPPETS[snippet].replace("127.0.0.1:9092", broker.bootstrap_servers))
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def broker(odradek_broker: odradek.Broker) -> odradek.Broker:
    return odradek_broker


def test_the_tour_with_kafka_python_reads_what_it_wrote(broker: odradek.Broker, tmp_path: Path) -> None:
    lines = run("kafka-python", broker, tmp_path).splitlines()
    assert [line.rsplit(" ", 1)[1] for line in lines] == [f"{number}'" for number in range(10)]


def test_the_tour_with_aiokafka_reads_what_it_wrote(broker: odradek.Broker, tmp_path: Path) -> None:
    assert run("aiokafka", broker, tmp_path) == "b'hello from a coroutine'\n"
