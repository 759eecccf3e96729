"""What an execution sends, as lines of order flow beside those of the traders; clients/dashboard/flow.py says what is in them."""

from pathlib import Path

from serl.agents.execution.json_lines import LinesFile
from serl.agents.execution.served import SECOND_NS


class SentFile(LinesFile):
    """The file of one execution; its kind of trader is the name of its policy."""

    def __init__(self, folder: Path, participant: str, policy: str, symbol: str) -> None:
        """ProgressError if the file cannot be written."""
        super().__init__(folder / f"execution-{participant}.jsonl")
        self._policy, self._symbol = policy, symbol

    def sent(self, time_ns: int, limit_orders: int, market_orders: int, cancels: int, lots: int) -> None:
        """What was sent at a time after midnight; nothing is written of nothing."""
        counts = [limit_orders, market_orders, cancels, lots]
        if any(counts):
            self.say(second=time_ns // SECOND_NS, sent={self._symbol: {self._policy: counts}})
