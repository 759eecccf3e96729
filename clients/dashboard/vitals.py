"""Health of the exchange: whether it is up, round trips, message rates."""

import time
from collections import deque
from typing import Any

import numpy as np

OFFLINE_S = 1.5
ROUND_TRIPS_KEPT = 240


class Vitals:
    """Collects the replies to STATISTICS: round trips, rates, the clock."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.time_ns = 0
        self.clock: list[Any] = []
        self.last_reply_s: float | None = None
        self._refusal, self._refused_s = "", 0.0
        self._epoch: int | None = None
        self._round_trips_ms: deque[float] = deque(maxlen=ROUND_TRIPS_KEPT)
        self._counts: deque[tuple[float, int, dict[str, Any]]] = deque(maxlen=8)
        self.feed_messages = 0
        #: number of gaps in the feed that snapshots have filled
        self.gaps = 0

    def is_new_process(self, reply: list[Any]) -> bool:
        """Whether a reply to STATISTICS comes from another process than the last reply.

        The epoch alone does not show that: without a journal every process starts with the same epoch.
        """
        if not self._counts:
            return self._epoch is None or reply[2] != self._epoch
        return bool(reply[2] != self._epoch or reply[5]["uptime_s"] < self._counts[-1][2]["uptime_s"])

    def add_reply(self, reply: list[Any], round_trip_s: float) -> None:
        """Adds a reply to STATISTICS."""
        now_s = time.monotonic()
        self.last_reply_s, self.time_ns, self._epoch = now_s, int(reply[4]), int(reply[2])
        self._round_trips_ms.append(round_trip_s * 1e3)
        self._counts.append((now_s, self.time_ns, {**reply[5], "feed_messages": self.feed_messages}))

    def add_refusal(self, text: str) -> None:
        """Adds an ERROR instead of a reply to STATISTICS."""
        self._refusal, self._refused_s = text, time.monotonic()

    @property
    def refusal(self) -> str:
        """Why a running exchange refuses to reply; empty if it replies or is not running."""
        refuses = self.offline and time.monotonic() - self._refused_s <= OFFLINE_S
        return self._refusal if refuses else ""

    def reset(self) -> None:
        """Starts again for a new process, whose counts begin at zero."""
        self._counts.clear()
        self._round_trips_ms.clear()

    @property
    def statistics(self) -> dict[str, Any]:
        """The last reply to STATISTICS; empty before the first."""
        return self._counts[-1][2] if self._counts else {}

    @property
    def offline(self) -> bool:
        """Whether the exchange has not replied for OFFLINE_S."""
        return self.last_reply_s is None or time.monotonic() - self.last_reply_s > OFFLINE_S

    def as_json(self) -> dict[str, Any]:
        """The health for the page."""
        state = {"offline": self.offline, "refusal": self.refusal, "endpoint": self.endpoint, "clock": self._clock()}
        if not self._counts:
            return state
        trips = np.array(self._round_trips_ms)
        newest = self._counts[-1][2]
        return state | {
            "round_trip_ms": [round(float(value), 3) for value in np.percentile(trips, (50, 99))] + [round(float(trips[-1]), 3)],
            "rates": {name: round(self._rate(name), 1) for name in ("commands", "events", "messages", "feed_messages")},
            "counts": {name: newest[name] for name in ("commands", "events", "orders_open", "sessions", "uptime_s") if name in newest},
            "gaps": self.gaps,
        }  # fmt: skip

    def _clock(self) -> dict[str, Any] | None:
        if not self.clock:
            return None
        moving = len(self._counts) < 2 or self._counts[-1][1] > self._counts[-2][1]
        kind, speed = self.clock[:2]
        settable = kind == "scaled" or (kind == "lockstep" and speed > 0)
        return {
            "kind": kind, "speed": speed, "measured": self._measured_speed(), "settable": settable,
            "time_ns": str(self.time_ns), "running": moving,
        }  # fmt: skip

    def _measured_speed(self) -> float | None:
        """Exchange seconds per second over the last replies, to three digits; None until there are two."""
        if len(self._counts) < 2:
            return None
        (first_s, first_ns, _), (last_s, last_ns, _) = self._counts[0], self._counts[-1]
        return float(f"{(last_ns - first_ns) / 1e9 / (last_s - first_s):.3g}") if last_s > first_s else None

    def _rate(self, name: str) -> float:
        (first_s, _, first), (last_s, _, last) = self._counts[0], self._counts[-1]
        return float(last[name] - first[name]) / (last_s - first_s) if last_s > first_s else 0.0
