"""Apache Kafka's TransactionsWithTieredStoreTest against Odradek's nodes: `python -m compat_tests.tiers.transactions [METHOD
...]`; see published.py.
"""

from __future__ import annotations

import sys

from .published import TRANSACTIONS, main

if __name__ == "__main__":
    sys.exit(main((TRANSACTIONS,), sys.argv[1:]))
