"""Rows of Arrow written to topics, exactly once: what `writeStream.format("odradek")` does below Spark.

Each attempt of a task writes in a transaction of its own (`transaction.py`) and leaves it open. The driver commits the
number of the batch with the list of the attempts that count to a ledger (`ledger.py`), which is the decision, and then ends
their transactions (`decision.py`). docs/development/sink.md has the reasons.
"""
