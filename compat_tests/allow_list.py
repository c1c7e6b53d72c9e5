"""Allow-lists: the tests of a client that must pass, one name a line, `#` before a remark.

Names like `test_file.py::test_name` are our own tests, others those of a foreign suite. A list only grows:
test_allow_lists.py checks its history. A test without a subject any more stays as `# withdrawn NAME: reason`.
"""

from __future__ import annotations

from pathlib import Path


def read(path: Path) -> list[str]:
    """Returns the names in a list, in its order."""
    lines = (line.split(" #")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def is_own(name: str) -> bool:
    return ".py::" in name


def shortfall(allowed: list[str], outcomes: dict[str, str]) -> dict[str, str]:
    """Returns the listed tests that did not pass, with their outcomes; empty when the list holds."""
    became = {name: outcomes.get(name, "not run") for name in allowed}
    return {name: outcome for name, outcome in became.items() if outcome != "passed"}


def growth(allowed: list[str], outcomes: dict[str, str]) -> list[str]:
    """Returns the tests that passed and are not listed yet."""
    return sorted(name for name, outcome in outcomes.items() if outcome == "passed" and name not in allowed)
