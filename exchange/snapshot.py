"""A market at one moment, independent of how it is implemented: what restarts begin with and state hashes are made of."""

import dataclasses
import hashlib

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import Rows


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """Everything that a market's future depends on. P participants (up to the last one that did anything), S symbols."""

    orders: Rows  # ORDER rows: by symbol, side (bids first), price from best, then time priority
    specials: Rows  # SPECIAL rows
    counters: NDArray[np.int64]  # (4,) last event sequence, match id, order number, command sequence
    last_command_id: NDArray[np.int64]  # (P,)
    report: NDArray[np.int64]  # (P,) number of the last report
    balances: NDArray[np.int64]  # (P, S, BALANCES)
    halted: NDArray[np.uint8]  # (S,)
    symbols: NDArray[np.int64]  # (S, SYMBOL_COLUMNS)
    accounts: NDArray[np.int64]  # (P, ACCOUNT_COLUMNS)
    terms: NDArray[np.int64]  # (P, TERM_COLUMNS): sent, and not used yet

    def digest(self) -> str:
        """sha256 over all fields, hexadecimal: equal for equal markets, whatever their implementation."""
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
    """How many participants a snapshot holds: up to the last one that sent or received anything, or whose account was set."""
    used = np.flatnonzero((last_command_id != 0) | (report != 0) | accounts.any(axis=1))
    return int(used[-1]) + 1 if len(used) else 0
