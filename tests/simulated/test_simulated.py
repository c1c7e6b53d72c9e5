"""The rig of simulated hours: a seed is reproducible, its swarm is a half, its points act, and it finds injected bugs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest
from odradek import buggify
from odradek.buggify import POINTS, Buggify
from odradek.testing.simulation import Simulation
from odradek.testing.simulation.cluster.faults import KINDS
from odradek.testing.simulation.cluster.operator import CHANGES

from tests.simulated.blocking import Pause, as_coroutine, sleep, wait_for
from tests.simulated.plan import WORKLOADS, Given, Plan, draw
from tests.simulated.result import Result, read, table

_ROOT = Path(__file__).resolve().parents[2]
#: A seed of few seconds whose result is good.
_SEED, _SECONDS = 1, 3


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    full = [sys.executable, "-m", "tests.simulated", "--folder", str(folder), *arguments]
    return subprocess.run(full, capture_output=True, text=True, check=False, cwd=_ROOT)


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_seed_gives_the_same_history_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for name in ("one", "two"):
        if (
            name == "two"
        ):  # modules that are compiled again make other numbers of objects, by which Python collects garbage
            monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "compiled"))
        ran = command(tmp_path / name, "--only", str(_SEED), "--seconds", str(_SECONDS), "--keep")
        assert ran.returncode == 0, ran.stdout[-5_000:] + ran.stderr[-5_000:]
        results.append(Result(**json.loads(ran.stdout.splitlines()[-1])))
    histories = [(tmp_path / name / f"{_SEED}.jsonl").read_bytes() for name in ("one", "two")]
    assert histories[0] == histories[1] and results[0].hash == results[1].hash
    assert results[0].operations > 20 and results[0].outcomes["send ok"] > 0
    assert sum(results[0].points.values()) > 0


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_injected_bug_is_found(tmp_path: Path) -> None:
    ran = command(tmp_path, "--bugs", "drop-a-marker")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_plan_turns_half_of_faults_and_points_off() -> None:
    plans = [draw(seed) for seed in range(50)]
    assert {len(set(plan.faults)) for plan in plans} == {(len(KINDS) + 1) // 2}
    assert {len(set(plan.points)) for plan in plans} == {(len(POINTS) + 1) // 2}
    assert {name for plan in plans for name in plan.faults} == set(KINDS)
    assert {name for plan in plans for name in plan.points} == set(POINTS)
    assert {name for plan in plans for name in plan.workloads} == set(WORKLOADS)
    assert {name for plan in plans for name in plan.changes} == set(CHANGES)
    assert draw(3) == plans[3]


def test_phases_of_a_plan_last_as_long_as_the_plan() -> None:
    plan: Plan = draw(4, Given(seconds=5000))
    assert plan.seconds == pytest.approx(5000)
    assert {phase.stretch for phase in plan.phases} > {1.0}


def test_points_act_in_a_simulation_and_its_thread_alone() -> None:
    assert buggify.active is None
    with Simulation(1, points=POINTS) as simulation:
        points = simulation.buggify
        assert points is not None and buggify.active is points
        acted = [points.acts(buggify.COLD_CACHE) for _ in range(500)]
        assert 0 < sum(acted) < 500 and points.counts[buggify.COLD_CACHE] == sum(acted)
        elsewhere: list[bool] = []
        thread = threading.Thread(target=lambda: elsewhere.extend(points.acts(buggify.COLD_CACHE) for _ in range(500)))
        thread.start()
        thread.join()
        assert elsewhere == [False] * 500
    assert buggify.active is None


def test_point_that_is_turned_off_never_acts() -> None:
    points = Buggify(Random(1), {buggify.EARLY_ROLL})
    assert not any(points.acts(buggify.COLD_CACHE) for _ in range(500))
    assert any(points.acts(buggify.EARLY_ROLL) for _ in range(500))
    assert not points.delay_s(buggify.LATE_LOAD)


def test_blocking_code_waits_in_simulated_time() -> None:
    seen: list[tuple[str, float]] = []

    def work(name: str, pause: Pause) -> None:
        while not pause.wait(1.0):
            seen.append((name, loop.time() - loop.started))
        with pytest.raises(TimeoutError):
            wait_for(asyncio.wait_for(asyncio.sleep(9), 1))

    async def scenario() -> None:
        pause = Pause(longest_s=120.0)
        pause.stretch = 60.0
        tasks = [asyncio.create_task(as_coroutine(lambda name=name: work(name, pause))) for name in ("a", "b")]
        await as_coroutine(lambda: sleep(200.0))
        pause.set()
        await asyncio.gather(*tasks)

    with Simulation(1) as simulation:
        loop = simulation.loop
        simulation.run(scenario())
    assert [name for name, _ in seen] == ["a", "b"] * 3
    assert [round(at) for _, at in seen] == [60, 60, 120, 120, 180, 180]


def test_results_are_read_by_commit_without_a_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    good = Result(1, "abc", seconds=3600.0, operations=300, faults={"kill": 2}, points={"cold cache": 5})
    bad = Result(2, "abc", seconds=7200.0, operations=600, faults={"kill": 1}, anomalies={"lost-write": 1})
    path.write_text(good.to_line() + Result(1, "other").to_line() + bad.to_line() + bad.to_line()[:20])
    found = read(path, "abc")
    assert found == [good, bad] and [one.is_good for one in found] == [True, False]
    text = table(found)
    assert "| simulated hours | 3.0 |" in text and "900; 300 an hour" in text
    assert "kill 3" in text and "2 (lost-write)" in text and "2: 1 to 2" in text


@pytest.mark.usefixtures("processes")
def test_command_goes_on_after_its_results(tmp_path: Path) -> None:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
    )
    done = Result(1, commit.stdout.strip() or "unknown", seconds=3600.0, operations=300)
    (tmp_path / "results.jsonl").write_text(done.to_line())
    ran = command(tmp_path, "--hours", "1")
    assert ran.returncode == 0 and "| simulated hours | 1.0 |" in ran.stdout, ran.stdout + ran.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["results.jsonl"]
