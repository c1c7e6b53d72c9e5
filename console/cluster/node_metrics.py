"""Samples of the nodes' /metrics, in the text format of Prometheus.

A node that does not respond differs from one without a metric: its count is unknown, and not zero.
"""

from __future__ import annotations

import http.client
import re
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ...client.error_kinds import ErrorKind
from ...client.reasons import reason_of
from ...client.user_errors import UserError
from ...client.user_info import apart, basic_login
from .exchanges import exchanged
from .unreachable import Unreachable

_MOST_BYTES = 16 << 20
#: Limits of the time of one node, and of all.
_NODE_S, _ALL_S = 3.0, 6.0
_MOST_AT_ONCE = 8
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


class Metrics(NamedTuple):
    """By address the samples of the nodes that responded, and the reason of the others."""

    samples: dict[str, list[Sample]]
    missing: dict[str, str]


class NodeMetrics:
    """The nodes of one cluster. `addresses`: the URLs of their /metrics."""

    def __init__(self, addresses: Sequence[str]) -> None:
        plain = [apart(address) for address in addresses]
        #: Pages show them, without users and passwords.
        self.addresses = [one.url for one in plain]
        self._logins = {one.url: basic_login(one.user_info) for one in plain}
        self._unreachable = {address: Unreachable() for address in self.addresses}

    def __bool__(self) -> bool:
        return bool(self.addresses)

    def read(self) -> Metrics:
        found = Metrics({}, {})
        if not self.addresses:
            return found
        deadline = time.monotonic() + _ALL_S
        with ThreadPoolExecutor(_MOST_AT_ONCE) as readers:
            read = readers.map(lambda address: self._read(address, deadline), self.addresses)
            for address, one in zip(self.addresses, read, strict=True):
                if isinstance(one, str):
                    found.missing[address] = one
                else:
                    found.samples[address] = one
        return found

    def _read(self, address: str, deadline: float) -> list[Sample] | str:
        try:
            with self._unreachable[address].noted():
                return list(_parsed(_text(address, self._logins[address], min(_NODE_S, deadline - time.monotonic()))))
        except UserError as error:
            return str(error)


def _text(address: str, login: dict[str, str], seconds: float) -> str:
    if seconds <= 0:
        raise UserError("the other nodes took all of the time")
    try:
        return exchanged(urllib.request.Request(address, headers=login), seconds, _MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UserError(f"no metrics from {address}: {reason_of(error)}", ErrorKind.UNREACHABLE) from None


def _parsed(text: str) -> Iterator[Sample]:
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if found is not None:
            try:
                yield Sample(found[1], found[2] or "", float(found[3]))
            except ValueError:
                continue
