"""The score: parent orders of the validation hours, worked on a served exchange in lockstep.

The candidate and a TWAP by market orders work the same orders. PA is taken against the VWAP of the same windows without any order of ours,
and impact against their mids, both of the replay market in process: a lockstep exchange gives the same numbers (tests/researcher/inner).
Bars have no orders that an exchange could serve: there all of it is in process, in the static market.
"""

import dataclasses
import threading
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.data import VALIDATION
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.shared import SharedReplayMarket
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.executor import FixedSampler
from serl.agents.execution.policies.policy import Policy, environment_settings
from serl.agents.execution.policies.schedules import Twap
from serl.agents.execution.served_books import aligned_day, aligned_episodes
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import (
    Hold,
    Outcome,
    bootstrap_clusters,
    bootstrap_estimates,
    costs,
    execute_orders,
)
from serl.agents.learning.policy import Policy as Learnt
from serl.agents.learning.sources import Bars, Books
from serl.agents.learning.team import split_orders
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import simulate
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows
from serl.history.day import Day
from serl.researcher.candidates import Score
from serl.researcher.inner.exchange import market_of
from serl.researcher.inner.settings import Settings

SIMULATED_DAYS = 4
"""Validation days, where no day is given."""
LOCK = threading.Lock()
"""What is made once is made by one thread while others wait."""


class Course(NamedTuple):
    """What every candidate of the same settings is scored on."""

    days: list[Day]
    """None of bars."""
    episodes: Rows
    """Orders as in the days."""
    clusters: NDArray[np.int64]
    """Of orders that intervals keep together."""
    played: Day | None
    """Their windows side by side, as they are replayed; None of bars, which `bars` are."""
    alone: Outcome
    """The same windows without orders."""
    twap: Outcome
    bars: Bars | None = None


@lru_cache(maxsize=4)
def _course(text: str, part: str) -> Course:
    settings = Settings.model_validate_json(text)
    if settings.scored_in == "bars":
        return _course_of_bars(settings, part)
    days, episodes = _orders(settings, part)
    clusters = bootstrap_clusters(episodes, episodes["day"])[0]
    played = aligned_day(days, episodes)
    alone = in_process(days, episodes, Hold(), "market")
    twap = on_exchange(played, episodes, Twap(), "market")
    return Course(days, episodes, clusters, played, alone, twap)


def _course_of_bars(settings: Settings, part: str) -> Course:
    scenario = Scenario(settings.market.model_copy(update={"part": part, "environments": 1}))
    bars, episodes = scenario.source, _sampled(scenario, settings)
    assert isinstance(bars, Bars)
    clusters = bootstrap_clusters(episodes, bars.dates(episodes["day"]))[0]
    alone, twap = (in_bars(bars, episodes, policy, "market") for policy in (Hold(), Twap()))
    return Course([], episodes, clusters, None, alone, twap, bars)


def _sampled(scenario: Scenario, settings: Settings) -> Rows:
    return scenario.sampler.sample(np.random.Generator(np.random.PCG64(settings.score_seed)), settings.orders)


def course(settings: Settings, part: str = VALIDATION) -> Course:
    """Made once a process. ConfigError if there are no hours of the part."""
    with LOCK:
        return _course(settings.model_dump_json(), part)


def _orders(settings: Settings, part: str) -> tuple[list[Day], Rows]:
    """Days, and the parent orders in the hours of a part."""
    config = settings.market if settings.day else settings.dynamic
    changes: dict[str, Any] = {"part": part, "environments": 1}
    if settings.day:
        changes |= {"kind": "replay", "data": [settings.day]}
    else:
        changes |= {"simulated_days": SIMULATED_DAYS}
    scenario = Scenario(config.model_copy(update=changes))
    episodes = _sampled(scenario, settings)
    if isinstance(scenario.source, Books):
        return list(scenario.source.days), episodes
    population = load_population(config.population)
    seeds = sorted(set(episodes["day"].tolist()))
    until_ns = int((episodes["start_ns"] + episodes["interval_ns"] * episodes["steps"]).max()) + 2_000_000_000
    episodes["day"] = np.searchsorted(seeds, episodes["day"])
    return [simulate(population, seed, min(until_ns, population.close_ns)) for seed in seeds], episodes


def _play(market: ExecutionMarket, episodes: Rows, policy: Policy, mode: str, agents: int) -> Outcome:
    """What becomes of the orders, each shared by so many agents."""
    own = split_orders(episodes, agents)
    env = ExecutionVectorEnv(market, FixedSampler(own), agents=agents, **environment_settings(policy, mode))
    outcome = execute_orders(env, policy, own)
    return outcome if agents == 1 else _together(outcome, own["qty_lots"].reshape(-1, agents))


def _together(outcome: Outcome, lots: Any) -> Outcome:
    """Of teams' orders: means weighted by the lots (n, K) of each."""
    weights = lots / lots.sum(axis=1, keepdims=True)
    results = {name: (values.reshape(weights.shape) * weights).sum(axis=1) for name, values in outcome.results.items()}
    traded = outcome.lots.reshape(*weights.shape, -1).sum(axis=1)
    return Outcome(results, outcome.actions, outcome.mids_ticks[:: lots.shape[1]], traded)


def in_process(days: list[Day], episodes: Rows, policy: Policy, mode: str, agents: int = 1) -> Outcome:
    """What becomes of the orders in the replay market without latency."""
    market = SharedReplayMarket(days, agents, len(episodes), latency_ns=0)
    return _play(market, episodes, policy, mode, agents)


def on_exchange(played: Day, episodes: Rows, policy: Policy, mode: str, agents: int = 1) -> Outcome:
    """What becomes of them on an exchange of its own."""
    with market_of(played, agents) as market:
        return _play(market, aligned_episodes(episodes), policy, mode, agents)


def in_bars(bars: Bars, episodes: Rows, policy: Policy, mode: str) -> Outcome:
    """What becomes of the orders in the static market of the bars."""
    config = bars.config.model_copy(update={"environments": len(episodes)})
    return _play(dataclasses.replace(bars, config=config).market(), episodes, policy, mode, 1)


def _work(here: Course, policy: Policy, mode: str, agents: int) -> Outcome:
    if here.bars and agents > 1:
        raise ConfigError(
            f"scored_in: bars: one agent is due, got a team of {agents}; each would trade in a copy of the bars, at a fraction of "
            "the impact; score teams with scored_in: exchange"
        )
    if here.bars:
        return in_bars(here.bars, here.episodes, policy, mode)
    assert here.played is not None
    return on_exchange(here.played, here.episodes, policy, mode, agents)


def score(policy: Learnt, settings: Settings, part: str = VALIDATION) -> Score:
    """Of a trusted policy: one that is data. Candidates are compared on the validation part; the test part is for the final report.
    ScoreError if it could not be measured, ConfigError of a team in bars."""
    here = course(settings, part)
    agents = policy.team[0] if policy.team else 1
    outcome = _work(here, policy, policy.modes[0], agents)
    columns = costs(here.episodes, outcome, here.alone, here.twap)
    advantages = columns["pa"]
    if not np.isfinite(advantages).any():
        raise ConfigError("score: the market trades in none of the windows; choose longer ones")
    found = bootstrap_estimates(columns, here.clusters, settings.score_seed)
    pa = found["PA"]
    return Score(
        pa.value, pa.low, pa.high, found["PA_twap"].value, len(here.episodes), found["PA-std"].value, found["AFI"].value,
        found["IMPACT"].value, tuple(float(value) for value in np.nan_to_num(advantages)),
    )  # fmt: skip
