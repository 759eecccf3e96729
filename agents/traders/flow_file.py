"""What each kind of trader of a host sends, second by second, as JSON lines that others can follow; clients/dashboard/flow.py says what is in them.

Rows that were sent are put aside and counted together some times a second, so that a command costs no Python of its own.
"""

import json
import time
from pathlib import Path

import numpy as np

from serl.agents.traders.errors import FlowFileError
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.value import SECOND_NS
from serl.exchange.records import COMMAND, CommandFlag, CommandKind, Rows

MEASURES = 4
"""Limit orders, market orders, cancels, lots ordered."""
WRITE_S = 0.25


def file_of(folder: Path, population: str, host: int) -> Path:
    """Each host has a file of its own, so that no line can be lost or mixed with another's."""
    return folder / f"traders-{population}-{host}.jsonl"


def clear(folder: Path, population: str, hosts_max: int) -> None:
    """Makes the folder, without what an earlier run of the population left there. FlowFileError if it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for host in range(hosts_max):
            file_of(folder, population, host).unlink(missing_ok=True)
    except OSError as error:
        raise FlowFileError(f"{folder}: a folder that can be written is due ({error.strerror})") from None


class FlowFile:
    """The file of one host."""

    def __init__(self, path: Path, population: PopulationConfig) -> None:
        """FlowFileError if the file cannot be written."""
        try:
            self._file = path.open("w", buffering=1)
        except OSError as error:
            raise FlowFileError(f"{path}: a file that can be written is due ({error.strerror})") from None
        traders = [group.trader for group in population.groups]
        self._kinds = sorted(set(traders))
        of_group = [self._kinds.index(trader) for trader in traders]
        self._kind_of = np.repeat(of_group, [group.count for group in population.groups])
        self._symbols, self._spacing_ns = population.symbols, population.spacing_ns
        #: the exchange's time of day less the population's
        self.offset_ns = 0
        self._parts: list[bytes] = []
        self._second_ns = 0
        """End of the second that is being counted."""
        self._next_write_s = 0.0

    def take(self, rows: Rows) -> None:
        """COMMAND rows in order of arrival, with the population's numbers of symbols; writes the seconds that are over."""
        last_ns = int(rows[-1]["time_ns"]) + self.offset_ns
        self._parts.append(rows.tobytes())
        if last_ns >= self._second_ns and (now_s := time.monotonic()) >= self._next_write_s:
            self._next_write_s = now_s + WRITE_S
            whole_ns = last_ns - last_ns % SECOND_NS
            known = self._known()
            end = int(np.searchsorted(known["time_ns"], whole_ns - self.offset_ns))
            self._write(known[:end])
            self._parts, self._second_ns = [known[end:].tobytes()], whole_ns + SECOND_NS

    def _known(self) -> Rows:
        return np.frombuffer(b"".join(self._parts), COMMAND)

    def _write(self, rows: Rows) -> None:
        # a trader acts at times of its own modulo the spacing: the time of a command says who sent it
        kinds = self._kind_of[rows["time_ns"] % self._spacing_ns]
        new = rows["kind"] == CommandKind.NEW
        market = new & (rows["flags"] & CommandFlag.MARKET > 0)
        seconds, place = np.unique((rows["time_ns"] + self.offset_ns) // SECOND_NS, return_inverse=True)
        shape = (len(seconds), len(self._symbols), len(self._kinds))
        cell = np.ravel_multi_index((place, rows["symbol"], kinds), shape)
        counts = np.stack(
            [
                np.bincount(cell, weight, minlength=int(np.prod(shape)))
                for weight in (new & ~market, market, ~new, np.where(new, rows["qty_lots"], 0))
            ],
            axis=1,
        ).astype(np.int64)
        for second, of_symbols in zip(seconds.tolist(), counts.reshape(*shape, MEASURES), strict=True):
            self._file.write(json.dumps({"second": second, "sent": self._named(of_symbols)}) + "\n")

    def _named(self, counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> dict[str, dict[str, list[int]]]:
        """By symbol and kind, of those that sent something; counts: (symbols, kinds, MEASURES)."""
        found: dict[str, dict[str, list[int]]] = {}
        for symbol, kind in np.argwhere(counts[..., :3].any(axis=-1)).tolist():
            found.setdefault(self._symbols[symbol], {})[self._kinds[kind]] = counts[symbol, kind].tolist()
        return found

    def close(self) -> None:
        """Writes what the last second has."""
        if self._parts:
            self._write(self._known())
        self._file.close()
