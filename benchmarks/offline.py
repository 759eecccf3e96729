"""Offline learning: policies cloned from recorded episodes, on held-out orders, beside the policies that were recorded.

Market: the traders of `amzn`; orders of five minutes, a decision every 10 s. A TWAP, a participation of 10 %, the passive schedule and the
patience rule (not fitted) each work the same 256 orders of 16 training days; the 1,024 episodes are exported as a Minari dataset and read back.
Then all of them, and two clones, of all episodes and of the best 20 %, work the same 512 orders of 16 test days. PA over the market's VWAP, its
difference to a TWAP's on the same orders and the shortfall in bps, each with half of its 95 % interval (bootstrap over days).
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.execution.policies.reactive import Participation, Passive
from serl.agents.execution.policies.schedules import Twap
from serl.agents.learning.cloning import CloneConfig, clone
from serl.agents.learning.environments import Scenario
from serl.agents.learning.episodes import record_orders, recorded_scenario
from serl.agents.learning.evaluation import RULE, Contender, Evaluation, evaluate
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.minari_files import Episodes, dataset_place, read_episodes, write_dataset
from serl.agents.learning.policy import Policy

MARKET = MarketConfig(kind="dynamic", population="amzn", duration_s=300, interval_s=10, first_day=10_000)
"""The defaults of cloning were chosen with other days in view."""
RECORDED = (
    Contender("twap", Twap(), "market"), Contender("pov", Participation(), "market"),
    Contender("passive", Passive(), "hybrid"), RULE,
)  # fmt: skip
ORDERS, TEST_ORDERS = 256, 512
SHARES = {"clone_all": 1.0, "clone_best": 0.2}
MEASURES = {"pa_bps": "PA", "pa_twap_bps": "PA_twap", "is_bps": "IS"}


def recorded(market: MarketConfig = MARKET, orders: int = ORDERS) -> Episodes:
    """The training episodes of all policies, written as a dataset and read back."""
    scenario = recorded_scenario(market)
    scales = scenario.fit_scales()
    rows = scenario.sampler.sample(np.random.Generator(np.random.PCG64(0)), orders)
    recordings = [record_orders(scenario, scales, one, rows) for one in RECORDED]
    about = {"part": "train", "policies": [one.name for one in RECORDED], "data": [scenario.describe()]}
    with tempfile.TemporaryDirectory() as folder:
        place = dataset_place(str(Path(folder) / "episodes"))
        write_dataset(place, recordings, scenario.env(scales), scenario.config, about)
        return read_episodes(place)


def held_out(clones: dict[str, Policy]) -> Evaluation:
    """The table of the clones and of the policies that were recorded."""
    scenario = Scenario(with_overrides(MARKET, {"part": "test"}))
    contenders = [one for one in RECORDED if one.name not in ("twap", RULE.name)]  # these are in every table
    contenders += [Contender(name, policy, policy.modes[0]) for name, policy in clones.items()]
    return evaluate(scenario, contenders, TEST_ORDERS, 1)


def run() -> dict[str, Any]:
    """All figures."""
    episodes = recorded()
    clones = {name: clone(episodes, CloneConfig(best=share)) for name, share in SHARES.items()}
    found: dict[str, Any] = {}
    for row in held_out(clones).rows:
        estimates = {label: row.estimates[name] for label, name in MEASURES.items()}
        found[row.name] = {label: one.value for label, one in estimates.items()}
        found[row.name] |= {f"{label}_interval": (one.high - one.low) / 2 for label, one in estimates.items()}
    return found
