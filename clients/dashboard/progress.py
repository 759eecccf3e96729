"""How far an execution is: the file of JSON lines that `serl execute --progress FILE` writes, followed as it grows.

The first line is the order: `{"order": {"participant", "policy", "symbol", "side" (0 buy, 1 sell), "qty_lots", "start_ns", "end_ns"}, "schedule":
[[time_ns, lots], ...]}`, the schedule being what should be done by when. Then, in any order, `{"fill": [time_ns, price_ticks, qty_lots]}`, and
`{"ended": {"unfilled_lots"}}` at the end of the window. Times are after midnight.
"""

import json
from pathlib import Path
from typing import Any

from serl.clients.dashboard.json_lines import NOT_A_LINE, Lines, number

SECOND_NS = 1_000_000_000
FILLS_SHOWN = 400
ORDER_NAMES = "participant", "policy", "symbol"
ORDER_NUMBERS = "side", "qty_lots", "start_ns", "end_ns"


class Progress:
    """One file; it may not be there yet, and it may begin anew."""

    def __init__(self, path: Path) -> None:
        self._lines = Lines(path)
        self._begin()

    def _begin(self) -> None:
        self._order: dict[str, Any] | None = None
        self._schedule: list[list[float]] = []
        self._fills: list[list[float]] = []
        self._filled = self._cash = 0
        self._ended: dict[str, Any] | None = None
        self._problem = ""

    def _read(self) -> None:
        """Takes the lines that are complete."""
        anew, lines = self._lines.look()
        if anew:
            self._begin()
        for line in lines:
            try:
                self._take(json.loads(line))
            except NOT_A_LINE:
                self._problem = f"not a line of progress: {line[:80]!r}"

    def _take(self, line: dict[str, Any]) -> None:
        if "order" in line:
            order = line["order"]
            schedule = [[number(time_ns) / SECOND_NS, number(lots)] for time_ns, lots in line["schedule"]]
            self._order = {name: str(order[name]) for name in ORDER_NAMES} | {name: number(order[name]) for name in ORDER_NUMBERS}  # fmt: skip
            self._schedule = schedule
        elif "fill" in line:
            time_ns, price, qty = map(number, line["fill"])
            self._filled += qty
            self._cash += price * qty
            self._fills = [*self._fills[1 - FILLS_SHOWN :], [time_ns / SECOND_NS, price, qty, self._filled]]
        elif "ended" in line:
            self._ended = {"unfilled_lots": number(line["ended"]["unfilled_lots"])}

    def shown(self) -> dict[str, Any]:
        """For the page: times in seconds after midnight, fills as [time_s, price_ticks, qty_lots, lots filled with it]."""
        self._read()
        return {
            "file": self._lines.path.name, "order": self._order, "schedule": self._schedule, "fills": self._fills, "filled_lots": self._filled,
            "average_ticks": self._cash / self._filled if self._filled else None, "ended": self._ended,
            "problem": self._problem or self._lines.problem,
        }  # fmt: skip
