"""Rate limits: request weight by address and minute, new orders by account; 429 beyond them, 418 for clients that do not stop."""

import time
from typing import Any, NamedTuple

from serl.gateways.binance.errors import BinanceError

MINUTE_S = 60
REFUSALS_BEFORE_BAN = 100
"""Number of an address's requests in one minute answered with 429; after them the address is banned."""
BAN_S = 120
ADDRESSES_MAX = 10_000
ORDER_WINDOWS = (("SECOND", 10, "10S"), ("DAY", 1, "1D"))
SECONDS = {"SECOND": 1, "MINUTE": 60, "DAY": 86_400}


class LimitSettings(NamedTuple):
    """The limits; 0 means no limit.

    Attributes:
        weight_per_minute: request weight per address.
        orders_per_10_s, orders_per_day: new orders per account.
    """

    weight_per_minute: int = 6000
    orders_per_10_s: int = 100
    orders_per_day: int = 200_000


class _Window:
    """A counter that restarts with each period."""

    __slots__ = ("count", "period")

    def __init__(self) -> None:
        self.period = -1
        self.count = 0

    def at(self, now_s: float, length_s: int) -> "_Window":
        period = int(now_s // length_s)
        if period != self.period:
            self.period, self.count = period, 0
        return self


class Limits:
    """Counts requests and orders."""

    def __init__(self, settings: LimitSettings) -> None:
        self.settings = settings
        self._weights: dict[str, _Window] = {}
        self._refusals: dict[str, _Window] = {}
        self._banned_until_s: dict[str, float] = {}
        self._orders: dict[tuple[str, int], _Window] = {}

    def used_weight(self, address: str) -> int:
        """The weight that an address has used in this minute."""
        return self._window(self._weights, address).count

    def spend(self, address: str, weight: int) -> int:
        """Charges a request; returns the weight that the address has used in this minute. Beyond the limit raises BinanceError with retryAfter."""
        now_s, limit = time.time(), self.settings.weight_per_minute
        if not limit:
            return 0
        banned_s = self._banned_until_s.get(address, 0.0)
        if banned_s > now_s:
            raise self._banned(address, banned_s)
        window = self._window(self._weights, address)
        window.count += weight
        if window.count <= limit:
            return window.count
        refusals = self._window(self._refusals, address)
        refusals.count += 1
        if refusals.count > REFUSALS_BEFORE_BAN:
            self._banned_until_s[address] = now_s + BAN_S
            raise self._banned(address, now_s + BAN_S)
        text = f"Too much request weight used; current limit is {limit} request weight per 1 MINUTE. Please use WebSocket Streams for live updates to avoid polling the API."
        until_ms = (int(now_s) // MINUTE_S + 1) * MINUTE_S * 1000
        raise BinanceError(-1003, text, 429, {"serverTime": int(now_s * 1000), "retryAfter": until_ms})

    @staticmethod
    def _banned(address: str, until_s: float) -> BinanceError:
        until_ms = int(until_s * 1000)
        text = f"Way too much request weight used; IP banned until {until_ms}. Please use WebSocket Streams for live updates to avoid bans."
        return BinanceError(-1003, text, 418, {"serverTime": int(time.time() * 1000), "retryAfter": until_ms})

    def _window(self, windows: dict[str, _Window], address: str) -> _Window:
        if len(windows) > ADDRESSES_MAX:
            windows.clear()
        return windows.setdefault(address, _Window()).at(time.time(), MINUTE_S)

    def _order_limits(self) -> list[tuple[str, int, int, str]]:
        """(interval, its number, limit, header suffix) of each order limit that is set."""
        limits = (self.settings.orders_per_10_s, self.settings.orders_per_day)
        return [(*window, limit) for window, limit in zip(ORDER_WINDOWS, limits, strict=True) if limit]  # pyrefly: ignore[bad-return]

    def count_order(self, login: str, count: int = 1) -> None:
        """Charges new orders. Raises BinanceError beyond a limit."""
        now_s = time.time()
        windows = [
            (self._orders.setdefault((login, number), _Window()).at(now_s, SECONDS[interval] * number), limit, interval, number)
            for interval, number, _, limit in self._order_limits()
        ]  # fmt: skip
        for window, limit, interval, number in windows:
            if window.count + count > int(limit):
                length_s = SECONDS[interval] * number
                retry_ms = (int(now_s) // length_s + 1) * length_s * 1000
                text = f"Too many new orders; current limit is {limit} orders per {f'{number} SECOND' if interval == 'SECOND' else 'DAY'}."
                raise BinanceError(-1015, text, 429, {"serverTime": int(now_s * 1000), "retryAfter": retry_ms})
        for window, *_ in windows:
            window.count += count

    def order_counts(self, login: str) -> dict[str, int]:
        """Order counts of an account by header suffix, like 10S."""
        now_s = time.time()
        return {
            str(suffix): self._orders.setdefault((login, number), _Window()).at(now_s, SECONDS[interval] * number).count
            for interval, number, suffix, _ in self._order_limits()
        }

    def describe(self) -> list[dict[str, Any]]:
        """The rateLimits of exchangeInfo."""
        weight = self.settings.weight_per_minute
        found: list[dict[str, Any]] = []
        if weight:
            found.append({"rateLimitType": "REQUEST_WEIGHT", "interval": "MINUTE", "intervalNum": 1, "limit": weight})
        for interval, number, _, limit in self._order_limits():
            found.append({"rateLimitType": "ORDERS", "interval": interval, "intervalNum": number, "limit": limit})
        return found

    def usage(self, address: str, login: str | None) -> list[dict[str, Any]]:
        """The rateLimits of an answer of the WebSocket API."""
        counts = {} if login is None else self.order_counts(login)
        suffixes = {(interval, number): suffix for interval, number, suffix in ORDER_WINDOWS}
        found = []
        for limit in self.describe():
            key = (limit["interval"], limit["intervalNum"])
            if limit["rateLimitType"] == "REQUEST_WEIGHT":
                found.append({**limit, "count": self.used_weight(address)})
            elif login is not None:
                found.append({**limit, "count": counts[suffixes[key]]})
        return found
