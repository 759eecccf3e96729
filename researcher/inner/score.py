"""The score of a policy: parent orders on days that training left out, executed on a served exchange in lockstep.

The candidate and a TWAP with market orders execute the same parent orders. PA is measured against the VWAP of the same windows without
our orders, and impact against their mids. Both come from the replay market in process, which gives the same numbers as a lockstep
exchange (tests/researcher/inner). Bars contain no orders to serve on an exchange, so they are scored in process, in the static market.
"""

import threading
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.data import TEST, TRAIN, UNSEEN
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.replay import ReplayMarket
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
    measured,
)
from serl.agents.learning.folds import FOLD, scored_data
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.policy import Policy as TrainedPolicy
from serl.agents.learning.rule_policy import RulePolicy
from serl.agents.learning.sources import Books
from serl.agents.learning.team import split_orders
from serl.agents.traders.overrides import load_changed
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.simulate import simulate
from serl.exchange.errors import ConfigError, SerlError
from serl.exchange.records import Rows
from serl.history.day import Day
from serl.researcher.candidates import Score
from serl.researcher.inner.behaviour import behaviour_of
from serl.researcher.inner.errors import ScoreError, SealedError
from serl.researcher.inner.exchange import served_market
from serl.researcher.inner.settings import Settings
from serl.researcher.inner.versions import Versions, versions_of

SIMULATED_DAYS = 4
"""Simulated validation days, if no day is given."""
LOCK = threading.Lock()
"""Held while a thread makes the scoring set; others wait."""
MARKET = threading.Lock()
"""Only one environment of a scenario may run at a time."""


class ScoringSet(NamedTuple):
    """The orders that all candidates of the same settings are scored on, with their benchmarks."""

    days: list[Day]
    """Empty for bars."""
    episodes: Rows
    """The parent orders, at their times in `days`."""
    clusters: NDArray[np.int64]
    """Blocks of orders that the bootstrap resamples together; equal numbers mean the same block in all sets of the same data."""
    replayed_day: Day | None
    """The windows side by side, as replayed; None for bars."""
    no_orders: Outcome
    """The outcome of the same windows without our orders."""
    twap: Outcome
    scenario: Scenario | None = None
    """The market in this process, for `scored_in: market` and `bars`."""
    fee_bps: float = 0.0
    """Fee of the policies, in bps of the notional."""


@lru_cache(maxsize=16)
def _cached_scoring_set(text: str, part: str, versions: Versions) -> ScoringSet:
    settings = Settings.model_validate_json(text)
    if settings.scored_in != "exchange":
        return _market_scoring_set(settings, part, versions)
    days, episodes, clusters = _exchange_orders(settings, part)
    replayed_day = aligned_day(days, episodes)
    no_orders = in_process(days, episodes, Hold(), "market")
    fee_bps = (settings.market if settings.day else settings.dynamic).fee_bps
    twap = on_exchange(replayed_day, episodes, Twap(), "market", 1, fee_bps)
    return ScoringSet(days, episodes, clusters, replayed_day, no_orders, twap, None, fee_bps)


def _market_scoring_set(settings: Settings, part: str, versions: Versions = ()) -> ScoringSet:
    """The scoring set of a market in process, with all orders at once. Simulated days keep their states for all candidates."""
    market = _scored(settings.market, settings).model_copy(update={"part": part, "environments": settings.orders})
    scenario = _scenario(_in_part(market).model_dump_json(), versions)
    episodes = _sample_orders(scenario, settings)
    with MARKET:
        no_orders, twap = (
            _play(scenario.market, episodes, policy, "market", 1, market.fee_bps) for policy in (Hold(), Twap())
        )
    return ScoringSet([], episodes, order_clusters(scenario, episodes), None, no_orders, twap, scenario, market.fee_bps)


def _in_part(config: MarketConfig) -> MarketConfig:
    """The market without `hours` where they do not apply. They are training hours: other simulated days may have the same ones, but other parts
    of the same recorded day may not."""
    if config.hours is None or config.kind == "dynamic" or config.part == FOLD:
        return config
    Scenario(config.model_copy(update={"part": TRAIN, "environments": 1})).source.hours(
        config.part
    )  # raises if training and the part share time
    return config.model_copy(update={"hours": None})


def _scored(config: MarketConfig, settings: Settings) -> MarketConfig:
    """A market on the simulated days that are scored."""
    return config.model_copy(update={"first_day": config.first_day + (settings.first_scored_day or 0)})


@lru_cache(maxsize=8)
def _scenario(text: str, _versions: Versions) -> Scenario:
    """A market in process, shared by the sets of orders in the same days."""
    return Scenario(MarketConfig.model_validate_json(text))


def order_clusters(scenario: Scenario, episodes: Rows) -> NDArray[np.int64]:
    """(n,) number of each order's cluster (see bootstrap_clusters), the same in all sets of the data."""
    dates = np.asarray(scenario.source.dates(episodes["day"]))
    unit = bootstrap_clusters(episodes, dates)[1]
    windows = episodes["start_ns"] // (episodes["steps"] * episodes["interval_ns"])
    numbers = {"dates": dates, "symbol-days": episodes["day"]}.get(unit, episodes["day"] * 1_000_000 + windows)
    return np.asarray(numbers, np.int64)


def _sample_orders(scenario: Scenario, settings: Settings) -> Rows:
    return scenario.sampler.sample(np.random.Generator(np.random.PCG64(settings.score_seed)), settings.orders)


class Permit:
    """Permission to open the test part, which nothing may see before a run has ended. Only outer/final.py creates one, and records that."""


def scoring_set(settings: Settings, part: str | None = None, permit: Permit | None = None) -> ScoringSet:
    """The scoring set of a part, by default `settings.scoring_part`, cached in the process. ConfigError if the data has no hours of the part;
    SealedError for the test part without a permit."""
    chosen = part or settings.scoring_part
    if chosen in (TEST, UNSEEN) and permit is None:
        raise SealedError(
            f"the {chosen} part is sealed: expected a score on training or validation days, got part={chosen!r}; it is scored once in a run, by: "
            "serl researcher report FOLDER --final"
        )
    with LOCK:
        return _cached_scoring_set(settings.model_dump_json(), chosen, versions_of(settings))


def require_unseen(settings: Settings) -> None:
    """ConfigError if these settings of a race would score hours that training may have seen, or simulated days whose rules the score lacks."""
    if settings.scored_in != "exchange":
        return
    if not settings.day:
        _simulated_population(settings.dynamic)
        return
    first = settings.of_seed(0)
    scored_data(settings.day, first.scoring_part, first.market)


def _simulated_population(config: MarketConfig) -> PopulationConfig:
    """The population of the days to score. ConfigError if its market has rules, such as fees: books side by side are replayed without them."""
    population = load_changed(config.population, config.population_changes)
    if population.has_rules:
        rules = ", ".join(population.market.model_dump(exclude_defaults=True))
        raise ConfigError(
            f"scored_in: exchange: expected a population without rules of its market, which are not served, got {population.name} with {rules}; "
            "use scored_in: market"
        )
    return population


def _exchange_orders(settings: Settings, part: str) -> tuple[list[Day], Rows, NDArray[np.int64]]:
    """(days, parent orders in the hours of a part, clusters of the orders)."""
    config = settings.market if settings.day else _scored(settings.dynamic, settings)
    changes: dict[str, Any] = {"part": part, "environments": 1}
    if settings.day:
        changes |= {"kind": "replay", "data": scored_data(settings.day, part, config)}
    else:
        changes |= {"simulated_days": SIMULATED_DAYS}
    scenario = Scenario(_in_part(config.model_copy(update=changes)))
    episodes = _sample_orders(scenario, settings)
    clusters = order_clusters(scenario, episodes)
    if isinstance(scenario.source, Books):
        used = sorted(set(episodes["day"].tolist()))
        episodes["day"] = np.searchsorted(used, episodes["day"])
        return [scenario.source.days[day] for day in used], episodes, clusters
    population = _simulated_population(config)
    seeds = sorted(set(episodes["day"].tolist()))
    until_ns = int((episodes["start_ns"] + episodes["interval_ns"] * episodes["steps"]).max()) + 2_000_000_000
    episodes["day"] = np.searchsorted(seeds, episodes["day"])
    return [simulate(population, seed, min(until_ns, population.close_ns)) for seed in seeds], episodes, clusters


def _play(
    market: ExecutionMarket, episodes: Rows, policy: Policy, mode: str, agents: int, fee_bps: float = 0.0
) -> Outcome:
    """Execute the orders, each shared by `agents` agents."""
    own = split_orders(episodes, agents)
    env = ExecutionVectorEnv(
        market, FixedSampler(own), agents=agents, fee_bps=fee_bps, **environment_settings(policy, mode)
    )
    outcome = execute_orders(env, policy, own)
    return outcome if agents == 1 else _merge_teams(outcome, own["qty_lots"].reshape(-1, agents))


def _merge_teams(outcome: Outcome, lots: Any) -> Outcome:
    """Merge the outcomes of team members: means weighted by the lots (n, agents) of each member."""
    weights = lots / lots.sum(axis=1, keepdims=True)
    results = {name: (values.reshape(weights.shape) * weights).sum(axis=1) for name, values in outcome.results.items()}
    traded = outcome.lots.reshape(*weights.shape, -1).sum(axis=1)
    return Outcome(results, outcome.actions, outcome.mids_ticks[:: lots.shape[1]], traded)


def in_process(days: list[Day], episodes: Rows, policy: Policy, mode: str, agents: int = 1) -> Outcome:
    """Execute the orders in the replay market without latency."""
    market = ReplayMarket(days, len(episodes), agents, latency_ns=0)
    return _play(market, episodes, policy, mode, agents)


def on_exchange(
    replayed_day: Day, episodes: Rows, policy: Policy, mode: str, agents: int = 1, fee_bps: float = 0.0
) -> Outcome:
    """Execute the orders on a served exchange of their own."""
    with served_market(replayed_day, agents) as market:
        return _play(market, aligned_episodes(episodes), policy, mode, agents, fee_bps)


def _execute(scoring: ScoringSet, policy: Policy, mode: str, agents: int) -> Outcome:
    if scoring.scenario and agents > 1:
        raise ConfigError(
            f"scored_in: expected one agent in a market in process, got a team of {agents}: each would trade in its own copy of the market, at a "
            "fraction of the impact; score teams with scored_in: exchange"
        )
    if scoring.scenario:
        with MARKET:
            return _play(scoring.scenario.market, scoring.episodes, policy, mode, 1, scoring.fee_bps)
    assert scoring.replayed_day is not None
    return on_exchange(scoring.replayed_day, scoring.episodes, policy, mode, agents, scoring.fee_bps)


def score(
    policy: TrainedPolicy | RulePolicy, settings: Settings, part: str | None = None, permit: Permit | None = None
) -> Score:
    """Score a policy. Candidates are compared on `settings.scoring_part`; the test part is for the final report only, see scoring_set.

    ScoreError if the score cannot be measured, ConfigError for a team in bars, SealedError for the test part.
    """
    try:
        scoring = scoring_set(settings, part, permit)
    except (ScoreError, SealedError):
        raise
    except SerlError as error:  # the orders are the same for all policies
        raise ScoreError(f"the orders of the score cannot be made: {error}") from error
    team = None if isinstance(policy, RulePolicy) else policy.team
    agents = team[0] if team else 1
    outcome = _execute(scoring, policy, policy.modes[0], agents)
    columns = costs(scoring.episodes, outcome, scoring.no_orders, scoring.twap)
    advantages = columns["pa"]
    if not np.isfinite(advantages).any():
        raise ConfigError("score: expected market trades in the windows, got none; use longer windows")
    pa = bootstrap_estimates(columns, scoring.clusters, settings.score_seed, ("PA",))["PA"]
    of_twap = costs(scoring.episodes, scoring.twap, scoring.no_orders, scoring.twap)
    pa_twap, pa_std, afi, impact = (measured(name, columns) for name in ("PA_twap", "PA-std", "AFI", "IMPACT"))
    traded = np.isfinite(
        scoring.no_orders.results["vwap_ticks"]
    )  # the same orders for all policies; the others have no PA, which differs from a PA of 0
    return Score(
        pa.value, pa.low, pa.high, pa_twap, len(scoring.episodes), pa_std, afi, impact, _floats(advantages[traded]),
        tuple(scoring.clusters[traded].tolist()), _floats(_controls(scoring)[traded]),
        behaviour_of(scoring.episodes, outcome, scoring.no_orders, advantages),
        measured("PA", of_twap), measured("FFR", columns), measured("FFR", of_twap),
    )  # fmt: skip


def _controls(scoring: ScoringSet) -> NDArray[np.float64]:
    """(n,) move of the market from an order's first to its last decision, without our orders, in bps of the first mid, times the order's sign."""
    mids = scoring.no_orders.mids_ticks
    moves: NDArray[np.float64] = scoring.episodes["sign"] * (mids[:, -1] / mids[:, 0] - 1) * 1e4
    return moves


def _floats(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(value) for value in np.nan_to_num(values))
