"""Compiles or loads the functions that an exchange calls, before it serves."""

import numpy as np

from serl.exchange.config import LimitsConfig
from serl.exchange.gateway.codec import read_order
from serl.exchange.gateway.feed_state import NO_FEED, NOBODY
from serl.exchange.gateway.loop import journal_rows, serve
from serl.exchange.gateway.publish import warm_feed
from serl.exchange.gateway.state import encode_missed, index_sessions, new_gateway
from serl.exchange.gateway.timing import clock_ns
from serl.exchange.kernel.dump import list_orders
from serl.exchange.kernel.levels import levels
from serl.exchange.kernel.order_index import move_entries
from serl.exchange.kernel.state import new_state
from serl.exchange.libzmq import POLL_ITEM
from serl.exchange.open_sockets import open_sockets
from serl.exchange.records import COMMAND, EVENT, LEVEL, ORDER
from serl.exchange.struct_pointer import with_handle

WORDS = COMMAND.itemsize // 8


def warm_loop() -> None:
    """Compiles or loads everything that an exchange calls except its order books, with a market in which nothing can happen."""
    limits = LimitsConfig()
    gateway, state = (
        new_gateway(limits),
        with_handle(new_state(symbols=1, participants=1, window=128, capacity=32, far=8)),
    )
    rows, events = np.zeros(1, COMMAND), np.zeros(1, EVENT)
    words, row_bytes = rows.view(np.int64).reshape(1, WORDS), rows.view(np.uint8)
    arrays = rows, words, row_bytes, events, events.view(np.uint8).reshape(1, EVENT.itemsize)
    serve(gateway, state, arrays, 0, np.zeros(1, POLL_ITEM), 0, 0, NO_FEED, NOBODY)
    journal_rows(gateway, rows, words, rows[:0])
    index_sessions(gateway)
    encode_missed(gateway, 0, events, arrays[4])
    clock_ns(gateway.clock, gateway.counter)
    read_order(gateway.message, 0, rows[0])
    levels(state, 0, 0, np.zeros(0, LEVEL))
    list_orders(state, -1, np.zeros(0, ORDER))
    move_entries(state.table, np.zeros_like(state.table))
    warm_feed(state, events)
    open_sockets(0, 0, frozenset({0}), 1)
