"""A small experiment."""

from typing import Any

from serl.agents.experiments.experiment import Experiment, parse_experiment

VALUES: dict[str, Any] = {
    "name": "sample",
    "population": "small",
    "until": "09:32",
    "seeds": 2,
    "arms": {"plain": {}, "slow": {"groups.1.latency_us": 500000}},
}


def sample(**changes: Any) -> Experiment:
    """The experiment, with some of its settings changed."""
    return parse_experiment({**VALUES, **changes}, "sample.yaml")
