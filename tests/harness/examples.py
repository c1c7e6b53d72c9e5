"""The number of random examples of a test: all of them in `make nightly`, a tenth in `make test` and `make check`.

A test with random inputs, seeds or Hypothesis asks `examples(60)` for its number, wherever it takes one, and never for the
cases that it names. `--few-examples` (tests/conftest.py) reduces all of them before the modules of tests are
imported.
"""

from __future__ import annotations

#: The divisor of every number with `--few-examples`.
FEW = 10

_divisor = 1


def divide_examples(divisor: int) -> None:
    global _divisor
    _divisor = divisor


def examples(count: int) -> int:
    """Returns the number of examples to run in place of `count`: at least one, unless there are none."""
    return -(-count // _divisor)
