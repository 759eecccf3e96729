"""Dry run: call a module on recorded inputs. For code this happens in the sandbox; specifications run in any process."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from serl.agents.execution.environment.layout import Layout
from serl.agents.learning.errors import NotExportableError
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.ppo_config import PPOConfig
from serl.researcher.modules import checks
from serl.researcher.modules.contracts import MEMORY_SIZE, Floats, Kind, RewardInputs
from serl.researcher.modules.errors import ModuleError, NotFiniteError
from serl.researcher.validation import recorded
from serl.researcher.validation.findings import Finding, Reason
from serl.researcher.validation.gaming import pays_for_nothing

SEED, OTHER_SEED = 1, 2
CALL_MS_MAX = {
    Kind.REWARD: 20,
    Kind.AGENT: 100,
    Kind.IMAGINE: 200,
    Kind.PROFILES: 1000,
    Kind.COMMUNICATE: 20,
    Kind.POLICY: 20,
    Kind.LEARNER: 20,
    Kind.INTERFACE: 20,
}
"""Limit on a call with the recorded inputs: 16 environments, SCENARIOS scenarios."""
REPEATS, REPEATED_UP_TO = 8, 10
"""Number of repeated calls of a slow module, and the multiple of the limit beyond which repeating is hopeless."""
SCENARIOS, HORIZON = 32, 30
CLOSE = 1e-4
"""Tolerance for float32 sums in another order."""
SCALE = 1.5
"""Factor on all statistics of the second market that a profiles module is called with."""


class _TimedModule:
    """Calls a module and records the time of the fastest call."""

    def __init__(self, module: Any) -> None:
        self.module, self.fastest_ms = module, float("inf")
        self._inputs: tuple[Any, ...] = ()

    def __call__(self, *inputs: Any) -> Any:
        self._inputs = inputs
        began = time.perf_counter()
        value = self.module(*inputs)
        self.fastest_ms = min(self.fastest_ms, (time.perf_counter() - began) * 1e3)
        return value

    def repeat(self, limit_ms: float) -> None:
        """Repeats the last call if it exceeded the limit but not by too much: on a busy machine, each of a few calls may have waited for other
        processes."""
        for _ in range(REPEATS):
            if limit_ms < self.fastest_ms <= REPEATED_UP_TO * limit_ms:
                self(*self._inputs)


def dry_run(kind: Kind, module: Any) -> tuple[list[Finding], float]:
    """The findings on a module, and milliseconds per call (0 if the module broke its contract). Propagates the module's exceptions."""
    calls = _TimedModule(module)
    try:
        findings = DRY_RUNS[kind](calls)
    except NotFiniteError as error:
        return [Finding(Reason.NOT_FINITE, str(error))], 0.0
    except ModuleError as error:
        return [Finding(Reason.CONTRACT, str(error))], 0.0
    except NotExportableError as error:
        return [Finding(Reason.NOT_EXPORTABLE, str(error))], 0.0
    calls.repeat(CALL_MS_MAX[kind])
    if calls.fastest_ms > CALL_MS_MAX[kind]:
        text = f"a call takes {calls.fastest_ms:.0f} ms, the limit is {CALL_MS_MAX[kind]} ms; work on whole arrays, without loops"
        findings.append(Finding(Reason.SLOW, text))
    return findings, calls.fastest_ms


def _same(what: str, first: Any, second: Any) -> list[Finding]:
    if np.shape(first) == np.shape(second) and np.array_equal(first, second):
        return []
    text = f"{what} differ between two calls with the same inputs and seed; draw random numbers only from the given rng, keep no state"
    return [Finding(Reason.NOT_DETERMINISTIC, text)]


def _signal(what: str, values: Any, of: str) -> list[Finding]:
    if np.ptp(values) > 1e-12:
        return []
    return [
        Finding(
            Reason.NO_SIGNAL,
            f"no signal: {what} are always {float(np.ravel(values)[0]):g}, whatever {of}; use the inputs",
        )
    ]


def _reward(calls: _TimedModule) -> list[Finding]:
    steps = recorded.load().steps
    once, again = (_episode_rewards(calls, steps) for _ in range(2))
    return _same("the rewards", once, again) or pays_for_nothing(partial(_episode_rewards, calls), steps, once)


def _episode_rewards(calls: _TimedModule, steps: Sequence[RewardInputs]) -> Floats:
    """(STEPS, ENVIRONMENTS) rewards of recorded steps, with the memory that the module carries through them."""
    memory, found = np.zeros((recorded.ENVIRONMENTS, MEMORY_SIZE)), []
    for step in steps:
        memory[step.step == 1] = 0.0
        rewards, memory = checks.rewards_and_memory(
            calls(dataclasses.replace(step, memory=memory.copy())), recorded.ENVIRONMENTS
        )
        found.append(rewards)
    return np.array(found)


def _imagine(calls: _TimedModule) -> list[Finding]:
    history = recorded.load().history

    def scenarios(seed: int, n: int, horizon: int) -> Any:
        return checks.scenarios(calls(history, np.random.default_rng(seed), n, horizon), n, horizon)

    once, again, other = (scenarios(seed, SCENARIOS, HORIZON) for seed in (SEED, SEED, OTHER_SEED))
    scenarios(SEED, 1, 3)
    findings = _same("the scenarios", once, again)
    if np.array_equal(once, other) or np.ptp(once[..., 0]) <= 1e-12:
        text = "no signal: the scenarios are the same for every seed, or their returns are constant; draw from the given rng"
        findings.append(Finding(Reason.NO_SIGNAL, text))
    return findings


def _profiles(calls: _TimedModule) -> list[Finding]:
    statistics = recorded.load().statistics
    larger = dataclasses.replace(statistics, **{name: value * SCALE for name, value in vars(statistics).items()})
    once, again, other = (
        checks.population(calls(each, np.random.default_rng(SEED))) for each in (statistics, statistics, larger)
    )
    findings = [] if once == again else _same("the populations", 0, 1)
    if once == other:
        text = (
            "no signal: the population is the same whatever the market's statistics are; use them, mid_ticks at least"
        )
        findings.append(Finding(Reason.NO_SIGNAL, text))
    return findings


def _communicate(calls: _TimedModule) -> list[Finding]:
    observations = recorded.load().observations
    once, again = (checks.messages(calls(observations), len(observations)) for _ in range(2))
    few = checks.messages(calls(observations[:2]), 2)
    if few.shape[1] != once.shape[1]:
        raise ModuleError(
            f"the messages: expected the same m for every number of agents, got {once.shape[1]} and {few.shape[1]}"
        )
    findings = [*_same("the messages", once, again), *_signal("the messages", once, "is observed")]
    if findings or not hasattr(calls.module, "exported"):  # a specification is data already
        return findings
    return _same_as_exported(calls.module.exported(*observations.shape)(observations), once, "messages")


def _policy(calls: _TimedModule) -> list[Finding]:
    """Dry run of a policy. Its outputs need not depend on the inputs: a constant decision, an even schedule, is a policy too."""
    observations = recorded.load().observations
    inputs = np.concatenate((observations, np.linspace(1, 60, len(observations))[:, None]), axis=1)
    once, again = (checks.decisions(calls(inputs), len(inputs)) for _ in range(2))
    findings = _same("the decisions", once, again)
    if (once[:, :2] <= 0).all():
        findings.append(
            Finding(
                Reason.NEVER_TRADES, "the policy never trades: neither what crosses nor what rests is above 0; trade"
            )
        )
    if findings or not hasattr(calls.module, "exported"):  # a specification is data already
        return findings
    return _same_as_exported(calls.module.exported()(inputs), once, "decisions")


def _learner(calls: _TimedModule) -> list[Finding]:
    """Dry run of a learner: the learner must accept the settings."""
    made = calls()
    PPOConfig.model_validate(made["ppo"])
    NetworkConfig.model_validate(made["network"])
    return []


def _interface(calls: _TimedModule) -> list[Finding]:
    """Dry run of an interface: a market must accept the settings, and some observations must be left."""
    market = MarketConfig.model_validate(dict(calls()))
    if Layout(market.levels, market.left_out).size == 0:
        raise ModuleError("interface: expected something to observe, got nothing")
    return []


def _same_as_exported(exported: Any, once: Any, what: str) -> list[Finding]:
    if np.allclose(exported, once, rtol=CLOSE, atol=CLOSE):
        return []
    text = f"the traced operations give other {what} than the function; depend on nothing but the inputs"
    return [Finding(Reason.NOT_EXPORTABLE, text)]


def _agent(calls: _TimedModule) -> list[Finding]:
    from serl.researcher.validation.dry_run_agent import dry_run_agent  # importing PyTorch takes a second

    return dry_run_agent(calls, recorded.load().observations, recorded.ACTION_DIM, SEED)


DRY_RUNS: dict[Kind, Callable[[_TimedModule], list[Finding]]] = {
    Kind.REWARD: _reward,
    Kind.AGENT: _agent,
    Kind.IMAGINE: _imagine,
    Kind.PROFILES: _profiles,
    Kind.COMMUNICATE: _communicate,
    Kind.POLICY: _policy,
    Kind.LEARNER: _learner,
    Kind.INTERFACE: _interface,
}
