"""The exchange's side of a FIX session: reports one by one, refusals as values, and gaps after a login."""

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgpack

from serl.clients.errors import SessionEnded
from serl.clients.session import Instrument, Report, Session
from serl.exchange.records import COMMAND, CommandKind, Rows
from serl.exchange.wire import Kind

_REFUSED = re.compile(r"command (\d+) was not accepted")
_ERROR = bytes([0x93, Kind.ERROR])
_ROW = struct.Struct("<6q2H4B2I")
assert _ROW.size == COMMAND.itemsize
_HEAD = msgpack.packb([int(Kind.BULK), bytes(_ROW.size)])[: -_ROW.size]
BULKS_MAX = 1024
"""Number of messages whose command ids are kept, in case the exchange refuses them as a whole."""
MISSING = "the exchange was restarted with another journal, or without reports that were not received; log on again"


class Refusal(NamedTuple):
    """An ERROR from the exchange: these commands (empty: unknown ones) were not accepted."""

    code: str
    text: str
    command_ids: Sequence[int]


class ReportSession(Session):
    """A session that keeps no orders of its own: the gateway does. `receive` returns refusals instead of raising them."""

    def __init__(self, name: str, token: str = "", **options: bool) -> None:
        super().__init__(name, token, **options)
        #: by the first command id of a message: the command ids of the orders and requests in it
        self._messages: dict[int, list[int]] = {}
        #: the symbols that the orders in the store are about; empty: unknown
        self.former: Sequence[Instrument] = ()
        #: the report before the first one that follows the login
        self.begins_after = -1
        #: whether the exchange began with another journal: it has fewer reports than we have received, or other symbols
        self.is_other_journal = False
        #: whether it did so while we were logged in: then our orders belong to the former journal
        self.is_over = False
        self._has_begun = False

    def receive(self, data: bytes) -> list[Any]:
        """See `Session.receive`."""
        if self.live and data.startswith(_ERROR):
            _, code, text = msgpack.unpackb(data)
            if code != "not_logged_in":
                return [self._refusal(code, text)]
        return super().receive(data)

    def _refusal(self, code: str, text: str) -> Refusal:
        found = _REFUSED.search(text)
        first_id = int(found[1]) if found else 0
        refused = [
            command_id for command_id in self._messages.pop(first_id, ()) if self.unanswered.pop(command_id, None)
        ]
        return Refusal(code, text, refused)

    def row(
        self, kind: int, symbol: int = 0, side: int = 0, qty_lots: int = 0, price_ticks: int = 0, time_in_force: int = 0,
        flags: int = 0, order_id: int = 0,
    ) -> tuple[int, bytes]:  # fmt: skip
        """(command id, COMMAND row) of a command; from here on it waits for its answer."""
        command_id = self.next_command_id
        self.next_command_id += 1
        row = _ROW.pack(
            0, 0, command_id, order_id, price_ticks, qty_lots, symbol, 0, kind, side, time_in_force, flags, 0, 0
        )
        self.unanswered[command_id] = _HEAD + row
        return command_id, row

    def order_rows(self, rows: Rows) -> tuple[int, bytes]:
        """(command id, COMMAND rows) of an order with terms; only some of them would be a different order."""
        command_id = int(rows[-1]["command_id"])
        self.next_command_id = command_id + 1
        data = rows.tobytes()
        self.unanswered[command_id] = bulk(data)
        return command_id, data

    def messages(self, commands: Sequence[tuple[int, bytes]]) -> list[bytes]:
        """Encodes commands (command id, rows) that are in the store as messages."""
        if self.limits["messages_per_s_max"]:  # the rate does not concern cancels, but rows of bulk messages
            return [self._message([command], single) for command in commands]
        rows_max = int(self.limits["bulk_rows_max"])
        found, part, size = [], list[tuple[int, bytes]](), 0
        for command in commands:
            rows = len(command[1]) // _ROW.size
            if part and size + rows > rows_max:
                found.append(self._message(part))
                part, size = [], 0
            part.append(command)
            size += rows
        found.append(self._message(part))
        return found

    def _message(self, part: Sequence[tuple[int, bytes]], encode: Callable[[bytes], bytes] | None = None) -> bytes:
        data = b"".join([rows for _, rows in part])
        first_id = int.from_bytes(data[16:24], "little")  # an order with terms has its own id in its last row
        self._messages[first_id] = [command_id for command_id, _ in part]
        if len(self._messages) > BULKS_MAX:
            del self._messages[next(iter(self._messages))]
        return (encode or bulk)(data)

    def apply(self, report: Report) -> None:
        """Only notes that a command has been answered."""
        if report.command_id:
            self.unanswered.pop(report.command_id, None)

    def _welcome(self, message: list[Any]) -> None:
        before, next_report, instruments = self.last_report, message[4], self.instruments
        super()._welcome(message)
        if before >= 0:  # above `before + 1`, the exchange no longer stores the reports between them
            self.last_report = next_report - 1
        self.begins_after = self.last_report
        if next_report <= before or (self.former and list(self.instruments.values()) != self.former):
            self.is_other_journal = True
            self.unanswered = {}  # they were meant for another market
        if self._has_begun and (self.instruments != instruments or (before >= 0 and next_report != before + 1)):
            self.is_over = True
            if self.instruments != instruments:
                self.unanswered = {}  # their symbol numbers now belong to other symbols
            raise SessionEnded("reports_missing", MISSING)
        self._has_begun = True


def single(rows: bytes) -> bytes:
    """The message of one command: a cancel in its own form, any other as rows."""
    _, _, command_id, order_id, _, _, symbol, _, kind, _, _, flags, _, _ = _ROW.unpack(rows[-_ROW.size :])
    if kind == CommandKind.CANCEL:
        return bytes(msgpack.packb([kind, command_id, order_id, 0]))
    if kind == CommandKind.MASS_CANCEL:
        return bytes(msgpack.packb([kind, command_id, symbol, flags, 0]))
    return bulk(rows)


def bulk(rows: bytes) -> bytes:
    """A message of COMMAND rows."""
    return _HEAD + rows if len(rows) == _ROW.size else bytes(msgpack.packb([int(Kind.BULK), rows]))
