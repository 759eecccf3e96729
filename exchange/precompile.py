"""The pieces of code that separate processes compile at an exchange's first start on a machine, while its own process compiles the rest (`warm`).

`python -m serl.exchange.precompile PIECE` compiles one piece; a process that needs the piece meanwhile waits for it (`code_cache.alone`).
"""

import gc
import sys
from collections.abc import Callable

import numpy as np

from serl.exchange.growth import fast_path, full_rule_book
from serl.exchange.kernel.dump import list_specials
from serl.exchange.kernel.state import new_state, with_queues
from serl.exchange.snapshot import SPECIAL
from serl.exchange.struct_pointer import with_handle


def warm_rule_book() -> None:
    """Compiles or loads the full rule book, and everything else that only special orders need."""
    full_rule_book()
    from serl.exchange.kernel.rulebook.auction import indicative
    from serl.exchange.kernel.rulebook.restore import restore_rules, restore_specials

    state = with_handle(with_queues(new_state(symbols=1, participants=1, window=128, capacity=32, far=8)))
    nothing = np.zeros(0, SPECIAL)
    indicative(state, 0)
    list_specials(state, nothing)
    restore_specials(state, nothing, 0)
    restore_rules(state, nothing)


PIECES: dict[str, Callable[[], object]] = {"book": fast_path, "rulebook": warm_rule_book}
"""Pieces by name; `alone` compiles each under its name."""


if __name__ == "__main__":
    gc.disable()  # a compiler creates many long-lived objects, and this process is short-lived
    PIECES[sys.argv[1]]()
