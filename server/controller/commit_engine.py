"""The interface of what commits records of the metadata log on this node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .quorum_voters import QuorumVoters


class CommitEngine(Protocol):
    """Commits what is appended to the metadata log: the only voter (`LoneVoter`), or a Raft replica (`QuorumRaft`)."""

    @property
    def epoch(self) -> int: ...
    @property
    def kraft_version(self) -> int: ...
    @property
    def leads(self) -> bool:
        """True while this node may append records."""

    @property
    def is_caught_up(self) -> bool:
        """True when this node has everything that is known to be committed."""

    def voters_at(self, end_offset: int) -> QuorumVoters:
        """Returns the voters and the KRaft version in the log below that offset."""

    def appended(self) -> None:
        """Handles records that this node's controller has appended to the log."""

    async def until_idle(self) -> None:
        """Waits until everything that a single voter has appended is committed, or the disk has failed."""

    def halt(self) -> None:
        """Stops to take part in the quorum, after a failure."""

    async def leave(self) -> None:
        """Makes a leader of several nodes step down, and ends the last flush."""
