"""Follows the feed of a running exchange: the book and the trades every 100 ms, and forecasts from them."""

import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from serl.agents.signals.books import CHANNELS, WINDOW, channels
from serl.agents.signals.features import FeatureStream, has_spread
from serl.agents.signals.forecaster import ATTENTION, Forecaster
from serl.agents.signals.grid import LEVELS, STEP_NS, Ints
from serl.agents.signals.inputs import Inputs
from serl.agents.signals.message import Forecast, rounded, rounded_fills
from serl.clients.blocking import Exchange
from serl.clients.book import Level
from serl.clients.clock import RemoteClock
from serl.clients.core import REPLY_TIMEOUT_S
from serl.clients.errors import no_reply
from serl.clients.values import FeedMessage

BEHIND_NS_MAX = 10 * 10**9
"""A follower that is later than this restarts at the current time; until then it uses the current book for the times that it missed."""
WAIT_S_MAX = 0.02
OF_THE_BOOK = 0
"""`off_book` of a trade in the continuous book."""


class Observation(NamedTuple):
    """The market at one time, as in `Grid`."""

    time_ns: int
    ticks: Ints
    lots: Ints
    buys: int
    sells: int
    is_continued: bool
    """Whether it is STEP_NS after the previous observation."""


def level_arrays(bids: list[Level], asks: list[Level]) -> tuple[Ints, Ints]:
    """(ticks, lots) of levels, [side, LEVELS] each, best first."""
    ticks, lots = np.zeros((2, 2, LEVELS), np.int64)
    for side, levels in enumerate((bids, asks)):
        for place, level in enumerate(levels[:LEVELS]):
            ticks[side, place], lots[side, place] = level.price_ticks, level.qty_lots
    return ticks, lots


class MarketFollower:
    """Yields the market of one symbol every 100 ms of the exchange's clock; on a lockstep clock exactly, at its turns.

    Raises ExchangeUnreachable if a running exchange becomes silent. has_keys: whether the client has a key, for the advice in this error.
    """

    def __init__(self, client: Exchange, symbol: str, has_keys: bool = False) -> None:
        self._client, self._symbol, self._clock, self._has_keys = client, symbol, RemoteClock(), has_keys
        self._trades: deque[tuple[int, int, int]] = deque()  # (time_ns, aggressor side, lots) not yet in an observation
        client.follow(symbol, "l2")
        client.subscribe("trade", symbol)
        self._is_lockstep = client.core.lockstep
        #: number of times that were left out because the follower was too late
        self.missed = 0

    def observations(self, from_ns: int = 0, until_ns: int | None = None) -> Iterator[Observation]:
        """Yields an observation at each multiple of 100 ms of the exchange's clock, from the next one or `from_ns` on, up to `until_ns` if given."""
        next_ns = max((self._now_ns() // STEP_NS + 1) * STEP_NS, -(-from_ns // STEP_NS) * STEP_NS)
        is_continued = False
        while until_ns is None or next_ns <= until_ns:
            late_ns = self._wait_until(next_ns)
            if late_ns > BEHIND_NS_MAX:
                self.missed += late_ns // STEP_NS
                next_ns += late_ns // STEP_NS * STEP_NS
                is_continued = False
            yield self._observe(next_ns, is_continued)
            is_continued = True
            next_ns += STEP_NS

    def _now_ns(self) -> int:
        if not self._is_lockstep and self._clock.ping_due():
            self._client.core.ping()
        reported_ns = int(self._client.session.clock[2])
        return reported_ns if self._is_lockstep else self._clock.now_ns(reported_ns)

    def _wait_until(self, time_ns: int) -> int:
        """Waits for a time; returns how late it is, ns."""
        if self._is_lockstep:
            self._client.turn(time_ns + 1)  # the feed is then complete up to and at time_ns
            self._take(0.0)
            return 0
        while (early_ns := time_ns - self._now_ns()) > 0:
            speed = float(self._client.session.clock[1]) or 1.0
            self._take(min(WAIT_S_MAX, early_ns / 1e9 / speed))
            if self._client.core.silent_s > REPLY_TIMEOUT_S:
                raise no_reply(self._client.core.endpoint, REPLY_TIMEOUT_S, with_keys=self._has_keys)
        self._take(0.0)
        return -early_ns

    def _take(self, timeout_s: float) -> None:
        topic = f"trade/{self._symbol}/"
        for item in self._client.wait_all(timeout_s):
            if isinstance(item, FeedMessage) and item.topic == topic:
                for _, time_ns, _, lots, side, off_book in item.message[5]:
                    if off_book == OF_THE_BOOK:
                        self._trades.append((time_ns, side, lots))

    def _observe(self, time_ns: int, is_continued: bool) -> Observation:
        taken = [0, 0]
        while self._trades and self._trades[0][0] <= time_ns:
            _, side, lots = self._trades.popleft()
            taken[side] += lots
        return Observation(
            time_ns, *level_arrays(*self._client.book(self._symbol, LEVELS)), taken[0], taken[1], is_continued
        )


class LiveForecaster:
    """Turns observations into forecasts, in constant memory."""

    def __init__(self, forecaster: Forecaster, model: str | None, source: str) -> None:
        self._forecaster, self._model, self._source = forecaster, model or forecaster.model, source
        self._stream = FeatureStream()
        self._books = np.zeros((WINDOW, len(CHANNELS)), np.float32)
        self._before = np.zeros((2, 2, LEVELS), np.int64)
        self._thresholds = tuple(forecaster.thresholds_ticks.tolist())
        #: forecasts made, and the processor time of all observations since the start, s
        self.made, self.seconds, self.observed = 0, 0.0, 0

    def observe(self, seen: Observation) -> Inputs | None:
        """The inputs of a forecast at this time; None while the last minute is incomplete."""
        started = time.thread_time()
        if not seen.is_continued:
            self._stream.reset()
        features = self._stream.push(seen.ticks, seen.lots, seen.buys, seen.sells)
        if self._model == ATTENTION:  # other models do not see books
            self._push_book(seen)
        self.observed += 1
        self.seconds += time.thread_time() - started
        return None if features is None else Inputs(features[np.newaxis], self._books, np.array([WINDOW - 1]))

    def _push_book(self, seen: Observation) -> None:
        """Adds a row to the books and drops the first. One more book is kept before them, from whose mid the first move is measured."""
        before, now = self._before, np.stack([seen.ticks, seen.lots])
        taken = np.array([[0, seen.buys], [0, seen.sells]])
        rows = channels(np.stack([before[0], now[0]]), np.stack([before[1], now[1]]), *taken)
        self._books[:-1] = self._books[1:]
        self._books[-1] = rows[1]
        self._before = now

    def forecast(self, symbol: str, seen: Observation, inputs: Inputs) -> Forecast:
        """The forecast at a time, from its inputs."""
        started = time.thread_time()
        made = self._forecaster
        shares = rounded(made.probabilities(inputs, self._model)[0])
        volumes = tuple(made.volumes(inputs.features)[0].round(1).tolist())
        fills = rounded_fills(made.fills(inputs.features)[0])
        assert has_spread(seen.ticks[np.newaxis])[0]  # because features are known
        mid = float(seen.ticks[:, 0].sum()) / 2
        found = Forecast(
            symbol, seen.time_ns, mid, made.horizons_s, self._thresholds, shares, self._source, volumes, fills
        )
        self.made += 1
        self.seconds += time.thread_time() - started
        return found
