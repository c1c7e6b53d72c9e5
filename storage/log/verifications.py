"""A producer of whom a leader is asking whether its transaction is open here (KIP-890).

Asking begins with the first batch of a transaction in this partition, and is over when one is written, or the marker that
ends the transaction. Meanwhile two things must not happen, which the producer's state alone would let pass, since nothing of
the transaction is in the log yet:

- A batch with a greater sequence number is written, while one before it was refused for now (the coordinator is moving)
  and will come again. It would then be out of order for good, and librdkafka takes it for written when a later one is.
- The answer is one to an older question: the transaction has ended since, and what is written now would be of none, and
  hang. So who asked holds on to the `Verification`, and compares.

They are not of the log: who leads next asks anew.
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
