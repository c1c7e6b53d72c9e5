"""The invariants of a cluster, checked after each event of any of its nodes. Each breach names its invariant.

"Committed" means that a leader has ever considered it committed: in the metadata log below any node's high
watermark, in a partition below its leader's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ....metadata.image import MetadataImage

if TYPE_CHECKING:
    from .shadow import Digest, LogShadow

ONE_LEADER = "one leader per epoch"
COMMITTED = "committed entries never change"
LOG_MATCHING = "batches with equal offset and epoch are equal"
HIGH_WATERMARK_BACK = "the high watermark never decreases"
BOUNDARY = "the high watermark never exceeds the committed end offset"
IN_SYNC = "each ISR member has all committed records"
IMAGES = "images are equal at equal offsets"
ACKNOWLEDGED = "acknowledged records are committed exactly once and in order"
PROGRESS = "the cluster makes progress after the faults end"
NO_BUG = "no node hits a bug"
CONSISTENT = "the ends, segments, ISR and waiting replies of a replica agree"


class Broken(AssertionError):
    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


class History:
    """One replicated log, as seen across all its replicas."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: By base offset.
        self.committed: dict[int, Digest] = {}
        self.end_offset = 0
        self._leaders: dict[int, object] = {}
        self._written: dict[tuple[int, int], Digest] = {}

    def led(self, epoch: int, leader: object) -> None:
        """Notes a leader of an epoch. `leader`: an incarnation of a node."""
        known = self._leaders.setdefault(epoch, leader)
        if known is not leader:
            raise Broken(ONE_LEADER, f"{self.name}: two leaders in epoch {epoch}")

    def written(self, replica: str, digests: Iterable[Digest]) -> None:
        """Notes written batches: batches with the same offset and epoch must be equal, whichever replica wrote them."""
        for digest in digests:
            known = self._written.setdefault((digest.base_offset, digest.leader_epoch), digest)
            if known != digest:
                raise Broken(LOG_MATCHING, f"{self.name} at {replica}: {digest}, but {known} on another replica")

    def commit(self, replica: str, shadow: LogShadow, high_watermark: int) -> bool:
        """Notes that a leader considers everything below its high watermark committed. Returns whether the committed
        part grew.
        """
        if high_watermark > shadow.end_offset:
            raise Broken(COMMITTED, f"{self.name}: {replica} lacks records below its high watermark {high_watermark}")
        self.verify(replica, shadow, high_watermark)
        if high_watermark <= self.end_offset:
            return False
        for digest in _from(shadow.digests, self.end_offset):
            if digest.base_offset >= high_watermark:
                break
            self.committed[digest.base_offset] = digest
        self.end_offset = high_watermark
        return True

    def verify(self, replica: str, shadow: LogShadow, high_watermark: int) -> None:
        """Checks that the replica has the committed batches below its high watermark."""
        end = min(high_watermark, self.end_offset)
        while shadow.verified < len(shadow.digests):
            digest = shadow.digests[shadow.verified]
            if digest.base_offset >= end:
                return
            if self.committed.get(digest.base_offset) != digest:
                known = self.committed.get(digest.base_offset)
                raise Broken(COMMITTED, f"{self.name}: {replica} has {digest}, but {known} is committed")
            shadow.verified += 1

    def hold(self, replica: str, shadow: LogShadow | None, invariant: str) -> None:
        """Checks that the replica has everything committed."""
        end = 0 if shadow is None else shadow.end_offset
        if end < self.end_offset:
            raise Broken(
                invariant,
                f"{self.name}: {replica} ends at offset {end}, but the committed end offset is {self.end_offset}",
            )
        try:
            if shadow is not None:
                self.verify(replica, shadow, self.end_offset)
        except Broken as broken:
            raise Broken(invariant, str(broken)) from broken


def _from(digests: Sequence[Digest], offset: int) -> Sequence[Digest]:
    number = len(digests)
    while number and digests[number - 1].base_offset >= offset:
        number -= 1
    return digests[number:]


class Images:
    """The published images, by offset."""

    def __init__(self) -> None:
        self._known: dict[int, MetadataImage] = {}
        self.newest = MetadataImage()

    def published(self, node: str, image: MetadataImage) -> bool:
        """Notes a published image. Returns whether it is newer than all earlier ones."""
        known = self._known.setdefault(image.offset, image)
        if known is not image and known != image:
            raise Broken(IMAGES, f"at offset {image.offset}, {node}: {_difference(known, image)}")
        if image.offset <= self.newest.offset:
            return False
        self.newest = image
        return True


def _difference(image: MetadataImage, other: MetadataImage) -> str:
    names = [name for name in image._fields if getattr(image, name) != getattr(other, name)]
    return "; ".join(f"{name} {getattr(image, name)} and {getattr(other, name)}" for name in names)


class Monotonic:
    """Checks that a high watermark is monotonic while its owner is the same."""

    __slots__ = ("_owner", "_value")

    def __init__(self) -> None:
        self._owner: object = None
        self._value = 0

    def at(self, owner: object, value: int, name: Callable[[], str]) -> None:
        if owner == self._owner and value < self._value:
            raise Broken(HIGH_WATERMARK_BACK, f"{name()}: from {self._value} to {value}")
        self._owner, self._value = owner, value
