"""The order flow of an execution as JSON lines, in the format of the traders' flow; clients/dashboard/flow.py documents it."""

from pathlib import Path

from serl.agents.execution.json_lines import JsonLinesFile
from serl.agents.execution.served import SECOND_NS


class OrderFlowLog(JsonLinesFile):
    """The file of one execution; the policy's name takes the place of a kind of trader."""

    def __init__(self, folder: Path, participant: str, policy: str, symbol: str) -> None:
        """ProgressError if the file cannot be written."""
        super().__init__(folder / f"execution-{participant}.jsonl")
        self._policy, self._symbol = policy, symbol

    def record(self, time_ns: int, limit_orders: int, market_orders: int, cancels: int, lots: int) -> None:
        """Appends what was sent at a time after midnight, if anything."""
        counts = [limit_orders, market_orders, cancels, lots]
        if any(counts):
            self.write(second=time_ns // SECOND_NS, sent={self._symbol: {self._policy: counts}})
