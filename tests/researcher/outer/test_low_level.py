"""Updates of the weights of which one fails, and the temperature of modules."""

from importlib.util import find_spec

import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")

import torch

from serl.researcher.llm.client import Client
from serl.researcher.llm.settings import Endpoint
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.example import example
from serl.researcher.outer.config import LowLevel, parse_config
from serl.researcher.outer.low_level import LowLevelTuning
from serl.researcher.outer.run import _first_author
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.pool import Scored
from serl.researcher.tuning.rewards import Measurement
from tests.researcher.llm.fake import completion, fake_endpoint
from tests.researcher.tuning.small import small_tuner

pytestmark = pytest.mark.skipif(find_spec("peft") is None, reason="the extra `researcher` is not installed")


class TuningOfSmallModel(LowLevelTuning):
    """The tuning of a run with a small random model instead of a file."""

    def __init__(self, learning_rate: float) -> None:
        self._tuner = small_tuner(learning_rate=learning_rate)
        self.config = LowLevel(tuning=self._tuner.config, updates_per_iteration=2)


def scored() -> list[Scored]:
    return [
        Scored(Experience((3, 1), (5, 6 - place), value), "reward", str(place), "run", Measurement(value, 0.0))
        for place, value in enumerate((1.0, -1.0))
    ]


def test_an_iteration_with_an_update_that_fails_changes_nothing() -> None:
    """Neither is saved nor served what the first update made of the weights, so a resumed run would go on with others."""
    tuning = TuningOfSmallModel(learning_rate=1e30)
    tuner = tuning._tuner
    before = tuner.log_p([row.module for row in scored()])
    for iteration in (1, 2):
        with pytest.raises(TuningError, match="update 2: the gradient is not finite"):
            tuning._update(scored(), iteration)
        assert tuner.step == 0
        assert torch.equal(tuner.log_p([row.module for row in scored()]), before)
    assert not tuner._optimizer.state_dict()["state"]


def test_modules_are_sampled_at_the_temperature_at_which_they_are_scored() -> None:
    settings = {"low_level": {"tuning": {"temperature": 0.7}}}
    with fake_endpoint(completion(example(Kind.REWARD, "spec")), kind="embedded") as fake:
        client = Client(Endpoint(base_url=fake.url, model="tiny", dialect="embedded"))
        author = _first_author(parse_config(settings, "settings"), client)
        author.generate(Kind.REWARD, [{"role": "user", "content": "Write a reward."}], 1)
    assert (fake.requests[0]["temperature"], fake.requests[0]["logprobs"]) == (0.7, True)
