"""Verification of a producer's transaction: the leader asks the coordinator whether it is open here (KIP-890).

Verification begins with the first batch of a transaction in this partition. It ends when a batch is written, or the
marker that ends the transaction. Meanwhile the leader must prevent two things. The producer's state alone would
allow them, since nothing of the transaction is in the log yet:

- The leader rejects a batch for now (the coordinator is moving), and writes a batch with a greater sequence number. The
  rejected batch comes again and is out of order for good. librdkafka takes it for written when a later one is.
- The coordinator's response belongs to an earlier verification: the transaction has ended since. A batch written now would
  belong to no transaction, and would hang. So the caller keeps the `Verification`, and compares.

Verifications are not in the log: a new leader starts them anew.
"""

from __future__ import annotations


class Verification:
    """The verification of one producer. `bumps_epochs`: each of its transactions has an epoch and begins at sequence 0."""

    __slots__ = ("began_ms", "bumps_epochs", "epoch", "lowest_sequence")

    def __init__(self, sequence: int, epoch: int, now_ms: int, *, bumps_epochs: bool) -> None:
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.began_ms = now_ms
        self.bumps_epochs = bumps_epochs

    def asked_again(self, sequence: int, epoch: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def is_out_of_order(self, sequence: int, *, has_written: bool) -> bool:
        """`has_written`: some batch of the producer's epoch is known."""
        return sequence > self.lowest_sequence or (self.bumps_epochs and sequence != 0 and not has_written)
