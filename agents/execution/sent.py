"""What an execution sends, as lines of order flow beside those of the traders; clients/dashboard/flow.py says what is in them."""

import json
from pathlib import Path

from serl.agents.execution.errors import ProgressError
from serl.agents.execution.served import SECOND_NS


class SentFile:
    """The file of one execution; its kind of trader is the name of its policy."""

    def __init__(self, folder: Path, participant: str, policy: str, symbol: str) -> None:
        """ProgressError if the file cannot be written."""
        path = folder / f"execution-{participant}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", buffering=1)
        except OSError as error:
            raise ProgressError(f"{path}: a file that can be written is due ({error.strerror})") from None
        self._policy, self._symbol = policy, symbol

    def sent(self, time_ns: int, limit_orders: int, market_orders: int, cancels: int, lots: int) -> None:
        """What was sent at a time after midnight; nothing is written of nothing."""
        counts = [limit_orders, market_orders, cancels, lots]
        if any(counts):
            line = {"second": time_ns // SECOND_NS, "sent": {self._symbol: {self._policy: counts}}}
            self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Nothing more is sent."""
        self._file.close()
