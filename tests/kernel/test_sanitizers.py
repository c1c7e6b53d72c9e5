"""The kernel reads and writes no byte outside of its buffers, and has no undefined behaviour, by AddressSanitizer and UBSan.

`python -m tests.kernel.sanitized SEED SECONDS` runs the fuzzer for longer.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.needed_tools import needed
from tests.kernel import sanitized

pytestmark = pytest.mark.usefixtures("processes")

SEED, INPUTS, MOST_SECONDS = 17, 250_000, 60
#: Inputs of each kind that are accepted, and that are rejected: less would test too little.
LEAST_OUTCOMES = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sanitized")


@pytest.fixture(scope="module", autouse=True)
def compiler() -> str:
    return needed("gcc")


@pytest.fixture(scope="module")
def fuzzer(folder: Path) -> Path:
    return sanitized.build_fuzzer(folder)


def test_fuzzer_finds_no_error_in_mutated_payloads(fuzzer: Path, folder: Path) -> None:
    sanitized.write_corpus(folder / "corpus", SEED)
    outcomes = sanitized.run_fuzzer(fuzzer, folder / "corpus", SEED, inputs=INPUTS, seconds=MOST_SECONDS)
    assert len(outcomes) == 9
    for kind, outcome in outcomes.items():
        assert min(outcome.accepted, outcome.rejected) > LEAST_OUTCOMES, (kind, outcomes)


@pytest.mark.parametrize(
    ("source", "right", "wrong", "error"),
    [
        ("columns.c", "position < 0 || value_size > stop - position", "position < 0", "heap-buffer-overflow"),
        ("columns.c", "if (size > column->room - end)\n            return -1;", "", "heap-buffer-overflow"),
        ("columns.c", "if (row >= columns->capacity)\n            return BATCH_NO_SPACE;", "", "heap-buffer-overflow"),
        ("columns.c", "if (stop - walk.position < HEADER_BYTES)\n            return walk;", "", "heap-buffer-overflow"),
        ("snappy.c", "length == 0 || length > wanted - written)", "length == 0)", "heap-buffer-overflow"),
        ("validation.c", "if (size < HEADER_BYTES)\n        return NOT_ACCEPTED;", "", "heap-buffer-overflow"),
        (
            "validation.c",
            "if (right > 0 && left > INT64_MAX - right)\n        return INT64_MAX;",
            "",
            "signed integer overflow",
        ),
        ("small_log.c", "length > (int64_t)remaining - LOG_OVERHEAD", "length < 0", "heap-buffer-overflow"),
        ("small_log.c", "remaining < HEADER_BYTES || ", "", "heap-buffer-overflow"),
        ("small_log.c", "if (index->size < width)\n        return 0;", "", "heap-buffer-overflow"),
        ("small_log.c", "if (metadata >= end)\n            return;", "", "heap-buffer-overflow"),
    ],
)
def test_fuzzer_finds_a_removed_check(
    source: str, right: str, wrong: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(sanitized.KERNEL, tmp_path / "kernel", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    file = tmp_path / "kernel" / source
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong))
    monkeypatch.setattr(sanitized, "KERNEL", tmp_path / "kernel")
    sanitized.write_corpus(tmp_path / "corpus", SEED)
    fuzzer = sanitized.build_fuzzer(tmp_path)
    with pytest.raises(AssertionError, match=error) as found:
        sanitized.run_fuzzer(fuzzer, tmp_path / "corpus", SEED, inputs=INPUTS, seconds=MOST_SECONDS)
    assert "the input with number " in str(found.value)


def test_python_module_has_no_error_at_the_limits_of_its_arguments(folder: Path) -> None:
    sanitized.build_module(folder)
    command = [sys.executable, str(Path(__file__).with_name("argument_limits.py")), str(folder)]
    environment = sanitized.environment(folder)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "validated" in done.stdout
