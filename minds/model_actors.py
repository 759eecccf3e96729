"""Servers of the minds' model as actors of a Ray cluster: each runs one on its machine, which only it can reach."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from serl.cluster import ClusterError, ray_at, ray_result
from serl.minds.config import MindsConfig
from serl.researcher.llm.attempts import Ask, Reply, answerer
from serl.researcher.llm.errors import EndpointUnreachableError
from serl.researcher.llm.served import served_model
from serl.researcher.llm.settings import Endpoint

LOSSES_MAX = 3
"""How often an actor is started on another machine, and a call repeated."""
ADVICE = "run it again; the calls so far are in the record"


class ModelActor:
    """One server and its calls."""

    def __init__(self, model: str, threads: int, slots: int) -> None:
        self._running = ExitStack()
        served = self._running.enter_context(served_model(model, threads=threads, slots=slots))
        self._endpoint = served.endpoint
        self._ask = answerer(served.endpoint)

    def endpoint(self) -> Endpoint:
        """The server, whose URL is of use on its own machine only."""
        return self._endpoint

    def ask(self, request: dict[str, Any]) -> tuple[Reply, list[dict[str, Any]]]:
        """(reply, failed attempts)."""
        attempts: list[dict[str, Any]] = []
        return self._ask(request, attempts), attempts


@contextmanager
def model_actors(config: MindsConfig, on: str) -> Iterator[tuple[Endpoint, list[Ask]]]:
    """(the endpoint of the configured model, its servers on a cluster), which are stopped at the end. ClusterError if there are too few CPUs, or a server does not start."""
    ray = ray_at(on)
    needed, count = config.servers * config.threads, int(ray.cluster_resources().get("CPU", 0))
    if count < needed:
        raise ClusterError(
            f"servers: expected at most as many threads of all servers as the cluster has CPUs ({count}), got {needed}; use fewer"
        )
    actor = ray.remote(
        num_cpus=config.threads, max_restarts=LOSSES_MAX, max_task_retries=LOSSES_MAX, max_concurrency=config.slots,
        scheduling_strategy="SPREAD",
    )(ModelActor)  # fmt: skip
    actors = [actor.remote(config.model, config.threads, config.slots) for _ in range(config.servers)]
    try:
        endpoints = [ray_result(one.endpoint.remote(), ADVICE) for one in actors]
        yield endpoints[0], [_answerer(one) for one in actors]
    finally:
        for one in actors:
            ray.kill(one)


def _answerer(actor: Any) -> Ask:
    def ask(request: dict[str, Any], attempts: list[dict[str, Any]]) -> Reply:
        try:
            reply, failed = ray_result(actor.ask.remote(request), ADVICE)
        except ClusterError as error:
            raise EndpointUnreachableError(str(error)) from None
        attempts += failed
        return reply

    return ask
