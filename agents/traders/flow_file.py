"""Records per second what each kind of trader of a host sends and holds, as JSON lines; clients/dashboard/flow.py defines the format.

Sent rows are buffered and counted in batches a few times a second, so that no Python code runs per command.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.traders.errors import FlowFileError
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.value import SECOND_NS
from serl.exchange.records import COMMAND, CommandFlag, CommandKind, Rows

MEASURES = 4
"""Number of measures: limit orders, market orders, cancels, lots ordered."""
WRITE_S = 0.25
Counts = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def flow_file_path(folder: Path, population: str, host: int) -> Path:
    """Path of the flow file of a host. Hosts do not share files, so lines cannot be lost or interleaved."""
    return folder / f"traders-{population}-{host}.jsonl"


def clear_flow_files(folder: Path, population: str, hosts_max: int) -> None:
    """Creates the folder and deletes the files of earlier runs of the population. Raises FlowFileError if the folder cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for host in range(hosts_max):
            flow_file_path(folder, population, host).unlink(missing_ok=True)
    except OSError as error:
        raise FlowFileError(f"{folder}: expected a writable folder, got {error.strerror}; give another") from None


class FlowFile:
    """The flow file of one host."""

    def __init__(self, path: Path, population: PopulationConfig, agents: np.ndarray[tuple[int], Any]) -> None:
        """agents: the AGENT rows of the host's traders, which the host keeps up to date. Raises FlowFileError if the file cannot be written."""
        try:
            self._file = path.open("w", buffering=1)
        except OSError as error:
            raise FlowFileError(
                f"{path}: expected a writable file, got {error.strerror}; give another folder"
            ) from None
        traders = [group.trader for group in population.groups]
        self._kinds = sorted(set(traders))
        group_kinds = [self._kinds.index(trader) for trader in traders]
        self._trader_kinds = np.repeat(group_kinds, [group.count for group in population.groups])
        self._agents = agents
        self._counted = ~np.array([group.is_everywhere for group in population.groups])[agents["kind"]]
        """Which agents are counted: all but forecasters, which do not trade and of which each host has all."""
        self._agent_cells = agents["symbol"] * len(self._kinds) + np.array(group_kinds)[agents["kind"]]
        self._symbols, self._spacing_ns = population.symbol_names, population.spacing_ns
        #: the exchange's time of day minus the population's
        self.offset_ns = 0
        self._buffer: list[bytes] = []
        self._second_end_ns = 0
        """End of the second being counted."""
        self._next_write_s = 0.0

    def add(self, rows: Rows) -> None:
        """Adds COMMAND rows in order of arrival, with the population's symbol numbers; writes the complete seconds."""
        last_ns = int(rows[-1]["time_ns"]) + self.offset_ns
        self._buffer.append(rows.tobytes())
        if last_ns >= self._second_end_ns and (now_s := time.monotonic()) >= self._next_write_s:
            self._next_write_s = now_s + WRITE_S
            second_start_ns = last_ns - last_ns % SECOND_NS
            buffered = self._buffered_rows()
            end = int(np.searchsorted(buffered["time_ns"], second_start_ns - self.offset_ns))
            self._write(buffered[:end])
            self._buffer, self._second_end_ns = [buffered[end:].tobytes()], second_start_ns + SECOND_NS

    def _buffered_rows(self) -> Rows:
        return np.frombuffer(b"".join(self._buffer), COMMAND)

    def _write(self, rows: Rows) -> None:
        # A command's time modulo the spacing identifies its trader.
        kinds = self._trader_kinds[rows["time_ns"] % self._spacing_ns]
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
        lines: list[dict[str, Any]] = [
            {"second": second, "sent": self._by_name(second_counts)}
            for second, second_counts in zip(seconds.tolist(), counts.reshape(*shape, MEASURES), strict=True)
        ]
        if lines:
            lines[-1]["accounts"] = self._by_name(self._accounts())
        for line in lines:
            self._file.write(json.dumps(line) + "\n")

    def _accounts(self) -> Counts:
        """(symbols, kinds, 3) current number of traders, position in lots and cash in ticks x lots."""
        sums = np.zeros((len(self._symbols) * len(self._kinds), 3), np.int64)
        position, cash = (self._agents[name][self._counted] for name in ("position_lots", "cash_ticks"))
        np.add.at(sums, self._agent_cells[self._counted], np.stack([np.ones_like(position), position, cash], axis=1))
        return sums.reshape(len(self._symbols), len(self._kinds), 3)

    def _by_name(self, counts: Counts) -> dict[str, dict[str, list[int]]]:
        """Counts by symbol and kind, without those whose first three numbers are 0. counts: (symbols, kinds, n)."""
        found: dict[str, dict[str, list[int]]] = {}
        for symbol, kind in np.argwhere(counts[..., :3].any(axis=-1)).tolist():
            found.setdefault(self._symbols[symbol], {})[self._kinds[kind]] = counts[symbol, kind].tolist()
        return found

    def close(self) -> None:
        """Writes the last, incomplete second and closes the file."""
        if self._buffer:
            self._write(self._buffered_rows())
        self._file.close()
