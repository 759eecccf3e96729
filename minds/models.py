"""The language model of a run: an endpoint, or a model that is served on this machine for as long as the run lasts."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from serl.cluster import LOCAL
from serl.exchange.invalid import describe_invalid
from serl.extras import require
from serl.minds.config import MindsConfig
from serl.minds.errors import MindsConfigError
from serl.researcher.llm.client import Client
from serl.researcher.llm.models import MODELS
from serl.researcher.llm.settings import Endpoint

CONTEXT: dict[str, Any] = {"context_tokens": 4096}
"""Default settings of a model that serl serves."""


def with_overrides(
    config: MindsConfig, url: str | None, model: str | None, seed: int | None, *, events: bool = True
) -> MindsConfig:
    """The settings with the options of the command line. Raises MindsConfigError for invalid ones."""
    changed: dict[str, object] = {} if seed is None else {"seed": seed}
    if not events:
        changed["events"] = None
    if url is not None:
        if model is None:
            raise MindsConfigError("--url: expected --model beside it, the name of the endpoint's model; add it")
        try:
            changed |= {"model": None, "endpoint": Endpoint(base_url=url, model=model)}
        except ValidationError as error:
            raise MindsConfigError(f"--url: {describe_invalid(error, most=1)}") from None
    elif model is not None:
        changed |= {"model": model, "endpoint": None}
    return config.model_copy(update=changed)


def require_packages(config: MindsConfig, *, offline: bool) -> None:
    """Raises MissingPackageError unless the packages that the configured model needs are installed."""
    if config.endpoint is not None:
        require("language models", "openai", extra="researcher")
    elif not offline:
        require("language models", "openai", "xllamacpp", extra="researcher")


@contextmanager
def model_client(config: MindsConfig, record: Path, *, offline: bool, on: str = LOCAL) -> Iterator[Client]:
    """A client of the configured model. Servers, on this machine or as actors of a Ray cluster, are stopped at the end. offline: only the record answers.

    MindsConfigError for an endpoint on a cluster, ClusterError if the cluster cannot serve the model.
    """
    require_packages(config, offline=offline)
    if config.endpoint is not None:
        if on != LOCAL:
            raise MindsConfigError(
                f"--on {on}: expected a model that serl serves (tiny, coder or a GGUF file), got the endpoint {config.endpoint.base_url}; leave --on out"
            )
        if not offline:
            config.endpoint.key()  # raises for a missing key before anybody trades
        yield Client(config.endpoint, record=record, offline=offline)
        return
    assert config.model is not None, "settings have a model or an endpoint"
    if offline:
        name = config.model if config.model in MODELS else Path(config.model).stem
        yield Client(Endpoint(model=name, dialect="embedded", **CONTEXT), record=record, offline=True)
        return
    if on != LOCAL:
        from serl.minds.model_actors import model_actors

        with model_actors(config, on) as (endpoint, servers):
            yield Client(endpoint.model_copy(update=CONTEXT), record=record, servers=[one.ask for one in servers])
        return
    from serl.researcher.llm.served import served_model

    with ExitStack() as running:
        served = [
            running.enter_context(served_model(config.model, threads=config.threads, slots=config.slots))
            for _ in range(config.servers)
        ]
        first, *others = (one.endpoint.model_copy(update=CONTEXT) for one in served)
        yield Client(first, record=record, others=others)
