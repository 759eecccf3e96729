"""The exchange's own clockwork: phases by the calendar of each symbol, the end of a volatility auction, batch auctions, the end of the day,
orders that expire, bands that follow the market.

Its commands carry the time at which they were due, so that a day has the same tape whatever its speed. A phase that would begin with
an auction waits while the symbol is halted, and begins behind its RESUME.
"""

from collections.abc import Callable

import numpy as np

from serl.exchange.bands import Bands
from serl.exchange.calendar import SECOND_NS, Calendar, Due
from serl.exchange.config import ExchangeConfig
from serl.exchange.core import Core
from serl.exchange.gateway.state import NOW
from serl.exchange.records import COLLECTING, PHASE, CommandKind, Phase, Rows, command
from serl.exchange.settings import account_rows, rule_rows


class Daytime:
    """What is due when, of all symbols. `own` gives the participant whose commands these are, `now_ns` the time, `arrives_ns` when the
    next command that is on its way arrives."""

    def __init__(
        self,
        core: Core,
        config: ExchangeConfig,
        own: Callable[[], int],
        now_ns: Callable[[], int],
        arrives_ns: Callable[[], int],
    ) -> None:
        self._core, self._own = core, own
        self._calendar = Calendar(config, now_ns())
        self._bands = Bands(core, config, now_ns, arrives_ns)
        self._volatility_ns = [round(symbol.volatility_s * SECOND_NS) for symbol in config.symbols]
        self._scheduled = np.full(len(config.symbols), Phase.CONTINUOUS)  # each symbol's phase by the calendar
        self._stopped_ns = self._now_ns  # the last that was done before this start
        self._ends_ns: dict[int, int] = {}  # of interruptions by the band, by symbol
        self._waiting: dict[int, int] = {}  # symbol -> phase that begins when its halt ends

    def begin(self, config: ExchangeConfig, participant: Callable[[str], int], now_ns: int) -> None:
        """Sets rules, accounts and the phases of this moment, where they are not as they are to be; ends a day that ended since the exchange
        was stopped."""
        self._bands.begin(now_ns)
        rows: list[Rows] = []
        market = self._core.market
        for number, symbol in enumerate(config.symbols):
            rows += rule_rows(symbol, number, market.state.symbols[number], config.limits.price_ticks_max)
        accounts = {participant(name): account for name, account in config.accounts.items()}
        rows += account_rows(accounts, market.state.accounts)
        past = list(self._calendar.until(now_ns))
        ended = any(due.kind == CommandKind.END_DAY and due.time_ns >= self._stopped_ns for due in past)
        if (
            ended and market.state.counters["orders_open"][0]
        ):  # before a phase may hold an auction: that day trades no more
            rows.append(command(CommandKind.END_DAY))
        phases = {due.symbol: due.phase for due in past if due.kind == CommandKind.PHASE}
        for number, phase in phases.items():
            self._scheduled[number] = phase
            if self._has_to_wait(number, phase):
                self._waiting[number] = phase
            elif market.state.symbols[number, PHASE] != phase:
                rows.append(command(CommandKind.PHASE, symbol=number, flags=phase))
        self._send(rows, now_ns)

    @property
    def _now_ns(self) -> int:
        """When the last command was executed."""
        return int(self._core.gate.counter[NOW])

    def _send(self, rows: list[Rows], time_ns: int) -> None:
        if rows:
            sent = np.concatenate(rows)
            sent["participant"], sent["time_ns"] = self._own(), max(time_ns, self._now_ns)
            self._core.submit(sent)

    @property
    def next_ns(self) -> int:
        """When something is due next."""
        self._note_interruptions()
        if self._resumed():
            return self._now_ns
        expiry_ns = int(self._core.market.state.counters["next_expiry_ns"][0])
        return min(self._calendar.next_ns, self._bands.next_ns, expiry_ns, *self._ends_ns.values())

    def run(self, until_ns: int, before: Callable[[int], None] = lambda _: None) -> None:
        """Does everything due up to a time, in order; `before(time_ns)` comes first, with each time."""
        while (time_ns := self.next_ns) <= until_ns:
            before(time_ns)
            # what came before has made an end of what was due, as the cancel of a GTT order does, or something due earlier
            if self.next_ns > time_ns:
                continue
            time_ns = self.next_ns
            if resumed := self._resumed():
                phases = [(number, self._waiting.pop(number)) for number in resumed]
                self._send(
                    [command(CommandKind.PHASE, symbol=number, flags=phase) for number, phase in phases], time_ns
                )
            elif self._calendar.next_ns <= time_ns:
                self._do(self._calendar.pop())
            elif self._bands.next_ns <= time_ns:
                self._send(self._bands.rows(time_ns), time_ns)
            else:
                self._send(self._ended(time_ns) or [command(CommandKind.TIME)], time_ns)

    def _do(self, due: Due) -> None:
        if due.kind == CommandKind.PHASE:
            self._scheduled[due.symbol] = due.phase
            self._ends_ns.pop(due.symbol, None)
            self._waiting.pop(due.symbol, None)
            if self._has_to_wait(due.symbol, due.phase):
                self._waiting[due.symbol] = due.phase
                return
        elif due.kind == CommandKind.UNCROSS:
            state = self._core.market.state
            if state.symbols[due.symbol, PHASE] != Phase.INTRADAY or state.halted[due.symbol]:
                return
        self._send([command(due.kind, symbol=due.symbol, flags=due.phase)], due.time_ns)

    def _has_to_wait(self, number: int, phase: int) -> bool:
        """Whether a phase would begin with an auction of a halted symbol, which is rejected."""
        state = self._core.market.state
        collects = state.symbols[number, PHASE] in COLLECTING
        return bool(state.halted[number] and collects and phase not in COLLECTING)

    def _resumed(self) -> list[int]:
        """Symbols whose phase has waited for the end of their halt, which is there."""
        return [number for number in self._waiting if not self._core.market.state.halted[number]]

    def _ended(self, time_ns: int) -> list[Rows]:
        """PHASE rows of the symbols whose interruption is over; forgotten here, since what follows may be the next interruption."""
        over = [number for number, end_ns in self._ends_ns.items() if end_ns <= time_ns]
        for number in over:
            del self._ends_ns[number]
        return [command(CommandKind.PHASE, symbol=number, flags=Phase.CONTINUOUS) for number in over]

    def _note_interruptions(self) -> None:
        """A band has stopped a symbol: it goes on after its time, unless the calendar or an operator has another phase for it before.
        A halt ends that, and its end begins it anew."""
        state = self._core.market.state
        stopped = (state.symbols[:, PHASE] == Phase.VOLATILITY) & (self._scheduled != Phase.VOLATILITY)
        self._ends_ns = {
            number: self._ends_ns.get(number, self._now_ns + self._volatility_ns[number])
            for number in np.flatnonzero(stopped & (state.halted == 0)).tolist()
        }
