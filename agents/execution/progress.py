"""How far an execution is, as JSON lines that others can follow; clients/dashboard/progress.py says what is in them."""

from pathlib import Path

import numpy as np

from serl.agents.execution.json_lines import LinesFile
from serl.agents.execution.order import ParentOrder
from serl.agents.execution.policies.policy import Policy
from serl.agents.execution.policies.schedules import Schedule, Twap


class ProgressFile(LinesFile):
    """One parent order. The schedule is the policy's own; of a policy that has none, the even one."""

    def __init__(self, path: Path, participant: str, order: ParentOrder, policy: Policy) -> None:
        """ProgressError if the file cannot be written."""
        super().__init__(path)
        names = {"participant": participant, "policy": policy.name, "symbol": order.symbol, "side": int(order.side)}
        times = {"qty_lots": order.qty_lots, "start_ns": order.start_ns, "end_ns": order.end_ns}
        self.say(order=names | times, schedule=schedule_of(order, policy))

    def fill(self, time_ns: int, price_ticks: int, qty_lots: int) -> None:
        """A fill of the parent order."""
        self.say(fill=[time_ns, price_ticks, qty_lots])

    def end(self, unfilled_lots: int) -> None:
        """The window is over; unfilled_lots were left to forced completion."""
        self.say(ended={"unfilled_lots": unfilled_lots})
        self.close()


def schedule_of(order: ParentOrder, policy: Policy) -> list[list[float]]:
    """[time_ns, lots that are due by then] from the start of the window to its end."""
    schedule = policy if isinstance(policy, Schedule) else Twap()
    episode = order.episode
    due = [
        float(np.ravel(schedule.share(episode, step))[0]) * order.qty_lots
        for step in range(int(episode["steps"][0]) + 1)
    ]
    return [[order.start_ns + step * order.interval_ns, lots] for step, lots in enumerate(due)]
