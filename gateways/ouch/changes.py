"""Changes of open orders: replacements, partial cancels and modifications. Each order has one at a time; the others wait for its answer.

The meaning of a change depends on whether the previous one was accepted, which only the exchange's answer tells.
"""

from dataclasses import dataclass

import numpy as np

from serl.exchange.records import COMMAND, CommandKind, Rows
from serl.gateways.ouch.inbound import Symbols
from serl.gateways.ouch.orders import NO_ENTRY, OrderTable
from serl.gateways.ouch.reasons import Reject

REPLACE, CANCEL, MODIFY = "U", "X", "M"


@dataclass(frozen=True)
class Change:
    """A change of an order.

    Attributes:
        kind: REPLACE, CANCEL or MODIFY.
        place: entry of the replacement; for other kinds, of the order that it names.
        base: entry of the order's NEW.
        quantity: the order's intended size in shares, executed ones included; 0 cancels it.
        side: for MODIFY, the code of the new side letter.
    """

    kind: str
    place: int
    base: int
    quantity: int
    side: int = 0


class Changes:
    """The changes of one user's orders.

    Attributes:
        in_flight: by the entry of an order's NEW: its change that has no answer yet.
        by_command: the same changes by their command ids.
        waiting: by the entry of an order's NEW: changes, and cancels, that wait for that answer.
    """

    def __init__(self, table: OrderTable, symbols: Symbols) -> None:
        self._table = table
        self._symbols = symbols
        self.in_flight: dict[int, Change] = {}
        self.by_command: dict[int, Change] = {}
        self.waiting: dict[int, list[Change]] = {}

    def must_wait(self, base: int) -> bool:
        """Whether a change of this order has no answer yet."""
        return base in self.in_flight

    def refusal(self, change: Change) -> Reject | None:
        """The reason why a replacement cannot be sent; None if it can."""
        table = self._table
        if change.base == NO_ENTRY:
            return Reject.REPLACE_NOT_ALLOWED
        entry, original = table.entries[change.place], table.entries[change.base]
        current = int(table.current[change.base])
        symbol = int(original["symbol"])
        if table.entries["user_ref"][current] != entry["orig_user_ref"] or not table.open_shares[current]:
            return Reject.REPLACE_NOT_ALLOWED
        if entry["time_in_force"] != original["time_in_force"] or entry["sweep"] != original["sweep"]:
            return Reject.REPLACE_NOT_ALLOWED
        if entry["display"] != original["display"]:
            return Reject.INVALID_DISPLAY
        if entry["appendage_bytes"] and entry["appendage"] != original["appendage"]:
            return Reject.REPLACE_NOT_ALLOWED
        if entry["quantity"] == 0 or entry["quantity"] % self._symbols.lots[symbol]:
            return Reject.INVALID_QUANTITY
        if entry["price"] <= 0 or entry["price"] % self._symbols.units[symbol]:
            return Reject.INVALID_PRICE
        return None

    def complete(self, place: int) -> None:
        """Copies what a replacement inherits from its order."""
        table = self._table
        base = int(table.base[place])
        if base == NO_ENTRY:
            return
        original = table.entries[table.current[base]]
        for name in ("symbol", "stock", "side", "capacity", "cross", "firm"):
            table.entries[name][place] = original[name]
        if not table.entries["appendage_bytes"][place]:
            table.entries["appendage_bytes"][place] = original["appendage_bytes"]
            table.entries["appendage"][place] = original["appendage"]

    def command(self, change: Change) -> Rows | None:
        """The command of a change as a COMMAND row without its id; None if there is nothing to change."""
        table = self._table
        row = np.zeros(1, COMMAND)
        base = change.base
        row["order_id"] = table.entries["command_id"][base]
        symbol = int(table.entries["symbol"][base])
        lot = int(self._symbols.lots[symbol])
        if change.kind == REPLACE:
            row["kind"] = CommandKind.REPLACE
            row["qty_lots"] = change.quantity // lot
            row["price_ticks"] = int(table.entries["price"][change.place]) // int(self._symbols.units[symbol])
            return row
        current = int(table.current[base])
        open_shares = int(table.open_shares[current])
        if current != change.place or not open_shares:
            return None
        if change.quantity == 0 and change.kind == CANCEL:
            row["kind"] = CommandKind.CANCEL
            return row
        less = open_shares + int(table.executed[base]) - change.quantity
        if less <= 0:
            return None
        row["kind"] = CommandKind.REDUCE
        row["qty_lots"] = -(-less // lot)
        return row

    def sent(self, change: Change, command_id: int) -> None:
        """Notes that the change was sent. After a cancel of the whole order no other change needs to wait: nothing can change the order after it."""
        if change.kind != CANCEL or change.quantity:
            self.in_flight[change.base] = change
            self.by_command[command_id] = change

    def wait(self, change: Change) -> None:
        """Keeps a change until the one in flight is answered."""
        self.waiting.setdefault(change.base, []).append(change)

    def answered(self, command_id: int) -> list[Change]:
        """Ends the change with this command id; returns the changes that waited for it."""
        change = self.by_command.pop(command_id)
        self.in_flight.pop(change.base, None)
        return self.waiting.pop(change.base, [])

    def free(self, bases: list[int]) -> list[Change]:
        """The changes that waited for the answers to these orders themselves."""
        return [change for base in bases if not self.must_wait(base) for change in self.waiting.pop(base, [])]
