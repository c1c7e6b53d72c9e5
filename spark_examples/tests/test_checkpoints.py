"""With a checkpoint of a different cluster, a program ends with one line that names the directory to delete."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import odradek
import pytest
from streams import claim

from spark_examples.tests.programs import command


def test_checkpoint_of_the_same_cluster_is_claimed_again(odradek_broker: odradek.Broker, tmp_path: Path) -> None:
    for _ in range(2):
        claim(tmp_path / "checkpoint", odradek_broker.bootstrap_servers)


def test_program_with_a_checkpoint_of_another_cluster_says_what_to_delete(
    odradek_broker: odradek.Broker, odradek_new_broker: Callable[..., odradek.Broker], tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    claim(checkpoint, odradek_broker.bootstrap_servers)
    other = odradek_new_broker()
    with pytest.raises(SystemExit, match=f"delete {checkpoint}"):
        claim(checkpoint, other.bootstrap_servers)
    stream = command("revenue_stream.py", "--bootstrap", other.bootstrap_servers, "--checkpoint", str(checkpoint))
    done = subprocess.run(stream, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and f"delete {checkpoint}" in done.stderr
