"""The training job of one candidate: in the sandbox if any module is code, else in a worker process.

A job continues from the checkpoint in its folder, if any. It writes the network's weights to `network.safetensors` and returns plain
JSON. The caller trusts neither.
"""

import dataclasses
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from serl.agents.learning import files
from serl.agents.learning.concat_env import ConcatVectorEnv
from serl.agents.learning.custom_network import CustomPPO
from serl.agents.learning.environments import Scenario
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.ppo import PPO
from serl.agents.learning.residual import ResidualVectorEnv
from serl.agents.learning.rule import Rule
from serl.agents.learning.rule_policy import rule_names
from serl.agents.learning.sources import Books
from serl.agents.learning.team import TeamVectorEnv
from serl.agents.learning.training import CHECKPOINT, Training, TrainingConfig
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.inner import markets, training_data
from serl.researcher.inner.candidate_settings import designed, layout_of
from serl.researcher.inner.settings import TrainingSettings
from serl.researcher.modules import adapters, build, checks, specs
from serl.researcher.modules.contracts import Kind
from serl.researcher.validation.entrypoints import code_rule, load

ENTRY = "serl.researcher.inner.job:train"
NETWORK, POPULATION, WARM = "network.safetensors", "population.yaml", "warm.safetensors"
CURVE_POINTS = 50
CURVE = ("steps", "return", "value_loss", "entropy", "kl", "static_weight")
"""Numbers in each point of a learning curve."""


def train(
    candidate: dict[str, Any], settings: dict[str, Any], budget: dict[str, Any], share: float, folder: str, data: str | None = None
) -> dict[str, Any]:  # fmt: skip
    """Train until `share` of the steps are done. `data` is a file of training_data.py that replaces the settings' data.

    Returns network, messages, rule, units of observations, learning curve, steps, seconds.
    """
    began = time.perf_counter()
    run = prepare(candidate_of(candidate), TrainingSettings(**settings), Budget(**budget), Path(folder), data)
    ready_s = time.perf_counter() - began
    total = run.config.ppo.steps
    curve = [_curve_point(statistics) for statistics in run.train_until(math.ceil(share * total))]
    network = run.learner.network.export() if isinstance(run.learner, CustomPPO) else run.learner.network
    files.write(Path(folder) / NETWORK, "network", dict(network.state_dict()), {})
    env = run.learner.envs[0]
    rule = rule_of(env)
    return {
        "network": network.to_json(), "messages": env.messages.to_json() if isinstance(env, TeamVectorEnv) else None,
        "rule": rule.to_json() if rule else None,
        "scales": dataclasses.asdict(env.unwrapped.observer.scales), "curve": curve[:: max(1, len(curve) // CURVE_POINTS)], "steps": run.learner.steps, "ready_s": ready_s,
        "train_s": time.perf_counter() - began - ready_s,
    }  # fmt: skip


def _curve_point(statistics: dict[str, Any]) -> dict[str, float | None]:
    """A point of the learning curve; None for unknown values."""
    return {name: float(value) if math.isfinite(value := statistics.get(name, math.nan)) else None for name in CURVE}


def candidate_of(values: dict[str, Any]) -> Candidate:
    """The inverse of dataclasses.asdict for a Candidate."""
    return Candidate({Kind(kind): Module(**module) for kind, module in values["modules"].items()})


def module_functions(candidate: Candidate, settings: TrainingSettings) -> dict[Kind, Any]:
    """The modules as functions, for settings that already include the candidate's own (`designed`). Runs code modules: call it in the sandbox
    only."""
    return {
        kind: _code_function(kind, module.text, settings)
        if module.form == "code"
        else spec_function(kind, module.text, settings)
        for kind, module in candidate.modules.items()
    }


def _code_function(kind: Kind, source: str, settings: TrainingSettings) -> Any:
    """The function of a code module. Messages are traced, so that training uses exactly what the policy file will contain."""
    if kind is Kind.POLICY:
        return code_rule(source, settings.market.levels)
    function = load(kind, source)
    return function.exported(settings.agents, layout_of(settings.market).size) if kind is Kind.COMMUNICATE else function


def spec_function(kind: Kind, text: str, settings: TrainingSettings) -> Any:
    """The function of a specification, for the observations of these settings."""
    spec: Any = specs.parse(kind, text)
    if kind is Kind.POLICY:
        return build.policy(spec, rule_names(settings.market.levels))
    return build.communicate(spec, layout_of(settings.market).names) if kind is Kind.COMMUNICATE else build.build(spec)


def prepare(
    candidate: Candidate, settings: TrainingSettings, budget: Budget, folder: Path, data: str | None = None
) -> Training:
    """The hybrid training with the candidate's modules, resumed from the folder's checkpoint if there is one."""
    settings = designed(candidate, settings)
    modules = module_functions(candidate, settings)
    source = training_data.read(Path(data), settings.market) if data else None
    envs = environments(modules, settings, budget, folder, source)
    config = training_config(settings, budget, [env.num_envs for env in envs])
    make: Callable[..., PPO] = PPO
    arguments: tuple[Any, ...] = (envs, config.ppo, config.network)
    if Kind.AGENT in modules:
        make, arguments = CustomPPO, (*arguments, modules[Kind.AGENT])
    learner = make(*arguments)
    if Kind.POLICY in modules:
        learner.network.start_at_zero()  # before training, the policy is its rule
    run = Training(config, envs, folder, learner=learner)
    if (folder / WARM).exists():
        start_from(run.learner, folder / WARM)
    if (folder / CHECKPOINT).exists():
        run.resume()
    return run


def start_from(learner: PPO, path: Path) -> None:
    """Give a learner the weights of a file, if its network has the same parameters of the same shapes; else it keeps its own."""
    own, (given, _) = dict(learner.network.state_dict()), files.read(path, "network")
    if {name: tensor.shape for name, tensor in own.items()} == {name: tensor.shape for name, tensor in given.items()}:
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(given[name])


def training_config(settings: TrainingSettings, budget: Budget, counts: Sequence[int]) -> TrainingConfig:
    """Settings of training with the budget's steps. The static market first trains alone, just long enough for each market to have had its
    number of steps at the end."""
    static, dynamic = (math.ceil(settings.steps_share * steps) for steps in (budget.static_steps, budget.dynamic_steps))
    both = {"steps": static + dynamic, "seed": budget.seed}
    beside = dynamic * counts[0] / counts[-1] if dynamic else 0.0
    share = min(1 - 1e-9, max(0.0, static - beside) / (static + dynamic))
    rule = settings.hybrid.rule if dynamic else "static"
    return TrainingConfig(
        market=settings.market, dynamic=settings.dynamic, ppo=settings.ppo.model_copy(update=both), network=settings.network,
        hybrid=settings.hybrid.model_copy(update={"static_share": share, "rule": rule}),
    )  # fmt: skip


def environments(
    modules: dict[Kind, Any],
    settings: TrainingSettings,
    budget: Budget,
    folder: Path,
    source: training_data.TrainingSource | None = None,
) -> list[VectorEnv]:
    """The environments: the static market, partly imagined if there is an `imagine` module, and the dynamic market if the budget has steps for it.
    `source` replaces the settings' data."""
    agents = settings.agents if Kind.COMMUNICATE in modules else 1

    def scenario(config: MarketConfig, **options: Any) -> Scenario:
        """A scenario whose reward keeps a memory of its own."""
        reward = adapters.as_reward(modules[Kind.REWARD]) if Kind.REWARD in modules else None
        return Scenario(config, reward=reward, agents=agents, **options)

    every = settings.market.environments
    imagined = round(every * settings.imagined_share) if Kind.IMAGINE in modules else 0
    market = _resized(settings.market, every - imagined, agents)
    real = scenario(market, source=source and dataclasses.replace(source, config=market))
    scenarios = [real]
    if Kind.IMAGINE in modules:
        own = _resized(settings.market, imagined, agents).model_copy(update={"kind": "static"})
        scenarios.append(scenario(own, source=_imagined(modules[Kind.IMAGINE], real, own, budget.seed)))
    if budget.dynamic_steps:
        dynamic = _dynamic(modules, settings, real, budget.seed, folder)
        scenarios.append(scenario(_resized(dynamic, dynamic.environments, agents)))
    envs: list[VectorEnv] = list(Scenario.build_envs(scenarios))
    if Kind.POLICY in modules:
        envs = [ResidualVectorEnv(env, modules[Kind.POLICY]) for env in envs]
    if Kind.IMAGINE in modules:
        envs = [ConcatVectorEnv(envs[:2]), *envs[2:]]
    if agents > 1:
        envs = [TeamVectorEnv(env, modules[Kind.COMMUNICATE], agents) for env in envs]
    return envs


def rule_of(env: VectorEnv) -> Rule | None:
    """The rule that actions of a training environment correct; None if there is none."""
    while not isinstance(env, ResidualVectorEnv):
        if isinstance(env, ConcatVectorEnv):
            env = env.envs[0]
        elif isinstance(env, TeamVectorEnv):
            env = env.env
        else:
            return None
    return env.rule


def _resized(config: MarketConfig, environments: int, agents: int) -> MarketConfig:
    """The config with about this many environments, rounded to whole teams."""
    return config.model_copy(update={"environments": max(1, round(environments / agents)) * agents})


def _imagined(module: Any, real: Scenario, config: MarketConfig, seed: int) -> markets.Imagined:
    """Imagined days of bars. For days with a book, the half spread is half its mean spread."""
    half_spread_bps = config.half_spread_bps
    if isinstance(real.source, Books):
        known = markets.statistics(real.source, config)
        half_spread_bps = known.spread_ticks / known.mid_ticks / 2 * 1e4
    return markets.Imagined(config, markets.history(real.source, config), module, seed, half_spread_bps)


def _dynamic(
    modules: dict[Kind, Any], settings: TrainingSettings, real: Scenario, seed: int, folder: Path
) -> MarketConfig:
    """The dynamic market. With a `profiles` module, its population is written to the folder; changes of the settings' population do not apply
    to it."""
    if Kind.PROFILES not in modules:
        return settings.dynamic
    random = np.random.Generator(np.random.PCG64(seed))
    made = checks.population(modules[Kind.PROFILES](markets.statistics(real.source, settings.market), random))
    (folder / POPULATION).write_text(json.dumps(made, default=float))  # JSON is valid YAML
    return settings.dynamic.model_copy(update={"population": str(folder / POPULATION), "population_changes": {}})
