"""What each kind of trader sends: the files of JSON lines that `serl agents start --flow FOLDER` writes, followed as they grow.

A line is a second of exchange time: `{"second": 34200, "sent": {SYMBOL: {KIND: [limit orders, market orders, cancels, lots ordered]}}}`,
the second being after midnight and that in which a command was to arrive. Each host has a file of its own.
"""

import json
from pathlib import Path
from typing import Any

from serl.clients.dashboard.json_lines import NOT_A_LINE, Lines, number

BARS_MAX = 96
MEASURES = 4
Bars = dict[int, list[int]]
"""Number of a bar to its counts."""


class Flow:
    """The files of a folder, summed into at most BARS_MAX bars: whenever there would be more, a bar becomes twice as long."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begin()

    def _begin(self) -> None:
        self._files: dict[Path, Lines] = {}
        self._counts: dict[str, dict[str, Bars]] = {}
        self._bar_s = 1
        self._first_s = self._last_s = -1
        self._problem = ""

    def read(self) -> bool:
        """Takes what is new; whether anything was, or another problem is told."""
        before = self._told
        for path in sorted(self._folder.glob("*.jsonl")):
            self._files.setdefault(path, Lines(path))
        looks = [one.look() for one in self._files.values()]
        if any(anew for anew, _ in looks):
            # what was summed from that file cannot be told apart any more
            self._begin()
            return True
        for line in (line for _, lines in looks for line in lines):
            try:
                self._take(json.loads(line))
            except NOT_A_LINE:
                self._problem = f"not a line of order flow: {line[:80]!r}"
        return self._told != before or any(lines for _, lines in looks)

    @property
    def _told(self) -> str:
        if not self._folder.is_dir():
            return f"{self._folder} is not there: waiting for `serl agents start --flow {self._folder}`"
        return self._problem or next((one.problem for one in self._files.values() if one.problem), "")

    def _take(self, line: dict[str, Any]) -> None:
        second = int(number(line["second"]))
        self._first_s = second if self._first_s < 0 else min(self._first_s, second)
        self._last_s = max(self._last_s, second)
        while self._last_s // self._bar_s - self._first_s // self._bar_s >= BARS_MAX:
            self._widen()
        for symbol, kinds in line["sent"].items():
            for kind, counts in kinds.items():
                bars = self._counts.setdefault(symbol, {}).setdefault(kind, {})
                _add(bars, second // self._bar_s, [number(count) for count in counts])

    def _widen(self) -> None:
        self._bar_s *= 2
        for kinds in self._counts.values():
            for kind, bars in kinds.items():
                kinds[kind] = {}
                for bar, counts in bars.items():
                    _add(kinds[kind], bar // 2, counts)

    def shown(self, symbol: str) -> dict[str, Any]:
        """For the page: `kinds` maps a kind to a list of each of its four counts, bar by bar from `start_s` (after midnight) on."""
        first, last = self._first_s // self._bar_s, self._last_s // self._bar_s
        bars = range(first, last + 1 if self._first_s >= 0 else first)
        kinds = {
            kind: [[known[bar][measure] if bar in known else 0 for bar in bars] for measure in range(MEASURES)]
            for kind, known in sorted(self._counts.get(symbol, {}).items())
        }
        return {"start_s": first * self._bar_s, "bar_s": self._bar_s, "bars": len(bars), "kinds": kinds, "problem": self._told}  # fmt: skip


def _add(bars: Bars, bar: int, counts: list[int]) -> None:
    before = bars.get(bar, [0] * MEASURES)
    bars[bar] = [one + other for one, other in zip(before, counts, strict=True)]
