"""Histories of clients' operations, and a checker that judges them: `python -m compat_tests.histories --help`.

Clients write down each operation with its times and its outcome (`operation.py`, `recorder.py`). The checker reads such a
file and nothing else, so it judges any Kafka (`verdict.py`). Its anomalies have the names and rules of Jepsen's Kafka
workload; share groups, fenced commits and registers have rules of their own (docs/specialists/verification.md).
"""
