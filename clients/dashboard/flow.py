"""Order flow by kind of trader: follows the files of JSON lines that traders started with `--flow FOLDER` write.

Each line covers one second of exchange time: `{"second": 34200, "sent": {SYMBOL: {KIND: [limit orders, market orders, cancels, lots ordered]}}}`,
counted since midnight by the arrival time of the commands. Some lines have `"accounts": {SYMBOL: {KIND: [traders, position in lots, cash in ticks x
lots]}}` too: the holdings of the file's traders when the line is written. Each host writes its own file.
"""

import json
from pathlib import Path
from typing import Any

from serl.clients.dashboard.json_lines import MALFORMED, JsonLines, finite

BARS_MAX = 96
MEASURES = 4
Bars = dict[int, list[int]]
"""Counts by bar number."""


class Flow:
    """The files of a folder, summed into at most BARS_MAX bars: when there would be more, each bar becomes twice as long."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reset()

    def _reset(self) -> None:
        self._files: dict[Path, JsonLines] = {}
        self._counts: dict[str, dict[str, Bars]] = {}
        self._accounts: dict[Path, dict[str, dict[str, list[int]]]] = {}
        self._bar_s = 1
        self._first_s = self._last_s = -1
        self._problem = ""

    def read(self) -> bool:
        """Reads the new lines; True if there are any, or if the problem has changed."""
        before = self._current_problem
        for path in sorted(self._folder.glob("*.jsonl")):
            self._files.setdefault(path, JsonLines(path))
        reads = {path: file.read_new() for path, file in self._files.items()}
        if any(restarted for restarted, _ in reads.values()):
            # the sums cannot be split by file: read all of them again
            self._reset()
            return True
        for path, line in ((path, line) for path, (_, lines) in reads.items() for line in lines):
            try:
                self._apply(json.loads(line), path)
            except MALFORMED:
                self._problem = f"expected a line of order flow, got {line[:80]!r}"
        return self._current_problem != before or any(lines for _, lines in reads.values())

    @property
    def _current_problem(self) -> str:
        if not self._folder.is_dir():
            return f"{self._folder} does not exist yet: waiting for traders started with `--flow {self._folder}`"
        return self._problem or next((file.problem for file in self._files.values() if file.problem), "")

    def _apply(self, line: dict[str, Any], path: Path) -> None:
        second = int(finite(line["second"]))
        self._first_s = second if self._first_s < 0 else min(self._first_s, second)
        self._last_s = max(self._last_s, second)
        while self._last_s // self._bar_s - self._first_s // self._bar_s >= BARS_MAX:
            self._double_bars()
        for symbol, kinds in line["sent"].items():
            for kind, counts in kinds.items():
                bars = self._counts.setdefault(symbol, {}).setdefault(kind, {})
                _add(bars, second // self._bar_s, [finite(count) for count in counts])
        if "accounts" in line:
            self._accounts[path] = {
                symbol: {kind: [finite(amount) for amount in (traders, position, cash)] for kind, (traders, position, cash) in kinds.items()}
                for symbol, kinds in line["accounts"].items()
            }  # fmt: skip

    def _double_bars(self) -> None:
        self._bar_s *= 2
        for kinds in self._counts.values():
            for kind, bars in kinds.items():
                kinds[kind] = {}
                for bar, counts in bars.items():
                    _add(kinds[kind], bar // 2, counts)

    def as_json(self, symbol: str) -> dict[str, Any]:
        """The flow for the page: `kinds` maps each kind to its four counts, each a list over the bars from `start_s` (since midnight) on; `accounts`
        maps it to [traders, position_lots, cash in ticks x lots], over all files."""
        first, last = self._first_s // self._bar_s, self._last_s // self._bar_s
        bars = range(first, last + 1 if self._first_s >= 0 else first)
        kinds = {
            kind: [[counts[bar][measure] if bar in counts else 0 for bar in bars] for measure in range(MEASURES)]
            for kind, counts in sorted(self._counts.get(symbol, {}).items())
        }
        accounts: dict[str, list[int]] = {}
        for by_symbol in self._accounts.values():
            for kind, amounts in by_symbol.get(symbol, {}).items():
                before = accounts.get(kind, [0, 0, 0])
                accounts[kind] = [one + other for one, other in zip(before, amounts, strict=True)]
        return {"start_s": first * self._bar_s, "bar_s": self._bar_s, "bars": len(bars), "kinds": kinds, "accounts": accounts, "problem": self._current_problem}  # fmt: skip


def _add(bars: Bars, bar: int, counts: list[int]) -> None:
    before = bars.get(bar, [0] * MEASURES)
    bars[bar] = [one + other for one, other in zip(before, counts, strict=True)]
