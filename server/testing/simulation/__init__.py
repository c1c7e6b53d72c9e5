"""Brokers and asyncio clients in simulated time, over a simulated network: hours of timeouts in milliseconds.

    with Simulation(seed=7) as simulation:
        simulation.run(scenario(simulation))

`scenario` is a coroutine that may start brokers by `simulation.node(...)` and use any asyncio client, such as aiokafka,
unchanged. The seed decides how long each delivery and each disk takes, and what any code draws from `random` and `uuid`;
with the same code it plays the same again. What fails is the test's to say: cut links, reset connections, crash nodes.
"""

from .loop import Deadlock, VirtualLoop
from .network import Network, Refused
from .world import Node, Process, Simulation

__all__ = ["Deadlock", "Network", "Node", "Process", "Refused", "Simulation", "VirtualLoop"]
