"""Allocates the arrays of a population, or of one host's share of it, and grows them when they are full."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.traders.engine import addresses, schedule_all
from serl.agents.traders.errors import PopulationError, SimulationError
from serl.agents.traders.forecasters import require_forecasters
from serl.agents.traders.legs import new_legs, own_numbers, settle_accounts
from serl.agents.traders.open_orders import rebuild_order_table
from serl.agents.traders.paths import value_paths
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.random import mix, trader_seed
from serl.agents.traders.records import (
    AGENT,
    BOARD_NUMBERS,
    BOARD_START,
    FLOW_ROWS,
    IN_FLIGHT,
    IN_FLIGHT_FREE,
    NODE,
    NODE_FREE,
    NODES_USED,
    OUTSIDE,
    OUTSIDE_SLOT,
    REQUESTS,
    REQUESTS_MAX,
    SCHEDULED,
    SLAB_TOP,
    SLEEPLESS,
    SPACING,
    VIEW,
    Traders,
)
from serl.agents.traders.registry import load_kind
from serl.agents.traders.value import SECOND_NS
from serl.exchange.compiling import compiled
from serl.exchange.records import COMMAND
from serl.exchange.struct_pointer import with_handle
from serl.ranges import SEED_MAX

FIRST_NODES, FIRST_IN_FLIGHT = 1024, 512
CHANGING = tuple(name for name in Traders._fields if name not in ("value", "times", "fees", "handle"))
"""Fields of Traders that are written after construction."""


class Crowd:
    """The traders of a population: their arrays, and the objects at the addresses in these arrays."""

    def __init__(self, population: PopulationConfig, seed: int, host: int = 0, hosts: int = 1) -> None:
        """Raises PopulationError for a seed that the random generators do not take."""
        if not 0 <= seed <= SEED_MAX:
            raise PopulationError(f"seed: expected 0 or more and less than 2^63, got {seed}; give another")
        self.population = population
        require_forecasters(population)
        numbers = own_numbers(population, host, hosts)
        ends = np.cumsum([group.count for group in population.groups])
        groups = np.searchsorted(ends, numbers, side="right")
        self._kinds = [load_kind(group.trader) for group in population.groups]
        self._profiles = [population.parameters_of(group).record() for group in population.groups]
        agents = np.zeros(len(numbers), AGENT)
        agents["number"], agents["kind"] = numbers, groups
        self._memory = np.zeros(int(np.array([one.memory for one in self._kinds])[groups].sum()) + 1)
        self.traders = self._allocate(agents, seed)
        self._initialise(agents, groups, seed)
        settle_accounts(self.traders)
        schedule_all(self.traders)

    def _allocate(self, agents: Any, seed: int) -> Traders:
        population, count = self.population, len(agents)
        symbols = len(population.symbols)
        board = BOARD_NUMBERS if any(one.everywhere for one in self._kinds) else BOARD_START
        step_ns = round(population.value.step_s * SECOND_NS)
        traders = _with_handle(Traders(
            counter=np.zeros(16, np.int64),
            agents=agents,
            market_view=np.zeros(1, VIEW),
            requests=np.zeros(1, REQUESTS),
            wake_key=np.zeros(count + 1, np.int64),
            wake_item=np.zeros(count + 1, np.int32),
            in_flight=np.zeros(FIRST_IN_FLIGHT, COMMAND),
            in_flight_key=np.zeros(FIRST_IN_FLIGHT + 1, np.int64),
            in_flight_item=np.zeros(FIRST_IN_FLIGHT + 1, np.int32),
            in_flight_next=_free_list(0, FIRST_IN_FLIGHT),
            nodes=_free_nodes(0, FIRST_NODES),
            order_table=np.zeros(4 * FIRST_NODES, np.int64),
            slab=np.zeros(8 * FIRST_NODES, np.int32),
            slab_free=np.full(32, -1, np.int32),
            flow=np.zeros((symbols, FLOW_ROWS, 4), np.int64),
            public_totals=np.zeros((symbols, 6), np.int64),
            value=value_paths(population, seed),
            times=np.array([population.open_ns, population.close_ns, step_ns]),
            legs=new_legs(population, agents),
            forecast_board=np.zeros((symbols, board)),
            fees=np.tile([value for _, value in population.market.fees.rules()], (symbols, 1)), handle=np.zeros(1, np.int64),
        ))  # fmt: skip
        traders.counter[SPACING] = population.spacing_ns
        view = traders.market_view[0]
        view["open_ns"], view["close_ns"], view["value_step_ns"] = traders.times
        view["value_count"] = traders.value.shape[1]
        view["nodes_address"] = traders.nodes.ctypes.data
        return traders

    def _initialise(self, agents: Any, groups: Any, seed: int) -> None:
        configs = self.population.groups
        for name, values in (
            ("symbol", [group.symbol for group in configs]),
            ("depth", [one.depth for one in self._kinds]),
            ("memory_slots", [one.memory for one in self._kinds]),
            ("function_address", [one.compiled.address for one in self._kinds]),
            ("profile_address", [row.ctypes.data for row in self._profiles]),
        ):
            agents[name] = np.array(values)[groups]
        memory_slots = agents["memory_slots"].astype(np.int64)
        agents["memory_address"] = self._memory.ctypes.data + 8 * (np.cumsum(memory_slots) - memory_slots)
        starts = np.array([(group.start_s, group.start_spread_s) for group in configs])[groups] * SECOND_NS
        latency = np.array([(group.latency_us, group.latency_spread_us) for group in configs])[groups] * 1000
        times = (self.population.open_ns, self.population.spacing_ns)
        _draw_agents(agents, seed, starts, latency, *times)

    def start_at(self, time_ns: int) -> None:
        """Shifts the first wake-ups from the open to a later time, for traders that join late."""
        spacing = self.population.spacing_ns
        delay = -(-(time_ns - self.population.open_ns) // spacing)
        wake_ns = self.traders.agents["wake_ns"]
        wake_ns[wake_ns >= 0] += max(0, delay) * spacing  # a multiple of the spacing keeps each trader's residue
        schedule_all(self.traders)

    def grow(self) -> None:
        """Doubles the arrays that are full."""
        traders, counter = self.traders, self.traders.counter
        if len(traders.in_flight) - counter[IN_FLIGHT] <= REQUESTS_MAX:
            before, size = len(traders.in_flight), 2 * len(traders.in_flight)
            in_flight = np.zeros(size, COMMAND)
            in_flight[:before] = traders.in_flight
            free = _free_list(before, size)
            free[:before] = traders.in_flight_next
            free[size - 1] = counter[IN_FLIGHT_FREE]
            counter[IN_FLIGHT_FREE] = before
            self.traders = traders = _with_handle(traders._replace(
                in_flight=in_flight, in_flight_next=free, in_flight_key=_enlarged(traders.in_flight_key, size + 1),
                in_flight_item=_enlarged(traders.in_flight_item, size + 1),
            ))  # fmt: skip
        if len(traders.nodes) - counter[NODES_USED] <= REQUESTS_MAX:
            before, size = len(traders.nodes), 2 * len(traders.nodes)
            nodes = _free_nodes(before, size)
            nodes[:before] = traders.nodes
            nodes[size - 1]["agent"] = counter[NODE_FREE]
            counter[NODE_FREE] = before
            self.traders = traders = _with_handle(
                traders._replace(nodes=nodes, order_table=np.zeros(4 * size, np.int64))
            )
            traders.market_view["nodes_address"] = nodes.ctypes.data
            rebuild_order_table(traders)
        if len(traders.slab) - counter[SLAB_TOP] <= 4 * (counter[NODES_USED] + REQUESTS_MAX):
            self.traders = _with_handle(traders._replace(slab=_enlarged(traders.slab, 2 * len(traders.slab))))

    def check_traders(self) -> None:
        """Raises SimulationError if a trader slept for no time, because it would be woken again and again and time would not advance, or used memory
        that it does not have."""
        counter = self.traders.counter
        if counter[SLEEPLESS]:
            who, agent = self._describe(counter[SLEEPLESS] - 1)
            raise SimulationError(
                f"{who}: expected sleep() with more than 0 ns, got {agent['sleep_ns']:.10g}; correct what it sleeps for"
            )
        if counter[OUTSIDE]:
            who, agent = self._describe(counter[OUTSIDE] - 1)
            raise SimulationError(
                f"{who}: expected recall() and remember() below memory={agent['memory_slots']} of its decorator, got "
                f"{counter[OUTSIDE_SLOT]}; raise memory or correct the index"
            )

    def _describe(self, index: int) -> tuple[str, Any]:
        """(number and kind of a trader, its AGENT row)."""
        agent = self.traders.agents[index]
        return f"trader {agent['number']} ({self._kinds[agent['kind']].name})", agent

    @property
    def changing(self) -> list[Any]:
        """The arrays that change during trading."""
        return [*(getattr(self.traders, name) for name in CHANGING), self._memory]

    @property
    def memory_address(self) -> int:
        """Address of the traders' own memory."""
        return int(self._memory.ctypes.data)

    def placed(self, changing: Sequence[Any], memory_address: int) -> "Crowd":
        """The same traders in other arrays: `changing` is a copy made when their memory was at `memory_address`."""
        other = copy.copy(self)
        *arrays, other._memory = changing
        other.traders = _with_handle(self.traders._replace(**dict(zip(CHANGING, arrays, strict=True))))
        other.traders.agents["memory_address"] += other.memory_address - memory_address
        other.traders.market_view["nodes_address"] = other.traders.nodes.ctypes.data
        return other

    def without_arrays(self) -> "Crowd":
        """The same traders without the arrays that change; call `placed` before they trade."""
        other = copy.copy(self)
        other._memory = np.zeros(0)
        nothing: dict[str, Any] = dict.fromkeys(CHANGING, np.zeros(0))
        other.traders = self.traders._replace(**nothing)
        return other

    @property
    def bytes_used(self) -> int:
        """Memory of the arrays, bytes."""
        arrays = [array for array in self.traders if isinstance(array, np.ndarray)]
        return sum(array.nbytes for array in arrays) + self._memory.nbytes

    @property
    def is_active(self) -> bool:
        """Whether a wake-up is scheduled or a command is in flight."""
        return bool(self.traders.counter[SCHEDULED] or self.traders.counter[IN_FLIGHT])


def _with_handle(traders: Traders) -> Traders:
    """The traders with a handle to their current arrays and to the compiled engine of this process."""
    return with_handle(traders, addresses())


def _free_list(first: int, size: int) -> Any:
    """Links entries `first` to `size` into a free list."""
    next_free = np.arange(1, size + 1, dtype=np.int32)
    next_free[:first] = 0
    return next_free


def _free_nodes(first: int, size: int) -> Any:
    nodes = np.zeros(size, NODE)
    nodes["agent"][first:] = np.arange(first + 1, size + 1)
    return nodes


def _enlarged(array: Any, size: int) -> Any:
    enlarged = np.zeros(size, array.dtype)
    enlarged[: len(array)] = array
    return enlarged


@compiled
def _draw_agents(agents: Any, seed: int, starts: Any, latency: Any, open_ns: int, spacing: int) -> None:
    """Draws seeds, latencies and first wake-ups. Each depends only on the trader's number, not on the host's other traders."""
    for index in range(agents.size):
        agent = agents[index]
        agent.seed = trader_seed(seed, agent.number)
        first = np.float64(np.int64(mix(agent.seed) >> np.uint64(12))) * 2.0**-52
        second = (np.float64(np.int64(mix(agent.seed ^ np.uint64(0xA5A5A5A5)) >> np.uint64(12))) + 0.5) * 2.0**-52
        agent.latency_ns = np.int64(latency[index, 0] - np.log(second) * latency[index, 1])
        time_ns = open_ns + np.int64(starts[index, 0] + first * starts[index, 1])
        time_ns = time_ns - agent.number + spacing - 1
        agent.wake_ns = time_ns - time_ns % spacing + agent.number
