"""Runs that are repeated from their record, and runs in one folder at a time."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.exchange.errors import UnwritableFileError
from serl.minds.config import BudgetConfig
from serl.minds.files import DecisionFile
from serl.minds.model_calls import Ledger, ModelCalls
from serl.researcher.llm.client import Client
from serl.researcher.llm.errors import BudgetSpentError
from serl.researcher.llm.settings import Endpoint
from tests.researcher.llm.fake import Fake, completion, fake_endpoint


def answered(minds: str, fake: Fake, record: Path, budget: BudgetConfig) -> str:
    """The minds, named by letters, that got an answer when they asked in this order."""
    client = Client(Endpoint(base_url=fake.url, model="fake"), record=record)
    calls = ModelCalls(client, budget, temperature=0.7, answer_tokens=64, parallel=1)

    async def asked(mind: str) -> str:
        try:
            await calls.ask(Ledger(mind, BudgetConfig()), [{"role": "user", "content": mind}], {}, 1)
        except BudgetSpentError:
            return ""
        return mind

    async def all_asked() -> list[str]:
        return await asyncio.gather(*map(asked, minds))

    return "".join(sorted(asyncio.run(all_asked())))


@pytest.mark.parametrize("limit", [{"calls_max": 3}, {"tokens_max": 200}])
def test_the_last_calls_of_a_common_budget_go_to_the_same_minds_again(limit: dict[str, int], tmp_path: Path) -> None:
    """Whoever asks first. With another budget, all that it allows are asked."""
    record = tmp_path / "calls.jsonl"
    with fake_endpoint(completion(prompt=10, tokens=40)) as fake:
        first = answered("abcde", fake, record, BudgetConfig.model_validate(limit))
        assert 1 < len(first) < 5 and len(fake.requests) == len(first)
        assert answered("edcba", fake, record, BudgetConfig.model_validate(limit)) == first
        assert len(fake.requests) == len(first)
        assert answered("edcba", fake, record, BudgetConfig()) == "abcde" and len(fake.requests) == 5


def test_a_second_run_in_a_folder_is_refused(tmp_path: Path) -> None:
    """Their decisions would be in one file; after the first run has ended, the next one replaces it."""
    with DecisionFile(tmp_path) as decisions:
        decisions.add({"row": "start"})
        with pytest.raises(UnwritableFileError, match="another run is writing to it"):
            DecisionFile(tmp_path)
    with DecisionFile(tmp_path) as decisions:
        decisions.add({"row": "start"})
