"""Measures mirrors of an Apache Kafka beside MirrorMaker 2: `python -m benchmarks.mirror_maker [--rounds 3]
[--pace 1] [--megabytes 300] [--catch-up 1] [--partitions 1000] [--linger MS] [--most-minutes 30] [--only TEXT]
[--only-odradek]`.

The source is a node of Apache Kafka. In turn, each first in every other round, it is mirrored by MirrorMaker 2 into an
Apache Kafka, and by a link into an Odradek, both single nodes: topics of 12 partitions, and the same load. The rows, for
records of 1 KiB and of 100 B:

- `paced`: a paced producer at the source and a reader at the target (`lag.py`): lag; CPU with that of the reader's fetches.
- `bulk`: a producer at the source without a pace; the mirror follows meanwhile.
- `catch-up`: a mirror begins, of a topic that has so many GB, beside a paced producer and consumer of another topic at the
  target, whose p99 counts. They run alone before. CPU has their requests and the start of the mirror.
- `partitions`: a mirror begins, of so many partitions with 100 records each, on a new target.

The last two rows end after `--most-minutes`: the catch-up with the figures of what is mirrored until then, the partitions
without any.

CPU is that of the target broker and, for MirrorMaker 2, of its process, in seconds for 10^9 bytes of values. Memory is the
sum of their peaks, of all rows that have run on the target. `source CPU` is that of the source's broker, with the producer's
requests. It needs the jars of `python -m compat_tests.ecosystem.install mirror_maker`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path

from ..brokers import ODRADEK_NAME, MeasuredKafka
from .figures import Figures, show
from .rows import Rows
from .targets import MIRROR_MAKER_NAME


def main() -> None:
    options = arguments()
    figures: Figures = defaultdict(lambda: defaultdict(list))
    names = [ODRADEK_NAME] if options.only_odradek else [MIRROR_MAKER_NAME, ODRADEK_NAME]
    try:
        with tempfile.TemporaryDirectory(prefix="mirrors-") as folder, MeasuredKafka(Path(folder, "source")) as source:
            rows = Rows(source, options)
            rows.fill()
            for number in range(options.rounds):
                for name in names if number % 2 == 0 else reversed(names):
                    for row, figure, value in rows.measure(name, Path(folder, f"{name.split()[0]}-{number}")):
                        figures[row, figure][name].append(value)
                        print(f"{name}: {row}: {figure.name}: {value:.3g} {figure.unit}", flush=True)
    finally:
        show(figures, names)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pace", type=float, default=1.0, help="of the paced producer, as a factor (default: 1)")
    parser.add_argument("--megabytes", type=int, default=300, help="of the bulk load (default: 300)")
    parser.add_argument("--catch-up", type=float, default=1, metavar="GB", help="of the catch-up (default: 1)")
    parser.add_argument("--partitions", type=int, default=1000, help="of the row of partitions (default: 1000)")
    parser.add_argument("--linger", type=int, metavar="MS", help="fetch.linger.ms of the link (default: the link's)")
    parser.add_argument("--most-minutes", type=float, default=30, help="of a mirror that begins (default: 30)")
    parser.add_argument("--only", default="", help="of paced, bulk, catch-up and partitions, those with this text")
    parser.add_argument("--only-odradek", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
