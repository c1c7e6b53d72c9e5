"""The service on a bad day: the response to one of its requests is lost."""

import asyncio
import contextlib

from service import serve


async def test_an_order_is_paid_once(odradek_broker):
    odradek_broker.topic("orders").send(b"order 1", b"order 2", key=b"customer 7")
    lost = odradek_broker.faults.drop("Produce", after=True, topic="payments", times=1)
    service = asyncio.create_task(serve(odradek_broker.bootstrap_servers))
    await odradek_broker.group("payments").wait_for(lag=0)
    service.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await service
    assert lost.count == 1
    assert odradek_broker.topic("payments").values() == [b"order 1", b"order 2"]
