"""Registered environments for gymnasium and PettingZoo: execution, market making, taking positions and trading pairs.

    import gymnasium
    import serl.environments  # registers serl/Execution-v0, serl/MarketMaking-v0, serl/Directional-v0 and serl/Pairs-v0

    gymnasium.make("serl/Execution-v0")  # among the simulated traders of `liquid`
    gymnasium.make("serl/Execution-v0", population="amzn", duration_s=600)
    gymnasium.make_vec("serl/Execution-v0", num_envs=32, data="amzn.day", actions="hybrid")
    serl.environments.parallel_env(agents=3, data="amzn.day")
    gymnasium.make_vec("serl/MarketMaking-v0", num_envs=32, population="liquid", inventory_lots_max=500)
    gymnasium.make("serl/Directional-v0", population="amzn", positions=3)
    gymnasium.make("serl/Pairs-v0", actions="continuous")

Keywords are the settings of a market for training (`serl.agents.learning.market_config.MarketConfig`, docs/learning.md): `data`, a day with a book,
which is replayed, or a file of bars; or `population`, simulated traders that react (default: `liquid`); and the part of the data, parent orders,
actions, observations and reward. Market making takes the settings of `serl.agents.making.config.MakingConfig` (docs/market-making.md), taking
positions those of `serl.agents.directional.config.DirectionalConfig` (docs/directional.md), and trading pairs those of
`serl.agents.pairs.config.PairConfig` (docs/pairs.md). `seed` of `reset` determines the orders, and in a simulated market also the days.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium

from serl.agents.directional.config import directional_settings
from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.execution.answering.model import answering_days
from serl.agents.execution.environment.layout import Layout
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.single import ExecutionEnv, SingleEnv
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.environments import SCALED_WITH, Scenario
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.sources import BARS_SUFFIX
from serl.agents.making.config import making_settings
from serl.agents.making.environment import MakingVectorEnv
from serl.agents.pairs.config import pair_settings
from serl.agents.pairs.environment import PairVectorEnv
from serl.agents.pairs.evaluate import pair_env
from serl.agents.pairs.spread import Spread
from serl.agents.positions.config import position_market, windows
from serl.agents.realism.days import load_day
from serl.agents.traders.population import load_population
from serl.exchange.errors import ConfigError
from serl.history.day import Day

EXECUTION_ID, MAKING_ID = "serl/Execution-v0", "serl/MarketMaking-v0"
DIRECTIONAL_ID, PAIRS_ID = "serl/Directional-v0", "serl/Pairs-v0"
DEFAULT_POPULATION = "liquid"


def execution_env(*, scales: Scales | None = None, **settings: Any) -> ExecutionEnv:
    """An environment with one parent order at a time; all actions are in [-1, 1]. Raises `ConfigError` for an invalid setting, `DataError` for unfit
    data."""
    return ExecutionEnv(execution_vector_env(1, scales=scales, **settings))


def execution_vector_env(num_envs: int = 1, *, scales: Scales | None = None, **settings: Any) -> ExecutionVectorEnv:
    """A vector environment with N parent orders at once, each alone in its market. Raises as `execution_env`.

    scales: units of the observations; by default fitted on the training part, without our own orders.
    """
    config = market_settings(**settings)
    days = _days(config)
    return _scenario(config, days, num_envs).env(_scales(scales, config))


def parallel_env(
    agents: int = 2, *, shared: bool = True, message_size: int = 2, scales: Scales | None = None, **settings: Any
) -> Any:
    """Several agents in one replayed book, as a PettingZoo `ParallelEnv`. They share a parent order or have one each, and send messages.

    Raises as `execution_env`, and `ConfigError` unless `data` is a day with a book. Needs the extra `learning` (pettingzoo).
    """
    from serl.agents.execution.environment.parallel import ExecutionParallelEnv

    config = market_settings(**settings)
    if config.kind != "replay":
        raise ConfigError(
            f"parallel_env: expected a day with a book as data, which the agents share, got a {config.kind} market"
        )
    if config.forecaster is not None:
        raise ConfigError("forecaster: expected none in parallel_env, got one; its agents observe no forecasts")
    days = _days(config)
    assert days is not None, "a replayed market has days"
    scenario = _scenario(config, days, 1)
    return ExecutionParallelEnv(
        ReplayMarket(days, 1, agents, latency_ns=round(config.latency_us * 1000), answers=answering_days(days, config.answers)),
        scenario.sampler,
        reward=scenario.reward, shared=shared, message_size=message_size, actions=config.actions, layout=Layout(config.levels, config.left_out),
        scales=_scales(scales, config), offset_ticks=config.offset_ticks, offset_bps=config.offset_bps,
        fee_bps=config.fee_bps,
    )  # fmt: skip


def market_settings(**settings: Any) -> MarketConfig:
    """Settings of a market; its kind follows from `data` or `population` unless it is given. Raises `ConfigError`."""
    paths = _paths(settings.get("data", []))
    if paths and "population" in settings:
        raise ConfigError(
            "expected either data (a day with a book, or a file of bars) or population, got both; give one of them"
        )
    if not paths:
        settings = {"population": DEFAULT_POPULATION} | settings
    inferred = "dynamic" if not paths else "static" if paths[0].suffix == BARS_SUFFIX else "replay"
    config = with_overrides(MarketConfig(), {"kind": inferred} | settings | {"data": paths})
    if (config.kind == "dynamic") != (not paths):
        got, needed = ("data", "none") if paths else ("none", "a day with a book, or a file of bars")
        raise ConfigError(
            f"data: expected {needed} for kind {config.kind}, got {got}; leave out kind, which follows from data"
        )
    return config


def _paths(data: Any) -> list[Path]:
    """The files of `data`: a path, or a sequence of them. Raises ConfigError for anything else."""
    given = data if isinstance(data, Sequence) and not isinstance(data, str) else [data]
    if not all(isinstance(one, str | Path) for one in given):
        raise ConfigError(
            f"data: expected the path of a file, or a list of paths, got {data!r}; leave it out for simulated traders"
        )
    return [Path(one) for one in given]


def _scenario(config: MarketConfig, days: list[Day] | None, environments: int) -> Scenario:
    return Scenario(with_overrides(config, {"environments": environments}), days)


def _scales(scales: Scales | None, config: MarketConfig) -> Scales:
    """The given scales, else fitted ones. Raises ConfigError for anything else."""
    if scales is not None and not isinstance(scales, Scales):
        raise ConfigError(f"scales: expected serl's Scales or none, got {scales!r}; leave it out to have them fitted")
    return _fitted_scales(config) if scales is None else scales


def _fitted_scales(config: MarketConfig) -> Scales:
    """Scales, fitted once for the same settings and files: libraries create many environments one after the other, and fitting takes seconds."""
    return _scales_of(config.model_dump_json(), _versions(*config.data, config.population, config.forecaster or ""))


def _versions(*paths: Path | str) -> tuple[tuple[int, int, int], ...]:
    """What identifies the versions of those paths that are files."""
    files = [Path(path).stat() for path in paths if Path(path).is_file()]
    return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in files)


@lru_cache(maxsize=64)
def _scales_of(settings: str, files: tuple[tuple[int, int, int], ...]) -> Scales:
    """files: see `_versions`."""
    config = MarketConfig.model_validate_json(settings)
    return _scenario(config, _days(config), SCALED_WITH).fit_scales()


def _days(config: MarketConfig) -> list[Day] | None:
    """The days with a book, loaded; None for bars and simulated markets."""
    if config.kind == "dynamic" or any(path.suffix == BARS_SUFFIX for path in config.data):
        return None
    return [load_day(path) for path in config.data]


def making_env(**settings: Any) -> SingleEnv:
    """An environment with one market maker. Raises `ConfigError` for an invalid setting."""
    return SingleEnv(making_vector_env(1, **settings))


def making_vector_env(num_envs: int = 1, **settings: Any) -> MakingVectorEnv:
    """A vector environment with N market makers, each alone among the traders of its market. Raises as `making_env`."""
    config = making_settings(**settings)
    return MakingVectorEnv(position_market(config, num_envs), windows(config), config)


def directional_env(**settings: Any) -> SingleEnv:
    """An environment with one agent that takes positions. Raises `ConfigError` for an invalid setting."""
    return SingleEnv(directional_vector_env(1, **settings))


def directional_vector_env(num_envs: int = 1, **settings: Any) -> DirectionalVectorEnv:
    """A vector environment with N agents that take positions, each alone among the traders of its market. Raises as `directional_env`."""
    config = directional_settings(**settings)
    return DirectionalVectorEnv(position_market(config, num_envs), windows(config), config)


def pairs_env(*, spread: Spread | None = None, **settings: Any) -> SingleEnv:
    """An environment with one agent that trades a pair. Raises `ConfigError` for an invalid setting."""
    return SingleEnv(pairs_vector_env(1, spread=spread, **settings))


def pairs_vector_env(num_envs: int = 1, *, spread: Spread | None = None, **settings: Any) -> PairVectorEnv:
    """A vector environment with N agents that trade a pair, each alone among the traders of its market. Raises as `pairs_env`.

    spread: hedge ratio, mean and deviation of the pair's spread; by default measured once per process, on training days without our own orders.
    """
    config = pair_settings(**settings)
    return pair_env(config, num_envs, spread or _spread_of(config.population, _versions(config.population)))


@lru_cache(maxsize=64)
def _spread_of(population: str, files: tuple[tuple[int, int, int], ...]) -> Spread:
    """files: see `_versions`."""
    return Spread.measure(load_population(population))


_IDS = {EXECUTION_ID: "execution", MAKING_ID: "making", DIRECTIONAL_ID: "directional", PAIRS_ID: "pairs"}
for _id, _name in _IDS.items():
    gymnasium.register(  # with entry points by name, so that the specification can be saved with a dataset
        _id, entry_point=f"{__name__}:{_name}_env", vector_entry_point=f"{__name__}:{_name}_vector_env"
    )
