"""A Bytewax dataflow: sums by key from one topic to another; it ends at the end of the topic."""

from __future__ import annotations

import os

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow

bootstrap, topic = os.environ["BOOTSTRAP"], os.environ["TOPIC"]


def add(total: int | None, value: int) -> tuple[int, int]:
    total = (total or 0) + value
    return total, total


flow = Dataflow("sums")
source = KafkaSource([bootstrap], [topic], tail=False, batch_size=50)
read = op.input("read", flow, source)
pairs = op.map("pairs", read, lambda message: (message.key.decode(), int(message.value)))
sums = op.stateful_map("sums", pairs, add)
made = op.map("made", sums, lambda one: KafkaSinkMessage(one[0].encode(), str(one[1]).encode()))
kop.output("written", made, brokers=[bootstrap], topic=f"{topic}-sums")
