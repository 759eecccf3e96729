"""Commands that the exchange accepts all or not at all: one BULK message."""

from collections.abc import Sequence

import msgpack
import numpy as np

from serl.exchange.records import CommandKind, command
from serl.exchange.wire import Kind

FIELDS: dict[int, tuple[str, ...]] = {
    CommandKind.NEW: ("command_id", "symbol", "side", "qty_lots", "price_ticks", "time_in_force", "flags", "time_ns"),
    CommandKind.REPLACE: ("command_id", "order_id", "qty_lots", "price_ticks", "flags", "time_ns"),
    CommandKind.TERM: ("command_id", "flags", "price_ticks", "time_ns"),
}
"""Fields of the messages of these commands, in the order of docs/protocol.md."""


def bulk_message(messages: Sequence[bytes]) -> bytes:
    """Joins several messages, a NEW or REPLACE and its terms, into one. If they were sent one by one, a rate limit could refuse some of them: the
    next order would get the terms of a refused one, or an order would lack a term."""
    rows = []
    for message in messages:
        kind, *values = msgpack.unpackb(message)
        rows.append(command(kind, **dict(zip(FIELDS[kind], values, strict=True))))
    packed: bytes = msgpack.packb([Kind.BULK, np.concatenate(rows).tobytes()])
    return packed
