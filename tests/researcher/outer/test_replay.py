"""A run of the embedded model is replayed from its record alone, where there is no model."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.researcher.llm.client import Client, ReplayedClient
from serl.researcher.llm.errors import OfflineMissError
from serl.researcher.llm.settings import BudgetConfig, Endpoint
from serl.researcher.outer import run
from serl.researcher.outer.author import Author
from tests.researcher.llm.fake import completion, fake_endpoint
from tests.researcher.outer.small import REWARD, Arithmetic, config_of, content


class Served:
    """An embedded endpoint whose name changes with each update, as that of a tuned model does."""

    alive = True

    def __init__(self, url: str) -> None:
        self.url = url
        self.endpoint = self.tuned(0)

    def tuned(self, iteration: int) -> Endpoint:
        return Endpoint(base_url=self.url, model=f"tiny+{iteration}", dialect="embedded")


class Tuning:
    """Tunes nothing but the name."""

    def __init__(self, *arguments: Any) -> None:
        (self.served,) = (argument for argument in arguments if isinstance(argument, Served))

    def resume(self, iteration: int, author: Author) -> None:
        pass

    def learn(self, iteration: int, author: Author) -> dict[str, Any]:
        author.use_endpoint(self.served.tuned(iteration))
        return {"step": iteration}


@pytest.mark.parametrize("proposer", ["dek", "eureka"])
def test_a_tuned_run_is_replayed_without_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proposer: str
) -> None:
    search = {"operators": ["fresh", "rewrite"], "ahead": 0}  # the model writes in each iteration
    config = config_of(proposer=proposer, candidates=4, search=search)
    first, again = tmp_path / "first", tmp_path / "again"
    with monkeypatch.context() as patched, fake_endpoint(completion(REWARD), kind="embedded") as fake:

        @contextmanager
        def served_model(*_: Any, **__: Any) -> Iterator[Served]:
            yield Served(fake.url)

        patched.setattr(run, "served_model", served_model)
        patched.setattr(run, "LowLevelTuning", Tuning)
        database = run.begin(first, config, "test", resume=False)
        run.research(config, first, database, Arithmetic())
    models = [row["model"] for row in database.rows("SELECT model FROM iterations ORDER BY iteration")]
    assert models == (["tiny+0", "tiny+1", "tiny+2"] if proposer == "dek" else ["tiny+0"] * 3)

    monkeypatch.setenv("SERL_MODELS", str(tmp_path / "nowhere"))
    again.mkdir()
    shutil.copy(first / run.RECORD, again)
    replayed = run.begin(again, config, "test", resume=False)
    run.research(config, again, replayed, Arithmetic(), offline=True)
    assert content(replayed) == content(database)
    replayed.close()
    database.close()

    longer = config.model_copy(update={"iterations": 4})
    resumed = run.begin(again, longer, "test", resume=True)
    with pytest.raises(OfflineMissError, match="no answer"):
        run.research(longer, again, resumed, Arithmetic(), offline=True)
    resumed.close()


def test_a_run_that_ended_on_its_budget_is_replayed_to_that_end(tmp_path: Path) -> None:
    with fake_endpoint(completion(REWARD, prompt=1000, tokens=400)) as fake:
        endpoint = Endpoint(base_url=fake.url, model="fake").model_dump(mode="json")
        config = config_of(proposer="eureka", endpoint=endpoint, candidates=9, llm_budget={"tokens_max": 4900})
        database = run.begin(tmp_path / "first", config, "test", resume=False)
        ended = run.research(config, tmp_path / "first", database, Arithmetic())
    assert "tokens are spent" in ended
    (tmp_path / "again").mkdir()
    shutil.copy(tmp_path / "first" / run.RECORD, tmp_path / "again")
    replayed = run.begin(tmp_path / "again", config, "test", resume=False)
    assert run.research(config, tmp_path / "again", replayed, Arithmetic(), offline=True) == ended
    assert content(replayed) == content(database)
    replayed.close()
    database.close()


def test_a_model_on_this_machine_costs_nothing_of_a_budget_of_money(tmp_path: Path) -> None:
    with fake_endpoint(completion(), kind="embedded") as fake:
        embedded = Endpoint(base_url=fake.url, model="tiny", dialect="embedded")
        asked = Client(embedded, BudgetConfig(usd_max=0.01), tmp_path / run.RECORD)
        assert asked.complete([{"role": "user", "content": "go"}]).cost_usd == 0
    replayed = ReplayedClient("tiny", BudgetConfig(usd_max=0.01), tmp_path / run.RECORD)
    assert replayed.complete([{"role": "user", "content": "go"}]).cached == 1
