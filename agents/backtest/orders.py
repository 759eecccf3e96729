"""A client session that sends its commands to a book in this process instead of a server."""

from collections.abc import Iterable

import numpy as np

from serl.clients.session import Report, Session
from serl.exchange.entry import ROWS
from serl.exchange.latency import Delays
from serl.exchange.records import COMMAND, CommandKind

FIRST_ROWS, DELAYS_DRAWN = 256, 1024
NEW, CANCEL, REDUCE, REPLACE, MASS_CANCEL, TERM = (int(kind) for kind in list(CommandKind)[:6])
ROW_BYTES = COMMAND.itemsize
NO_MESSAGE = b""


class InProcessSession(Session):
    """Keeps orders, fills and positions like any session of serl's clients; its commands become COMMAND rows in order of arrival.

    As on a lockstep exchange, a command arrives at `time_ns` plus its delay, and never before an earlier command.
    """

    def __init__(self, participant: int, delays: Delays | None) -> None:
        super().__init__("strategy")
        self._participant, self._delays = participant, delays
        self.count = 0
        """Number of commands that have not arrived yet."""
        self._last_arrival_ns = 0
        self._drawn: list[int] = []
        """Delays of the commands from id `_drawn_from` on, ns."""
        self._drawn_from = 1
        self._rows = np.zeros(0, COMMAND)
        self._allocate(FIRST_ROWS)

    def _allocate(self, rows: int) -> None:
        """Allocates room for `rows` commands."""
        before, self._rows = self._rows[: self.count], np.zeros(rows, COMMAND)
        self._rows[: len(before)] = before
        self._bytes = self._rows.view(np.uint8).data
        self.address = int(self._rows.ctypes.data)

    def command(self, kind: int, *values: int) -> tuple[int, bytes]:
        """Queues a command with these fields, in the order of docs/protocol.md. Returns (command id, an empty message)."""
        command_id = self.next_command_id
        self.next_command_id += 1
        order_id = price = qty = symbol = side = time_in_force = flags = 0
        if kind == NEW:
            symbol, side, qty, price, time_in_force, flags = values
        elif kind == CANCEL:
            (order_id,) = values
        elif kind == REDUCE:
            order_id, qty = values
        elif kind == REPLACE:
            order_id, qty, price, *with_terms = values
            flags = with_terms[0] if with_terms else 0
        elif kind == MASS_CANCEL:
            (symbol,) = values
        else:
            flags, price = values  # TERM
        if self.count == len(self._rows):
            self._allocate(2 * self.count)
        arrival_ns = self.time_ns if self._delays is None else self._arrival_ns(command_id)
        ROWS.pack_into(
            self._bytes, self.count * ROW_BYTES, arrival_ns, command_id, order_id, price, qty, symbol, self._participant, kind, side,
            time_in_force, flags,
        )  # fmt: skip
        self.count += 1
        return command_id, NO_MESSAGE

    def _arrival_ns(self, command_id: int) -> int:
        assert self._delays is not None
        place = command_id - self._drawn_from
        if place >= len(self._drawn):
            self._drawn_from, place = command_id, 0
            self._drawn = self._delays.draw_ns(np.arange(command_id, command_id + DELAYS_DRAWN)).tolist()
        self._last_arrival_ns = max(self._last_arrival_ns, self.time_ns + self._drawn[place])
        return self._last_arrival_ns

    def remove(self, arrived: int) -> None:
        """Removes the first `arrived` commands."""
        left = self.count - arrived
        if left and arrived:
            self._rows[:left] = self._rows[arrived : self.count].copy()
        self.count = left

    def forget_closed(self, reports: Iterable[Report]) -> None:
        """Forgets the reported orders that can no longer trade, so that a long run does not have to search all of them."""
        for report in reports:
            order = self.orders.get(report.order_id)
            if order is not None and order.state in ("done", "rejected"):
                del self.orders[report.order_id]
                self.term_ids.pop(report.order_id, None)
