"""Settings of an environment in which an agent takes positions."""

from typing import Any

from serl.agents.positions.config import settings_of
from serl.agents.positions.targets import TargetConfig


class DirectionalConfig(TargetConfig):
    """The market, the days, and which positions an agent may take."""


def directional_settings(**settings: Any) -> DirectionalConfig:
    """Builds settings from keyword arguments. Raises `ConfigError`."""
    return settings_of(DirectionalConfig, settings)
