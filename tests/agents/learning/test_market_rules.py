"""Training and evaluation in simulated markets with rules: which hours are chosen, and that fees are told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rich.console import Console

from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.policies.schedules import Twap
from serl.agents.learning.environments import Scenario
from serl.agents.learning.errors import LearningError
from serl.agents.learning.evaluation import Contender, evaluate
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.sources import Simulated
from serl.agents.learning.table import Section, markdown, terminal_table
from serl.agents.learning.team import split_orders
from serl.exchange.config import time_of_day_ns
from serl.exchange.errors import ConfigError
from tests.agents.traders.test_rules import DAY, population

NOON = [
    {"at": "09:30", "phase": "continuous"}, {"at": "09:36", "phase": "intraday"}, {"at": "09:37", "phase": "continuous"},
    {"at": "09:39", "phase": "closing"},
]  # fmt: skip


def market(folder: Path, rules: dict[str, Any], **more: Any) -> MarketConfig:
    """Orders of a minute in `small` for ten minutes, with rules."""
    path = folder / "ruled.yaml"
    path.write_text(yaml.safe_dump(population(**rules).model_dump(mode="json")))
    settings: dict[str, Any] = {"simulated_days": 2, "environments": 4, "duration_s": 60, "interval_s": 20} | more
    return MarketConfig(kind="dynamic", population=str(path), **settings)


def test_windows_lie_in_continuous_trading_so_that_forced_completion_does(tmp_path: Path) -> None:
    config = market(tmp_path, {"day": NOON, "lot_multiple": 5}, latency_us=2000)
    latency_ns = 2_000_000
    hours = Simulated(config).hours("train")
    spans = [("09:35", "09:36"), ("09:37", "09:39")][1:]  # the first is a nanosecond too short for a minute
    assert {(one.start_ns, one.end_ns) for one in hours} == {
        (time_of_day_ns(start), time_of_day_ns(end) - latency_ns - 1) for start, end in spans
    }
    orders = Scenario(config).sampler
    assert all(one.volume_lots_per_s > 0 and one.lot_multiple == 5 for one in hours) and orders.hours == hours  # pyrefly: ignore[missing-attribute]
    with pytest.raises(ConfigError, match="at least 180 s of continuous trading"):
        Simulated(market(tmp_path, {"day": NOON}, duration_s=180)).hours("train")


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        ("09:37-09:39", "got closing at 09:39:00"),
        ("09:35-09:38", "got intraday at 09:36:10"),
        ("09:36-09:38:30", None),
    ],
)
def test_hours_in_which_a_window_could_end_in_an_auction_are_refused(
    hours: str, words: str | None, tmp_path: Path
) -> None:
    simulated = Simulated(market(tmp_path, {"day": NOON}, hours=hours, duration_s=70))
    if words is None:
        assert len(simulated.hours("train")) == 2, "it may begin in one"
        return
    with pytest.raises(ConfigError, match=words):
        simulated.hours("train")


def test_an_evaluation_tells_the_fees(tmp_path: Path) -> None:
    found = {}
    for ppm in (200, 0):
        scenario = Scenario(market(tmp_path, {"day": DAY, "fees": {"taker_ppm": ppm}}))
        evaluation = evaluate(scenario, [Contender("mine", Twap(), "market")], 4, 1)
        text = markdown([Section(evaluation, "a test")])
        console = Console(width=80, record=True)
        console.print(terminal_table(evaluation))
        assert ("FEES bps" in text) == ("FEES" in console.export_text()) == bool(ppm)
        found[ppm] = evaluation.rows[-1].columns
    assert found[200]["fees"] == pytest.approx(2.0, rel=1e-9), "200 millionths of what was paid"
    assert found[0]["pa"] - found[200]["pa"] == pytest.approx(2.0, rel=0.01)
    assert "fees" not in found[0]


def test_the_market_without_us_is_run_in_a_market_with_lots(tmp_path: Path) -> None:
    """With an order of one lot, which is no multiple of 10, the reward `undisturbed` ended in an error about a quantity that nobody gave."""
    env = Scenario(market(tmp_path, {"lot_multiple": 10}, reward="undisturbed")).env(Scales())
    env.reset(seed=1)
    assert np.isfinite(env.step(env.action_space.sample())[1]).all()


def test_teams_share_orders_in_whole_multiples_of_lots(tmp_path: Path) -> None:
    """Half of an order of 110 lots is no multiple of 10, which the market refuses."""
    env = Scenario(market(tmp_path, {"lot_multiple": 10}), agents=2).env(Scales())
    env.reset(seed=1)
    lots = env.accounts.episodes["qty_lots"].reshape(-1, 2)
    assert not (lots % 10).any() and (lots > 0).all() and np.ptp(lots, axis=1).max() <= 10
    with pytest.raises(LearningError, match="expected parent orders of at least 20 lots, got 10"):
        split_orders(np.array([(10,)], [("qty_lots", "<i8")]), 2, 10)
