"""The four APIs of delegation tokens (KIP-48) where no secret key is configured, on a listener without SASL.

Brokers with a secret key are compared in `compat_tests/security/test_delegation_tokens.py`.
"""

from __future__ import annotations

from ..scenario import ask, scenario

ALICE = {"principal_type": "User", "principal_name": "alice"}
ANYBODY = {"principal_type": "", "principal_name": ""}

SCENARIOS = [
    scenario(
        "CreateDelegationToken",
        "without a secret key",
        ask("CreateDelegationToken", renewers=[], max_lifetime_ms=-1),
        ask("CreateDelegationToken", renewers=[ALICE], max_lifetime_ms=1000),
        ask("CreateDelegationToken", renewers=[ANYBODY], max_lifetime_ms=0),
    ),
    scenario(
        "RenewDelegationToken",
        "without a secret key",
        ask("RenewDelegationToken", hmac=b"unknown", renew_period_ms=-1),
        ask("RenewDelegationToken", hmac=b"", renew_period_ms=1000),
    ),
    scenario(
        "ExpireDelegationToken",
        "without a secret key",
        ask("ExpireDelegationToken", hmac=b"unknown", expiry_time_period_ms=-1),
        ask("ExpireDelegationToken", hmac=b"", expiry_time_period_ms=1000),
    ),
    scenario(
        "DescribeDelegationToken",
        "without a secret key",
        ask("DescribeDelegationToken", owners=None),
        ask("DescribeDelegationToken", owners=[]),
        ask("DescribeDelegationToken", owners=[ALICE]),
    ),
]
