"""A figure of a benchmark, for both brokers."""

from __future__ import annotations

from dataclasses import dataclass

from .kinds import Kind


@dataclass(frozen=True)
class Result:
    """A figure of a row: the medians of both brokers over `rounds`."""

    row: str
    client: str
    kind: Kind
    apache: float
    odradek: float
    rounds: int

    @property
    def key(self) -> tuple[str, str, str]:
        return self.row, self.client, self.kind.name

    @property
    def ratio(self) -> float:
        return self.odradek / self.apache if self.apache else float("inf")

    @property
    def holds(self) -> bool:
        return self.kind.holds(self.ratio)

    @property
    def target(self) -> str:
        return f"{'>=' if self.kind.higher else '<='} {self.kind.target}"

    def cells(self) -> tuple[str, ...]:
        figure = f"{self.kind.name}, {self.kind.unit}" if self.kind.unit else self.kind.name
        verdict = "met" if self.holds else "missed"
        numbers = (f"{self.apache:.3g}", f"{self.odradek:.3g}", f"{self.ratio:.2f}")
        return (self.row, self.client, figure, *numbers, self.target, verdict)
