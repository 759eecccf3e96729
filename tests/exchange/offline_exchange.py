"""An exchange without sockets whose time the test sets: a core and its schedule."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from serl.exchange.config import ExchangeConfig, time_of_day_ns
from serl.exchange.core import Core
from serl.exchange.gateway.state import APPENDED
from serl.exchange.kernel.state import NEVER
from serl.exchange.records import PHASE, CommandKind, Rows, Side, command
from serl.exchange.schedule import Schedule

SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS
MONDAY_NS = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp()) * SECOND_NS
EXCHANGE, ANN, BOB = 1, 2, 3


def at(text: str, midnight_ns: int = 0) -> int:
    return midnight_ns + time_of_day_ns(text)


def entries(*texts: str) -> list[dict[str, str]]:
    """The entries of a symbol's day, from texts like '09:30 continuous'."""
    return [dict(zip(("at", "phase"), text.split(), strict=True)) for text in texts]


class OfflineExchange:
    """A core and its schedule."""

    def __init__(self, core: Core, config: ExchangeConfig, now_ns: int) -> None:
        self.core = core
        core.market.grant_operator(EXCHANGE)
        self.schedule = Schedule(core, config, lambda: EXCHANGE, lambda: now_ns, lambda: NEVER)
        self._first = self._appended
        self._names: dict[str, int] = {"ann": ANN, "bob": BOB}
        self.schedule.start(config, {self._names[name]: own for name, own in config.accounts.items()}, now_ns)
        self._command_id = core.command_sequence

    @property
    def _appended(self) -> int:
        return int(self.core.gateway.counter[APPENDED])

    def send(self, kind: CommandKind, time_ns: int, participant: int, **fields: int) -> None:
        self._command_id += 1
        row = command(kind, participant=participant, time_ns=time_ns, command_id=self._command_id, **fields)
        self.core.submit(row)

    def trade(self, time_ns: int, price_ticks: int) -> None:
        """Ann sells one lot to Bob, unless a price band prevents it."""
        for participant, side in ((ANN, Side.SELL), (BOB, Side.BUY)):
            self.send(CommandKind.NEW, time_ns, participant, side=side, qty_lots=1, price_ticks=price_ticks)

    def phase(self, symbol: int = 0) -> int:
        return int(self.core.market.state.symbols[symbol, PHASE])

    def sent(self, kind: CommandKind) -> Rows:
        """The commands of a kind that the schedule has sent since this start."""
        rows: Rows = self.core.arrays[0][self._first : self._appended]
        return rows[(rows["kind"] == kind) & (rows["participant"] == EXCHANGE)]

    def phases(self) -> list[tuple[int, int]]:
        return [(int(row["time_ns"]), int(row["flags"])) for row in self.sent(CommandKind.PHASE)]


@contextmanager
def exchange(
    folder: Path, now_ns: int, *symbols: Mapping[str, object], **settings: object
) -> Iterator[OfflineExchange]:
    """An exchange from a start at a time to a clean stop; with a scaled clock unless the settings say otherwise."""
    named = [{"name": f"S{number}", **symbol} for number, symbol in enumerate(symbols)]
    config = ExchangeConfig.model_validate({"clock": {"kind": "scaled"}, "symbols": named, **settings})
    core = Core(config, folder)
    try:
        yield OfflineExchange(core, config, now_ns)
    finally:
        core.close()


BAND: dict[str, object] = {"band_high_ticks": 105, "band_action": "auction", "volatility_s": 300}
