"""Servers of the minds' model as actors of a Ray cluster: each actor runs a server on its machine, which only that actor can reach."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

from serl.cluster import ClusterError, ray_at, ray_result, repeated
from serl.minds.config import MindsConfig
from serl.researcher.llm.attempts import Ask, Reply, answerer
from serl.researcher.llm.errors import EndpointUnreachableError
from serl.researcher.llm.served import ServedModel, served_model
from serl.researcher.llm.settings import Endpoint

ADVICE = "run it again; the calls so far are in the record"


class ModelActor:
    """One server and its calls; the first call starts the server."""

    def __init__(self, model: str, threads: int, slots: int) -> None:
        self._arguments, self._running, self._lock = (model, threads, slots), ExitStack(), threading.Lock()

    @cached_property
    def _served(self) -> ServedModel:
        model, threads, slots = self._arguments
        return self._running.enter_context(served_model(model, threads=threads, slots=slots))

    @cached_property
    def _ask(self) -> Ask:
        return answerer(self._served.endpoint)

    def endpoint(self) -> Endpoint:
        """The server's endpoint, whose URL is valid only on its own machine."""
        return self._served.endpoint

    def ask(self, request: dict[str, Any]) -> tuple[Reply, list[dict[str, Any]]]:
        """(reply, failed attempts)."""
        attempts: list[dict[str, Any]] = []
        with self._lock:  # several slots ask at a time, and the first starts the server
            ask = self._ask
        return ask(request, attempts), attempts


class RemoteServer:
    """The calls of an actor. If the cluster loses the actor, another one is started on a remaining machine, even if that has no free CPU."""

    def __init__(self, config: MindsConfig, on: str) -> None:
        self._config, self._ray, self._lock = config, ray_at(on), threading.Lock()
        self.actor = self._start(config.threads)

    def _start(self, num_cpus: int) -> Any:
        config = self._config
        kind = self._ray.remote(num_cpus=num_cpus, max_concurrency=config.slots, scheduling_strategy="SPREAD")(
            ModelActor
        )
        return kind.remote(config.model, config.threads, config.slots)

    def endpoint(self) -> Endpoint:
        """See ModelActor. Raises what starting the server raises."""
        found: Endpoint = ray_result(self.actor.endpoint.remote(), ADVICE)
        return found

    def ask(self, request: dict[str, Any], attempts: list[dict[str, Any]]) -> Reply:
        """See `Ask`. EndpointUnreachableError if the actor is lost repeatedly."""
        asked = self.actor

        def answer() -> tuple[Reply, list[dict[str, Any]]]:
            nonlocal asked
            asked = self.actor
            found: tuple[Reply, list[dict[str, Any]]] = ray_result(asked.ask.remote(request), ADVICE)
            return found

        def restart() -> None:
            with self._lock:
                if self.actor is asked:  # no other call has restarted it
                    self.actor = self._start(num_cpus=0)

        try:
            reply, failed = repeated(answer, restart)
        except ClusterError as error:
            raise EndpointUnreachableError(str(error)) from None
        attempts += failed
        return reply

    def close(self) -> None:
        """Ends the actor and its server."""
        self._ray.kill(self.actor)


@contextmanager
def model_actors(config: MindsConfig, on: str) -> Iterator[tuple[Endpoint, list[RemoteServer]]]:
    """(the endpoint of the configured model, its servers on a cluster). The servers are stopped at the end. ClusterError if there are too few CPUs."""
    needed, count = config.servers * config.threads, int(ray_at(on).cluster_resources().get("CPU", 0))
    if count < needed:
        raise ClusterError(
            f"servers: expected at most as many threads of all servers as the cluster has CPUs ({count}), got {needed}; use fewer"
        )
    servers = [RemoteServer(config, on) for _ in range(config.servers)]
    try:
        endpoints = [one.endpoint() for one in servers]
        yield endpoints[0], servers
    finally:
        for one in servers:
            one.close()
