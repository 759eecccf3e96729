"""The parent orders of N environments: converts actions to child orders and fills to costs, as docs/execution.md defines them."""

from typing import Any

import numpy as np

from serl.agents.execution.environment.records import CHILD, EPISODE
from serl.exchange.compiling import compiled, inlined
from serl.exchange.records import MICRO, Rows

PARENT = np.dtype(
    [
        ("remaining_lots", "<i8"),
        ("notional", "<i8"),  # all fills, ticks x lots
        ("step", "<i8"),
        ("arrival_mid", "<f8"),  # ticks
        ("decision_mid", "<f8"),  # at the last decision
        ("mid", "<f8"),  # current or last known mid
        ("market_lots", "<i8"),  # volume of others since the start
        ("market_notional", "<i8"),
        ("fees", "<f8"),  # ticks x lots
        ("unfilled_lots", "<i8"),  # before forced completion
    ],
    align=True,
)
"""The state of a parent order."""


def mids(frames: Rows) -> Any:
    """(N,) mid prices in ticks; the only price of a one-sided book, NaN for an empty book."""
    bid, ask = frames["bid_ticks"][:, 0].astype(float), frames["ask_ticks"][:, 0].astype(float)
    both = (bid > 0) & (ask > 0)
    one_sided = np.where(bid + ask > 0, bid + ask, np.nan)
    return np.where(both, 0.5 * (bid + ask), one_sided)


@inlined
def mid_of(frame: Any) -> float:
    """The mid of one FRAME row; see `mids`."""
    bid, ask = frame.bid_ticks[0], frame.ask_ticks[0]
    if bid > 0 and ask > 0:
        return 0.5 * (bid + ask)
    return np.float64(bid + ask) if bid + ask > 0 else np.nan


@compiled
def _split_into_children(share: Any, limit_share: Any, offset_ticks: Any, episodes: Any, parents: Any, frames: Any, children: Any) -> None:  # fmt: skip
    for env in range(children.size):
        child, frame, sign = children[env], frames[env], episodes[env].sign
        remaining = parents[env].remaining_lots
        child.market_lots = np.int64(np.rint(min(1.0, max(0.0, share[env])) * remaining))
        limit_lots = np.int64(np.rint(min(1.0, max(0.0, limit_share[env])) * remaining))
        child.limit_lots = min(remaining - child.market_lots, limit_lots)
        touch = frame.ask_ticks[0] if sign > 0 else frame.bid_ticks[0]
        child.limit_ticks = touch + sign * np.int64(offset_ticks[env]) if touch > 0 else 0


@inlined
def fees_of(fill: Any, fee_bps: float) -> float:
    """The fees of one FILL row; see `Accounts.fees`."""
    return np.float64(fill.notional * fee_bps * 1e-4 + fill.fee_microticks / MICRO)


@compiled
def _settle(fills: Any, frames: Any, parents: Any, fee_bps: float) -> None:
    for env in range(parents.size):
        parent, fill, frame = parents[env], fills[env], frames[env]
        mid = mid_of(frame)
        parent.decision_mid = parent.mid
        if not np.isnan(mid):
            parent.mid = mid
        parent.remaining_lots -= fill.lots
        parent.notional += fill.notional
        parent.fees += fees_of(fill, fee_bps)
        parent.market_lots += frame.traded_lots
        parent.market_notional += frame.traded_notional


class Accounts:
    """The accounts of N parent orders: EPISODE rows `episodes` and PARENT rows `parents`, one per environment."""

    def __init__(self, count: int, fee_bps: float = 0.0) -> None:
        self.episodes, self.parents = np.zeros(count, EPISODE), np.zeros(count, PARENT)
        self.fee_bps = fee_bps

    def begin(self, which: Any, episodes: Rows, frames: Rows) -> None:
        """Starts new parent orders in environments `which`."""
        self.episodes[which] = episodes
        parents = np.zeros(len(which), PARENT)
        parents["remaining_lots"] = episodes["qty_lots"]
        for name in ("arrival_mid", "decision_mid", "mid"):
            parents[name] = mids(frames[which])
        self.parents[which] = parents

    def children(self, share: Any, limit_share: Any, offset_ticks: Any, frames: Rows) -> Rows:
        """CHILD rows from actions. Shares of the remaining quantity are in [0, 1]; the limit price is offset_ticks behind the same-side touch
        (negative: more aggressive)."""
        children = np.zeros(len(self.parents), CHILD)
        parts = (np.ascontiguousarray(part, np.float64) for part in (share, limit_share, offset_ticks))
        _split_into_children(*parts, self.episodes, self.parents, frames, children)
        return children

    def settle(self, fills: Rows, frames: Rows) -> None:
        """Applies the fills and trades of a step."""
        _settle(fills, frames, self.parents, self.fee_bps)

    def ends_ns(self) -> Any:
        """(N,) end of the current step."""
        return self.episodes["start_ns"] + (self.parents["step"] + 1) * self.episodes["interval_ns"]

    def fees(self, fills: Rows) -> Any:
        """(N,) fees of FILL rows: fee_bps of the notional plus what the market charges; ticks x lots, below 0: a rebate."""
        return fills["notional"] * self.fee_bps * 1e-4 + fills["fee_microticks"] / MICRO

    def add_forced(self, which: Any, fills: Rows) -> None:
        """Applies the fills of forced completions: FILL rows of environments `which`."""
        self.parents["remaining_lots"][which] -= fills["lots"]
        self.parents["notional"][which] += fills["notional"]
        self.parents["fees"][which] += self.fees(fills)

    def shortfall_bps(self, fills: Rows) -> Any:
        """(N,) gain of FILL rows relative to the arrival mid, after fees, in bps of the whole parent order."""
        arrival, qty = self.parents["arrival_mid"], self.episodes["qty_lots"]
        gain = self.episodes["sign"] * (fills["notional"] - fills["lots"] * arrival) - self.fees(fills)
        return gain / (arrival * qty) * 1e4

    def market_move_bps(self) -> Any:
        """(N,) the market's VWAP since the start relative to the arrival mid, positive if favourable; 0 where nothing traded."""
        lots = self.parents["market_lots"]
        vwap = np.where(lots > 0, self.parents["market_notional"] / np.maximum(lots, 1), self.parents["arrival_mid"])
        return self.episodes["sign"] * (vwap / self.parents["arrival_mid"] - 1) * 1e4

    def results(self) -> dict[str, Any]:
        """(N,) arrays: pa_bps, is_bps (both after fees), fees_bps (relative to the notional of the fills), afi, ffr, price_ticks, vwap_ticks."""
        parents, episodes = self.parents, self.episodes
        filled = episodes["qty_lots"] - parents["remaining_lots"]
        sign = episodes["sign"]
        price = np.where(filled > 0, (parents["notional"] - sign * parents["fees"]) / np.maximum(filled, 1), np.nan)
        traded = parents["market_lots"] > 0
        vwap = np.where(traded, parents["market_notional"] / np.maximum(parents["market_lots"], 1), np.nan)
        return {
            "pa_bps": sign * (price / vwap - 1) * 1e4,
            "is_bps": sign * (price / parents["arrival_mid"] - 1) * 1e4,
            "fees_bps": np.where(filled > 0, parents["fees"] / np.maximum(parents["notional"], 1), 0.0) * 1e4,
            "afi": parents["unfilled_lots"] / episodes["qty_lots"],
            "ffr": filled / episodes["qty_lots"],
            "price_ticks": price,
            "vwap_ticks": vwap,
        }
