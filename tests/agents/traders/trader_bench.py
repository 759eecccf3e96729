"""A test bench for one trader: tests set its view of the market and read its requests."""

import ctypes
from typing import Any, NamedTuple

import numpy as np

from serl.agents.traders.population import PopulationConfig, check_population
from serl.agents.traders.records import (
    AGENT,
    BOARD_COUNT,
    BOARD_NUMBERS,
    BOARD_START,
    FLOW_ROWS,
    FORECAST_NUMBERS,
    NODE,
    REQUESTS,
    VIEW,
)
from serl.agents.traders.registry import load_kind
from serl.agents.traders.simulate import Simulation
from serl.agents.traders.trader_api import BUY, CANCEL, SECOND_NS

OPEN_NS = 34_200 * SECOND_NS


class OrderRequest(NamedTuple):
    """A trader's request for an order."""

    side: int
    price_ticks: int
    lots: int
    time_in_force: int
    flags: int


class TraderBench:
    """One trader of a kind, woken by the test."""

    def __init__(self, name: str, seed: int = 1, **profile: Any) -> None:
        kind = load_kind(name)
        self.agent, self.view, self.requests = np.zeros(1, AGENT), np.zeros(1, VIEW), np.zeros(1, REQUESTS)
        self.profile = kind.profile(**profile).record()
        self.memory = np.zeros(kind.memory + 1)
        self.flow = np.zeros((FLOW_ROWS, 4), np.int64)
        self.nodes, self.own = np.zeros(64, NODE), np.arange(64, dtype=np.int32)
        self.value, self.board = np.full(10_000, 1000.0), np.zeros(BOARD_NUMBERS)
        self.agent["seed"] = seed
        view = self.view[0]
        view["open_ns"], view["memory_slots"] = OPEN_NS, kind.memory
        view["value_step_ns"], view["value_count"] = SECOND_NS, len(self.value)
        for field, array in (
            ("memory_address", self.memory), ("flow_address", self.flow), ("value_address", self.value),
            ("nodes_address", self.nodes), ("list_address", self.own), ("board_address", self.board),
        ):  # fmt: skip
            view[field] = array.ctypes.data
        self._function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(kind.compiled.address)
        self.cancelled: list[int] = []
        self.wake_s = -1.0

    def add_public(self, time_ns: int, side: int, price: int, lots: int) -> None:
        """Adds a public order (side 0, 1) or trade (the aggressor's side + 2)."""
        count = int(self.view["flow_count"][0])
        self.flow[count % FLOW_ROWS] = time_ns, side, price, lots
        self.view["flow_count"] = count + 1

    def set_forecasts(self, *rows: tuple[float, ...]) -> None:
        """Sets the last forecast: (horizon in s, P(down), P(flat), P(up)) of each horizon; none: there is no forecast."""
        self.board[BOARD_COUNT] = len(rows)
        for index, row in enumerate(rows):
            start = BOARD_START + FORECAST_NUMBERS * index
            self.board[start : start + len(row)] = row

    def set_open_orders(self, *orders: tuple[int, int, int]) -> None:
        """Sets the trader's open orders: (side, price, lots)."""
        for index, (side, price, lots) in enumerate(orders):
            self.nodes[index]["side"], self.nodes[index]["price_ticks"] = side, price
            self.nodes[index]["open_lots"] = lots
        self.view["orders_open"] = len(orders)

    def wake(
        self, time_s: float, bid: int = 999, ask: int = 1001, bids: tuple[int, ...] = (), asks: tuple[int, ...] = ()
    ) -> list[OrderRequest]:
        """Wakes the trader `time_s` after the open and returns its orders; bids and asks: lots of levels one tick apart."""
        view, requests = self.view[0], self.requests[0]
        view["time_ns"] = OPEN_NS + round(time_s * SECOND_NS)
        view["bid_ticks"], view["ask_ticks"] = bid, ask
        view["bid_levels"], view["ask_levels"] = len(bids), len(asks)
        view["bid_qty"][: len(bids)], view["ask_qty"][: len(asks)] = bids, asks
        requests["count"], requests["wake_ns"] = 0, -1
        self._function(*(array.ctypes.data for array in (self.agent, self.profile, self.view, self.requests)))
        rows = requests["rows"][: requests["count"]].tolist()
        self.cancelled = [row[2] for row in rows if row[0] == CANCEL]
        self.wake_s = (int(requests["wake_ns"]) - OPEN_NS) / SECOND_NS
        return [OrderRequest(*row[1:]) for row in rows if row[0] != CANCEL]

    def set_position(self, lots: int) -> None:
        """Sets the trader's position."""
        self.agent["position_lots"] = lots


def population(*groups: dict[str, Any], **others: Any) -> PopulationConfig:
    """A population with prices around 100.00."""
    value = {"mean_ticks": 10_000, "volatility_ticks_per_root_s": 0.5}
    return check_population({"name": "test", "value": value, "groups": list(groups), **others}, "test")


ZERO = {"trader": "zero_intelligence", "latency_us": 100, "start_spread_s": 0.001}
"""A group whose flow keeps a market going."""


def simulate_hours(config: PopulationConfig, seed: int = 1, hours: float = 1.0) -> Simulation:
    """A simulation after this many hours."""
    simulation = Simulation(config, seed)
    simulation.advance(config.open_ns + round(hours * 3600 * SECOND_NS))
    return simulation


def agent_field(simulation: Simulation, group: int, field: str) -> Any:
    """A field of all traders of a group."""
    agents = simulation.crowd.traders.agents
    return agents[field][agents["kind"] == group]


def signs(requests: list[OrderRequest]) -> list[int]:
    """+1 for a buy, -1 for a sell."""
    return [1 if request.side == BUY else -1 for request in requests]
