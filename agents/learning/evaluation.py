"""Policies on the same held-out parent orders, and what each cost them. Definitions: docs/execution.md.

Every contender works the same EPISODE rows in the same market. The market's VWAP of a window, which PA is taken against, comes
from a run that trades nothing inside the window, so it is the same for all and covers the whole window even of
orders that are done early.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.environments import Scenario
from serl.agents.learning.policy import Interface
from serl.exchange.records import Rows

Floats = NDArray[np.float64]
CONFIDENCE, BOOTSTRAPS = 0.95, 2000
BASELINE = "TWAP"


class Acting(Protocol):
    """Anything that can work parent orders: a learnt policy or a schedule."""

    def begin(self, env: Any) -> None:
        """Before the first step of all orders of an ExecutionVectorEnv."""

    def act(self, env: Any, observations: Any) -> Any:
        """(N, k) actions in the environment's box."""


class Hold:
    """Trades nothing; what it is told to do is forced after the window."""

    def begin(self, env: ExecutionVectorEnv) -> None:
        """See Acting."""

    def act(self, env: ExecutionVectorEnv, observations: Any) -> Floats:
        """See Acting."""
        return np.zeros(env.action_space.shape)


class Twap(Hold):
    """An equal part of what remains at every decision, by market order."""

    def act(self, env: ExecutionVectorEnv, observations: Any) -> Floats:
        """See Acting."""
        left = env.accounts.episodes["steps"] - env.accounts.parents["step"]
        return 1.0 / left[:, None]


@dataclass(frozen=True)
class Contender:
    """A name in the table; without an interface it acts with market orders alone."""

    name: str
    acting: Acting
    interface: Interface | None = None

    def env(self, scenario: Scenario) -> ExecutionVectorEnv:
        """One that it can act in; LayoutMismatchError if the market cannot show what it was made for."""
        return scenario.plain_env() if self.interface is None else scenario.env_like(self.interface)


@dataclass(frozen=True)
class Outcome:
    """What became of n orders."""

    results: dict[str, Floats]
    """(n,) each, see Accounts.results."""
    actions: Floats
    """(decisions, k) all of them."""


def play(env: ExecutionVectorEnv, acting: Acting, episodes: Rows) -> Outcome:
    """Works the EPISODE rows (n,), as many at a time as there are environments."""
    count, parts, actions = env.num_envs, [], []
    for first in range(0, len(episodes), count):
        places = np.minimum(np.arange(first, first + count), len(episodes) - 1)
        observations, _ = env.reset(seed=0, options={"episodes": episodes[places]})
        acting.begin(env)
        pending = np.arange(first, first + count) < len(episodes)
        kept: dict[str, Floats] = {}
        while pending.any():
            chosen = np.asarray(acting.act(env, observations), np.float64)
            actions.append(chosen[pending])
            observations, _, done, _, info = env.step(chosen)
            for name, values in info.get("results", {}).items():
                kept.setdefault(name, np.full(count, np.nan))[done & pending] = values[done & pending]
            pending &= ~done
        parts.append({name: values[: len(episodes) - first] for name, values in kept.items()})
    return Outcome({name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, np.concatenate(actions))


@dataclass(frozen=True)
class Estimate:
    """A number with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """A contender's line in the table."""

    name: str
    estimates: dict[str, Estimate]
    advantages_bps: Floats
    """(n,) PA of each order, NaN where the market did not trade in the window."""
    actions: Floats
    """(decisions, k)"""


@dataclass(frozen=True)
class Evaluation:
    """A table and how it came about."""

    rows: list[Row]
    orders: int
    without_trades: int
    """Orders in whose window the market did not trade: no PA."""
    days: int
    clustered: bool
    """Whether intervals resample symbol-days (two or more) instead of orders."""
    seed: int


def evaluate(scenario: Scenario, contenders: Sequence[Contender], episodes: int, seed: int) -> Evaluation:
    """All contenders, TWAP first, on `episodes` orders that the seed determines."""
    rows = scenario.sampler.sample(np.random.Generator(np.random.PCG64(seed)), episodes)
    vwap = play(scenario.plain_env(), Hold(), rows).results["vwap_ticks"]
    outcomes = [
        (one.name, play(one.env(scenario), one.acting, rows)) for one in (Contender(BASELINE, Twap()), *contenders)
    ]
    twap_price, sign = outcomes[0][1].results["price_ticks"], rows["sign"]
    days = np.unique(rows["day"])
    clustered = len(days) > 1
    clusters = rows["day"] if clustered else np.arange(episodes)
    table = []
    for name, outcome in outcomes:
        price = outcome.results["price_ticks"]
        columns = {
            "pa": sign * (price / vwap - 1) * 1e4, "pa_twap": sign * (price / twap_price - 1) * 1e4,
            "is": outcome.results["is_bps"], "afi": outcome.results["afi"], "ffr": outcome.results["ffr"],
        }  # fmt: skip
        table.append(Row(name, estimates(columns, clusters, seed), columns["pa"], outcome.actions))
    return Evaluation(table, episodes, int(np.isnan(vwap).sum()), len(days), clustered, seed)


def gain_loss_ratio(advantages: Floats) -> float:
    """mean(PA given PA > 0) / |mean(PA given PA < 0)|; NaN without both."""
    gains, losses = advantages[advantages > 0], advantages[advantages < 0]
    return float(gains.mean() / abs(losses.mean())) if len(gains) and len(losses) else float("nan")


def win_rate(advantages: Floats) -> float:
    """Share with PA > 0, an exact zero counting one half."""
    return float(np.mean((advantages > 0) + 0.5 * (advantages == 0)))


MEASURES: dict[str, tuple[str, Callable[[Floats], float]]] = {
    "PA": ("pa", lambda values: float(values.mean())),
    "PA_twap": ("pa_twap", lambda values: float(values.mean())),
    "IS": ("is", lambda values: float(values.mean())),
    "PA-std": ("pa", lambda values: float(values.std())),
    "WR": ("pa", win_rate),
    "GLR": ("pa", gain_loss_ratio),
    "AFI": ("afi", lambda values: float(values.mean())),
    "FFR": ("ffr", lambda values: float(values.mean())),
}
"""Of which column, and how; PA, PA_twap, IS and PA-std in bps."""


def estimates(columns: dict[str, Floats], clusters: Any, seed: int) -> dict[str, Estimate]:
    """Each measure with the central 95 % of BOOTSTRAPS resamplings of clusters, values that are not numbers left out."""
    random = np.random.Generator(np.random.PCG64(seed))
    members = [np.flatnonzero(clusters == cluster) for cluster in np.unique(clusters)]
    draws = [
        np.concatenate([members[place] for place in random.integers(len(members), size=len(members))])
        for _ in range(BOOTSTRAPS)
    ]
    found = {}
    for name, (column, measure) in MEASURES.items():
        values = columns[column]
        resampled = [_measure(measure, values[draw]) for draw in draws]
        known = [value for value in resampled if np.isfinite(value)]
        edges = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
        low, high = np.quantile(known, edges) if known else (np.nan, np.nan)
        found[name] = Estimate(_measure(measure, values), float(low), float(high))
    return found


def _measure(measure: Callable[[Floats], float], values: Floats) -> float:
    known = values[np.isfinite(values)]
    return measure(known) if len(known) else float("nan")
