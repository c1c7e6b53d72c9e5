"""The ledger of a query: which batch was decided last, and the transactions that make it, as commits of offsets.

It is a commit of the group of the query's name for the first partition of a topic. The offset is the number of the batch,
the rest is a text beside it. Brokers limit such a text (`offset.metadata.max.bytes`, 4,096), so a long one has more pieces,
in the groups NAME:1, NAME:2 and so on: one transaction commits them all. Transactional ids are NAME.RUN.TASK.ATTEMPT and
NAME.ledger. Names of ledgers may have dots, and one may begin with another: a run has no dot, and a name no colon, so that
each id and each group belong to one ledger.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

#: Characters of a text beside an offset, with room for the head of a piece.
MOST_PIECE_CHARS = 4000
#: The beginning of the names that checkpoints give.
LEDGER_GROUPS = "odradek-sink-"
#: Runs whose late commits are refused; older ones are forgotten.
MOST_SUPERSEDED = 20
_VERSION = 1
_ATTEMPT = struct.Struct(">IHqh")
_ATTEMPT_ID = re.compile(r"(.+)\.([^.]*)\.[0-9]+\.[0-9]+", re.DOTALL)


class DamagedLedger(ValueError):
    """Texts that are no ledger, or pieces of different ones."""


@dataclass(frozen=True, slots=True, order=True)
class Attempt:
    """The transaction of an attempt of a task. `number`: of Spark's attempts of the task in its stage.

    An attempt of the same number in a stage that Spark runs again has the same transactional id: one of both is fenced then,
    and a batch with a fenced transaction is not decided.
    """

    task: int
    number: int
    producer_id: int
    producer_epoch: int

    def transactional_id(self, ledger: str, run: str) -> str:
        """A run has ids of its own, so no other one fences them."""
        assert "." not in run, run
        return f"{ledger}.{run}.{self.task}.{self.number}"


def run_of(transactional_id: str, ledger: str) -> str | None:
    """The run whose attempt has the transactional id; None for an id of another ledger, or of no attempt."""
    parts = _ATTEMPT_ID.fullmatch(transactional_id)
    return parts[2] if parts is not None and parts[1] == ledger else None


def ledger_id(ledger: str) -> str:
    """The transactional id with which a ledger is committed."""
    return f"{ledger}.ledger"


def group_of(ledger: str, piece: int) -> str:
    return f"{ledger}:{piece}" if piece else ledger


@dataclass(frozen=True, slots=True)
class Ledger:
    """`batch`: decided last, -1 before the first. `query`, `run`: Spark's ids. `is_ended`: all its transactions are."""

    batch: int = -1
    query: str = ""
    run: str = ""
    is_ended: bool = True
    attempts: tuple[Attempt, ...] = ()
    #: Runs after which another one has decided: the newest last.
    superseded: tuple[str, ...] = field(default=())

    def encoded(self) -> list[str]:
        """The pieces of the text."""
        packed = zlib.compress(b"".join(
            _ATTEMPT.pack(one.task, one.number, one.producer_id, one.producer_epoch) for one in self.attempts
        ))  # fmt: skip
        whole = json.dumps(
            {
                "version": _VERSION,
                "batch": self.batch,
                "query": self.query,
                "run": self.run,
                "ended": self.is_ended,
                "superseded": list(self.superseded),
                "attempts": base64.b64encode(packed).decode(),
            },
            separators=(",", ":"),
        )
        pieces = [whole[at : at + MOST_PIECE_CHARS] for at in range(0, len(whole), MOST_PIECE_CHARS)]
        digest = f"{zlib.crc32(whole.encode()):08x}"
        return [f"{index}/{len(pieces)} {digest} {piece}" for index, piece in enumerate(pieces)]


def piece_count(first: str) -> int:
    """How many pieces the text has whose first one is given. Raises DamagedLedger."""
    head = first.split(" ", 1)[0]
    index, _, count = head.partition("/")
    if index != "0" or not count.isdigit() or not 1 <= int(count) <= 10_000:
        raise DamagedLedger(f"the ledger begins with {head[:40]!r}")
    return int(count)


def decoded(batch: int, pieces: Sequence[str]) -> Ledger:
    """The ledger of committed pieces, in their order. Raises DamagedLedger."""
    texts, digests = [], set()
    for index, piece in enumerate(pieces):
        head, digest, text = (*piece.split(" ", 2), "", "")[:3]
        if head != f"{index}/{len(pieces)}":
            raise DamagedLedger(f"piece {index} of the ledger begins with {head[:40]!r}")
        texts.append(text)
        digests.add(digest)
    whole = "".join(texts)
    if digests != {f"{zlib.crc32(whole.encode()):08x}"}:
        raise DamagedLedger("the pieces of the ledger are not of one text")
    try:
        fields = json.loads(whole)
        if fields["version"] != _VERSION:
            raise DamagedLedger(f"the ledger has the version {fields['version']!r}; this program reads {_VERSION}")
        packed = zlib.decompress(base64.b64decode(fields["attempts"]))
        attempts = tuple(Attempt(*one) for one in _ATTEMPT.iter_unpack(packed))
        return Ledger(
            int(fields.get("batch", batch)),  # the mirror of a topic has no offset beyond its end
            str(fields["query"]),
            str(fields["run"]),
            bool(fields["ended"]),
            attempts,
            tuple(fields["superseded"]),
        )
    except (KeyError, TypeError, ValueError, RecursionError, zlib.error, struct.error) as error:
        if isinstance(error, DamagedLedger):
            raise
        raise DamagedLedger(f"the ledger does not parse: {error}") from None
