"""Encodes the exchange's reports as OUCH messages, a whole batch at a time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import EventFlag, EventKind, Reason, Rows
from serl.gateways.ouch.changes import MODIFY, REPLACE, Change, Changes
from serl.gateways.ouch.inbound import Symbols
from serl.gateways.ouch.messages import OPTION_SECONDARY_NUMBER, OPTION_SHOWN, outbound
from serl.gateways.ouch.options import APPENDAGE_BYTES_MAX, MAX_FLOOR, read_options
from serl.gateways.ouch.orders import NO_ENTRY, OrderTable
from serl.gateways.ouch.reasons import CANCEL_REASONS, REJECT_REASONS

DAY_NS = 86_400_000_000_000
NOT_IN_BOOK = 1 << 63
"""Order reference numbers from here on belong to orders that are not in the book (yet); ITCH has none of them."""
NO_MESSAGE, CANCELED, REJECTED = 0, ord("C"), ord("J")
TYPES = np.zeros(256, np.uint8)
"""Type of the message by the kind of an event about an order."""
HAS_LEAVES = np.zeros(256, bool)
"""Whether leaves_lots of an event, by its kind, is the open quantity of its order."""
for _event, _letter in {
    EventKind.ACCEPTED: "A", EventKind.FILL: "E", EventKind.CANCELLED: "C", EventKind.REDUCED: "C",
    EventKind.RESTED: "T", EventKind.REJECTED: "J", EventKind.REPLACED: "\0",
}.items():  # fmt: skip
    TYPES[_event] = ord(_letter)
    HAS_LEAVES[_event] = _event != EventKind.REJECTED


class ReportEncoder:
    """Encodes the reports of one user, and keeps the orders up to date.

    Attributes:
        freed: changes that may be sent now, because the previous one has been answered.
        mass_cancels: entries of mass cancels without a response, by command id.
    """

    def __init__(self, table: OrderTable, changes: Changes, symbols: Symbols, midnight_ns: int) -> None:
        self._table = table
        self._changes = changes
        self._symbols = symbols
        self._midnight_ns = midnight_ns
        self.freed: list[Change] = []
        self.mass_cancels: dict[int, int] = {}
        self._modified: list[tuple[int, int, int]] = []  # modifications in this batch: row, entry, new side

    def time_ns(self, time_ns: Any) -> Any:
        """Converts exchange time to nanoseconds after midnight."""
        return (time_ns - self._midnight_ns) % DAY_NS

    def encode(self, rows: Rows) -> tuple[bytes, int]:
        """Encodes EVENT rows as (packets, number of messages)."""
        table, kinds = self._table, rows["kind"]
        base = table.find_new(rows["order_id"])
        known = base != NO_ENTRY
        place = np.where(known, table.current[base], NO_ENTRY)
        types = self._types(rows, kinds, known)
        numbers = np.where(rows["order_number"] > 0, rows["order_number"], 0).astype(np.uint64)
        numbers[numbers == 0] = np.uint64(NOT_IN_BOOK) + rows["sequence"][numbers == 0].astype(np.uint64)
        if self._changes.by_command:
            self._answer_changes(rows, base, place, types, numbers)
        self._update(rows, base, place, known)
        encoded = self._write(rows, place, types, numbers)
        for _, modified, side in self._modified:
            table.entries["side"][modified] = side
        self._modified = []
        return encoded

    def _types(self, rows: Rows, kinds: Any, known: NDArray[np.bool_]) -> Any:
        """The type of each event's message; `NO_MESSAGE` for none."""
        types = TYPES[kinds] * known
        types[(types == CANCELED) & (rows["reason"] == Reason.SELF_TRADE)] = ord("D")
        types[(types == CANCELED) & (rows["qty_lots"] == 0)] = NO_MESSAGE
        types[(types == REJECTED) & (rows["order_id"] != rows["command_id"])] = NO_MESSAGE
        if self.mass_cancels:
            for at in np.flatnonzero(kinds == EventKind.MASS_CANCELLED).tolist():
                if int(rows["command_id"][at]) in self.mass_cancels:
                    types[at] = ord("X")
        return types

    def _answer_changes(self, rows: Rows, base: Any, place: Any, types: Any, numbers: Any) -> None:
        """Finds the answers to changes; from a replacement on, the order's events name its new entry."""
        ids = rows["command_id"]
        for at in np.flatnonzero(np.isin(ids, list(self._changes.by_command))).tolist():
            change = self._changes.by_command.get(int(ids[at]))
            if change is None:
                continue  # already answered by an earlier event
            kind, following = int(rows["kind"][at]), self._following(rows, at)
            if kind == EventKind.REDUCED and following and change.kind in (REPLACE, MODIFY):
                if following != EventKind.CANCELLED:
                    types[at] = NO_MESSAGE  # the reserve of an iceberg; the following event has the whole change
                continue
            self.freed += self._changes.answered(int(ids[at]))
            if change.kind == REPLACE:
                self._replaced(change, at, rows, base, place, types, numbers)
            elif kind == EventKind.REJECTED and rows["reason"][at] != Reason.UNKNOWN_ORDER:
                types[at] = ord("I")
            elif kind == EventKind.REDUCED and change.kind == MODIFY:
                types[at] = ord("M")
                self._modified.append((at, int(place[at]), change.side))

    @staticmethod
    def _following(rows: Rows, at: int) -> int:
        """The kind of the next event of the same command; 0 for none."""
        after = at + 1
        is_same = after < len(rows) and rows["command_id"][after] == rows["command_id"][at]
        return int(rows["kind"][after]) if is_same else 0

    def _replaced(self, change: Change, at: int, rows: Rows, base: Any, place: Any, types: Any, numbers: Any) -> None:
        table, kind = self._table, int(rows["kind"][at])
        table.answered[change.place] = True
        if kind not in (EventKind.REPLACED, EventKind.REDUCED):
            table.open_shares[change.place] = 0
            if kind == EventKind.REJECTED:
                types[at], place[at] = ord("J"), change.place
            return
        types[at] = ord("U")
        table.open_shares[table.current[change.base]] = 0
        table.current[change.base] = change.place
        table.entries["side"][change.place] = table.entries["side"][place[at]]
        place[at:][base[at:] == change.base] = change.place
        after = at + 1
        if after < len(rows) and rows["kind"][after] == EventKind.RESTED and base[after] == change.base:
            types[after], numbers[at] = NO_MESSAGE, numbers[after]

    def _update(self, rows: Rows, base: Any, place: Any, known: NDArray[np.bool_]) -> None:
        """Sets the open and executed shares of each order; the last event of an order counts."""
        table, kinds = self._table, rows["kind"]
        lots = self._symbols.lots[rows["symbol"] * known]
        rejected = known & (kinds == EventKind.REJECTED) & (rows["order_id"] == rows["command_id"])
        says_leaves = known & HAS_LEAVES[kinds]
        table.open_shares[place[says_leaves]] = (rows["leaves_lots"] * lots)[says_leaves]
        table.open_shares[base[rejected]] = 0
        answered = base[rejected | (known & (kinds == EventKind.ACCEPTED))]
        table.answered[answered] = True
        if self._changes.waiting:
            self.freed += self._changes.free(answered.tolist())
        filled = known & (kinds == EventKind.FILL)
        np.add.at(table.executed, base[filled], (rows["qty_lots"] * lots)[filled])

    def _write(self, rows: Rows, place: Any, types: Any, numbers: Any) -> tuple[bytes, int]:
        """Encodes the messages by type and puts them in the order of the events."""
        parts: list[tuple[Any, Any, Any]] = []  # places in rows, messages, lengths of appendages
        for kind in np.unique(types).tolist():
            if kind == NO_MESSAGE:
                continue
            for at in self._split(np.flatnonzero(types == kind), chr(kind), rows, place):
                messages = self._messages(at[1], rows[at[0]], place[at[0]], numbers[at[0]])
                parts.append((at[0], messages, self._appendages(at[1], place[at[0]])))
        return _interleave(parts, self._table, place, len(rows))

    def _split(self, at: Any, kind: str, rows: Rows, place: Any) -> "list[tuple[Any, str]]":
        """Separates the new parts of icebergs (R) from other orders that enter the book again (T)."""
        if kind != "T":
            return [(at, kind)]
        fresh = [
            position
            for position in at.tolist()
            if rows["command_id"][position] == 0 and _is_iceberg(self._table.entries[place[position]])
        ]
        rest = at[~np.isin(at, fresh)]
        return [(part, letter) for part, letter in ((np.array(fresh, np.int64), "R"), (rest, "T")) if len(part)]

    def _appendages(self, kind: str, place: Any) -> Any:
        return (
            self._table.entries["appendage_bytes"][place].astype(np.int64)
            if kind in "AU"
            else np.zeros(len(place), np.int64)
        )

    def _messages(self, kind: str, rows: Rows, place: Any, numbers: Any) -> Any:
        """Messages of one type."""
        messages = outbound(kind, len(rows), self.time_ns(rows["time_ns"]))
        if kind == "X":
            return self._mass_cancelled(messages, rows)
        entries = self._table.entries[place]
        symbol = entries["symbol"]
        lots, units = self._symbols.lots[symbol], self._symbols.units[symbol]
        messages["user_ref"] = entries["user_ref"]
        if kind in "AU":
            _describe(messages, entries)
            messages["order_number"] = numbers
            messages["quantity"] = rows["leaves_lots"] * lots
            if kind == "U":
                messages["orig_user_ref"] = entries["orig_user_ref"]
        elif kind in "CDEM":
            messages["quantity"] = (rows["leaves_lots"] if kind == "M" else rows["qty_lots"]) * lots
        if kind in "CD":
            messages["reason"] = CANCEL_REASONS[rows["reason"]]
        if kind in "DE":
            messages["price"] = rows["price_ticks"] * units
            messages["liquidity"] = _liquidity(rows, entries) if kind == "E" else _prevented(rows)
        if kind == "D":
            messages["prevented"], messages["strategy"] = messages["quantity"], _strategies(rows)
        if kind == "E":
            messages["match"] = rows["match_id"]
        if kind == "J":
            messages["reason"], messages["cl_ord_id"] = REJECT_REASONS[rows["reason"]], entries["cl_ord_id"]
        if kind == "M":
            messages["side"] = [side for _, _, side in self._modified]
        if kind == "T":
            messages["price"], messages["display"] = rows["price_ticks"] * units, entries["display"]
            messages["order_number"] = numbers
        if kind == "R":
            _restate(messages, rows["qty_lots"] * lots, numbers)
        return messages

    def _mass_cancelled(self, messages: Any, rows: Rows) -> Any:
        """Responses to mass cancels."""
        places = [self.mass_cancels.pop(command_id) for command_id in rows["command_id"].tolist()]
        entries = self._table.entries[places]
        self._table.answered[places] = True
        messages["user_ref"], messages["firm"] = entries["user_ref"], entries["firm"]
        messages["symbol"] = entries["stock"]
        return messages

    def rejections(self, places: Any, reasons: Any, time_ns: int) -> tuple[bytes, int]:
        """(packets, number of messages) of the gateway's own rejections of the entries at these places."""
        table = self._table
        table.answered[places], table.open_shares[places] = True, 0
        messages = outbound("J", len(places), self.time_ns(time_ns))
        messages["user_ref"] = table.entries["user_ref"][places]
        messages["cl_ord_id"] = table.entries["cl_ord_id"][places]
        messages["reason"] = reasons
        return messages.tobytes(), len(places)


def _describe(messages: Any, entries: Rows) -> None:
    for name in (
        "side",
        "price",
        "time_in_force",
        "display",
        "capacity",
        "sweep",
        "cross",
        "cl_ord_id",
        "appendage_bytes",
    ):
        messages[name] = entries[name]
    messages["symbol"], messages["state"] = entries["stock"], ord("L")
    messages["packet_bytes"] += entries["appendage_bytes"]


def _liquidity(rows: Rows, entries: Rows) -> Any:
    flags = rows["flags"]
    letters = np.where(
        (flags & EventFlag.MAKER) > 0, np.where((flags & EventFlag.HIDDEN) > 0, ord("J"), ord("A")), ord("R")
    )
    crossed = np.where(np.isin(entries["cross"], (ord("O"), ord("C"))), entries["cross"], ord("H"))
    return np.where((flags & EventFlag.AUCTION) > 0, crossed, letters)


def _prevented(rows: Rows) -> Any:
    """The liquidity of orders that self-trade prevention reduces or cancels: an incoming one has no order_number."""
    return np.where(rows["order_number"] > 0, ord("A"), ord("R"))


def _strategies(rows: Rows) -> Any:
    """The AIQ strategy of each self-trade prevention event, according to which of the two orders lose lots: D both, O the older, W the newer."""
    resting, command = rows["order_number"] > 0, rows["command_sequence"]
    older, newer = np.isin(command, command[resting]), np.isin(command, command[~resting])
    return np.where(older & newer, ord("D"), np.where(older, ord("O"), ord("W")))


def _is_iceberg(entry: Any) -> bool:
    return MAX_FLOOR in read_options(bytes(entry["appendage"])[: int(entry["appendage_bytes"])])


def _restate(messages: Any, shown: Any, numbers: Any) -> None:
    messages["reason"] = ord("R")
    messages["appendage_bytes"] = 16
    messages["shown_bytes"], messages["shown_tag"], messages["shown"] = 5, OPTION_SHOWN, shown
    messages["number_bytes"], messages["number_tag"] = 9, OPTION_SECONDARY_NUMBER
    messages["order_number"] = numbers


def _interleave(parts: "list[tuple[Any, Any, Any]]", table: OrderTable, place: Any, count: int) -> tuple[bytes, int]:
    """Joins the messages of all parts, in the order of their places and with their appendages, into one buffer."""
    sizes = np.zeros(count, np.int64)
    for at, messages, extra in parts:
        sizes[at] = messages.itemsize + extra
    ends = np.cumsum(sizes)
    if not len(ends) or not ends[-1]:
        return b"", 0
    starts = ends - sizes
    out = np.empty(int(ends[-1]), np.uint8)
    for at, messages, extra in parts:
        size = messages.itemsize
        out[starts[at][:, None] + np.arange(size)] = messages.view(np.uint8).reshape(len(at), size)
        long = extra > 0
        if long.any():
            text = np.ascontiguousarray(table.entries["appendage"][place[at[long]]]).view(np.uint8)
            text = text.reshape(-1, APPENDAGE_BYTES_MAX)
            columns = np.arange(APPENDAGE_BYTES_MAX)
            inside = columns < extra[long][:, None]
            out[((starts[at[long]] + size)[:, None] + columns)[inside]] = text[inside]
    return out.tobytes(), int((sizes > 0).sum())
