"""Invalid command lines and property files end with one line and the right status."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.metadata.configs.resources import BROKER, OWN

from tests.hostile.command_lines import FILES, MISSING, ODD_TEXTS, SECRET, execute, prepare, run, violations_of_property

COMMANDS = int(os.environ.get("ODRADEK_HOSTILE_COMMANDS", "300"))

#: Keys whose rule is about another key, which Kafka's message names.
MEANS = {
    "broker.id": "node.id",
    "log.cleaner.threads": "log.cleaner.",
    "log.retention.hours": "log.retention.",
    "log.retention.minutes": "log.retention.",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_command_line_ends_in_one_line_and_the_right_status(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(COMMANDS // 3):
        outcome, violations = execute(rng)
        assert not violations, (outcome.words, violations)


@pytest.mark.slow
def test_every_key_refuses_an_odd_value_by_its_name_or_takes_it(folder: Path) -> None:
    rng = random.Random(0)
    for name in [*BROKER, *OWN]:
        for value in rng.sample(ODD_TEXTS, 1):
            outcome, violations = violations_of_property(["start", "--override", f"{name}={value}"], name)
            assert not violations, (name, value[:80], violations)
            assert not outcome.err or MEANS.get(name, name) in outcome.err, (name, value[:80], outcome.err)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*sorted(FILES), MISSING, "folder"])
def test_odd_file_is_taken_or_refused_in_one_line(folder: Path, name: str) -> None:
    outcome = run(["start", name])
    assert not list(outcome.violations(is_wrong=FILES.get(name, (b"", True))[1])), outcome


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_real_process_explains_a_mistake_in_one_line_with_status_2(folder: Path) -> None:
    """Repeats the test in a real process, with its own argparse, interpreter exit and standard error."""
    for words in (
        ["strat"],
        ["start", "--prot", "1"],
        ["start", "--data-dir", ""],
        ["start", "escape.properties", "--override", f"ssl.key.password={SECRET}x"],
        ["format", "--cluster-id", "xyz"],
        ["cluster", "start", "--brokers", "0"],
    ):
        done = subprocess.run([sys.executable, "-m", "odradek", *words], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert done.stderr.startswith("odradek: ") and done.stderr.count("\n") == 1, done.stderr
        assert SECRET not in done.stderr or "escape.properties" not in done.stderr
