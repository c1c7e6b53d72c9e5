"""`python -m compat_tests.quotas [--seconds 66] [--broker odradek|apache] [--client KIND ...] [--do produce consume]
[--windows 11]`

One client has a quota of 1 MB/s; a second client runs at 3 MB/s without one. The target is 0.95 to 1.05 MB/s over a minute.

Kafka measures a rate over eleven windows of a second. A client that wants more sends the quota of ten windows in a burst,
and again when that burst leaves the windows. So a measurement takes whole multiples of 11 s: 60 s contain five bursts or
six, and the same client seems to get 0.87 to 1.10 MB/s from Apache Kafka and 0.92 to 1.10 from Odradek (`--seconds 60`).
With four windows (`--windows 4`) a producer gets 0.95 to 1.05 in every minute.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from ..odradek_process import OdradekProcess
from ..oracle import SINGLE_NODE, ApacheKafka
from .held import KINDS, WHATS, measure

#: Windows of a second. A measurement begins after all of them have passed.
WINDOWS = 11


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=66)
    parser.add_argument("--broker", choices=("odradek", "apache"), default="odradek")
    parser.add_argument("--client", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--do", nargs="+", choices=WHATS, default=WHATS)
    parser.add_argument("--windows", type=int, default=WINDOWS, help="quota.window.num of the broker (default: 11)")
    chosen = parser.parse_args()
    kind = OdradekProcess if chosen.broker == "odradek" else ApacheKafka
    properties = {**SINGLE_NODE, "quota.window.num": str(chosen.windows)}
    with tempfile.TemporaryDirectory() as directory, kind(Path(directory) / "broker", properties) as broker:
        for client in chosen.client:
            for what in chosen.do:
                outcome = measure(
                    broker.bootstrap,
                    client,
                    what,
                    Path(directory),
                    seconds=chosen.seconds,
                    warm_s=float(chosen.windows),
                )
                print(f"{broker.name}: {client} may {what} 1 MB/s: {outcome}", flush=True)


if __name__ == "__main__":
    main()
