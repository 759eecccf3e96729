"""Traders of several symbols. Such a trader trades a basket against its members, and has an account in each member.

An account is an AGENT row that never wakes up. It has its own position, cash, fees, open orders and arrival times, like a trader of that symbol.
A leg is what the trader sees of a symbol: leg 0 is its own symbol, legs 1, 2 ... are the members.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.records import LEG, Traders
from serl.exchange.compiling import inlined, int64
from serl.exchange.kernel.levels import best

_LEG_BYTES = LEG.itemsize
EVERYWHERE = -1


def own_numbers(population: PopulationConfig, host: int, hosts: int) -> NDArray[np.int64]:
    """Numbers of the traders of a host, ascending: every H-th trader (H hosts), each with its accounts, and all forecasters."""
    counts = [group.count for group in population.groups]
    starts, rank, trader = np.cumsum([0, *counts]), 0, np.zeros(sum(counts), np.int64)
    for index, group in enumerate(population.groups):
        own = slice(starts[index], starts[index + 1])
        if group.is_everywhere:
            trader[own] = EVERYWHERE
        elif group.account_of is not None:
            first = starts[group.account_of]
            trader[own] = trader[first : first + group.count]
        else:
            trader[own] = np.arange(rank, rank + group.count)
            rank += group.count
    return np.flatnonzero((trader % hosts == host) | (trader == EVERYWHERE))


def new_legs(population: PopulationConfig, agents: NDArray[np.void]) -> NDArray[np.void]:
    """LEG rows of the traders that have legs, leg 0 first; at least one row. Sets `legs` and `leg_start` of their AGENT rows."""
    rows: list[tuple[int, int, float, float]] = []
    for index, group in enumerate(population.groups):
        members = population.basket(group.symbol) if group.has_accounts else []
        for place in np.flatnonzero(agents["kind"] == index) if members else ():
            agents["legs"][place], agents["leg_start"][place] = len(members), len(rows)
            numbers = agents["number"][place] + group.count * np.arange(1, len(members) + 1)
            rows.append((int(place), group.symbol, 1.0, 1.0))
            for account, member in zip(np.searchsorted(agents["number"], numbers).tolist(), members, strict=True):
                rows.append((account, *member))
    legs = np.zeros(max(1, len(rows)), LEG)
    for field, values in zip(("agent", "symbol", "weight", "basket_ticks"), zip(*rows, strict=True), strict=False):
        legs[field] = values
    return legs


def settle_accounts(traders: Traders) -> None:
    """Sets accounts up: they never wake up, and have the latency of their trader."""
    agents = traders.agents
    for place in np.flatnonzero(agents["legs"]):
        start = agents["leg_start"][place]
        accounts = traders.legs["agent"][start + 1 : start + 1 + agents["legs"][place]]
        agents["latency_ns"][accounts], agents["wake_ns"][accounts] = agents["latency_ns"][place], -1


@inlined
def fill_legs(traders: Traders, state: Any, agent: Any) -> None:
    """Fills the legs of a trader with what it sees at this wake-up."""
    start = int64(agent.leg_start)
    traders.market_view[0].legs_address = traders.legs.ctypes.data + start * _LEG_BYTES
    for row in range(start, start + agent.legs + 1):
        leg = traders.legs[row]
        leg.bid_ticks, leg.bid_lots, leg.ask_ticks, leg.ask_lots = best(state, int64(leg.symbol))
        account = traders.agents[leg.agent]
        leg.position_lots, leg.orders_open = account.position_lots, account.orders_open
        fees = traders.fees[int64(leg.symbol)]
        leg.taker_microticks, leg.taker_ppm = fees[2], fees[3]
