"""Q-learning of positions: sub-policies, their router, its memory."""

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from serl.agents.directional.config import directional_settings
from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.directional.evaluate import evaluate
from serl.agents.directional.learners.dqn import Batch, DQNConfig, DuellingNetwork, Greedy
from serl.agents.directional.learners.labels import LABELS, TREND, VOLATILITY, labelled_windows
from serl.agents.directional.learners.ppo import PPOPositions, train_ppo
from serl.agents.directional.learners.router import Memory, Router, RouterConfig, train_dqn, train_router
from serl.agents.directional.rules import Uniform
from serl.agents.learning.replay_buffer import ReplayBuffer
from serl.agents.positions.config import position_market, windows
from serl.exchange.errors import ConfigError
from tests.agents.half_hour import SMALL

CONFIG = directional_settings(population=SMALL, duration_s=60, simulated_days=2)


def env_of(count: int = 8, **changes: Any) -> DirectionalVectorEnv:
    config = CONFIG.model_copy(update=changes)
    return DirectionalVectorEnv(position_market(config, count), windows(config), config)


@pytest.mark.long
def test_a_dqn_learns_that_trading_costs() -> None:
    network = train_dqn(env_of(32), DQNConfig(steps=24_000, warm_up=1_000, exploring_share=0.8, seed=1))
    learnt, random = evaluate([Greedy(network, "DQN"), Uniform()], CONFIG.model_copy(update={"part": "test"}), 16)
    lots = CONFIG.inventory_lots_max
    assert random.mean("profit")[0] / lots < -20
    assert learnt.mean("profit")[0] / lots > -3


@pytest.mark.long
def test_ppo_learns_that_trading_costs() -> None:
    policy = train_ppo(env_of(32, actions="continuous"), 32_000, 1)
    config = CONFIG.model_copy(update={"part": "test", "actions": "continuous"})
    learnt, random = evaluate([PPOPositions(policy, "PPO"), Uniform()], config, 16)
    assert learnt.mean("profit")[0] > 0.5 * random.mean("profit")[0]


def test_ppo_needs_continuous_positions() -> None:
    with pytest.raises(ConfigError, match="expected continuous positions for PPO, got discrete"):
        train_ppo(env_of(), 100, 1)


@pytest.mark.long
def test_the_seed_determines_a_network() -> None:
    config = DQNConfig(steps=1_600, warm_up=400, batch=32)
    first, second, other = (
        torch.cat(
            [
                parameter.flatten()
                for parameter in train_dqn(env_of(), config.model_copy(update={"seed": seed})).parameters()
            ]
        )
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, second) and not torch.equal(first, other)


def test_the_buffer_keeps_the_last_transitions() -> None:
    buffer = ReplayBuffer(4, 1, 0, 0, 1, 0)
    for number in range(3):
        two = torch.tensor([2.0 * number, 2.0 * number + 1])
        buffer.add(two[:, None], two.long(), two, two[:, None] + 1, torch.ones(2))
    drawn = Batch(*buffer.sample(np.random.default_rng(1), 100))
    assert set(drawn.rewards.tolist()) == {2.0, 3.0, 4.0, 5.0}
    assert torch.equal(drawn.next_observations, drawn.observations + 1)
    assert torch.equal(drawn.actions.float(), drawn.rewards)


def test_windows_have_a_third_each_of_slopes_and_of_volatilities() -> None:
    env, moved = env_of(8), {}
    labelled = labelled_windows(env, 48, 1)
    assert list(labelled) == list(LABELS) and [len(one.rows) for one in labelled.values()] == [16] * 6
    for label, sampler in labelled.items():
        moves, deviations = [], []
        for first in range(0, 16, 8):
            env.reset(seed=0, options={"episodes": sampler.rows[first : first + 8]})
            mids = [env.ledger.mid.copy()]
            for _ in range(59):
                env.step(env.actions_of(np.zeros(8)))
                mids.append(env.ledger.mid.copy())
            moves.append(mids[-1] - mids[0])
            deviations.append(np.diff(mids, axis=0).std(axis=0))
        moved[label] = float(np.mean(moves)), float(np.mean(deviations))
    falling, level, rising = (moved[label][0] for label in TREND)
    assert falling < level < rising
    calm, medium, volatile = (moved[label][1] for label in VOLATILITY)
    assert calm < medium < volatile
    with pytest.raises(ConfigError, match="expected at least 24 windows, three for each environment, got 10"):
        labelled_windows(env, 10, 1)


class Constant(nn.Module):
    """The same values everywhere."""

    def __init__(self, *values: float) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values))

    def forward(self, observations: Tensor) -> Tensor:
        return self.values.expand(len(observations), -1)


def test_a_router_mixes_its_parts_which_stay() -> None:
    parts = {"first": Constant(1.0, 0.0), "second": Constant(0.0, 3.0)}
    router = Router(parts, 4, 8, 1)
    observations = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    weights = router.weights(observations)
    assert torch.allclose(weights.sum(1), torch.ones(5)) and weights.std() > 0
    assert torch.allclose(router(observations), torch.stack([weights[:, 0], 3 * weights[:, 1]], 1))
    assert not any(parameter.requires_grad for parameter in router.parts.parameters())


def test_a_memory_recalls_what_is_near_with_the_same_action() -> None:
    memory = Memory(RouterConfig(memory=4, nearest=2, memory_weight=0.5), 1)
    places, actions = torch.tensor([[0.0], [1.0], [3.0], [0.0]]), torch.tensor([0, 0, 0, 1])
    batch = Batch(places, actions, torch.zeros(4), places, torch.ones(4))
    values = torch.tensor([[5.0, 7.0]]).expand(4, 2)
    assert memory.loss(batch, values) == 0, "before it is full"
    memory.remember(batch, torch.tensor([10.0, 20.0, 30.0, 40.0]))
    means, enough = memory.recall(torch.tensor([[0.0], [0.0]]), torch.tensor([0, 1]))
    assert means[0].item() == pytest.approx((1 * 10 + 0.5 * 20) / 1.5) and enough.tolist() == [True, False]
    taken = torch.tensor([5.0, 5.0, 5.0])
    expected, _ = memory.recall(places[:3], actions[:3])
    assert memory.loss(batch, values).item() == pytest.approx(0.5 * float((taken - expected).square().sum()) / 4)


@pytest.mark.long
def test_a_router_is_trained_after_its_parts() -> None:
    part = DQNConfig(steps=800, warm_up=200, batch=32)
    settings = RouterConfig(part=part, router=part, windows=24, memory=64)
    router = train_router(CONFIG, settings, 8, 1)
    assert list(router.parts) == list(LABELS)
    fresh = Router(dict(router.parts.items()), 10, part.hidden, 106)
    observations = torch.randn(5, 10, generator=torch.Generator().manual_seed(1))
    assert not torch.allclose(router.weights(observations), fresh.weights(observations)), "it has learnt"
    (score,) = evaluate([Greedy(router, "router")], CONFIG, 8)
    assert np.isfinite(score.values["profit"]).all()


def test_continuous_positions_are_refused() -> None:
    env = env_of(actions="continuous")
    with pytest.raises(ConfigError, match="expected discrete positions for Q-learning, got continuous"):
        train_dqn(env, DQNConfig())
    assert DuellingNetwork(10, 3, 8, 0)(torch.zeros(2, 10)).shape == (2, 3)


def test_a_dqn_that_would_never_learn_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"DQN: expected warm_up, .* to be less than its 2,000 steps, got 5,000"):
        train_dqn(env_of(), DQNConfig(steps=2_000))


def test_a_memory_holds_the_nearest() -> None:
    with pytest.raises(ValidationError, match=r"nearest: expected at most as many as are remembered \(3\), got 5"):
        RouterConfig(memory=3)
