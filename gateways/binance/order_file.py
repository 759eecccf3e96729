"""What the exchange does not keep of an order, in a file: the client's order id, the order's type and its list.

One line of JSON for each new order, written before the order is sent: after a SIGKILL, every order that the exchange has is in the file.
A line counts only if the exchange has accepted an order with its id, symbol, side, price and quantity, so a file of another exchange's
orders does no harm.
"""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from serl.exchange.private_files import private_folder

LINE_BYTES_MAX = 4096


class OrderRecord(NamedTuple):
    """The request behind an order.

    Attributes:
        order_id: the exchange's id, which is Binance's orderId too.
        price_ticks: as sent to the exchange; 0 for a market order.
        type: Binance's order type.
        shown_ticks: the price that Binance shows: 0 for a MARKET order.
        stop_ticks, display_lots: 0 for none.
        quote_qty: quoteOrderQty as sent, or "".
        list_id, list_client_id: of the order list; -1 and "" for none.
        list_type: the list's contingency type, or "".
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


class OrderFile:
    """The records of one account."""

    def __init__(self, folder: Path, participant: str) -> None:
        private_folder(folder, "folder of orders")
        self.path = folder / f"{participant.encode().hex()}.jsonl"
        self.records: dict[int, OrderRecord] = {}
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._read()

    def _read(self) -> None:
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            os.write(self._descriptor, b"\n")  # ends what a kill cut off
        for line in data.splitlines():
            record = _parse(line)
            if record is not None:
                self.records[record.order_id] = record

    def append(self, record: OrderRecord) -> None:
        """Writes a record; it survives the end of the process from then on. Raises OSError."""
        os.write(self._descriptor, json.dumps(record, separators=(",", ":")).encode() + b"\n")
        self.records[record.order_id] = record

    def forget(self, order_id: int) -> None:
        """Drops a record from memory: its order is done or was never accepted. The file keeps it."""
        self.records.pop(order_id, None)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def _parse(line: bytes) -> OrderRecord | None:
    """A line's record; None for what a kill cut off."""
    try:
        values: Any = json.loads(line)
        record = OrderRecord(*values)
    except (ValueError, TypeError):
        return None
    return record if all(type(value) is type(kind) for value, kind in zip(record, _EXAMPLE, strict=True)) else None


_EXAMPLE = OrderRecord(0, "", 0, 0, 0, "", "", "", 0)
