"""A cluster under faults, and a checker that is independent of its code: `python -m compat_tests.faults --help`.

Nodes are real processes, each in a network namespace of its own (`network.py`, `nodes.py`). Producers and consumers
(`produce.py`, `consume.py`) write down their responses while `rounds.py` begins and heals seeded faults (`faults.py`). After
the last fault a client reads the whole topic, and `checker.py` compares it with the notes.
"""
