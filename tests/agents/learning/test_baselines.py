"""OPD, HALOP-style and MacMic-style learners find the best policy in markets where it is known; files, Ctrl-C, NaN."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.toy import ToyExecution
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.errors import LayoutMismatchError
from serl.agents.learning import progress
from serl.agents.learning.baseline import Baseline, Foresight, gain_on_twap, oracle_foresight
from serl.agents.learning.baseline_training import BaselineTraining, build_training
from serl.agents.learning.errors import DivergedError
from serl.agents.learning.evaluation import execute_orders
from serl.agents.learning.halop import HALOPConfig
from serl.agents.learning.macmic import MacMicConfig, MacMicNetwork, MacMicPolicy, oracle_schedule
from serl.agents.learning.opd import OPD, OPDConfig
from serl.agents.learning.policy import load_policy
from serl.agents.learning.progress import run_with_progress
from serl.agents.learning.sequences import rewards_to_go
from serl.agents.learning.training import POLICY, TrainingConfig
from serl.exchange.errors import ConfigError
from tests.agents.learning.tiny import JUMP, PRICE, VOLUME, announced_jumps, load_trained, wide_ranges

OPD_SETTINGS = OPDConfig(steps=64 * 6 * 120, learning_rate=3e-3, units=32, penalty_bps=1.0)
HALOP_SETTINGS = HALOPConfig(steps=32 * 6 * 150, warm_up=500, batch=64, hidden=32, gamma=1.0)
MACMIC_SETTINGS = MacMicConfig(
    steps=64 * 12 * 40, interval_steps=3, reach_ticks=5, tip_share=0.5, learning_rate=3e-3, units=32
)
LEARNS_AT_ONCE: dict[str, dict[str, Any]] = {"opd": {"teacher_share": 0.0}, "halop": {"warm_up": 50}, "macmic": {}}
LATE = 20.0


def hybrid(count: int, late_ticks: float = LATE) -> ExecutionVectorEnv:
    return wide_ranges(count, 12, late_ticks, "hybrid")


KINDS: dict[str, tuple[Callable[[int], ExecutionVectorEnv], int, dict[str, Any]]] = {
    "opd": (announced_jumps, 64, {"opd": OPD_SETTINGS}),
    "halop": (wide_ranges, 32, {"halop": HALOP_SETTINGS}),
    "macmic": (hybrid, 64, {"macmic": MACMIC_SETTINGS}),
}


def run(
    kind: str, folder: Path, steps: int | None = None, data: str = "a", count: int | None = None, **changes: Any
) -> BaselineTraining:
    """count: of environments, in place of that of KINDS."""
    make, usual, settings = KINDS[kind]
    update = changes | ({} if steps is None else {"steps": steps})
    settings = {name: value.model_copy(update=update) for name, value in settings.items()}
    config = TrainingConfig.model_validate({"algorithm": kind, "checkpoint_updates": 3, **settings})
    made = build_training(config, [make(count or usual)], folder, {"data": [{"fingerprint": data}]})
    assert isinstance(made, BaselineTraining)
    return made


def evaluated(env: ExecutionVectorEnv, learner: Baseline) -> Any:
    """(mean PA in bps, mean unfilled share, all actions) of 64 orders."""
    episodes = env.sampler.sample(np.random.Generator(np.random.PCG64(5)), 64)
    outcome = execute_orders(env, learner.policy({}), episodes)
    return outcome.results["pa_bps"].mean(), outcome.results["afi"].mean(), outcome.actions


@pytest.mark.long
def test_opd_sells_at_the_announced_jump_and_its_teacher_before_it_knows_how(tmp_path: Path) -> None:
    made = run("opd", tmp_path)
    learner, env = made.learner, announced_jumps(64)
    assert isinstance(learner, OPD)
    episodes = env.sampler.sample(np.random.Generator(np.random.PCG64(5)), 64)
    best = JUMP * (1 - 1 / 15)  # all at the jump, against a VWAP of which it is one part in 15
    while learner.steps < 0.5 * OPD_SETTINGS.steps:
        learner.update()
    teacher, untaught = (
        learner.rollout(one, episodes, greedy=True)[1].mean() for one in (learner.teacher, learner.student)
    )
    assert untaught < 0.3 * best
    assert teacher > 0.9 * best
    made.run()
    assert evaluated(env, learner)[0] > 0.8 * best


@pytest.mark.long
def test_halop_rests_at_the_last_price_that_fills(tmp_path: Path) -> None:
    made, env = run("halop", tmp_path, seed=1), wide_ranges(64)
    before, _, _ = evaluated(env, made.learner)
    made.run()
    after, remaining, actions = evaluated(env, made.learner)
    assert before < 3.5 < after  # candidates by chance give about 2, the best one 5
    assert remaining < 0.3
    assert np.median(np.rint(actions[:, 1] * env.offset_ticks)) == 4


@pytest.mark.long
def test_macmic_waits_for_the_better_half_and_rests_at_the_last_price_that_fills(tmp_path: Path) -> None:
    made, env = run("macmic", tmp_path), hybrid(64)
    before, _, _ = evaluated(env, made.learner)
    made.run()
    after, remaining, actions = evaluated(env, made.learner)
    assert before < 6  # even slices, and some of the price
    assert after > 13  # 10 from the half, up to 5 from the price
    assert remaining == 0
    resting = actions[actions[:, 1] > 0]
    assert np.median(np.rint(resting[:, 2] * env.offset_ticks)) == 4


@pytest.mark.long
def test_the_micro_level_alone(tmp_path: Path) -> None:
    """Without better and worse intervals all that can be gained is the price."""
    config = TrainingConfig(algorithm="macmic", macmic=MACMIC_SETTINGS)
    made = build_training(config, [hybrid(64, 0.0)], tmp_path)
    made.run()
    assert isinstance(made, BaselineTraining)
    assert evaluated(hybrid(64, 0.0), made.learner)[0] > 3.5


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "halop" else pytest.mark.long) for kind in KINDS]
)
def test_a_loaded_policy_acts_like_the_saved_one(tmp_path: Path, kind: str) -> None:
    make, count, _ = KINDS[kind]
    saved = run(kind, tmp_path, steps=2_000).run()
    loaded = load_policy(tmp_path / POLICY)
    assert type(loaded) is type(saved)
    assert loaded.interface == saved.interface
    assert loaded.metadata["steps"] >= 2_000
    env = make(count)
    episodes = env.sampler.sample(np.random.Generator(np.random.PCG64(1)), 2 * count)
    np.testing.assert_array_equal(
        execute_orders(env, loaded, episodes).actions, execute_orders(env, saved, episodes).actions
    )
    with pytest.raises(LayoutMismatchError):
        other = wide_ranges(4, actions="limit" if kind != "halop" else "market")
        other.reset(seed=1)
        loaded.actions(other)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_determines_all_weights(tmp_path: Path, kind: str) -> None:
    def weights(seed: int) -> list[torch.Tensor]:
        return list(run(kind, tmp_path, steps=1_500, seed=seed).run().network.state_dict().values())

    first, again, other = weights(3), weights(3), weights(4)
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert not any(torch.equal(one, two) for one, two in zip(first, other, strict=True) if one.dim() > 1)


def stop(statistics: dict[str, Any]) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_saves_the_policy(tmp_path: Path, kind: str) -> None:
    made = run(kind, tmp_path, **LEARNS_AT_ONCE[kind])
    with pytest.raises(KeyboardInterrupt):
        made.run(stop)
    kept = load_trained(tmp_path / POLICY).network.state_dict().values()
    now = made.policy().network.state_dict().values()
    assert made.learner.steps > 0
    assert all(torch.equal(one, two) for one, two in zip(kept, now, strict=True))


@pytest.mark.parametrize("kind", ["opd", "halop"])
def test_an_interruption_before_the_policy_has_learnt_writes_none(
    tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`serl evaluate` would compare initial weights, such as those of OPD's student while the teacher learns."""
    monkeypatch.setattr(progress, "_log", lambda writer, statistics: stop(statistics))
    with pytest.raises(KeyboardInterrupt):
        run_with_progress(run(kind, tmp_path))
    assert not (tmp_path / POLICY).exists()
    assert re.search(r"stopped at step \d+, before the policy learnt anything; none is written", capfd.readouterr().err)


@pytest.mark.parametrize("kind", KINDS)
def test_nan_in_an_observation_stops_and_reports_the_step(tmp_path: Path, kind: str) -> None:
    made = run(kind, tmp_path, **LEARNS_AT_ONCE[kind])
    learner: Any = made.learner
    observe, seen = learner.env.observe, []

    def broken(which: Any = None) -> Any:
        seen.append(observe(which))
        return seen[-1] * np.nan if len(seen) > 40 else seen[-1]

    learner.env.observe = broken
    with pytest.raises(DivergedError, match=r"step \d+.*not finite"):
        made.run()
    kept = load_trained(tmp_path / POLICY).network.state_dict().values()
    assert all(bool(torch.isfinite(tensor).all()) for tensor in kept)


def test_an_infinite_gradient_stops_before_the_weights_change(tmp_path: Path) -> None:
    """Each reward is finite, their sum of squares is not."""
    for made in (run("opd", tmp_path, penalty_bps=1e30), run("macmic", tmp_path, reward_scale=1e30)):
        before = [tensor.clone() for tensor in made.policy().network.state_dict().values()]
        with pytest.raises(DivergedError, match=r"step 0: the gradient is not finite"):
            made.run()
        assert all(torch.equal(*pair) for pair in zip(before, made.policy().network.state_dict().values(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_unsuitable_environments_are_refused(tmp_path: Path, kind: str) -> None:
    config = TrainingConfig.model_validate({"algorithm": kind})
    with pytest.raises(ConfigError, match="expected an execution environment"):
        build_training(config, [ToyExecution(4)], tmp_path)
    with pytest.raises(ConfigError, match="set market"):
        build_training(config, [wide_ranges(4, actions="limit" if kind != "halop" else "market")], tmp_path)
    with pytest.raises(ConfigError, match="one market"):
        build_training(config, [hybrid(4), hybrid(4)], tmp_path)


def test_intervals_divide_the_window(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="divide the window's 12"):
        run("macmic", tmp_path, interval_steps=5)
    with pytest.raises(ConfigError, match="reach_ticks of at most"):
        run("macmic", tmp_path, reach_ticks=9)
    with pytest.raises(ConfigError, match="candidates of at most"):
        run("halop", tmp_path, candidates=9)


def test_the_future_is_that_of_the_window() -> None:
    env = announced_jumps(5)
    episodes = env.sampler.sample(np.random.Generator(np.random.PCG64(0)), 5)
    episodes["day"] = np.arange(5)
    future = oracle_foresight(env, episodes)
    expected = PRICE + JUMP * np.eye(5, 6, k=1)
    np.testing.assert_allclose(future.vwaps, expected)
    np.testing.assert_allclose(future.lots, VOLUME * (1 + 9 * np.eye(5, 6)))
    np.testing.assert_allclose(future.vwap(), PRICE + JUMP / 15)
    assert future.mids.shape == (5, 7)


def test_gains_on_twap_add_up() -> None:
    """Selling by any schedule at any price: the sum is what it earned above an even sale at the mids, in bps of the first mid."""
    random = np.random.Generator(np.random.PCG64(2))
    steps, qty = 6, 60
    middle = 1e7 + random.normal(0, 10, steps + 1)
    lots = random.multinomial(qty, np.full(steps, 1 / steps))
    price = middle[:-1] + random.normal(0, 5, steps)
    total, remaining = 0.0, qty
    for step in range(steps):
        fills = {"lots": lots[step], "notional": lots[step] * price[step]}
        remaining -= lots[step]
        ahead = remaining - qty * (1 - (step + 1) / steps)
        total += float(gain_on_twap(1, qty, fills, ahead, middle[step], middle[step + 1]))  # pyrefly: ignore[bad-argument-type]
    expected = ((lots * price).sum() - qty * middle[:-1].mean()) / (1e7 * qty) * 1e4
    assert total == pytest.approx(expected, rel=1e-4)


def test_the_oracle_fills_the_best_intervals_first() -> None:
    vwaps = np.repeat([[5.0, 9.0, 7.0, 1.0, 3.0]], 2, axis=0).repeat(2, axis=1)
    future = Foresight(np.zeros((2, 11)), vwaps, np.ones((2, 10)))
    schedule = oracle_schedule(future, np.array([1, -1]), MacMicConfig(interval_steps=2))
    np.testing.assert_array_equal(schedule, [[2, 4, 4, 0, 0], [2, 0, 0, 4, 4]])


def test_rewards_to_go_stop_at_the_segments_end() -> None:
    rewards = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    assert rewards_to_go(rewards, 2).flatten().tolist() == [3, 2, 7, 4]
    assert rewards_to_go(rewards, 4).flatten().tolist() == [10, 9, 7, 4]


def test_a_baseline_that_would_never_learn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"OPD: expected steps for an update of the student .* give at least 768"):
        run("opd", tmp_path, steps=64 * 6)
    run("opd", tmp_path, steps=2 * 64 * 6)
    with pytest.raises(ConfigError, match=r"HALOP: expected warm_up, .* to be less than its 500 steps, got 500"):
        run("halop", tmp_path, steps=500)


def test_a_macmic_policy_works_whole_intervals_alone() -> None:
    """What was left of the last interval was forced after the end, and nobody was told."""
    env, config = hybrid(4), MacMicConfig(interval_steps=5, reach_ticks=5)
    network = MacMicNetwork(env.layout.size, config, torch.Generator().manual_seed(1))
    policy = MacMicPolicy(network, config, Interface.from_env(env), {})
    episodes = env.sampler.sample(np.random.default_rng(0), 4)
    with pytest.raises(ConfigError, match=r"macmic: expected windows of a multiple of 5 decisions, .* got 12; change"):
        execute_orders(env, policy, episodes)
