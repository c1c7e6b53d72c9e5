"""The change from a source to its mirror, and back: the effects of each command, in their order.

A command may end after any effect; run again, it does all of them again, and each that is done already changes nothing. The
order keeps two promises: a planned switch has at no moment two writable sides, and none whose records are not in the other;
after a fail-over only its command makes a second side writable.
"""

from __future__ import annotations

from enum import Enum


class Effect(Enum):
    """Steps of a command; "here" is the mirror's cluster."""

    COMPARE_LAST = "the last batches here are those of the source"
    CLOSE_SOURCE = "the source's topics become read-only"
    AWAIT_EQUAL = "all of the source is here"
    COPY_GROUPS = "committed offsets are copied a last time"
    STOP = "nothing is fetched any more"
    AWAIT_STOPPED = "the leaders have reported their last state"
    PROMOTE = "the leaders abort open transactions"
    AWAIT_PROMOTED = "no transaction is open any more"
    RAISE_FLOOR = "new producers get ids above all mirrored ones"
    OPEN_HERE = "the topics here become writable"
    CLOSE_FORMER = "the former source's topics become mirrors of this cluster"
    LINK_BACK = "the former source follows, and cuts what only it has"
    DELETE_LINK = "the link here ends"


_OPENING = (
    Effect.STOP,
    Effect.AWAIT_STOPPED,
    Effect.PROMOTE,
    Effect.AWAIT_PROMOTED,
    Effect.RAISE_FLOOR,
    Effect.OPEN_HERE,
)
FAIL_OVER = _OPENING
#: A link that is paused has not compared what a source wrote after it had lost records. A source that loses them before it
#: is closed is found by the second comparison; the first one leaves a source that differs writable.
SWITCH = (
    Effect.COMPARE_LAST,
    Effect.CLOSE_SOURCE,
    Effect.AWAIT_EQUAL,
    Effect.COMPARE_LAST,
    Effect.COPY_GROUPS,
    *_OPENING,
)
REVERSE = (Effect.CLOSE_FORMER, Effect.LINK_BACK, Effect.DELETE_LINK)
