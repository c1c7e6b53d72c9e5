"""The purpose of a listener: clients and brokers, or the quorum of controllers."""

from __future__ import annotations

from typing import Literal

ListenerKind = Literal["broker", "controller"]
BROKER: ListenerKind = "broker"
CONTROLLER: ListenerKind = "controller"
