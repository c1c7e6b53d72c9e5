"""Samples of a node's /metrics, in the text format of Prometheus."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from typing import NamedTuple

_MOST_BYTES = 16 << 20
_TIMEOUT_S = 3
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sample(NamedTuple):
    """`written`: the labels as the node writes them."""

    name: str
    written: str
    value: float

    @property
    def labels(self) -> dict[str, str]:
        return {name: value.replace('\\"', '"').replace("\\\\", "\\") for name, value in _LABEL.findall(self.written)}


def samples(address: str) -> Iterator[Sample]:
    """The samples of a node; none of a node that does not respond."""
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as response:
            text = response.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if found is not None:
            try:
                yield Sample(found[1], found[2] or "", float(found[3]))
            except ValueError:
                continue
