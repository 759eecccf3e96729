"""The exchange's own clockwork: phases by the calendar of each symbol, the end of a volatility auction, batch auctions, orders that expire.

Its commands carry the time at which they were due, so that a day has the same tape whatever its speed.
"""

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from serl.exchange.config import ExchangeConfig, SymbolConfig, time_of_day_ns
from serl.exchange.core import Core
from serl.exchange.gateway.gate import NOW
from serl.exchange.kernel.state import NEVER, NEXT_EXPIRY
from serl.exchange.records import PHASE, CommandKind, Phase, Rows, Rule, command

SECOND_NS = 1_000_000_000
Due = tuple[int, int, int, int]
"""(time_ns, symbol, CommandKind, Phase)."""


class Daytime:
    """What is due when, of all symbols. `own` gives the participant whose commands these are."""

    def __init__(self, core: Core, config: ExchangeConfig, own: Callable[[], int], now_ns: int) -> None:
        self._core, self._own = core, own
        self._symbols = config.symbols
        self._zone = ZoneInfo(config.time_zone) if config.clock.kind == "live" else None
        self._due: list[Due] = []
        for number, symbol in enumerate(config.symbols):
            for entry in symbol.day:
                time_ns = time_of_day_ns(entry.at)
                if self._zone is not None:
                    time_ns = local_ns(now_ns, time_ns, self._zone)
                self._due.append((time_ns, number, CommandKind.PHASE, Phase[entry.phase.upper()]))
            if symbol.auction_every_s:
                every_ns = round(symbol.auction_every_s * SECOND_NS)
                self._due.append(((now_ns // every_ns + 1) * every_ns, number, CommandKind.UNCROSS, 0))
        heapq.heapify(self._due)
        self._interrupted: set[int] = set()

    def begin(self, config: ExchangeConfig, participant: Callable[[str], int], now_ns: int) -> None:
        """Sets rules, accounts and the phases of this moment, where they are not as they are to be."""
        market, rows = self._core.market, []
        for number, symbol in enumerate(config.symbols):
            rows += _rules(symbol, number)
        for name, account in config.accounts.items():
            number = participant(name)
            for setting, value in account.settings():
                rows.append(command(CommandKind.ACCOUNT, order_id=number, flags=setting, price_ticks=value))
        phases = {}
        while self._due and self._due[0][0] <= now_ns:
            _, number, kind, phase = self._pop()
            if kind == CommandKind.PHASE:
                phases[number] = phase
        for number, phase in phases.items():
            if market.state.symbols[number, PHASE] != phase:
                rows.append(command(CommandKind.PHASE, symbol=number, flags=phase))
        self._send(rows, now_ns)

    def _send(self, rows: list[Rows], time_ns: int) -> None:
        if rows:
            sent = np.concatenate(rows)
            sent["participant"], sent["time_ns"] = self._own(), max(time_ns, int(self._core.gate.counter[NOW]))
            self._core.submit(sent)

    @property
    def next_ns(self) -> int:
        """When something is due next."""
        self._note_interruptions()
        calendar = self._due[0][0] if self._due else NEVER
        return min(calendar, int(self._core.market.state.counter[NEXT_EXPIRY]))

    def run(self, until_ns: int, before: Callable[[int], None] = lambda _: None) -> None:
        """Does everything due up to a time, in order; `before(time_ns)` comes first, with each time."""
        while (time_ns := self.next_ns) <= until_ns:
            before(time_ns)
            time_ns = self.next_ns  # what came before may have made something due earlier
            if self._due and self._due[0][0] <= time_ns:
                self._do(self._pop())
            else:
                self._send([command(CommandKind.TIME)], time_ns)

    def _pop(self) -> Due:
        """What is due first; on a live clock the same comes again the next day."""
        due = heapq.heappop(self._due)
        time_ns, number, kind, phase = due
        if kind == CommandKind.UNCROSS:
            every_ns = round(self._symbols[number].auction_every_s * SECOND_NS)
            heapq.heappush(self._due, (time_ns + every_ns, number, kind, phase))
        elif self._zone is not None and not (number in self._interrupted and phase == Phase.CONTINUOUS):
            heapq.heappush(self._due, (next_day_ns(time_ns, self._zone), number, kind, phase))
        return due

    def _do(self, due: Due) -> None:
        time_ns, number, kind, phase = due
        current = int(self._core.market.state.symbols[number, PHASE])
        if kind == CommandKind.UNCROSS:
            if current == Phase.INTRADAY:
                self._send([command(kind, symbol=number)], time_ns)
            return
        ends_interruption = number in self._interrupted and phase == Phase.CONTINUOUS
        self._interrupted.discard(number)
        if not ends_interruption or current == Phase.VOLATILITY:
            self._send([command(kind, symbol=number, flags=phase)], time_ns)

    def _note_interruptions(self) -> None:
        """A band has stopped a symbol: it goes on after its time."""
        phases = self._core.market.state.symbols[:, PHASE]
        for number in np.flatnonzero(phases == Phase.VOLATILITY).tolist():
            if number not in self._interrupted:
                self._interrupted.add(number)
                until_ns = int(self._core.gate.counter[NOW]) + round(self._symbols[number].volatility_s * SECOND_NS)
                heapq.heappush(self._due, (until_ns, number, CommandKind.PHASE, Phase.CONTINUOUS))


def local_ns(now_ns: int, time_of_day: int, zone: ZoneInfo) -> int:
    """A local time of this day (nanoseconds as a clock on the wall shows them after midnight) in nanoseconds since 1970, whatever the clock
    does to summer time in between."""
    seconds, rest_ns = divmod(time_of_day, SECOND_NS)
    today = datetime.fromtimestamp(now_ns // SECOND_NS, zone)
    shown = datetime(today.year, today.month, today.day) + timedelta(seconds=seconds)
    return int(shown.replace(tzinfo=zone).timestamp()) * SECOND_NS + rest_ns


def next_day_ns(time_ns: int, zone: ZoneInfo) -> int:
    """The same time on the wall a day later."""
    seconds, rest_ns = divmod(time_ns, SECOND_NS)
    shown = datetime.fromtimestamp(seconds, zone).replace(tzinfo=None) + timedelta(days=1)
    return int(shown.replace(tzinfo=zone).timestamp()) * SECOND_NS + rest_ns


def _rules(symbol: SymbolConfig, number: int) -> list[Rows]:
    """RULE rows of what the configuration says; nothing where it says nothing."""
    said = [
        (Rule.LOT, symbol.lot_multiple, 0), (Rule.MATCHING, int(symbol.matching == "pro-rata"), 0),
        (Rule.BAND_LOW, symbol.band_low_ticks, 0), (Rule.BAND_HIGH, symbol.band_high_ticks, 0),
        (Rule.BAND_ACTION, int(symbol.band_action == "auction"), 0),
    ]  # fmt: skip
    said += [(rule, value, 0) for rule, value in symbol.fees.rules()]
    plain = SymbolConfig(name=symbol.name)
    usual = [plain.lot_multiple, 0, plain.band_low_ticks, plain.band_high_ticks, 0]
    usual += [value for _, value in plain.fees.rules()]
    changed = [rule for rule, value in zip(said, usual, strict=True) if rule[1] != value]
    changed += [(Rule.TICK, multiple, start) for start, multiple in sorted(symbol.tick_table.items())]
    return [
        command(CommandKind.RULE, symbol=number, flags=rule, price_ticks=value, order_id=start)
        for rule, value, start in changed
    ]
