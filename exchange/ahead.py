"""What an exchange compiles at its first start on a machine, in pieces that are compiled at the same time by processes of their own.

`python -m serl.exchange.ahead PIECE` compiles one; who needs it meanwhile waits for that (`compiling.alone`).
"""

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from serl.exchange.compiling import is_kept
from serl.exchange.config import LimitsConfig
from serl.exchange.feed import warm_encoders
from serl.exchange.gateway.codec import read_order
from serl.exchange.gateway.loop import journal_rows, serve
from serl.exchange.gateway.state import index_sessions, new_gateway
from serl.exchange.gateway.timing import clock_now_ns
from serl.exchange.growth import fast_path, full_rule_book
from serl.exchange.kernel.dump import list_orders, list_specials
from serl.exchange.kernel.levels import levels
from serl.exchange.kernel.order_index import index_all
from serl.exchange.kernel.state import new_state, with_queues
from serl.exchange.libzmq import POLL_ITEM
from serl.exchange.pointed import bound
from serl.exchange.records import COMMAND, EVENT, LEVEL, ORDER, SPECIAL

WORDS = COMMAND.itemsize // 8


def warm_loop() -> None:
    """Compiles or loads all that an exchange calls but its order books: with a market in which nothing can happen."""
    limits = LimitsConfig()
    gateway, state = new_gateway(limits), bound(new_state(symbols=1, participants=1, window=128, capacity=32, far=8))
    rows, events = np.zeros(1, COMMAND), np.zeros(1, EVENT)
    words, row_bytes = rows.view(np.int64).reshape(1, WORDS), rows.view(np.uint8)
    arrays = rows, words, row_bytes, events, events.view(np.uint8).reshape(1, EVENT.itemsize)
    serve(gateway, state, arrays, 0, np.zeros(1, POLL_ITEM), 0, 0, False)
    journal_rows(gateway, rows, words, rows[:0])
    index_sessions(gateway)
    clock_now_ns(gateway)
    read_order(gateway.message, 0, rows[0])
    levels(state, 0, 0, np.zeros(0, LEVEL))
    list_orders(state, -1, np.zeros(0, ORDER))
    index_all(state)
    warm_encoders(state, events)


def warm_rule_book() -> None:
    """Compiles or loads the full rule book, and what else is for special orders only."""
    full_rule_book()
    from serl.exchange.kernel.rulebook.auction import indicative
    from serl.exchange.kernel.rulebook.restore import restore_rules, restore_specials

    state = bound(with_queues(new_state(symbols=1, participants=1, window=128, capacity=32, far=8)))
    nothing = np.zeros(0, SPECIAL)
    indicative(state, 0)
    list_specials(state, nothing)
    restore_specials(state, nothing, 0)
    restore_rules(state, nothing)


PIECES: dict[str, Callable[[], object]] = {"book": fast_path, "rulebook": warm_rule_book}
"""By the name that each is compiled `alone` under."""


@contextmanager
def compiled_beside(*pieces: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Has the pieces that are not there yet compiled by processes of their own, which end with the context."""
    command = [sys.executable, "-m", "serl.exchange.ahead"]
    processes = [subprocess.Popen([*command, piece]) for piece in pieces if not is_kept(piece)]
    try:
        yield processes
    finally:
        for process in processes:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    gc.disable()  # a compiler makes much that lives long, and this process does not
    PIECES[sys.argv[1]]()
