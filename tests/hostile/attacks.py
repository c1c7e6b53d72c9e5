"""Every attack by its name."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.hostile import attacks_batches, attacks_connections, attacks_ids, attacks_requests
from tests.hostile.attack_target import AttackTarget

Attack = Callable[[AttackTarget, random.Random], None]

ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for module in (attacks_requests, attacks_connections, attacks_batches, attacks_ids)
    for attack in module.ATTACKS
}
