"""A cluster under faults, and a checker that knows nothing of its insides: `python -m compat_tests.faults --help`.

Nodes are real processes, each in a network namespace of its own (`network.py`, `nodes.py`). Producers and consumers
(`produce.py`, `consume.py`) write down what they were told while seeded faults (`faults.py`) come and go (`rounds.py`).
When all is healed, everything is read once more, and `checker.py` holds the notes against it.
"""
