"""Scheduled actions of the exchange: phases from each symbol's calendar, the end of volatility interruptions, batch auctions, the end of
the day, order expiries, price bands that follow the market.

The commands carry the time at which they were due, so a day has the same tape at any speed. While a symbol is halted, a phase that
would begin with an auction waits for the RESUME.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from serl.exchange.account_config import AccountLimits
from serl.exchange.assets import Assets
from serl.exchange.bands import Bands
from serl.exchange.calendar import SECOND_NS, Calendar, ScheduledCommand
from serl.exchange.config import ExchangeConfig
from serl.exchange.records import COLLECTING, PHASE, CommandKind, Phase, Rows, command
from serl.exchange.settings import account_rows, asset_rows, deposit_rows, rule_rows
from serl.exchange.venue import Venue

CONTINUOUS, VOLATILITY = int(Phase.CONTINUOUS), int(Phase.VOLATILITY)

EXPIRIES_MAX = 16
"""Maximum number of expiry times with a command each when many are due at once; later ones share one command, so that a participant whose orders
expire a nanosecond apart does not keep others waiting."""


class Schedule:
    """The scheduled commands of all symbols. `exchange_participant` returns the participant that issues them, `now_ns` the time,
    `next_arrival_ns` the arrival time of the next waiting command."""

    def __init__(
        self,
        venue: Venue,
        config: ExchangeConfig,
        exchange_participant: Callable[[], int],
        now_ns: Callable[[], int],
        next_arrival_ns: Callable[[], int],
    ) -> None:
        self._venue, self._exchange_participant = venue, exchange_participant
        self._calendar = Calendar(config, now_ns())
        self._bands, self._next_arrival_ns = Bands(venue, config, now_ns, next_arrival_ns), next_arrival_ns
        self._volatility_ns = [round(symbol.volatility_s * SECOND_NS) for symbol in config.symbols]
        self._calendar_phase = np.full(len(config.symbols), Phase.CONTINUOUS)  # by symbol, according to the calendar
        self._stopped_ns = self._now_ns  # exchange time of the last command before this start
        self._interruption_ends_ns: dict[int, int] = {}  # symbol -> end of its interruption by the price band
        self._phase_after_halt: dict[int, int] = {}  # symbol -> phase that begins when its halt ends
        #: orders that expire within this time of others expire together with the next ones: above 0 while the disk is full and rows are few
        self._expiry_pause_ns = self._expired_ns = 0

    def start(
        self,
        config: ExchangeConfig,
        accounts: Mapping[int, AccountLimits],
        now_ns: int,
        deposited: Collection[int] = (),
    ) -> None:
        """Applies the configured rules, accounts (by participant) and current phases where they differ, and ends the day if its end passed
        while the exchange was stopped. `deposited`: accounts whose configured balances are not deposited again, in addition to those with
        deposits."""
        self._bands.start(now_ns)
        rows: list[Rows] = []
        market = self._venue.market
        for number, symbol in enumerate(config.symbols):
            rows += rule_rows(symbol, number, market.state.symbols[number], config.limits.price_ticks_max)
        rows += account_rows(accounts, market.state.accounts)
        assets = Assets(config.symbols)
        checked = any(account.balance_checks for account in (config.other_accounts, *accounts.values()))
        if checked or any(account.balances for account in config.accounts.values()):
            rows += asset_rows(assets, market.state.assets)
        without = {number: account for number, account in accounts.items() if number not in deposited}
        rows += deposit_rows(without, assets, market.state.deposits)
        past = list(self._calendar.pop_until(now_ns))
        ended = any(
            scheduled.kind == CommandKind.END_DAY and scheduled.time_ns >= self._stopped_ns for scheduled in past
        )
        if ended and market.state.counters["orders_open"][0]:
            # before a rule can trigger an order, or a phase hold an auction: that day's orders no longer trade
            rows.insert(0, command(CommandKind.END_DAY))
        latest = _latest_phases(past)
        due: list[tuple[int, int]] = []
        for number, (began_ns, _, _, phase) in latest.items():
            self._calendar_phase[number] = phase
            is_interrupted = phase == CONTINUOUS and market.state.symbols[number, PHASE] == VOLATILITY
            if is_interrupted and began_ns <= self._stopped_ns:
                continue  # no entry has ended the interruption since
            if self._must_wait(number, phase):
                self._phase_after_halt[number] = phase
            elif market.state.symbols[number, PHASE] != phase:
                due.append((number, phase))
        self._send(rows, now_ns)
        self._send(self._bands.auction_rows(now_ns), now_ns)
        self._begin_phases(due, now_ns)

    def set_back(self, time_ns: int) -> None:
        """Follows a clock that goes back to a time, not before the last command: everything due after that time is due again, also a phase that
        only waited for the end of a halt."""
        self._calendar = self._calendar.around(time_ns)
        for number, scheduled in _latest_phases(self._calendar.pop_until(time_ns)).items():
            self._calendar_phase[number] = scheduled.phase
            if self._phase_after_halt.pop(number, None) is not None and self._must_wait(number, scheduled.phase):
                self._phase_after_halt[number] = scheduled.phase
        self._bands.set_back(time_ns)

    @property
    def _now_ns(self) -> int:
        """Exchange time of the last command."""
        return self._venue.time_ns

    def _send(self, rows: list[Rows], time_ns: int) -> None:
        if rows:
            sent = np.concatenate(rows)
            sent["participant"], sent["time_ns"] = self._exchange_participant(), max(time_ns, self._now_ns)
            self._venue.submit(sent)

    @property
    def next_ns(self) -> int:
        """When the next scheduled command is due."""
        self._update_interruptions()
        if self._resumed_symbols():
            return self._now_ns
        expiry_ns = int(self._venue.market.state.counters["next_expiry_ns"][0])
        if self._expiry_pause_ns:
            expiry_ns = max(expiry_ns, self._expired_ns + self._expiry_pause_ns)
        return min(expiry_ns, self._next_other_ns)

    def pause_expiries(self, is_full: bool, speed: float) -> None:
        """Notes whether the disk is full: in that case orders expire once per second of real time."""
        self._expiry_pause_ns = round(SECOND_NS * speed) if is_full else 0

    @property
    def _next_other_ns(self) -> int:
        """When the next scheduled command other than an expiry is due."""
        return min(self._calendar.next_ns, self._bands.next_ns, *self._interruption_ends_ns.values())

    def run(
        self,
        until_ns: int,
        before: Callable[[int], object] = lambda _: None,
        steps_max: int | None = None,
        expiries_max: int | None = None,
    ) -> bool:
        """Executes everything due up to a time, in order; calls `before(time_ns)` before the commands of each time. Returns False if it stops after
        `steps_max` commands or because `before` returns False: then call it again. After `expiries_max` expiry times, all due orders expire together."""
        steps = expiries = 0
        while (time_ns := self.next_ns) <= until_ns:
            if steps == steps_max:
                return False
            steps += 1
            if before(time_ns) is False:
                return False
            # `before` may have removed what was due (the cancel of a GTT order), or added something earlier
            if self.next_ns > time_ns:
                continue
            time_ns = self.next_ns
            if resumed := self._resumed_symbols():
                self._begin_phases([(number, self._phase_after_halt.pop(number)) for number in resumed], time_ns)
            elif self._calendar.next_ns <= time_ns:
                self._execute(self._calendar.pop())
            elif self._bands.next_ns <= time_ns:
                self._send(self._bands.rows(time_ns), time_ns)
            elif over := self._pop_interruptions(time_ns):
                self._begin_phases([(number, CONTINUOUS) for number in over], time_ns)
            else:
                expiries += 1
                if expiries_max is not None and expiries > expiries_max:
                    time_ns = max(time_ns, min(until_ns, self._next_other_ns, self._next_arrival_ns()))
                self._expired_ns = time_ns
                self._send([command(CommandKind.TIME)], time_ns)
        return True

    def _execute(self, scheduled: ScheduledCommand) -> None:
        if scheduled.kind == CommandKind.PHASE:
            self._calendar_phase[scheduled.symbol] = scheduled.phase
            self._interruption_ends_ns.pop(scheduled.symbol, None)
            self._phase_after_halt.pop(scheduled.symbol, None)
            if self._must_wait(scheduled.symbol, scheduled.phase):
                self._phase_after_halt[scheduled.symbol] = scheduled.phase
                return
            self.prepare_phase(scheduled.symbol, scheduled.phase, scheduled.time_ns)
        elif scheduled.kind == CommandKind.UNCROSS:
            state = self._venue.market.state
            if state.symbols[scheduled.symbol, PHASE] != Phase.INTRADAY or state.halted[scheduled.symbol]:
                return
        self._send([command(scheduled.kind, symbol=scheduled.symbol, flags=scheduled.phase)], scheduled.time_ns)

    def prepare_phase(self, number: int, phase: int, time_ns: int) -> None:
        """Prepares a PHASE; call it before sending one. If the phase would begin continuous trading with an auction that moves the band, this holds the
        auction and moves the band first: triggers, which run with the PHASE itself, then trade within the new band."""
        market = self._venue.market
        if phase != CONTINUOUS or market.state.halted[number] or not self._bands.follows(number):
            return
        _, lots, _ = market.indicative(number)  # 0 if no orders are collected
        if lots:
            self._send([command(CommandKind.UNCROSS, symbol=number)], time_ns)
            self._send(self._bands.auction_rows(time_ns), time_ns)

    def _begin_phases(self, phases: list[tuple[int, int]], time_ns: int) -> None:
        """Sends a PHASE for each (symbol, phase)."""
        for number, phase in phases:
            self.prepare_phase(number, phase, time_ns)
            self._send([command(CommandKind.PHASE, symbol=number, flags=phase)], time_ns)

    def _must_wait(self, number: int, phase: int) -> bool:
        """Whether a phase must wait: it would begin with an auction of a halted symbol, which is rejected."""
        state = self._venue.market.state
        collects = state.symbols[number, PHASE] in COLLECTING
        return bool(state.halted[number] and collects and phase not in COLLECTING)

    def _resumed_symbols(self) -> list[int]:
        """Symbols with a waiting phase whose halt has ended."""
        return [number for number in self._phase_after_halt if not self._venue.market.state.halted[number]]

    def _pop_interruptions(self, time_ns: int) -> list[int]:
        """The symbols whose interruption is over. Removes the interruptions first, because the PHASE can cause new ones."""
        over = [number for number, end_ns in self._interruption_ends_ns.items() if end_ns <= time_ns]
        for number in over:
            del self._interruption_ends_ns[number]
        return over

    def _update_interruptions(self) -> None:
        """Sets the end of new interruptions by price bands, and removes those that the calendar, an operator or a halt ended. The end
        of a halt restarts the interruption."""
        state = self._venue.market.state
        is_interrupted = state.symbols[:, PHASE] == VOLATILITY
        if not np.count_nonzero(is_interrupted):  # nearly always the case; this runs several times in each turn
            self._interruption_ends_ns = {}
            return
        stopped = is_interrupted & (self._calendar_phase != VOLATILITY)
        self._interruption_ends_ns = {
            number: self._interruption_ends_ns.get(number, self._now_ns + self._volatility_ns[number])
            for number in np.flatnonzero(stopped & (state.halted == 0)).tolist()
        }


def _latest_phases(scheduled: Iterable[ScheduledCommand]) -> dict[int, ScheduledCommand]:
    """By symbol, the last PHASE among commands in order of time."""
    return {each.symbol: each for each in scheduled if each.kind == CommandKind.PHASE}
