"""The coordinators of transactions, which are the test."""

from __future__ import annotations

from typing import NamedTuple

from odradek.server.coordinators.open_requests import Client
from odradek.server.coordinators.transaction_verification import Answered, Membership, Retried, TransactionVerification


class AskedMembership(NamedTuple):
    client: Client
    membership: Membership
    answered: Answered
    again: Retried


class NotedVerification(TransactionVerification):
    """`asked`: the memberships that are to be verified, in their order."""

    def __init__(self) -> None:
        self.asked: list[AskedMembership] = []

    def verify(self, client: Client, asked: Membership, answered: Answered, retried: Retried) -> None:
        self.asked.append(AskedMembership(client, asked, answered, retried))
