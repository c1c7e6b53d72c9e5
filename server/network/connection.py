"""A client's connection: reads frames and sends the responses in the order in which the requests came.

All connections of a listener receive into one buffer and handle its whole frames at once. Only an incomplete frame
gets a buffer of its own, which grows with the bytes received, not with the announced size.

Requests are handled as they are taken. A request whose response comes later stays in `calls`, and the responses after
it wait: the done prefix of `calls` is what may be sent. The connection stops reading (TCP's window then slows the
peer) while
- the peer does not read: more than `WRITE_HIGH_WATER_BYTES` of responses wait in the transport;
- `MAX_UNANSWERED_CALLS` are waiting;
- something holds the connection (`hold`): for example a parked Fetch, whose response may be large.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, cast

from ...client.shown_text import shown_reason
from ...storage.segments.damage import SegmentSuspected
from ...storage.segments.slices import LogSlice
from ..runtime.clock import TIMER_RESOLUTION_S
from ..runtime.turn_budget import TURN_BUDGET_S
from .file_sender import FileSender, ResponseSender
from .frame_buffer import READ_BUFFER_BYTES, FrameBuffer, grown, rejected_size
from .protocol_violation import ProtocolViolation
from .receive_budget import SMALL_REQUEST_BYTES
from .transfer_turns import LEAST_BYTES

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from ...protocol.schema import Message
    from ..access.authorization.sessions import AuthorizationSession
    from ..access.quotas.sensors import Meters
    from .call import Call, RequestDispatch
    from .file_sender import Piece
    from .listening import Listening

log = logging.getLogger("odradek.connection")

#: Frames up to this are copied out of the shared buffer: codecs are quickest on bytes of their own.
COPIED_FRAME_BYTES = 16 * 1024
#: The first buffer of a frame that has not come whole; the next ones are four times what has arrived. A thousand peers that
#: send the beginning of a frame and wait cost 4 MB.
FIRST_FRAME_BUFFER_BYTES = 4 * 1024
#: Responses that a peer has not read yet; beyond it no further request of this peer is taken.
WRITE_HIGH_WATER_BYTES = 512 * 1024
#: Requests of one connection that wait for their responses; each is a small object. Clients have 5 to 1,000 in flight.
MAX_UNANSWERED_CALLS = 512
#: Responses below this are joined into one buffer; larger pieces go to the socket uncopied.
JOINED_RESPONSE_BYTES = 64 * 1024
#: A connection with more requests in its buffer continues in the next turn of the loop, after other connections.
TURN_SHARE_S = TURN_BUDGET_S / 4

unpack_length = struct.Struct(">i").unpack_from

# The reasons for which a connection takes no request: it may be held for several at once.
#
# Reasons are a call whose response may be large (it is released by its response), the connection's share of the turn of the
# loop, the bytes of a turn, the rate of new connections, and the quotas of clients (KIP-219). Reading goes on when none is
# left.
#: The connection has had its share of this turn of the loop.
TURN = "turn"
#: The bytes that connections move in this turn of the loop are used up (transfer_turns.py).
RECEIVING = "receiving"
#: Connections are created faster than `max.connection.creation.rate` allows.
CREATION_RATE = "creation rate"
#: The client is over a quota.
MUTED = "muted"


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_buffer", "_filled", "_handed_bytes", "_holds", "_muted_until_s", "_needed", "_out", "_out_bytes", "_peer_reads",
        "_reading", "_receiving", "_requests", "_sender", "_stuck_bytes", "_taking", "_transfers", "_transport",
        "_unmuting", "active", "authorization", "calls", "client_host", "client_id", "client_id_bytes", "closed",
        "counted_as", "dispatcher", "has_asked", "is_token_authenticated", "listener", "listener_name", "max_frame_bytes",
        "meters", "opened_s", "principal", "rejected_batches", "remote_address", "sasl_gate", "software",
        "takes_descriptor",
    )  # fmt: skip

    def __init__(self, listener: Listening) -> None:
        self.listener = listener
        self.listener_name = listener.name
        self.dispatcher: RequestDispatch = listener.dispatcher
        self.max_frame_bytes = listener.max_frame_bytes
        self.principal = "User:ANONYMOUS"
        self.is_token_authenticated = False
        #: Takes the dispatcher's place until the client is authenticated; None on a listener without SASL.
        self.sasl_gate = None if listener.sasl is None else listener.sasl.gate(self)
        if self.sasl_gate is not None:
            self.dispatcher = self.sasl_gate
        self.authorization: AuthorizationSession | None = None  # an AuthorizationSession, when the authorizer was asked
        self.meters: Meters | None = None  # of its client, when a request was metered
        self.client_host = self.remote_address = ""
        self.software: tuple[str, str] | None = None  # the client's library, from ApiVersions (KIP-511)
        self.client_id: str | None = None
        self.client_id_bytes: bytes | None = None
        #: Whether anything came since the listener last looked for idle connections.
        self.active = True
        self.has_asked = False  # whether a whole request has come
        #: The loop's time when it was opened.
        self.opened_s = 0.0
        self.closed = False
        #: Whether it counts in the budget of descriptors; a simulated one does not.
        self.takes_descriptor = False
        #: The address that it counts for in the limits; None when it was refused.
        self.counted_as: str | None = None
        self.calls: deque[Call] = deque()
        #: The batches of idempotent producers that were rejected: `produce` keeps them here for as long as the connection
        #: lives. None until there are some.
        self.rejected_batches: Any = None
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._receiving = listener.shared.receiving
        self._transfers = listener.shared.transfers
        self._requests = listener.shared.requests
        #: A frame that has not come whole: its bytes with the length, how many there are, how many there will be.
        self._buffer: FrameBuffer | None = None
        self._filled = 0
        self._needed = 0
        #: Responses of this turn that nothing stands before, to be sent in one write.
        self._out: list[Any] = []
        self._out_bytes = 0
        #: Bytes of the responses in `calls`, which are done or behind one that is not.
        self._stuck_bytes = 0
        #: Bytes of the responses that the transport or the sender was given.
        self._handed_bytes = 0
        self._taking = False
        self._reading = True
        self._peer_reads = True
        self._sender: ResponseSender | None = None
        #: A tuple, because an empty one takes neither memory nor time.
        self._holds: tuple[Hashable, ...] = ()
        self._muted_until_s = 0.0
        self._unmuting: asyncio.TimerHandle | None = None

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.listener.opened(self, self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        unanswered = list(self.calls)
        self.calls.clear()
        self._out.clear()
        self._stuck_bytes = self._out_bytes = 0
        if self._buffer is not None:
            self._release_buffer()
        self._receiving.forget(self)
        self._drop_holds()
        if self._sender is not None:
            self._sender.close()
            self._sender = None
        self.listener.lost(self)
        for call in unanswered:
            if call.on_departure is not None:
                call.on_departure()

    def eof_received(self) -> bool:
        self.handle_waiting()  # a client may send a request, as LeaveGroup, and close without its response
        return False

    def pause_writing(self) -> None:
        self._peer_reads = False

    def resume_writing(self) -> None:
        self._peer_reads = True
        self._resume()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._buffer is None:
            return self.listener.read_view
        return memoryview(self._buffer)[self._filled : self._filled + READ_BUFFER_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        self.active = True
        if self.closed:
            return
        if self._buffer is None:
            if self._requests.is_full and self._has_to_wait(nbytes):
                return
            self._take(self.listener.read_buffer, nbytes)
        else:
            self._filled += nbytes
            if self._transfers.left <= 0:
                self._await_turn()
                return
            if self._filled == len(self._buffer):
                self._take_own()
        # The loop reads again at once while a socket fills what it is given: a peer that sends fast could keep it so.
        if nbytes >= LEAST_BYTES and not self._transfers.spend(nbytes):
            self._await_turn()

    def _await_turn(self) -> None:
        """Receives no more in this turn of the loop: all that connections may move in it was moved."""
        if RECEIVING in self._holds or self.closed:
            return
        self.hold(RECEIVING)
        if self._reading:
            self._reading = False
            self._transport.pause_reading()
        self._transfers.wait(self._turn_came)

    def _turn_came(self) -> None:
        self.release(RECEIVING)

    # Frames in.

    def _has_to_wait(self, nbytes: int) -> bool:
        """Keeps received requests for a later turn of the loop. Returns False for a part of one, and for a large one."""
        if not 4 <= nbytes <= SMALL_REQUEST_BYTES:
            return False
        received = self.listener.read_buffer
        needed = 4 + unpack_length(received)[0]
        client = (self.principal, self.client_id)
        if needed > nbytes or not self._requests.are_several(client):
            return False
        # With room for more: reading goes on.
        self._buffer = bytearray(nbytes + FIRST_FRAME_BUFFER_BYTES)
        self._buffer[:nbytes] = self.listener.read_view[:nbytes]
        self._filled, self._needed = nbytes, needed
        self._receiving.take(len(self._buffer))
        self._requests.wait(client, self)
        return True

    def handle_waiting(self) -> None:
        """The turn of waiting requests has come; they may have been handled since, or be kept for another reason."""
        if self._reading and self._buffer is not None and self._filled >= self._needed:
            self._take_whole(self._filled)

    def _take_own(self) -> None:
        """The connection's own buffer is full: its frame is whole, or its length is now known, or it must grow."""
        buffer = cast(FrameBuffer, self._buffer)
        if len(buffer) >= self._needed:
            self._take_whole(len(buffer))
        elif not self._grow(buffer):
            self._reading = False
            self._transport.pause_reading()

    def _take_whole(self, end: int) -> None:
        """Handles the frames of the connection's own buffer. The bytes of a large one are checked, and written to a file."""
        if end >= LEAST_BYTES:
            self._transfers.spend(end)
        self._take(self._release_buffer(), end)

    def _grow(self, buffer: FrameBuffer) -> bool:
        """False when there is no memory for that now; `on_memory_available` is called later."""
        size = min(self._needed, max(FIRST_FRAME_BUFFER_BYTES, 4 * len(buffer)))
        if not self._receiving.may_grow(self, size - len(buffer)):
            return False
        self._buffer = grown(buffer, size, self._needed)
        return True

    def _release_buffer(self) -> FrameBuffer:
        buffer, self._buffer = cast(FrameBuffer, self._buffer), None
        self._receiving.give_back(self, len(buffer))
        return buffer

    def on_memory_available(self) -> None:
        """There may be memory for the rest of a frame."""
        self._resume()

    @property
    def awaits_rest(self) -> bool:
        """True while the connection reads and the peer has sent only a part of a frame."""
        reads = self._reading or RECEIVING in self._holds
        return reads and self._buffer is not None and self._filled < self._needed

    @property
    def needed(self) -> int:
        """Bytes of that frame when it is whole."""
        return self._needed

    @property
    def received(self) -> int:
        """Bytes of the frame that has not come whole."""
        return self._filled

    def _take(self, buffer: FrameBuffer, end: int) -> None:
        """Handles the whole frames of buffer[:end] and keeps the rest."""
        self._taking, pos = True, 0
        requests, watch = self._requests, self.listener.shared.turn_watch
        clock = watch.clock
        began = last = clock()
        try:
            while end - pos >= 4 and (self._may_take() or self._may_take_after_sending()):
                (size,) = unpack_length(buffer, pos)
                if size < 0 or size > self.max_frame_bytes:
                    raise ProtocolViolation(rejected_size(size, self.listener.limit_of(self)))
                stop = pos + 4 + size
                if stop > end:
                    break
                if size <= COPIED_FRAME_BYTES:
                    self.dispatcher.call(self, buffer[pos + 4 : stop])
                else:
                    self.dispatcher.call(self, memoryview(buffer)[pos + 4 : stop])
                pos = stop
                now = clock()
                requests.left_s -= now - last
                if requests.left_s < 0:
                    requests.check()
                if now - last > TURN_BUDGET_S:
                    watch.exceeded_by_frame(now - last, self.client_id, buffer, pos - size, size)
                if now - began > TURN_SHARE_S and pos < end and not self._holds:
                    self._yield_turn()
                last = now
        except ProtocolViolation as fault:
            self._send_done()
            self.close_for(str(fault))
            return
        finally:
            self._taking = False
        if pos:
            self.has_asked = True
        if pos < end and not self.closed:
            self._keep(buffer, pos, end)
        if self._out or self.calls:
            self._send_done()
        if self._reading and not self._may_take():
            self._reading = False
            self._transport.pause_reading()

    def _yield_turn(self) -> None:
        """Leaves the requests that have come for the next turn of the loop."""
        self.hold(TURN)
        asyncio.get_running_loop().call_soon(self.release, TURN)

    def _may_take_after_sending(self) -> bool:
        self._send_done()
        return self._may_take()

    def _may_take(self) -> bool:
        return (
            self._peer_reads
            and not (self._sender is not None and self._sender.is_busy)
            and not self._holds
            and len(self.calls) < MAX_UNANSWERED_CALLS
            and self._out_bytes + self._stuck_bytes <= WRITE_HIGH_WATER_BYTES
            and not self.closed
        )

    def _keep(self, buffer: FrameBuffer, pos: int, end: int) -> None:
        """Bytes that cannot be handled yet move to a buffer of the connection's own."""
        filled = self._filled = end - pos
        self._needed = 4
        if filled >= 4:
            self._needed += unpack_length(buffer, pos)[0]
        size = min(self._needed, max(FIRST_FRAME_BUFFER_BYTES, 4 * filled))
        if (self._may_take() or self._may_take_after_sending()) and self._receiving.may_grow(self, size):
            self._buffer = bytearray(size)
            self._buffer[:filled] = memoryview(buffer)[pos:end]
            return
        # Reading stops until there is memory, and requests are taken again; received bytes are counted.
        self._receiving.take(filled)
        self._buffer = buffer[pos:end]
        if self._reading:
            self._reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        """Goes on reading, first what had been received already, when nothing stands against it any more."""
        if self._reading or self._taking or not self._may_take():
            return
        if self._buffer is not None and self._filled >= self._needed:
            self._take_whole(self._filled)
            if not self._may_take():
                return
        if self._buffer is not None and self._filled == len(self._buffer) and not self._grow(self._buffer):
            return
        if not self.closed:
            self._reading = True
            self._transport.resume_reading()

    def learn(self, raw: Buffer) -> str:
        """A client id that this connection has not shown before; nearly every connection has one only."""
        self.meters = None
        self.client_id = str(raw, "utf-8")
        self.client_id_bytes = bytes(raw)
        return self.client_id

    # Responses out.

    def reply_in_slices(self, call: Call, response: Message) -> None:
        from .sliced_responses import reply_in_slices  # which few brokers ever need

        reply_in_slices(call, response, call.route.response_version)

    def park(self, call: Call) -> None:
        """Notes that the call is answered later; later responses wait for it."""
        call.parked()
        self.calls.append(call)

    def answered(self, call: Call) -> None:
        if self._holds:  # parked or not: a call that holds the connection may be answered in the same turn
            self._drop_hold(call)
        if call.is_parked:
            self._parked_answered(call)
        elif self.calls:
            self.calls.append(call)
            self._stuck_bytes += call.size
        else:
            self._out += call.pieces  # type: ignore[arg-type]
            self._out_bytes += call.size

    def _parked_answered(self, call: Call) -> None:
        if self.closed:
            return
        self._stuck_bytes += call.size
        if self._taking:
            return  # sent with what is being answered now
        if call is self.calls[0]:
            self._send_done()
        self._resume()

    def _send_done(self) -> None:
        """Hands what is answered in order to the transport, all in one write."""
        calls, out, size = self.calls, self._out, self._out_bytes
        while calls and (pieces := calls[0].pieces) is not None:
            done = calls.popleft()
            out += pieces
            size += done.size
            self._stuck_bytes -= done.size
        if not out:
            return
        self._out, self._out_bytes = [], 0
        self._handed_bytes += size
        if size <= JOINED_RESPONSE_BYTES and (self._sender is None or not self._sender.is_busy):
            self._transport.write(b"".join(out))
        else:
            self._send_large(out)

    def _send_large(self, out: list[Piece]) -> None:
        """Past the transport, from the files themselves, where that can be; the transport must have sent its own first."""
        if (self._sender is not None and self._sender.is_busy) or (
            self._transport.get_write_buffer_size() == 0 and self._may_send_files()
        ):
            cast(ResponseSender, self._sender).send(out)
        else:
            try:
                copies = [piece.bytes() if type(piece) is LogSlice else piece for piece in out]
            except (OSError, SegmentSuspected) as error:
                self._sending_failed(error)
                return
            self._transport.writelines(copies)

    def _may_send_files(self) -> bool:
        """Makes the sender on first use: only where responses are large does a connection need it."""
        if self._sender is None:
            self._sender = FileSender.of(self._transport, self._transfers, self._resume, self._sending_failed)
        return self._sender is not None

    def _sending_failed(self, error: OSError | SegmentSuspected) -> None:
        if not isinstance(error, ConnectionError):
            self._warn("unsent", f"the response to {self.remote_address} cannot be sent: {error}", logging.ERROR)
        self._sender = None
        self.abort()

    # Reasons to take no request.

    def hold(self, reason: Hashable) -> None:
        """Takes no request before `reason` is released. A call is released by its response."""
        if reason not in self._holds:
            self._holds += (reason,)

    def release(self, reason: Hashable) -> None:
        """Takes requests again if `reason` was the last one to hold the connection."""
        if reason in self._holds:
            self._drop_hold(reason)
            self._resume()

    def mute(self, time_ms: int) -> None:
        """Takes no request for at least that time: the client is over a quota (KIP-219)."""
        loop = asyncio.get_running_loop()
        delay_s = time_ms / 1000 + TIMER_RESOLUTION_S
        until_s = loop.time() + delay_s
        if self._unmuting is not None:
            if until_s <= self._muted_until_s:
                return
            self._unmuting.cancel()
        self._muted_until_s = until_s
        self.hold(MUTED)
        self._unmuting = loop.call_later(delay_s, self._unmute)

    def _unmute(self) -> None:
        self._unmuting = None
        self.release(MUTED)

    def _drop_holds(self) -> None:
        """Forgets all reasons at the end of the connection: a throttle may be days long, and its timer keeps the object."""
        self._holds = ()
        if self._unmuting is not None:
            self._unmuting.cancel()
            self._unmuting = None

    def _drop_hold(self, reason: Hashable) -> None:
        """Removes a reason; `_holds` has at least one."""
        holds = self._holds
        if len(holds) > 1:
            self._holds = tuple(one for one in holds if one is not reason)
        elif holds[0] is reason:
            self._holds = ()

    # Endings.

    def close_for(self, reason: str) -> None:
        """Ends the connection for a fault of the peer. Logs one line with the fault; repetitions are counted."""
        shown = shown_reason(reason)
        words = f"closing the connection of {self.remote_address} on {self.listener_name}: {shown}"
        self._warn((self.listener_name, shown), words)
        self.close()

    def drop_for(self, reason: str) -> None:
        """Closes as `close_for` does, and drops what the peer has not read yet."""
        self.close_for(reason)
        self.abort()

    def _warn(self, kind: Hashable, words: str, level: int = logging.WARNING) -> None:
        self.listener.shared.lines.log(log, level, self.counted_as or "", kind, words)

    def close(self) -> None:
        """Closes the connection. Responses already written are still sent, for as long as the peer reads them."""
        self.closed = True
        self._transport.close()

    def abort(self) -> None:
        self.closed = True
        self._transport.abort()

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that wait for the peer to read."""
        unsent = self._sender.unsent_bytes if self._sender is not None else 0
        return unsent + self._transport.get_write_buffer_size()

    @property
    def stuck_bytes(self) -> int:
        """Bytes of responses that wait for those of earlier requests."""
        return self._out_bytes + self._stuck_bytes

    @property
    def taken_bytes(self) -> int:
        """Bytes of responses that the peer has taken since the connection was opened."""
        return self._handed_bytes - self.unsent_bytes

    @property
    def waits_for_us(self) -> bool:
        """True if the peer waits for a response and reads: such a connection is not idle."""
        return bool(self.calls) and self._peer_reads
