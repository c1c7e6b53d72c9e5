"""The comparison of mirrors: its table where a target has no value, and its waits for ends of logs."""

from __future__ import annotations

from contextlib import closing

import odradek
import pytest

from benchmarks.mirror_maker.ends import Ends, ends_at
from benchmarks.mirror_maker.figures import CPU, TIME, show
from tests.server.harness.mirror_pair import produce


def test_value_that_a_target_lacks_leaves_its_column_empty(capsys: pytest.CaptureFixture[str]) -> None:
    figures = {("bulk", CPU): {"A": [4.0, 8.0, 5.0], "B": [1.0]}, ("wide", TIME): {"A": [], "B": [2.0]}}
    show(figures, ["A", "B"])
    lines = capsys.readouterr().out.splitlines()
    assert "| bulk | CPU, s/GB | 5 | 1 | 0.20 | <= 0.25 | met |" in lines
    assert "| wide | time, s | - | 2 |  |  |  |" in lines


@pytest.mark.usefixtures("sockets")
def test_wait_ends_with_the_records_or_its_time() -> None:
    with odradek.Broker() as broker:
        produce(broker, "orders", 3)
        assert ends_at(broker.bootstrap_servers, ["orders"], 1) == {("orders", 0): 3}
        with closing(Ends(broker.bootstrap_servers)) as ends:
            ends.wait({("orders", 0): 3}, most_s=30)
            with pytest.raises(TimeoutError, match="1 partitions are not mirrored in 0 s"):
                ends.wait({("orders", 0): 4}, most_s=0)
