"""Progress of an execution: follows the file of JSON lines that `serl execute --progress FILE` writes.

The first line is the order: `{"order": {"participant", "policy", "symbol", "side" (0 buy, 1 sell), "qty_lots", "start_ns", "end_ns"}, "schedule":
[[time_ns, lots], ...]}`; the schedule gives the cumulative quantity to be filled by each time. Then, in any order, `{"fill": [time_ns, price_ticks, qty_lots]}`, and
`{"ended": {"unfilled_lots"}}` at the end of the window. Times are nanoseconds since midnight.
"""

import json
from pathlib import Path
from typing import Any

from serl.clients.dashboard.json_lines import MALFORMED, JsonLines, finite

SECOND_NS = 1_000_000_000
FILLS_KEPT = SCHEDULE_POINTS = 400
ORDER_NAMES = "participant", "policy", "symbol"
ORDER_NUMBERS = "side", "qty_lots", "start_ns", "end_ns"


class Progress:
    """One progress file; it may not exist yet, and another execution may replace it."""

    def __init__(self, path: Path) -> None:
        self._lines = JsonLines(path)
        self._reset()

    def _reset(self) -> None:
        self._order: dict[str, Any] | None = None
        self._schedule: list[list[float]] = []
        self._fills: list[list[float]] = []
        self._filled = self._cash = 0
        self._ended: dict[str, Any] | None = None
        self._problem = ""

    def _read(self) -> None:
        """Applies the new complete lines."""
        restarted, lines = self._lines.read_new()
        if restarted:
            self._reset()
        for line in lines:
            try:
                self._apply(json.loads(line))
            except MALFORMED:
                self._problem = f"expected a line of progress, got {line[:80]!r}"

    def _apply(self, line: dict[str, Any]) -> None:
        if "order" in line:
            order = line["order"]
            schedule = [[finite(time_ns) / SECOND_NS, finite(lots)] for time_ns, lots in line["schedule"]]
            self._order = {name: str(order[name]) for name in ORDER_NAMES} | {name: finite(order[name]) for name in ORDER_NUMBERS}  # fmt: skip
            self._schedule = _thinned(schedule)
        elif "fill" in line:
            time_ns, price, qty = map(finite, line["fill"])
            self._filled += qty
            self._cash += price * qty
            self._fills = [*self._fills[1 - FILLS_KEPT :], [time_ns / SECOND_NS, price, qty, self._filled]]
        elif "ended" in line:
            self._ended = {"unfilled_lots": finite(line["ended"]["unfilled_lots"])}

    def as_json(self) -> dict[str, Any]:
        """The progress for the page: times in seconds since midnight, fills as [time_s, price_ticks, qty_lots, cumulative lots]."""
        self._read()
        return {
            "file": self._lines.path.name, "order": self._order, "schedule": self._schedule, "fills": self._fills, "filled_lots": self._filled,
            "average_ticks": self._cash / self._filled if self._filled else None, "ended": self._ended,
            "problem": self._problem or self._lines.problem,
        }  # fmt: skip


def _thinned(schedule: list[list[float]]) -> list[list[float]]:
    """Thins a schedule to at most SCHEDULE_POINTS points, including both ends: the page interpolates, and draws all points several times a second."""
    last, steps = len(schedule) - 1, SCHEDULE_POINTS - 1
    return schedule if last <= steps else [schedule[step * last // steps] for step in range(SCHEDULE_POINTS)]
