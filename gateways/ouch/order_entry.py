"""Processes a user's messages: orders, their changes and cancels become commands, or are rejected."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import ALL_SYMBOLS, COMMAND, CommandKind, Rows
from serl.gateways.ouch.batch import Batch
from serl.gateways.ouch.changes import CANCEL, MODIFY, REPLACE, Change, Changes
from serl.gateways.ouch.inbound import Messages, Symbols, enter_orders, term_commands
from serl.gateways.ouch.link import Link
from serl.gateways.ouch.messages import outbound
from serl.gateways.ouch.options import SIDE, USER_REF_INDEX, OptionError, read_options
from serl.gateways.ouch.orders import ENTRY, MASS_CANCEL, NO_ENTRY, REPLACEMENT, OrderTable
from serl.gateways.ouch.outbound import DAY_NS, ReportEncoder
from serl.gateways.ouch.reasons import Reject

SELLING = tuple(b"STE")
BLANK_FIRM = (b"", b"    ")
MASS_CANCEL_SIDES = {b" ": 0, b"B": 1, b"S": 2}
"""Flags of MASS_CANCEL by the option for the side."""

Tell = Callable[[bytes, int], None]
"""Adds (packets, their number) to the user's stream and sends them."""


class OrderEntry:
    """Processes the messages of one user.

    Attributes:
        last_ref: the largest user reference number so far; later ones must be larger.
    """

    def __init__(
        self, table: OrderTable, changes: Changes, symbols: Symbols, encoder: ReportEncoder, link: Link, tell: Tell
    ) -> None:
        self.last_ref = table.last_user_ref
        self._table, self._changes, self._symbols = table, changes, symbols
        self._encoder, self._link, self._tell = encoder, link, tell

    def receive(self, messages: Messages, explain: Callable[[str], None]) -> None:
        """Processes messages. explain: tells the user what was wrong with a message for which OUCH has no answer."""
        if messages.malformed:
            _, kind, size = messages.malformed[0]
            explain(
                f"expected messages of type O, U, X, M, C or Q of OUCH 5.0, got type {chr(kind)!r} of {size} bytes"
                + (f" and {len(messages.malformed) - 1} more" if len(messages.malformed) > 1 else "")
            )
        if "Q" in messages.rows:
            reply = outbound("Q", 1, self._encoder.time_ns(self._link.session.now_ns()))
            reply["next_user_ref"] = min(self.last_ref + 1, 0xFFFFFFFF)  # no number is left after the largest
            self._tell(reply.tobytes(), 1)
        elif "C" in messages.rows:
            self._mass_cancel(messages, explain)
        elif messages.rows:
            self._trade(messages)

    def _trade(self, messages: Messages) -> None:
        """Enters orders and changes them."""
        batch = Batch()
        refused = self._enter(messages, batch)
        refused += self._change(messages, batch)
        self._cancel(messages, batch)
        self._send(batch)
        for places, reasons in refused:
            self.reject(places, reasons)
        self.send_freed()

    def _enter(self, messages: Messages, batch: Batch) -> list[tuple[NDArray[np.int64], Any]]:
        """Stages the entries of orders and replacements; returns (places, reasons) of refused orders."""
        index, rows = messages.index, messages.rows
        kinds = [kind for kind in "OU" if kind in rows]
        if not kinds:
            return []
        at = np.concatenate([index[kind] for kind in kinds])
        order = np.argsort(at, kind="stable")
        refs = np.concatenate([rows[kind]["user_ref"].astype(np.int64) for kind in kinds])[order]
        before = np.maximum.accumulate(np.concatenate([[self.last_ref], refs]))[:-1]
        fresh = at[order][refs > before]
        self.last_ref = max(self.last_ref, int(refs.max()))
        for kind in kinds:  # a reference number that does not increase is a repeated message, which is ignored
            if len(fresh) == len(at):
                break
            kept = np.isin(index[kind], fresh)
            index[kind], rows[kind] = index[kind][kept], rows[kind][kept]
        entries = np.zeros(len(fresh), ENTRY)
        orders = None
        if "O" in rows:
            orders = enter_orders(rows["O"], index["O"], messages.appendages, self._symbols, self._midnight_ns())
            entries[np.searchsorted(fresh, index["O"])] = orders.entries
        if "U" in rows:
            entries[np.searchsorted(fresh, index["U"])] = _replacements(rows["U"], index["U"], messages.appendages)
        places = self._table.stage(entries)
        if orders is None:
            return []
        new = places[np.searchsorted(fresh, index["O"])]
        reasons = orders.reasons if self._link.is_live else np.full(len(new), Reject.DESTINATION_CLOSED, np.uint16)
        good = reasons == 0
        self._table.open_shares[new[~good]] = 0
        batch.add(orders.commands[good], 2 * index["O"][good] + 1, entry=new[good])
        for position, terms in orders.terms.items():
            if good[position]:
                commands = term_commands(terms)
                batch.add(commands, np.full(len(commands), 2 * index["O"][position]))
        return [(new[~good], reasons[~good])] if not good.all() else []

    def _change(self, messages: Messages, batch: Batch) -> list[tuple[NDArray[np.int64], Any]]:
        """Sends or keeps replacements, partial cancels and modifications; returns (places, reasons) of the refused ones."""
        found: list[tuple[int, Change]] = []
        for kind in "UXM":
            if kind not in messages.rows:
                continue
            rows, index = messages.rows[kind], messages.index[kind]
            if kind == "X":
                rows, index = rows[rows["quantity"] > 0], index[rows["quantity"] > 0]
            places = self._table.find(rows["user_ref"])
            for row, at, place in zip(rows, index.tolist(), places.tolist(), strict=True):
                if place != NO_ENTRY:
                    side = int(row["side"]) if kind == "M" else 0
                    found.append((at, Change(kind, place, int(self._table.base[place]), int(row["quantity"]), side)))
        refused = []
        for at, change in sorted(found, key=lambda each: each[0]):
            reason = self._apply(change, batch, at)
            if reason is not None:
                refused.append((np.array([change.place]), np.array([reason], np.uint16)))
        return refused

    def _apply(self, change: Change, batch: Batch, at: int) -> Reject | None:
        """Adds a change to the batch, or keeps it until it can be sent; returns the reason if a replacement is refused."""
        changes = self._changes
        if not self._link.is_live:
            if change.kind == REPLACE:
                return Reject.DESTINATION_CLOSED
            self._refuse_cancel(change)
            return None
        if change.base != NO_ENTRY and changes.must_wait(change.base):
            changes.wait(change)
            return None
        if change.kind == REPLACE:
            if (reason := changes.refusal(change)) is not None:
                return reason
            changes.complete(change.place)
        if change.base == NO_ENTRY:
            return None
        if change.kind == MODIFY and not self._may_modify(change):
            return None
        row = changes.command(change)
        if row is not None:
            batch.add(row, np.array([2 * at]), change=change)
            if change.kind != CANCEL or change.quantity:
                changes.in_flight[change.base] = change
                batch.changed[change.base] = at
        elif change.kind == MODIFY and not self._table.answered[change.place]:
            changes.wait(change)
        elif change.kind == MODIFY:
            self._modify_side(change)
        return None

    def _may_modify(self, change: Change) -> bool:
        """Whether a side may be changed to the new one: only from one kind of sell to another."""
        side = int(self._table.entries["side"][change.place])
        return change.side == side or (side in SELLING and change.side in SELLING)

    def _modify_side(self, change: Change) -> None:
        """Modifies only the side letter, which concerns the gateway alone."""
        table, place = self._table, change.place
        total = int(table.open_shares[place] + table.executed[change.base])
        if int(table.current[change.base]) != place or not table.open_shares[place] or change.quantity != total:
            return
        table.entries["side"][place] = change.side
        message = outbound("M", 1, self._encoder.time_ns(self._link.session.now_ns()))
        message["user_ref"], message["side"] = table.entries["user_ref"][place], change.side
        message["quantity"] = table.open_shares[place]
        self._tell(message.tobytes(), 1)

    def _refuse_cancel(self, change: Change) -> None:
        if self._table.open_shares[change.place]:
            message = outbound("I", 1, self._encoder.time_ns(self._link.session.now_ns()))
            message["user_ref"] = self._table.entries["user_ref"][change.place]
            self._tell(message.tobytes(), 1)

    def _cancel(self, messages: Messages, batch: Batch) -> None:
        """Cancels whole orders."""
        if "X" not in messages.rows:
            return
        rows, index, table = messages.rows["X"], messages.index["X"], self._table
        whole = rows["quantity"] == 0
        places, index = table.find(rows["user_ref"][whole]), index[whole]
        index, places = index[places != NO_ENTRY], places[places != NO_ENTRY]
        base = table.base[places]
        index, places, base = index[base != NO_ENTRY], places[base != NO_ENTRY], base[base != NO_ENTRY]
        after_change = np.zeros(len(places), bool)
        if self._changes.in_flight or batch.changed or not self._link.is_live:
            for position, (at, place, of) in enumerate(
                zip(index.tolist(), places.tolist(), base.tolist(), strict=True)
            ):
                change = Change(CANCEL, place, of, 0)
                if not self._link.is_live:
                    self._refuse_cancel(change)
                elif self._changes.must_wait(of) and batch.changed.get(of, -1) < at:
                    self._changes.wait(change)
                else:
                    continue
                after_change[position] = True
        good = ~after_change & (table.current[base] == places) & (table.open_shares[places] > 0)
        commands = np.zeros(int(good.sum()), COMMAND)
        commands["kind"] = CommandKind.CANCEL
        batch.add(commands, 2 * index[good], base=base[good])

    def _send(self, batch: Batch) -> None:
        """Assigns ids to the commands, stores the entries, then sends the commands."""
        rows, entry, base, changes = batch.build()
        session, table = self._link.session, self._table
        rows["command_id"] = session.next_command_id + np.arange(len(rows))
        session.next_command_id += len(rows)
        new = np.flatnonzero(entry != NO_ENTRY)
        table.entries["command_id"][entry[new]] = rows["command_id"][new]
        table.index_new(entry[new])
        refers = base != NO_ENTRY
        rows["order_id"][refers] = table.entries["command_id"][base[refers]]
        for at, change in changes:
            command_id = int(rows["command_id"][at])
            if change.kind == REPLACE:
                table.set_command_id(change.place, command_id)
            self._changes.sent(change, command_id)
        table.store()
        self._link.send(rows)

    def send_freed(self) -> None:
        """Sends the changes that waited for the answer to another one."""
        while self._encoder.freed:
            batch, freed = Batch(), self._encoder.freed
            self._encoder.freed = []
            for at, change in enumerate(freed):
                reason = self._apply(change, batch, at)
                if reason is not None:
                    self.reject(np.array([change.place]), np.array([reason], np.uint16))
                if change.base in self._changes.waiting and not self._changes.must_wait(change.base):
                    self._encoder.freed += self._changes.waiting.pop(change.base)
            self._send(batch)

    def _mass_cancel(self, messages: Messages, explain: Callable[[str], None]) -> None:
        row, appendage = messages.rows["C"][0], messages.appendages.get(0, b"")
        if row["user_ref"] <= self.last_ref:
            return
        symbol = -1 if not bytes(row["symbol"]).strip() else int(self._symbols.find(messages.rows["C"]["symbol"])[0])
        has_symbol = bool(bytes(row["symbol"]).strip())
        try:
            options = read_options(appendage)
        except OptionError:
            options = {SIDE: b"?"}
        side = options.get(SIDE, b" ")
        narrower = options.keys() - {SIDE, USER_REF_INDEX}  # e.g. a group: the message does not mean all orders
        sides = {b" ": 0, b"B": 1, b"S": 2}
        is_known = (not has_symbol or symbol >= 0) and side in sides and not narrower and row["firm"] in BLANK_FIRM
        if not is_known or not self._link.is_live:
            explain(
                "expected a mass cancel with a blank firm, a listed or blank symbol, and no option but side B or S, while the exchange is "
                "connected; nothing was cancelled"
            )
            return
        entry = np.zeros(1, ENTRY)
        entry["kind"], entry["user_ref"], entry["stock"], entry["firm"] = (
            MASS_CANCEL,
            row["user_ref"],
            row["symbol"],
            row["firm"],
        )
        self.last_ref = int(row["user_ref"])
        place = int(self._table.stage(entry)[0])
        command = np.zeros(1, COMMAND)
        command["kind"], command["flags"] = CommandKind.MASS_CANCEL, sides[bytes(side)]
        command["symbol"] = symbol if has_symbol else ALL_SYMBOLS
        session = self._link.session
        self._table.entries["command_id"][place] = command["command_id"] = session.next_command_id
        session.next_command_id += 1
        self._encoder.mass_cancels[int(command["command_id"][0])] = place
        self._table.store()
        self._link.send(command)

    def _midnight_ns(self) -> int:
        midnight_ns = int(self._link.session.clock[3])
        return midnight_ns + (self._link.session.now_ns() - midnight_ns) // DAY_NS * DAY_NS

    def reject_refused(self, command_id: int, reason: Reject) -> None:
        """Rejects the entries whose commands, up to this id, the exchange has not accepted: a later command was answered."""
        places = self._table.unanswered(command_id)
        if len(places):
            self.reject(places, reason)

    def reject(self, places: NDArray[np.int64], reasons: Any) -> None:
        """Rejects entries at these places; reasons: one for all, or one for each."""
        for place in places.tolist():
            command_id = int(self._table.entries["command_id"][place])
            if command_id in self._changes.by_command:
                self._encoder.freed += self._changes.answered(command_id)
            self._encoder.mass_cancels.pop(command_id, None)
        orders = self._table.entries["kind"][places] != MASS_CANCEL
        self._table.answered[places[~orders]] = True
        if orders.any():
            kept = reasons if np.isscalar(reasons) or not isinstance(reasons, np.ndarray) else reasons[orders]
            self._tell(*self._encoder.rejections(places[orders], kept, self._link.session.now_ns()))


def _replacements(rows: Rows, places: NDArray[np.int64], appendages: dict[int, bytes]) -> Rows:
    entries = np.zeros(len(rows), ENTRY)
    for name in ("user_ref", "orig_user_ref", "quantity", "price", "time_in_force", "display", "sweep", "cl_ord_id"):
        entries[name] = rows[name]
    entries["kind"] = REPLACEMENT
    for position in np.flatnonzero(np.isin(places, list(appendages))).tolist() if appendages else []:
        appendage = appendages[int(places[position])]
        entries["appendage_bytes"][position], entries["appendage"][position] = len(appendage), appendage
    return entries
