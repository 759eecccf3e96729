"""An adversary that weighs the variants of a market."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.toy import ToyExecution
from serl.agents.execution.environment.records import CHILD
from serl.agents.learning import sources
from serl.agents.learning.adversary import AdversaryConfig, AdversaryWeights
from serl.agents.learning.environments import Scenario
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.sources import Simulated
from serl.agents.learning.training import Training, TrainingConfig, environments, load_config
from serl.agents.traders.errors import PopulationError
from serl.exchange.errors import ConfigError
from serl.exchange.invalid import describe_invalid
from tests.agents.half_hour import SMALL as HALF_HOUR

TWO = {"easy": {}, "hard": {"value.volatility_ticks_per_root_s": 2.0}}
SMALL = MarketConfig(
    kind="dynamic", population=HALF_HOUR, simulated_days=2, environments=4, duration_s=60, interval_s=10
)


def weights(first_bps: float = 4.0, last_bps: float = 1.0) -> AdversaryWeights:
    return AdversaryWeights(
        AdversaryConfig(variants=TWO, first_temperature_bps=first_bps, last_temperature_bps=last_bps)
    )


def given(*returns: float) -> dict[str, Any]:
    return {"returns": np.array(returns)}


def test_the_choice_is_a_quantal_response_that_becomes_rational() -> None:
    adversary = weights()
    assert adversary.at(0.0) == [0.5, 0.5], "before there are returns"
    adversary.update(given(-1.0, np.nan))
    assert adversary.at(0.0) == [0.5, 0.5], "before each has some"
    adversary.update(given(np.nan, -3.0))
    for progress, temperature in ((0.0, 4.0), (0.5, 2.0), (1.0, 1.0), (1.2, 1.0)):
        easy, hard = np.exp(np.array([1.0, 3.0]) / temperature)
        assert adversary.at(progress) == pytest.approx([easy / (easy + hard), hard / (easy + hard)])
    adversary.update(given(-11.0, -3.0))
    assert adversary.values == pytest.approx([0.9 * -1 + 0.1 * -11, -3.0])


def training(folder: Path) -> Training:
    ppo = PPOConfig(steps=16 * 16 * 12, rollout_steps=16, minibatch=128, epochs=2)
    config = TrainingConfig(ppo=ppo, adversary=AdversaryConfig(variants=TWO), checkpoint_updates=2)
    return Training(config, [ToyExecution(8, cost=1.0), ToyExecution(8, cost=40.0)], folder)


def test_the_variant_in_which_the_policy_is_worse_gets_more_weight(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    training(tmp_path).run(lambda statistics: seen.append(dict(statistics)))
    assert seen[0]["hard_weight"] == 0.5
    last = seen[-1]
    assert last["easy_weight"] + last["hard_weight"] == pytest.approx(1)
    assert last["returns"][1] < last["returns"][0] and last["hard_weight"] > 0.8


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    through, parts = training(tmp_path / "whole"), training(tmp_path / "parts")
    through.run()
    list(parts.train_until(4 * 256))
    resumed = training(tmp_path / "parts")
    resumed.resume()
    resumed.run()
    assert torch.equal(through.learner.network.vector, resumed.learner.network.vector)


def test_each_variant_is_a_market_of_its_own() -> None:
    config = TrainingConfig(market=SMALL, adversary=AdversaryConfig(variants=TWO))
    envs, metadata = environments(config)
    assert [env.num_envs for env in envs] == [2, 2]
    easy, hard = (one["market"]["population_changes"] for one in metadata["data"])
    assert (easy, hard) == ({}, TWO["hard"]) and len({one["fingerprint"] for one in metadata["data"]}) == 2
    for env in envs:
        env.reset(seed=1)
        for _ in range(6):
            env.step(np.full((2, 3), 0.5, np.float32))


def moves_ticks(changes: dict[str, Any]) -> float:
    """Standard deviation of the move of the mid over a minute."""
    scenario = Scenario(
        with_overrides(SMALL, {"population_changes": changes, "environments": 32, "simulated_days": 32})
    )
    env = scenario.env(scenario.fit_scales())
    env.reset(seed=1)
    before = env.market.frames["bid_ticks"].astype(float)
    env.market.step(np.zeros(32, CHILD), env.accounts.episodes["start_ns"] + 60_000_000_000)
    return float((env.market.frames["bid_ticks"] - before).std())


@pytest.mark.long
def test_the_population_is_changed() -> None:
    assert moves_ticks(TWO["hard"]) > 1.5 * moves_ticks({})
    unknown = with_overrides(SMALL, {"population_changes": {"value.volatility": 2}})
    with pytest.raises(
        PopulationError, match=r"expected a setting of the population, got value.volatility; choose from"
    ):
        Simulated(unknown).market()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "halop"}, "expected ppo in one dynamic market, got halop in a dynamic one"),
        ({"market": MarketConfig()}, "got ppo in a replay one; leave `adversary` out"),
        ({"dynamic": SMALL}, "got ppo in a dynamic one and a second"),
        ({"market": with_overrides(SMALL, {"environments": 5})}, "expected a multiple of the 2 variants"),
    ],
)
def test_markets_that_an_adversary_cannot_have_are_refused(changes: dict[str, Any], message: str) -> None:
    config = TrainingConfig(market=SMALL, adversary=AdversaryConfig(variants=TWO)).model_copy(update=changes)
    with pytest.raises(ConfigError, match=message):
        environments(config)


def test_settings_of_an_adversary_are_checked() -> None:
    for settings, message in (
        ({"variants": {"one": {}}}, "at least 2 items"),
        ({"variants": TWO, "last_temperature_bps": 20.0}, "expected at most first_temperature_bps (10), got 20"),
    ):
        with pytest.raises(ValueError) as caught:
            AdversaryConfig.model_validate(settings)
        assert message in describe_invalid(caught.value)  # pyrefly: ignore[bad-argument-type]


def test_the_shipped_settings_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "SIZING_DAYS", 1)
    config = load_config(Path("adversarial"))
    assert config.adversary is not None
    for changes in config.adversary.variants.values():
        assert Simulated(with_overrides(config.market, {"population_changes": changes})).hours("train")
