"""A file of the order attributes that the exchange does not keep: the client's order id, the order's type and its list.

One line of JSON for each new order, written before the order is sent: after a SIGKILL, every order that the exchange has is in the file.
A line counts only if the exchange has accepted an order with its id, symbol, side, price and quantity, so a file of another exchange's
orders does no harm.

A file that has grown large is replaced with one without unneeded lines: those of orders that the exchange rejected, those of orders that
closed so long ago that the gateway no longer returns them, and all but the last line of an id. Lines that this process does not know stay.
"""

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from serl.exchange.atomic_file import atomic_file
from serl.exchange.log import log
from serl.exchange.private_files import private_files, private_folder

COMPACT_BYTES = 16 << 20
"""A file of fewer bytes is not compacted."""


class OrderRecord(NamedTuple):
    """The request behind an order.

    Attributes:
        order_id: the exchange's id, which is also Binance's orderId.
        price_ticks: as sent to the exchange; 0 for a market order.
        type: Binance's order type.
        shown_ticks: the price that Binance shows: 0 for a MARKET order.
        stop_ticks, display_lots: 0 for none.
        quote_qty: quoteOrderQty as sent, or "".
        list_id, list_client_id: ids of the order list; -1 and "" for none.
        list_type: the list's contingency type, or "".
        list_size: number of orders in the list.
        pending: whether it waits for another order of the list.
        strategy_id, strategy_type: the client's numbers; -1 for none.
    """

    order_id: int
    symbol: str
    side: int
    price_ticks: int
    qty_lots: int
    client_id: str
    type: str
    time_in_force: str
    shown_ticks: int
    stop_ticks: int = 0
    display_lots: int = 0
    quote_qty: str = ""
    stp: str = "NONE"
    strategy_id: int = -1
    list_id: int = -1
    list_client_id: str = ""
    list_type: str = ""
    list_size: int = 2
    pending: bool = False
    strategy_type: int = -1

    @property
    def client_key(self) -> tuple[str, str]:
        """Symbol and the client's id, which names one open order of the symbol."""
        return self.symbol, self.client_id


class OrderFile:
    """The records of one account.

    Another gateway may have the same file open, for example while one replaces the other: each write holds a lock, and follows the file to
    its replacement.
    """

    def __init__(self, folder: Path, participant: str, compact_bytes: int = COMPACT_BYTES) -> None:
        private_folder(folder, "folder of orders")
        self.path = folder / f"{participant.encode().hex()}.jsonl"
        self.records: dict[int, OrderRecord] = {}
        self._dropped: set[int] = set()
        self._compact_bytes = self._limit = compact_bytes
        self._descriptor = self._open()
        self.reload()

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Within the block the file is locked, and is the one that has its name."""
        while True:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            if self._is_current():
                break
            os.close(self._descriptor)
            self._descriptor = self._open()
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def reload(self) -> None:
        """Reads all records again, because the exchange has another journal in which any of the orders may be open."""
        with self._locked():
            for leftover in self.path.parent.glob(f".{self.path.name}.*"):  # left by a killed compaction
                leftover.unlink()
            data = self.path.read_bytes()
            if data and not data.endswith(b"\n"):
                os.write(self._descriptor, b"\n")  # ends a line that a kill cut off
        records = filter(None, map(_parse, data.splitlines()))
        self.records = {record.order_id: record for record in records}
        self._dropped.clear()

    def append(self, record: OrderRecord) -> None:
        """Writes a record, which from then on survives the end of the process. Raises OSError."""
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        with self._locked():
            self._write(line)
        self.records[record.order_id] = record
        self._dropped.discard(record.order_id)
        self.compact()

    def _write(self, line: bytes) -> None:
        """Writes a line completely or not at all: a partial line would corrupt the next one too."""
        size = os.fstat(self._descriptor).st_size
        written = os.write(self._descriptor, line)
        if written != len(line):
            os.ftruncate(self._descriptor, size)
            text = f"expected to write {len(line)} bytes, wrote {written}; make room on the disk"
            raise OSError(errno.ENOSPC, text, str(self.path))

    def forget(self, order_id: int) -> None:
        """Drops a record from memory: its order is done. The file keeps it."""
        self.records.pop(order_id, None)

    def drop(self, order_id: int) -> None:
        """Drops a record that nobody needs any longer: its order was rejected, or closed long ago. The file keeps it until it is compacted."""
        self.forget(order_id)
        self._dropped.add(order_id)

    def compact(self) -> None:
        """Rewrites the file without unneeded lines if it has become large. After a kill, either the old or the new file is there."""
        if os.fstat(self._descriptor).st_size <= self._limit:
            return
        try:
            with self._locked():
                self._replace()
        except OSError as error:
            log("binance_compaction", f"{self.path}: not compacted: {error}")
        else:
            self._dropped.clear()
        size = os.stat(self.path).st_size
        self._limit = max(self._compact_bytes, 2 * size)

    def _replace(self) -> None:
        lines: dict[int, bytes] = {}
        for line in self.path.read_bytes().splitlines(keepends=True):
            if (found := _ORDER_ID.match(line)) and (order_id := int(found[1])) not in self._dropped:
                lines[order_id] = line
        with private_files(), atomic_file(self.path) as file:
            file.writelines(lines.values())

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def _parse(line: bytes) -> OrderRecord | None:
    """Parses a line; None for one that a kill cut off."""
    try:
        values: Any = json.loads(line)
        record = OrderRecord(*values)
    except (ValueError, TypeError):
        return None
    return record if all(type(value) is type(kind) for value, kind in zip(record, _EXAMPLE, strict=True)) else None


_ORDER_ID = re.compile(rb"\[(\d{1,19}),.*\]\n$")
"""The order id in a complete line: parsing all lines would take a second."""
_EXAMPLE = OrderRecord(0, "", 0, 0, 0, "", "", "", 0)
