"""Rollouts in parts. Each part collects with its own environment, network and random numbers, in this process or as an actor of a Ray cluster.

The results of a part depend on its seed and the weights that it is given, not on where it runs. So a part that a cluster loses is built again and
repeats its work since its episodes began.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.rollout import Batch, Collector, Rollout, join_batches
from serl.cluster import LOCAL, ClusterError, ray_at, ray_result, repeated

ADVICE = "continue with --resume"


class RolloutRequest(NamedTuple):
    """A rollout to collect: number of steps of each environment, and the weights to use (see `ActorCritic.vector`)."""

    vector: NDArray[np.float32]
    steps: int
    gamma: float
    gae_lambda: float


class Worker:
    """Collects the rollouts of one part."""

    def __init__(self, build: Callable[[], VectorEnv], network: Callable[[], ActorCritic], reward_scale: float, threads: int) -> None:  # fmt: skip
        """threads: number of PyTorch threads in this process."""
        torch.set_num_threads(threads)
        self._network = network()
        self._collector = Collector(build(), self._network, reward_scale)
        self._random = np.random.default_rng(0)

    def reset(self, seed: int) -> None:
        """Starts a new episode in every environment and seeds the random numbers."""
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 1])))
        self._collector.reset(seed)

    def collect(self, order: RolloutRequest) -> tuple[Batch, Any]:
        """Collects a rollout; returns (steps (T, N, ..), returns of the episodes that ended)."""
        with torch.no_grad():
            self._network.vector.copy_(torch.from_numpy(order.vector.copy()))
        steps = self._collector.collect_steps(order.steps, self._random, order.gamma, order.gae_lambda)
        return steps, self._collector.episode_returns


class Part(Protocol):
    """Runs the worker of one part."""

    def reset(self, seed: int) -> None:
        """See Worker."""
        ...

    def begin(self, order: RolloutRequest) -> None:
        """Starts to collect a rollout."""
        ...

    def finish(self) -> tuple[Batch, Any]:
        """Returns the rollout that was begun; see `Worker.collect`."""
        ...


class LocalPart:
    """A worker in this process, which collects when asked for the result."""

    def __init__(self, make: Callable[[], Worker]) -> None:
        self._worker = make()

    def reset(self, seed: int) -> None:
        """See Part."""
        self._worker.reset(seed)

    def begin(self, order: RolloutRequest) -> None:
        """See Part."""
        self._order = order

    def finish(self) -> tuple[Batch, Any]:
        """See Part."""
        return self._worker.collect(self._order)


class RayPart:
    """A worker as an actor of a Ray cluster. If the cluster loses it, another one resets and repeats the rollouts since the last reset."""

    def __init__(self, make: Callable[[], Worker], on: str) -> None:
        self._make, self._ray = make, ray_at(on)
        self._seed, self._orders = 0, list[RolloutRequest]()
        self._start(num_cpus=1)

    def _start(self, num_cpus: int) -> None:
        actor = self._ray.remote(num_cpus=num_cpus, max_restarts=0, scheduling_strategy="SPREAD")(_Actor)
        self._actor = actor.remote(self._make)

    def reset(self, seed: int) -> None:
        """See Part."""
        self._seed, self._orders = seed, []
        self._actor.reset.remote(seed)

    def begin(self, order: RolloutRequest) -> None:
        """See Part."""
        self._orders.append(order)
        self._result = self._actor.collect.remote(order)

    def finish(self) -> tuple[Batch, Any]:
        """See Part. Raises ClusterError if the worker is lost repeatedly."""
        return repeated(lambda: ray_result(self._result, ADVICE), self._repeat)

    def _repeat(self) -> None:
        """Repeats the work on one of the remaining machines, although it may have no CPU to spare."""
        self._start(num_cpus=0)
        self._actor.reset.remote(self._seed)
        for order in self._orders:
            self._result = self._actor.collect.remote(order)


class _Actor:
    """A worker that its first call builds, on the machine on which it runs, so that this call reports an error."""

    def __init__(self, make: Callable[[], Worker]) -> None:
        self._make = make

    @cached_property
    def _worker(self) -> Worker:
        return self._make()

    def reset(self, seed: int) -> None:
        self._worker.reset(seed)

    def collect(self, order: RolloutRequest) -> tuple[Batch, Any]:
        return self._worker.collect(order)


class ParallelCollector:
    """A Collector for an environment in parts, which joins their rollouts in order."""

    def __init__(self, parts: Sequence[Part], network: ActorCritic, num_envs: int) -> None:
        self._parts, self._network, self.num_envs = parts, network, num_envs
        self.episode_returns = np.zeros(0)
        self._is_begun = False

    def reset(self, seed: int) -> None:
        """Starts a new episode in every environment."""
        for number, part in enumerate(self._parts):
            part.reset(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))

    def begin(self, steps: int, gamma: float, gae_lambda: float) -> None:
        """Starts to collect a rollout in all parts."""
        order = RolloutRequest(self._network.vector.detach().numpy().copy(), steps, gamma, gae_lambda)
        for part in self._parts:
            part.begin(order)
        self._is_begun = True

    def collect(self, steps: int, random: np.random.Generator, gamma: float, gae_lambda: float) -> Rollout:
        """See Collector. Returns the rollout begun with the same arguments. The parts have their own random numbers; `random` is not used."""
        if not self._is_begun:
            self.begin(steps, gamma, gae_lambda)
        self._is_begun = False
        batches, returns = zip(*(part.finish() for part in self._parts), strict=True)
        self.episode_returns = np.concatenate(returns)
        return Rollout(join_batches(batches), self._network.memory is not None)


def make_parts(makes: Sequence[Callable[[], Worker]], on: str) -> list[Part]:
    """Makes a part for each worker, in this process or on a cluster."""
    return [LocalPart(make) if on == LOCAL else RayPart(make, on) for make in makes]


def check_cpus(parts: int, on: str) -> None:
    """Raises ClusterError if a cluster has fewer CPUs than there are parts, because they would wait for ever."""
    count = int(ray_at(on).cluster_resources().get("CPU", 0))
    if count < parts:
        raise ClusterError(
            f"rollout_parts: expected at most as many parts of all markets as the cluster has CPUs ({count}), got {parts}; use fewer"
        )
