"""Settings of an environment in which an agent trades a pair."""

from typing import Any

from pydantic import Field

from serl.agents.positions.config import settings_of
from serl.agents.positions.targets import TargetConfig


class PairConfig(TargetConfig):
    """The market, the days, and which positions in the spread an agent may take."""

    population: str = Field("pair", description="a shipped population or a YAML file, with two symbols of one tick")


def pair_settings(**settings: Any) -> PairConfig:
    """Builds settings from keyword arguments. Raises `ConfigError`."""
    return settings_of(PairConfig, settings)
