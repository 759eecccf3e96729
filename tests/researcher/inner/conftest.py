"""A generated day, and settings small enough for tests."""

from pathlib import Path

import pytest

from serl.history.day import write_day
from serl.history.generate import generate_day
from serl.researcher.inner.settings import DYNAMIC, LEARNING, STATIC, Settings


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings to train and score on one generated day."""
    day = tmp_path_factory.mktemp("days") / "demo.day"
    write_day(generate_day(3, commands_per_s=2.0), day)
    return small_settings(day)


def small_settings(day: Path) -> Settings:
    """Five minutes per order, a decision every 30 s."""
    order = {"duration_s": 300, "interval_s": 30, "environments": 8, "offset_bps": 2}
    return Settings(
        market=STATIC.model_copy(update={"data": [day], **order}),
        dynamic=DYNAMIC.model_copy(update={"simulated_days": 2, "hours": "09:35-10:10", **order}),
        ppo=LEARNING.model_copy(update={"rollout_steps": 20, "minibatch": 80, "epochs": 2}), day=day, orders=8,
    )  # fmt: skip
