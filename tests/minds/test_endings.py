"""How minds end: with an error, or without a budget; nobody waits for them, and what they owe is counted."""

import asyncio
import errno
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.clients.errors import ExchangeUnreachable
from serl.minds.cli import minds
from serl.minds.errors import FAILED, MindsError
from serl.minds.mind import Mind
from serl.minds.run import RunOptions, _log_in
from tests.minds.scripted import NOTHING, order, prompt_of, run, scripted, settings
from tests.minds.test_run import row_of
from tests.researcher.llm.fake import fake_endpoint
from tests.server_fixture import Served, free_endpoint, start_exchange


@pytest.fixture(scope="module")
def lockstep() -> Iterator[Served]:
    with start_exchange(symbols="AMZN", clock="lockstep") as served:
        yield served


def test_a_mind_with_an_error_does_not_hold_up_a_lockstep_market(
    lockstep: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exchange waits for every session that is logged in, so that of the mind ends."""
    decide = Mind.decide

    async def failing(mind: Mind, now_ns: int) -> None:
        if mind.name == "frail-0" and mind.counts.decisions == 1:
            raise ExchangeUnreachable("no reply")
        await decide(mind, now_ns)

    monkeypatch.setattr(Mind, "decide", failing)
    config = settings(personas=[{"name": "frail"}, {"name": "sound"}], hours="10:30-10:34")
    with fake_endpoint(scripted(lambda request: order("buy", 1, 90))) as fake:
        running = run(config, lockstep.endpoint, fake, say=lambda text: None)
        found = asyncio.run(asyncio.wait_for(running, 30.0))
    frail, sound = row_of(found, "frail-0"), row_of(found, "sound-0")
    assert frail["ended"] == "error: no reply" and frail["decisions"] == 1 and frail["final_wealth"] is None
    assert sound["ended"] == "" and sound["decisions"] == 4 and sound["final_wealth"] == 100_000
    assert "bids 90.00 x 3;" in prompt_of(fake.requests[-1]), "the order of the mind that ended was cancelled"


def test_a_loan_costs_what_the_rate_says_after_the_last_decision_too(lockstep: Served, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"kind": "loan_rate", "text": "Dear.", "value": 10.0, "after_s": 60}')
    config = settings(
        personas=[{"name": "debtor", "loan": 10_000}], hours="11:30-11:34", loans={"rate_per_year": 0.04}, events="events.jsonl",
        budget_per_mind={"calls_max": 1},
    )  # fmt: skip
    with fake_endpoint(scripted(lambda request: NOTHING)) as fake:
        found = asyncio.run(run(config, lockstep.endpoint, fake, tmp_path, say=lambda text: None))
    row = row_of(found, "debtor-0")
    minutes_per_year = 365 * 24 * 60
    assert row["decisions"] == 1 and row["ended"]
    assert float(100_000 - row["final_wealth"]) == pytest.approx(
        10_000 * (0.04 * 1 + 10.0 * 3) / minutes_per_year, rel=0.02
    )


def test_a_full_disk_ends_the_run(lockstep: Served) -> None:
    """The minds that did not write are not waited for: a market in lockstep would stand still until a signal."""

    def log(row: dict[str, object]) -> None:
        if row["row"] == "decision":
            raise OSError(errno.ENOSPC, "no space left on device")

    config = settings(personas=[{"name": "one"}, {"name": "two"}], hours="12:30-12:34")
    with fake_endpoint(scripted(lambda request: NOTHING)) as fake, pytest.raises(OSError, match="no space left"):
        asyncio.run(asyncio.wait_for(run(config, lockstep.endpoint, fake, log=log), 30.0))


def test_an_order_that_the_exchange_does_not_accept_is_counted(tmp_path: Path) -> None:
    """Here because of its limit of messages; the mind decides again."""
    limited: dict[str, object] = {"symbols": [{"name": "AMZN"}], "limits": {"messages_per_s_max": 1}}
    config = settings(hours=None, duration_s=2, interval_s=0.2, open_orders_max=50)
    with (
        start_exchange(symbols="", clock="live", config=limited, folder=tmp_path) as served,
        fake_endpoint(scripted(lambda request: order("buy", 1, 90))) as fake,
    ):
        found = asyncio.run(run(config, served.endpoint, fake, say=lambda text: None))
    solo = row_of(found, "solo-0")
    assert solo["ended"] == "" and solo["decisions"] > 2
    assert solo["rejected"]["throttled"] >= 1 and solo["final_wealth"] == 100_000


def test_a_mind_may_be_called_error(lockstep: Served) -> None:
    """The reason why it stopped begins with its name, and is no error."""
    config = settings(personas=[{"name": "error"}], hours="13:30-13:34", budget_per_mind={"calls_max": 1})
    with fake_endpoint(scripted(lambda request: NOTHING)) as fake:
        found = asyncio.run(run(config, lockstep.endpoint, fake, say=lambda text: None))
    row = row_of(found, "error-0")
    assert row["ended"].startswith("error-0: 1 of 1 calls") and not row["ended"].startswith(FAILED)
    assert row["final_wealth"] == 100_000


def test_a_signal_ends_the_logins(lockstep: Served) -> None:
    """An exchange admits ten new names a second. The files of the run before are replaced later."""
    config = settings(personas=[{"name": "many", "count": 300, "decides": "random"}])

    async def stopped() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.5, stop.set)
        async with AsyncExitStack() as sessions:
            await asyncio.wait_for(_log_in(config, RunOptions(lockstep.endpoint), sessions, stop), 10.0)

    with pytest.raises(MindsError, match="stopped before many-"):
        asyncio.run(stopped())


def test_an_exchange_that_is_not_there_is_noticed_before_the_model(tmp_path: Path) -> None:
    """A large model takes minutes to load. Here its file does not exist either."""
    words = ["start", "--config", "two-stocks", "--connect", free_endpoint(), "--output", str(tmp_path / "out")]
    found = CliRunner().invoke(minds, [*words, "--model", str(tmp_path / "none.gguf")])
    assert isinstance(found.exception, ExchangeUnreachable), found


def test_a_run_whose_model_never_answered_is_an_error(lockstep: Served, tmp_path: Path) -> None:
    """Its minds did nothing, and the command ended like any other."""
    (path := tmp_path / "solo.yaml").write_text(
        yaml.safe_dump(settings(hours="15:30-15:34").model_dump(mode="json", exclude_defaults=True))
    )
    with fake_endpoint((401, {}, '{"error": {"message": "bad key"}}')) as fake:
        words = ["start", "--config", str(path), "--connect", lockstep.endpoint, "--url", fake.url, "--model", "fake"]
        found = CliRunner().invoke(minds, [*words, "--output", str(tmp_path / "out")])
    assert isinstance(found.exception, MindsError), found
    assert "expected answers from fake, got none to 4 prompts" in str(found.exception) and "bad key" in found.output
