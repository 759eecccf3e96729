"""Candidates, proposals, advantages, replay."""

import math

import numpy as np
import pytest

from serl.agents.learning.settings import SAVED
from serl.exchange.errors import ConfigError
from serl.researcher.llm.answers import Answer, Token
from serl.researcher.outer.config import parse_config
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.experience import Experience, experience_of, log_mixture


def test_the_mixture_is_a_density() -> None:
    policy, uniform = np.array([0.7, 0.2, 0.1]), np.full(3, 1 / 3)
    mixed = [math.exp(log_mixture(math.log(p), math.log(u), 0.4)) for p, u in zip(policy, uniform, strict=True)]
    assert mixed == pytest.approx(0.6 * policy + 0.4 * uniform)
    assert log_mixture(-3.0, -1.0, 0.0) == -3.0
    assert log_mixture(-3.0, -1.0, 1.0) == -1.0


def test_answers_become_experience() -> None:
    drawn = Answer("ab", "stop", (Token("a", -1.0, 7), Token("b", -2.0, 8), Token("", -0.1, 2)))
    assert experience_of((1,), drawn, 3.0).token_ids == (7, 8, 2)
    assert experience_of((1,), drawn, 3.0, grammar="g").token_ids == (7, 8)
    with pytest.raises(TuningError, match="logprobs=True"):
        experience_of((1,), Answer("ab", "stop"), 3.0)


@pytest.mark.parametrize("bad", [{"performance_bps": math.nan}, {"token_ids": ()}, {"prompt_ids": ()}])
def test_bad_experience_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(TuningError):
        Experience(**{"prompt_ids": (1,), "token_ids": (2,), "performance_bps": 0.0, **bad})  # pyrefly: ignore[bad-argument-type]


def test_settings_of_old_runs_are_read_and_refused_in_new_files() -> None:
    old = {"proposer": "dek", "low_level": {"tuning": {"baseline_decay": 0.9, "replay_kept": 16}}}
    low = parse_config(old, "run.db", SAVED).active_low_level
    assert low is not None and low.tuning.replay_kept == 16
    with pytest.raises(ConfigError, match="baseline_decay"):
        parse_config(old, "mine.yaml")
