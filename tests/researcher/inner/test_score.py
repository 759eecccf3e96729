"""A served exchange and the replay market give equal numbers; a score is that of the policy file."""

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from serl.agents.execution.data import TEST, TRAIN, UNSEEN, VALIDATION
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import LAYOUT, SCALES
from serl.agents.execution.policies.reactive import Passive
from serl.agents.learning.evaluation import Outcome
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.policy import Policy, load_policy
from serl.agents.learning.sources import open_source
from serl.agents.learning.team import Channels, Messages, received_size
from serl.exchange.errors import ConfigError
from serl.history.day import Day, write_day
from serl.history.generate import generate_day
from serl.researcher.inner import score as scoring
from serl.researcher.inner.errors import SealedError
from serl.researcher.inner.market_facts import market_facts
from serl.researcher.inner.settings import STATIC, Settings
from serl.researcher.inner.training_data import file_of
from serl.researcher.inner.versions import versions_of
from tests.agents.execution.test_data import rows, write
from tests.researcher.inner.conftest import small_settings

CHANNELS = Channels((44, 21), (2.0, -1.0), ("tanh", "clip"))


def random_policy(team: tuple[int, Messages] | None) -> Policy:
    """A network with random weights that are large enough to do something."""
    low, high = (0.0, 0.0, -1.0), (1.0, 1.0, 1.0)
    interface = Interface(
        LAYOUT.names, dataclasses.asdict(SCALES), "paced", low, high, 5.0, 2.0, LAYOUT.levels
    )  # fmt: skip
    heard = received_size(team)
    network = ActorCritic(NetworkConfig(hidden=(16,)), len(LAYOUT.names) + heard, low, high, 3)
    network.vector.mul_(3)
    return Policy(network, interface, {"steps": 0, "seed": 0}, "random", team)


@pytest.mark.long
@pytest.mark.parametrize("agents", [1, 2])
def test_served_equals_in_process(settings: Settings, agents: int) -> None:
    here = scoring.scoring_set(settings)
    policy = random_policy((agents, CHANNELS) if agents > 1 else None)
    assert here.replayed_day is not None
    served = scoring.on_exchange(here.replayed_day, here.episodes, policy, "paced", agents)
    inside = scoring.in_process(here.days, here.episodes, policy, "paced", agents)
    assert (served.lots.sum(axis=1) == here.episodes["qty_lots"]).all()
    np.testing.assert_array_equal(served.lots, inside.lots)
    np.testing.assert_array_equal(served.mids_ticks, inside.mids_ticks)
    for name, values in served.results.items():
        np.testing.assert_array_equal(values, inside.results[name], err_msg=name)


def test_messages_change_what_a_team_does(settings: Settings) -> None:
    here = scoring.scoring_set(settings)
    loud, silent = (
        random_policy((2, dataclasses.replace(CHANNELS, gains=gains))) for gains in ((5.0, 5.0), (0.0, 0.0))
    )
    said, nothing = (scoring.in_process(here.days, here.episodes, one, "paced", 2) for one in (loud, silent))
    assert (said.actions[: 2 * settings.orders] == nothing.actions[: 2 * settings.orders]).all()  # silence at first
    assert not np.array_equal(said.actions, nothing.actions)


def test_a_team_counts_by_the_lots_of_its_members() -> None:
    """Two orders of two agents each: prices are weighted by lots, lots are added, and the mids are those of the order."""
    results = {"price_ticks": np.array([10.0, 20.0, 30.0, 50.0])}
    mids, lots = np.array([[1.0], [1.0], [2.0], [2.0]]), np.array([[1, 0], [1, 2], [2, 0], [0, 2]])
    found = scoring._merge_teams(Outcome(results, np.zeros((4, 2, 1)), mids, lots), np.array([[1, 3], [2, 2]]))
    assert found.results["price_ticks"].tolist() == [17.5, 40.0]
    assert (found.mids_ticks.tolist(), found.lots.tolist()) == ([[1.0], [2.0]], [[2, 2], [2, 2]])


def test_controls_are_the_moves_of_the_market_for_the_side_of_the_order(settings: Settings) -> None:
    here = scoring.scoring_set(settings)
    episodes = here.episodes[:2].copy()
    episodes["sign"] = 1, -1
    mids = np.array([[100.0, 105.0, 102.0], [100.0, 105.0, 99.0]])
    moved = here._replace(episodes=episodes, no_orders=dataclasses.replace(here.no_orders, mids_ticks=mids))
    np.testing.assert_allclose(scoring._controls(moved), [200.0, 100.0])


@pytest.mark.parametrize("part", [TEST, UNSEEN])
def test_sealed_parts_are_scored_with_a_permit_alone(settings: Settings, part: str) -> None:
    with pytest.raises(SealedError, match=f"the {part} part is sealed"):
        scoring.scoring_set(settings, part)


@pytest.mark.long
def test_a_score_is_that_of_the_file(settings: Settings, tmp_path: Path) -> None:
    policy = random_policy((2, CHANNELS))
    policy.save(tmp_path / "policy.safetensors")
    again = load_policy(tmp_path / "policy.safetensors")
    assert isinstance(again, Policy)
    one, two = scoring.score(policy, settings), scoring.score(again, settings)
    assert one == two
    assert one.orders == len(one.advantages_bps) == settings.orders
    assert one.low_bps <= one.pa_bps <= one.high_bps
    assert one.pa_bps == pytest.approx(np.mean(one.advantages_bps))
    here = scoring.scoring_set(settings)
    prices, vwaps = here.twap.results["price_ticks"], here.no_orders.results["vwap_ticks"]
    assert one.twap_bps == pytest.approx(np.mean(here.episodes["sign"] * (prices / vwaps - 1) * 1e4)), "the same orders"


def test_data_that_are_written_anew_are_read_anew(tmp_path: Path) -> None:
    """What was cached in the process was that of the file of before."""
    path = write(tmp_path / "own.parquet", rows())
    market = MarketConfig(kind="static", data=[path], duration_s=600, interval_s=60)
    settings = Settings(market=market, scored_in="bars", orders=20)
    before, trained = scoring.scoring_set(settings), file_of(market, versions_of(settings)).read_bytes()
    assert scoring.scoring_set(settings) is before
    table = rows()
    table["close"] = [9.95 for _ in table["close"]]
    write(path, table)
    os.utime(path, ns=(1, 1))  # a clock may not have gone on
    after = scoring.scoring_set(settings)
    assert not np.array_equal(after.no_orders.mids_ticks, before.no_orders.mids_ticks)
    assert file_of(market, versions_of(settings)).read_bytes() != trained


def test_orders_lie_in_the_validation_hours(settings: Settings) -> None:
    here = scoring.scoring_set(settings)
    start_s = here.episodes["start_ns"] / 1e9
    assert (start_s >= 12.5 * 3600).all()
    assert (start_s + 300 <= 13 * 3600).all()
    passive = scoring.in_process(here.days, here.episodes, Passive(0.3), "hybrid")
    assert not np.array_equal(passive.results["price_ticks"], here.twap.results["price_ticks"])


def hours_of(days: list[Day], stretches: Iterable[tuple[int, int, int]]) -> set[tuple[str, int]]:
    """All minutes of (day, start, end), with their date."""
    minute_ns = 60 * 10**9
    return {
        (days[day].reference.date, at // minute_ns) for day, start, end in stretches for at in range(start, end, minute_ns)
    }  # fmt: skip


def test_no_scored_hour_of_several_days_is_trained_on(tmp_path: Path) -> None:
    """As many days as folds: a fold is one of them, also where `day` names the first."""
    base = generate_day(3, commands_per_s=2.0)
    dates = [f"2026-01-{number:02d}" for number in (5, 6, 7)]
    days = [dataclasses.replace(base, reference=dataclasses.replace(base.reference, date=date)) for date in dates]
    paths = [tmp_path / f"{date}.day" for date in dates]
    for path, day in zip(paths, days, strict=True):
        write_day(day, path)
    small = small_settings(paths[0])
    settings = small.model_copy(update={"market": small.market.model_copy(update={"data": paths})})
    for seed in range(3):
        own = settings.of_seed(seed)
        used, episodes, _ = scoring._exchange_orders(own, own.scoring_part)
        scored = hours_of(used, [(row["day"], row["start_ns"], row["start_ns"] + row["steps"] * row["interval_ns"]) for row in episodes])  # fmt: skip
        trained = hours_of(days, [(one.day, one.start_ns, one.end_ns) for one in open_source(own.market).hours(TRAIN)])
        assert {date for date, _ in scored} == {dates[seed]}
        assert scored and trained and not scored & trained


def test_simulated_days_have_the_traders_that_the_settings_change() -> None:
    def market(changes: dict[str, Any]) -> MarketConfig:
        return MarketConfig(kind="dynamic", population="small", hours="09:31-09:33", duration_s=60, population_changes=changes)  # fmt: skip

    few, many = market({}), market({"groups.0.count": 3})
    orders = [len(scoring._exchange_orders(Settings(dynamic=one, orders=2), VALIDATION)[0][0].commands) for one in (few, many)]  # fmt: skip
    trades = [market_facts(one)["trades_per_s"] for one in (few, many)]
    assert orders[1] > 2 * orders[0] and trades[1] > 1.5 * trades[0]


def test_rules_that_the_exchange_of_a_score_would_lack_are_refused() -> None:
    """Training would pay the fees, and scores would not."""
    market = MarketConfig(kind="dynamic", population="small", population_changes={"market.fees.taker_ppm": 300})
    with pytest.raises(
        ConfigError, match=r"expected a population without rules .* got small with fees; use scored_in: market"
    ):
        scoring.require_unseen(Settings(dynamic=market))
    scoring.require_unseen(Settings(dynamic=market, scored_in="market", market=market))


@pytest.mark.long
def test_simulated_days_where_none_is_given(settings: Settings) -> None:
    simulated = settings.model_copy(update={"day": None, "orders": 4})
    here = scoring.scoring_set(simulated)
    assert len(here.days) == len(set(here.episodes["day"].tolist()))
    inside = scoring.in_process(here.days, here.episodes, Passive(0.3), "hybrid")
    assert here.replayed_day is not None
    served = scoring.on_exchange(here.replayed_day, here.episodes, Passive(0.3), "hybrid")
    np.testing.assert_array_equal(served.lots, inside.lots)


def test_orders_without_trades_in_their_window_do_not_count_as_an_advantage_of_0(tmp_path: Path) -> None:
    """Differences to the incumbent were made smaller by their share."""
    table = rows()
    for bar in range(len(table["volume"])):
        if bar % 10 in range(1, 7):
            table["volume"][bar] = 0.0
    data = [write(tmp_path / "own.parquet", table)]
    market = MarketConfig(kind="static", data=data, duration_s=120, interval_s=60)
    settings = Settings(market=market, scored_in="bars", orders=40)
    traded = np.isfinite(scoring.scoring_set(settings).no_orders.results["vwap_ticks"])
    found = scoring.score(random_policy(None), settings)
    assert 0 < traded.sum() < found.orders == 40
    assert len(found.advantages_bps) == len(found.clusters) == len(found.controls_bps) == traded.sum()
    assert np.mean(found.advantages_bps) == pytest.approx(found.pa_bps)


def test_bars_are_scored_in_bars(tmp_path: Path) -> None:
    market = MarketConfig(kind="static", data=[write(tmp_path / "own.parquet", rows())], duration_s=600, interval_s=60)
    settings = Settings(market=market, scored_in="bars", orders=20)
    here = scoring.scoring_set(settings)
    assert here.replayed_day is None
    np.testing.assert_array_equal(here.twap.lots.sum(axis=1), here.episodes["qty_lots"])
    one = scoring.score(random_policy(None), settings)
    assert one == scoring.score(random_policy(None), settings)
    assert one.low_bps <= one.pa_bps <= one.high_bps
    with pytest.raises(ConfigError, match="expected one agent in a market in process, got a team of 2"):
        scoring.score(random_policy((2, CHANNELS)), settings)
    with pytest.raises(ValidationError, match=r"a file of bars \(\.parquet\)"):
        Settings(market=STATIC, scored_in="bars")
