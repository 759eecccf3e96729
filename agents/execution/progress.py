"""The progress of an execution as JSON lines that other processes can follow; clients/dashboard/progress.py documents the format."""

from pathlib import Path

import numpy as np

from serl.agents.execution.json_lines import JsonLinesFile
from serl.agents.execution.order import ParentOrder
from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.schedules import Schedule, Twap


class ProgressFile(JsonLinesFile):
    """The progress of one parent order, next to the policy's schedule, or a TWAP for policies without one."""

    def __init__(self, path: Path, participant: str, order: ParentOrder, policy: Policy) -> None:
        """ProgressError if the file cannot be written."""
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


def target_schedule(order: ParentOrder, policy: Policy) -> list[list[float]]:
    """[time_ns, target lots] from the start of the window to its end."""
    schedule = policy if isinstance(policy, Schedule) else Twap()
    episode = order.episode
    targets = [
        float(np.ravel(schedule.target_share(episode, step))[0]) * order.qty_lots
        for step in range(int(episode["steps"][0]) + 1)
    ]
    return [[order.start_ns + step * order.interval_ns, lots] for step, lots in enumerate(targets)]
