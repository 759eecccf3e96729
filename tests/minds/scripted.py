"""Minds against a scripted endpoint and a real exchange: answers are functions of the request."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serl.minds.config import MindsConfig
from serl.minds.run import RunOptions, run_minds
from serl.researcher.llm.client import Client
from serl.researcher.llm.settings import Endpoint
from tests.researcher.llm.fake import Fake, completion

Answer = dict[str, Any]
NOTHING: Answer = {"reason": "wait", "action": "nothing"}


def order(action: str, quantity: int, price: float | None = None, symbol: str = "S1", **more: Any) -> Answer:
    kind: Answer = {"order_type": "market"} if price is None else {"order_type": "limit", "price": price}
    return {"reason": "test", "action": action, "symbol": symbol, "quantity": quantity, **kind, **more}


def system_of(request: dict[str, Any]) -> str:
    return str(request["messages"][0]["content"])


def prompt_of(request: dict[str, Any]) -> str:
    return str(request["messages"][1]["content"])


def name_of(request: dict[str, Any]) -> str:
    """Which mind asks."""
    found = re.search(r"You are ([\w-]+),", system_of(request) + prompt_of(request))
    assert found
    return found[1]


def clock_of(request: dict[str, Any]) -> str:
    """The time of a prompt, like 09:30:00."""
    found = re.match(r"Time: day \d+, ([\d:]+)", prompt_of(request))
    return found[1] if found else ""


def scripted(answer: Callable[[dict[str, Any]], Answer | str]) -> Callable[[dict[str, Any]], Any]:
    """A reply of the fake endpoint: what `answer` gives for a request, as JSON; a text as it is."""

    def reply(request: dict[str, Any]) -> Any:
        found = answer(request)
        return completion(found if isinstance(found, str) else json.dumps(found), prompt=100, tokens=20)

    return reply


def settings(**values: Any) -> MindsConfig:
    """Settings with the scripted endpoint's model; one mind, four decisions of a minute each, unless `values` say otherwise."""
    given = {
        "endpoint": {"base_url": "http://127.0.0.1:1/v1", "model": "fake"},
        "symbols": ["AMZN"], "prices": {"AMZN": 100}, "hours": "09:30-09:34", "interval_s": 60,
        "personas": [{"name": "solo"}],
    }  # fmt: skip
    return MindsConfig.model_validate(given | values)


async def run(
    config: MindsConfig,
    exchange: str,
    model: Fake | str,
    folder: Path = Path(),
    record: Path | None = None,
    context_tokens: int = 16_384,
    **options: Any,
) -> dict[str, Any]:
    """Runs minds on a served exchange. model: the scripted endpoint, or a URL."""
    url = model if isinstance(model, str) else model.url
    endpoint = Endpoint(base_url=url, model="fake", attempts_max=2, backoff_s=0.01, context_tokens=context_tokens)
    return await run_minds(config, folder, Client(endpoint, record=record), RunOptions(exchange, **options))
