"""A run's record of calls as its language model."""

from pathlib import Path
from typing import Any

from serl.researcher.llm.client import Client
from serl.researcher.llm.record import key_of
from serl.researcher.llm.settings import BudgetConfig, Endpoint


class ReplayedClient(Client):
    """Answers as the embedded model of a run did, without the model: no server runs, no weights are read.

    After tuning, the model's name has the hash of its weights, so that it cannot be known without them. It is therefore taken from
    the record: each request is found by all but its model, and `endpoint.model` is the one that gave the last answer. OfflineMissError
    where the record has no answer.
    """

    def __init__(self, model: str, budget: BudgetConfig, record: Path) -> None:
        super().__init__(Endpoint(model=model, dialect="embedded"), budget, record, offline=True)
        self._models = {_without_model(line["request"]): line["request"]["model"] for line in self.record.answered}

    def _line(self, request: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        model = self._models.get(_without_model(request), request["model"])
        found = super()._line(request | {"model": model})
        self.endpoint = self.endpoint.model_copy(update={"model": model})
        return found


def _without_model(request: dict[str, Any]) -> str:
    return key_of({**request, "model": ""})
