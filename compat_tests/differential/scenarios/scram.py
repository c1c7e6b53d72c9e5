"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554), and SASL requests on a listener without SASL.

Kafka's results are in the order of a hash map, so a request names one user, or the comparison sorts by user.
"""

from __future__ import annotations

from typing import Any

from ..scenario import ask, prepare, scenario


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> dict[str, Any]:
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"salt",
        "salted_password": b"salted password",
    }


def described(*names: str, infos: list[tuple[int, int]] | None = None) -> Any:
    """Describes users. Waits until the first has the mechanisms and iterations `infos`.

    A Kafka broker may answer before it has the controller's decision.
    """

    def is_there(response: Any) -> bool:
        return sorted((one.mechanism, one.iterations) for one in response.results[0].credential_infos) == infos

    users = [{"name": name} for name in names]
    return ask("DescribeUserScramCredentials", users=users, until=None if infos is None else is_there)


SCENARIOS = [
    scenario(
        "AlterUserScramCredentials",
        "a user is set, changed, described and removed",
        ask("AlterUserScramCredentials", upsertions=[upsertion("$u")]),
        described("$u", infos=[(1, 4096)]),
        ask("AlterUserScramCredentials", upsertions=[upsertion("$u", 2, 16384)]),
        ask("AlterUserScramCredentials", upsertions=[upsertion("$u", 1, 5000)]),
        described("$u", infos=[(1, 5000), (2, 16384)]),
        ask("AlterUserScramCredentials", deletions=[{"name": "$u", "mechanism": 1}]),
        described("$u", infos=[(2, 16384)]),
        ask("AlterUserScramCredentials", deletions=[{"name": "$u", "mechanism": 1}]),
        ask("AlterUserScramCredentials", deletions=[{"name": "$u", "mechanism": 2}]),
        described("$u", infos=[]),
    ),
    scenario(
        "AlterUserScramCredentials",
        "what may not be",
        ask("AlterUserScramCredentials", upsertions=[upsertion("$few", iterations=4095)]),
        ask("AlterUserScramCredentials", upsertions=[upsertion("$many", iterations=16385)]),
        ask("AlterUserScramCredentials", upsertions=[upsertion("")]),
        ask("AlterUserScramCredentials", upsertions=[upsertion("$none", 0)]),
        ask("AlterUserScramCredentials", upsertions=[upsertion("$none", 3)]),
        ask("AlterUserScramCredentials", upsertions=[upsertion("", -1, 0)]),
        ask("AlterUserScramCredentials", deletions=[{"name": "", "mechanism": 1}]),
        ask("AlterUserScramCredentials", deletions=[{"name": "$gone", "mechanism": 9}]),
        ask("AlterUserScramCredentials"),
    ),
    scenario(
        "AlterUserScramCredentials",
        "a user who stands in a request twice",
        prepare("AlterUserScramCredentials", upsertions=[upsertion("$twice")]),
        ask("AlterUserScramCredentials", upsertions=[upsertion("$twice"), upsertion("$twice", 2)]),
        ask("AlterUserScramCredentials", deletions=[{"name": "$twice", "mechanism": 1}] * 2),
        ask(
            "AlterUserScramCredentials",
            deletions=[{"name": "$twice", "mechanism": 1}],
            upsertions=[upsertion("$twice")],
        ),
        ask("AlterUserScramCredentials", upsertions=[upsertion("$twice")] * 3),
        described("$twice", infos=[(1, 4096)]),
    ),
    scenario(
        "DescribeUserScramCredentials",
        "users who are not there, or named twice",
        described("$nobody"),
        described("$nobody", "$nobody"),
        described(""),
    ),
    scenario(
        "SaslHandshake",
        "on a listener without SASL",
        ask("SaslHandshake", mechanism="PLAIN"),
        ask("SaslHandshake", mechanism=""),
        ask("Metadata", topics=[]),
    ),
    scenario(
        "SaslAuthenticate",
        "on a listener without SASL",
        ask("SaslAuthenticate", auth_bytes=b"\0alice\0secret"),
        ask("Metadata", topics=[]),
    ),
]
