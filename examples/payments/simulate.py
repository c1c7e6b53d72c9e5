"""The service in simulated time, over a network that loses connections: `python simulate.py --seeds 0-20`.

A seed decides when a connection is lost. Exits with 1 and the seed where an order was paid twice or not at all.
"""

import argparse
import asyncio

from aiokafka import AIOKafkaProducer
from odradek.testing.simulation import Simulation
from odradek.testing.topics_seen import values_of
from service import serve

ORDERS = [b"order %d" % number for number in range(20)]
#: How likely it is that a delivery between the service and the broker breaks their connection.
LOSS = 0.02


async def scenario(simulation: Simulation) -> list[bytes]:
    broker = simulation.node("broker")
    await broker.start()
    service = simulation.process("service", serve(broker.bootstrap_servers))
    await asyncio.sleep(10)
    simulation.network.loosen("service", "broker", LOSS)
    simulation.network.loosen("broker", "service", LOSS)
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as shop:
        for order in ORDERS:
            await shop.send_and_wait("orders", order)
            await asyncio.sleep(30)  # ten minutes in all, in a moment
    simulation.network.mend()
    await asyncio.sleep(120)
    service.kill()
    return values_of(broker.server, "payments")


def paid(seed: int) -> list[bytes]:
    with Simulation(seed) as simulation:
        return simulation.run(scenario(simulation))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-20", help="a seed, or a range of them")
    first, _, last = parser.parse_args().seeds.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        payments = paid(seed)
        twice = sorted({order.decode() for order in payments if payments.count(order) > 1})
        if twice or set(payments) != set(ORDERS):
            print(
                f"seed {seed}: paid twice: {', '.join(twice) or 'none'}; not paid: {len(set(ORDERS) - set(payments))}"
            )
            return 1
    print(f"seeds {first} to {last or first}: every order was paid once")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
