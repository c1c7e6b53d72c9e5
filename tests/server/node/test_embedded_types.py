"""The type check of programs with an `odradek.Broker`: one checker for all Pythons."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.type_checker import lines_with_errors, type_errors

pytestmark = pytest.mark.usefixtures("processes")

TYPED = """
from __future__ import annotations

import asyncio

import odradek
from odradek import Broker, InvalidConfig


def plain() -> str:
    try:
        with odradek.Broker(config={"num.partitions": 3, "log.cleaner.enable": False}) as broker:
            broker.reset()
            started: Broker = odradek.Broker(data_dir="data").start().result
            started.stop()
            return broker.bootstrap_servers
    except InvalidConfig as refused:
        return str(refused)


async def coroutines() -> None:
    async with odradek.Broker() as broker:
        await broker.reset()
        await asyncio.create_task(broker.reset())
        await asyncio.gather(broker.reset(), broker.stop())
    again: Broker = await Broker(port=9092).start()
    await again.stop()


plain()
asyncio.run(coroutines())
"""

WRONGLY_TYPED = """
import odradek

odradek.Broker(port="9092")
with odradek.Broker() as broker:
    text: int = broker.bootstrap_servers
    broker.start().result.unknown()
"""


def test_strict_type_checker_accepts_both_worlds_and_finds_wrong_uses(tmp_path: Path) -> None:
    errors = type_errors(tmp_path, typed=TYPED, wrongly_typed=WRONGLY_TYPED)
    assert errors["typed"] == []
    assert lines_with_errors(errors["wrongly_typed"]) == {4, 6, 7}, errors
