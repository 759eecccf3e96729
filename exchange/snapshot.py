"""The state of a market in an implementation-independent form, for restarts and state hashes."""

import dataclasses
import hashlib

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import Rows


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The complete state of a market. P participants (up to the last one that did anything), S symbols."""

    orders: Rows  # ORDER rows: by symbol, side (bids first), price from best, then time priority
    specials: Rows  # SPECIAL rows
    counters: NDArray[np.int64]  # (4,) last event sequence, match id, order number, command sequence
    last_command_id: NDArray[np.int64]  # (P,)
    report: NDArray[np.int64]  # (P,) number of the last report
    balances: NDArray[np.int64]  # (P, S, BALANCES)
    halted: NDArray[np.uint8]  # (S,)
    symbols: NDArray[np.int64]  # (S, SYMBOL_COLUMNS)
    accounts: NDArray[np.int64]  # (P, ACCOUNT_COLUMNS)
    terms: NDArray[np.int64]  # (P, TERM_COLUMNS): sent for the next NEW

    def digest(self) -> str:
        """SHA-256 over all fields, hexadecimal: equal for equal markets in any implementation."""
        digest = hashlib.sha256()
        for field in dataclasses.fields(self):
            value = np.ascontiguousarray(getattr(self, field.name))
            columns = [value[name] for name in value.dtype.names] if value.dtype.names else [value]
            digest.update(f"{field.name}{value.shape}".encode())
            for column in columns:  # by column, so that padding between fields does not count
                digest.update(np.ascontiguousarray(column, dtype=np.int64).tobytes())
        return digest.hexdigest()


def participants_used(
    last_command_id: NDArray[np.int64], report: NDArray[np.int64], accounts: NDArray[np.int64]
) -> int:
    """The number of participants in a snapshot: up to the last one that sent or received anything, or whose account was set."""
    used = np.flatnonzero((last_command_id != 0) | (report != 0) | accounts.any(axis=1))
    return int(used[-1]) + 1 if len(used) else 0
