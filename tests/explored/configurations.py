"""The bounded configurations that are explored."""

from __future__ import annotations

from collections.abc import Callable

from tests.explored import groups, replicas, transactions
from tests.explored.explorer import World

CONFIGURATIONS: dict[str, Callable[[], World]] = {
    "replicas": lambda: replicas.ReplicaWorld(replicas.Budget()),
    "replicas-two-records": lambda: replicas.ReplicaWorld(replicas.Budget(records=2)),
    "replicas-isr-change": lambda: replicas.ReplicaWorld(replicas.Budget(late=1)),
    "replicas-crash": lambda: replicas.ReplicaWorld(replicas.Budget(crashes=1)),
    "replicas-power-loss": lambda: replicas.ReplicaWorld(replicas.Budget(power_losses=1)),
    "replicas-election": lambda: replicas.ReplicaWorld(replicas.Budget(records=2, fenced=1)),
    "replicas-faulty-network": lambda: replicas.ReplicaWorld(replicas.Budget(lost=1, doubled=1)),
    "transaction": lambda: transactions.TransactionWorld(transactions.Budget(moves=0, fences=False)),
    "transaction-coordinator-moves": lambda: transactions.TransactionWorld(transactions.Budget(fences=False)),
    "transaction-fenced": lambda: transactions.TransactionWorld(transactions.Budget(moves=0)),
    "transaction-of-one-fenced": lambda: transactions.TransactionWorld(transactions.Budget(moves=0, places=1)),
    "transaction-fenced-moves": lambda: transactions.TransactionWorld(transactions.Budget()),
    "transaction-abort-doubled": lambda: transactions.TransactionWorld(
        transactions.Budget(moves=1, doubled=1, fences=False, commits=False)
    ),
    "transaction-timeout": lambda: transactions.TransactionWorld(transactions.Budget(moves=0, timers=1)),
    "classic-group": lambda: groups.ClassicWorld(groups.Budget(beats=6)),
    "classic-group-rebalance": lambda: groups.ClassicWorld(groups.Budget(beats=8, moves=0)),
    "classic-group-faults": lambda: groups.ClassicWorld(groups.Budget(6, moves=1, lost=1, doubled=1)),
    "classic-group-leaves": lambda: groups.ClassicWorld(groups.Budget(6, moves=0, leaves=1, timers=1)),
    "consumer-group": lambda: groups.ConsumerWorld(groups.Budget(beats=6)),
    "consumer-group-faults": lambda: groups.ConsumerWorld(groups.Budget(6, moves=1, lost=1, doubled=1)),
    "consumer-group-leaves": lambda: groups.ConsumerWorld(groups.Budget(6, moves=0, leaves=1, timers=1)),
    "share-group": lambda: groups.ShareWorld(groups.Budget(beats=5)),
    "share-group-faults": lambda: groups.ShareWorld(groups.Budget(5, moves=1, lost=1, doubled=1)),
    "share-group-leaves": lambda: groups.ShareWorld(groups.Budget(5, moves=0, leaves=1, timers=1)),
}
