"""Makes the arrays of a population, or of one host's share of it, and makes them larger when they are full."""

import copy
from typing import Any

import numpy as np

from serl.agents.traders.engine import start_all
from serl.agents.traders.open_orders import enter_all
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.random import mix, seed_of
from serl.agents.traders.records import (
    AGENT,
    FLIGHT_FREE,
    FLIGHTS,
    FLOW_ROWS,
    NODE,
    NODE_FREE,
    NODES_USED,
    REQUESTS,
    REQUESTS_MAX,
    SLAB_TOP,
    SPACING,
    VIEW,
    WAKES,
    Traders,
)
from serl.agents.traders.registry import kind
from serl.agents.traders.value import SECOND_NS
from serl.exchange.compiling import compiled
from serl.exchange.records import COMMAND

FIRST_NODES, FIRST_FLIGHTS = 1024, 512


class Crowd:
    """Traders of a population: their arrays, and what must stay alive for the addresses in them."""

    def __init__(self, population: PopulationConfig, seed: int, host: int = 0, hosts: int = 1) -> None:
        self.population = population
        numbers = np.arange(host, population.traders, hosts, dtype=np.int64)
        ends = np.cumsum([group.count for group in population.groups])
        groups = np.searchsorted(ends, numbers, side="right")
        self._kinds = [kind(group.trader) for group in population.groups]
        self._profiles = [group.parameters().record() for group in population.groups]
        agents = np.zeros(len(numbers), AGENT)
        agents["number"], agents["kind"] = numbers, groups
        self._memory = np.zeros(int(np.array([one.memory for one in self._kinds])[groups].sum()) + 1)
        self.traders = self._arrays(agents, seed)
        self._fill(agents, groups, seed)
        start_all(self.traders)

    def _arrays(self, agents: Any, seed: int) -> Traders:
        population, count = self.population, len(agents)
        duration = population.close_ns - population.open_ns
        symbols = len(population.symbols)
        step_ns = round(population.value.step_s * SECOND_NS)
        traders = Traders(
            counter=np.zeros(16, np.int64),
            agents=agents,
            sight=np.zeros(1, VIEW),
            requests=np.zeros(1, REQUESTS),
            wake_key=np.zeros(count + 1, np.int64),
            wake_item=np.zeros(count + 1, np.int32),
            flight=np.zeros(FIRST_FLIGHTS, COMMAND),
            flight_key=np.zeros(FIRST_FLIGHTS + 1, np.int64),
            flight_item=np.zeros(FIRST_FLIGHTS + 1, np.int32),
            flight_next=_linked(0, FIRST_FLIGHTS),
            nodes=_free_nodes(0, FIRST_NODES),
            table=np.zeros(4 * FIRST_NODES, np.int64),
            slab=np.zeros(8 * FIRST_NODES, np.int32),
            slab_free=np.full(32, -1, np.int32),
            flow=np.zeros((symbols, FLOW_ROWS, 4), np.int64),
            seen=np.zeros((symbols, 4), np.int64),
            value=np.stack([population.value.path(seed, symbol, duration) for symbol in range(symbols)]),
            times=np.array([population.open_ns, population.close_ns, step_ns]),
        )
        traders.counter[SPACING] = population.spacing_ns
        view = traders.sight[0]
        view["open_ns"], view["close_ns"], view["value_step_ns"] = traders.times
        view["value_count"] = traders.value.shape[1]
        view["nodes_address"] = traders.nodes.ctypes.data
        return traders

    def _fill(self, agents: Any, groups: Any, seed: int) -> None:
        configs = self.population.groups
        for name, values in (
            ("symbol", [group.symbol for group in configs]),
            ("depth", [one.depth for one in self._kinds]),
            ("function_address", [one.compiled.address for one in self._kinds]),
            ("profile_address", [row.ctypes.data for row in self._profiles]),
        ):
            agents[name] = np.array(values)[groups]
        room = np.array([one.memory for one in self._kinds])[groups]
        agents["memory_address"] = self._memory.ctypes.data + 8 * (np.cumsum(room) - room)
        starts = np.array([(group.start_s, group.start_spread_s) for group in configs])[groups] * SECOND_NS
        latency = np.array([(group.latency_us, group.latency_spread_us) for group in configs])[groups] * 1000
        times = (self.population.open_ns, self.population.spacing_ns)
        _begin(agents, seed, starts, latency, *times)

    def begin_at(self, time_ns: int) -> None:
        """First wake-ups, which count from the open, count from a later time: who joins late has nothing to make up for."""
        spacing = self.population.spacing_ns
        late = -(-(time_ns - self.population.open_ns) // spacing)
        self.traders.agents["wake_ns"] += max(0, late) * spacing  # each keeps its own times modulo the spacing
        start_all(self.traders)

    def grow(self) -> None:
        """Doubles what is full."""
        traders, counter = self.traders, self.traders.counter
        if len(traders.flight) - counter[FLIGHTS] <= REQUESTS_MAX:
            before, size = len(traders.flight), 2 * len(traders.flight)
            flight = np.zeros(size, COMMAND)
            flight[:before] = traders.flight
            free = _linked(before, size)
            free[:before] = traders.flight_next
            free[size - 1] = counter[FLIGHT_FREE]
            counter[FLIGHT_FREE] = before
            self.traders = traders = traders._replace(
                flight=flight, flight_next=free, flight_key=_longer(traders.flight_key, size + 1),
                flight_item=_longer(traders.flight_item, size + 1),
            )  # fmt: skip
        if len(traders.nodes) - counter[NODES_USED] <= REQUESTS_MAX:
            before, size = len(traders.nodes), 2 * len(traders.nodes)
            nodes = _free_nodes(before, size)
            nodes[:before] = traders.nodes
            nodes[size - 1]["agent"] = counter[NODE_FREE]
            counter[NODE_FREE] = before
            self.traders = traders = traders._replace(nodes=nodes, table=np.zeros(4 * size, np.int64))
            traders.sight["nodes_address"] = nodes.ctypes.data
            enter_all(traders)
        if len(traders.slab) - counter[SLAB_TOP] <= 4 * (counter[NODES_USED] + REQUESTS_MAX):
            self.traders = traders._replace(slab=_longer(traders.slab, 2 * len(traders.slab)))

    def copy(self, spare: "Crowd | None" = None) -> "Crowd":
        """The same traders at the same point, to go on by themselves; `spare`, a crowd no longer needed, gives its memory."""
        other = copy.copy(self)
        other._memory = copied(self._memory, spare and spare._memory)
        other.traders = copied_all(self.traders, spare and spare.traders, shared=("value", "times"))
        other.traders.agents["memory_address"] += other._memory.ctypes.data - self._memory.ctypes.data
        other.traders.sight["nodes_address"] = other.traders.nodes.ctypes.data
        return other

    @property
    def bytes_used(self) -> int:
        """Memory of the arrays."""
        arrays = [array for array in self.traders if isinstance(array, np.ndarray)]
        return sum(array.nbytes for array in arrays) + self._memory.nbytes

    @property
    def commands_due(self) -> bool:
        """Whether anything is to happen still."""
        return bool(self.traders.counter[WAKES] or self.traders.counter[FLIGHTS])


def copied(array: Any, spare: Any = None) -> Any:
    """A copy, in `spare` if that has the same shape: new memory costs more than copying."""
    if spare is None or spare.shape != array.shape:
        spare = np.empty_like(array)
    # As bytes: NumPy copies structured rows field by field, which takes ten times as long.
    np.copyto(spare.reshape(-1).view(np.uint8), array.reshape(-1).view(np.uint8))
    return spare


def copied_all(arrays: Any, spare: Any = None, shared: tuple[str, ...] = ()) -> Any:
    """A NamedTuple of arrays, each copied but those that nobody writes to."""
    parts = arrays._asdict()
    own = {name: copied(array, spare and getattr(spare, name)) for name, array in parts.items() if name not in shared}
    return arrays._replace(**own)


def _linked(first: int, size: int) -> Any:
    following = np.arange(1, size + 1, dtype=np.int32)
    following[:first] = 0
    return following


def _free_nodes(first: int, size: int) -> Any:
    nodes = np.zeros(size, NODE)
    nodes["agent"][first:] = np.arange(first + 1, size + 1)
    return nodes


def _longer(array: Any, size: int) -> Any:
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer


@compiled
def _begin(agents: Any, seed: int, starts: Any, latency: Any, open_ns: int, spacing: int) -> None:
    """Seeds, latencies and first wake-ups; each from the trader's number, whoever else is in this host."""
    for index in range(agents.size):
        agent = agents[index]
        agent.seed = seed_of(seed, agent.number)
        first = np.float64(np.int64(mix(agent.seed) >> np.uint64(12))) * 2.0**-52
        second = (np.float64(np.int64(mix(agent.seed ^ np.uint64(0xA5A5A5A5)) >> np.uint64(12))) + 0.5) * 2.0**-52
        agent.latency_ns = np.int64(latency[index, 0] - np.log(second) * latency[index, 1])
        time_ns = open_ns + np.int64(starts[index, 0] + first * starts[index, 1])
        time_ns = time_ns - agent.number + spacing - 1
        agent.wake_ns = time_ns - time_ns % spacing + agent.number
