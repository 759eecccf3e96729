"""Applies a candidate's own settings (`learner`, `interface`) to the settings of the inner loop, and builds the interface of its policies."""

import dataclasses
from typing import Any, TypeVar

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.layout import Layout
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.environment.vector import ACTIONS
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.residual import MODE
from serl.exchange.errors import ConfigError
from serl.researcher.candidates import Candidate
from serl.researcher.inner.settings import TrainingSettings
from serl.researcher.modules import build, specs
from serl.researcher.modules.contracts import SPEC_ONLY, Kind

AnySettings = TypeVar("AnySettings", bound=TrainingSettings)


def designed(candidate: Candidate, settings: AnySettings) -> AnySettings:
    """The settings, with those that the candidate's modules choose applied. Rules, and networks that correct them, act in mode `hybrid`.

    SpecError or ConfigError if a module is not a valid choice of settings, ConfigError if messages in code would get other observations.
    """
    made = {kind: _chosen(candidate, kind) for kind in SPEC_ONLY if kind in candidate.modules}
    changes: dict[str, Any] = {}
    if learner := made.get(Kind.LEARNER):
        changes = {name: getattr(settings, name).model_copy(update=learner[name]) for name in ("ppo", "network")}
        changes["steps_share"] = learner["steps_share"]
    market = dict(made.get(Kind.INTERFACE, {}))
    if Kind.POLICY in candidate.modules:
        market["actions"] = MODE
    if market:
        changes |= {name: getattr(settings, name).model_copy(update=market) for name in ("market", "dynamic")}
    found = settings.model_copy(update=changes)
    coded = Kind.COMMUNICATE in candidate.modules and candidate.modules[Kind.COMMUNICATE].form == "code"
    if coded and layout_of(found.market) != layout_of(settings.market):
        raise ConfigError(
            "communicate, interface: expected the observations that messages in code are written for, by their place, got others; leave levels "
            "and observations of the interface as they are, or write the messages as a specification"
        )
    return found


def _chosen(candidate: Candidate, kind: Kind) -> Any:
    module = candidate.modules[kind]
    if module.form != "spec":
        raise ConfigError(f"{kind.value}: expected a specification, got code; it is settings")
    return build.build(specs.parse(kind, module.text))()


def layout_of(market: MarketConfig) -> Layout:
    """The observations of policies in a market."""
    return Layout(market.levels, market.left_out)


def interface_of(market: MarketConfig, scales: Scales) -> Interface:
    """The interface of policies in a market, with these units of the observations."""
    low = [0.0] * ACTIONS[market.actions]
    if market.actions != "market":
        low[-1] = -1.0
    return Interface(
        layout_of(market).names, dataclasses.asdict(scales), market.actions, tuple(low), (1.0,) * len(low),
        offset_ticks=market.offset_ticks, offset_bps=market.offset_bps, levels=market.levels,
    )  # fmt: skip
