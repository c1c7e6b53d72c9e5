"""Known differences of Odradek's responses from Apache Kafka's, with reasons (known_differences.tsv). The list only shrinks.

One line: API, scenario, path (a pattern as in fnmatch), reason. A line that explains no difference fails the test of its
scenario: remove it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from .compare import Difference
from .scenario import Scenario

FILE = Path(__file__).resolve().parent / "known_differences.tsv"


@dataclass(frozen=True)
class Known:
    api: str
    scenario: str
    path: str
    reason: str

    def explains(self, difference: Difference) -> bool:
        # A bracket is part of the path, not the start of a character set.
        pattern = self.path.replace("[", "[[]")
        return fnmatchcase(difference.path, pattern)


def read(file: Path = FILE) -> list[Known]:
    lines = (line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
    return [Known(*(part.strip() for part in line.split("\t"))) for line in lines]


def of(scenario: Scenario, known: list[Known]) -> list[Known]:
    return [one for one in known if (one.api, one.scenario) == (scenario.api, scenario.name)]


def unexplained(differences: list[Difference], known: list[Known]) -> list[Difference]:
    return [one for one in differences if not any(reason.explains(one) for reason in known)]


def idle(differences: list[Difference], known: list[Known]) -> list[Known]:
    """Returns the lines that explain no difference."""
    return [reason for reason in known if not any(reason.explains(one) for one in differences)]
