"""Files in which other processes can follow an execution while it runs, as JSON lines: its progress and its order flow.

clients/dashboard/progress.py and clients/dashboard/flow.py document the formats.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.execution.errors import ProgressError
from serl.agents.execution.order import ParentOrder
from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.schedules import Schedule, Twap
from serl.agents.execution.served import SECOND_NS


class JsonLinesFile:
    """A JSON lines file in which each line appears as soon as it is written."""

    def __init__(self, path: Path) -> None:
        """Raises ProgressError if the file cannot be written."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", buffering=1)
        except OSError as error:
            raise ProgressError(
                f"{path}: expected a writable file, got {error.strerror}; choose another path"
            ) from None

    def write(self, **line: Any) -> None:
        """Appends a JSON object as a line."""
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class ProgressFile(JsonLinesFile):
    """The progress of one parent order, with the policy's schedule, or that of a TWAP for policies without one."""

    def __init__(self, path: Path, participant: str, order: ParentOrder, policy: Policy) -> None:
        """Raises ProgressError if the file cannot be written."""
        super().__init__(path)
        names = {"participant": participant, "policy": policy.name, "symbol": order.symbol, "side": int(order.side)}
        times = {"qty_lots": order.qty_lots, "start_ns": order.start_ns, "end_ns": order.end_ns}
        self.write(order=names | times, schedule=target_schedule(order, policy))

    def fill(self, time_ns: int, price_ticks: int, qty_lots: int) -> None:
        """Appends a fill of the parent order."""
        self.write(fill=[time_ns, price_ticks, qty_lots])

    def end(self, unfilled_lots: int) -> None:
        """Appends the end of the window, with the quantity left to forced completion, and closes the file."""
        self.write(ended={"unfilled_lots": unfilled_lots})
        self.close()


class OrderFlowLog(JsonLinesFile):
    """The order flow of one execution, in the format of the traders' flow; the policy's name takes the place of a kind of trader."""

    def __init__(self, folder: Path, participant: str, policy: str, symbol: str) -> None:
        """Raises ProgressError if the file cannot be written."""
        super().__init__(folder / f"execution-{participant}.jsonl")
        self._policy, self._symbol = policy, symbol

    def record(self, time_ns: int, limit_orders: int, market_orders: int, cancels: int, lots: int) -> None:
        """Appends what was sent at a time (ns after midnight), if anything."""
        counts = [limit_orders, market_orders, cancels, lots]
        if any(counts):
            self.write(second=time_ns // SECOND_NS, sent={self._symbol: {self._policy: counts}})


def target_schedule(order: ParentOrder, policy: Policy) -> list[list[float]]:
    """[time_ns, target lots] from the start of the window to its end."""
    schedule = policy if isinstance(policy, Schedule) else Twap()
    episode = order.episode
    targets = [
        float(np.ravel(schedule.target_share(episode, step))[0]) * order.qty_lots
        for step in range(int(episode["steps"][0]) + 1)
    ]
    return [[order.start_ns + step * order.interval_ns, lots] for step, lots in enumerate(targets)]
