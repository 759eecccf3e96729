"""Candidates through all stages: in the real sandbox, on a real exchange."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from serl.agents.learning.messages import GraphMessages
from serl.agents.learning.policy import Policy, load_policy
from serl.agents.learning.team import Channels
from serl.researcher.candidates import Budget, Candidate, Module, Result
from serl.researcher.inner import evaluate as inner
from serl.researcher.inner import results, training
from serl.researcher.inner.errors import UnusableError
from serl.researcher.inner.score import score
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import Form, Kind, form_of
from serl.researcher.modules.example import example
from serl.researcher.sandbox.job_result import JobResult, Outcome

BUDGET = Budget(static_steps=800, dynamic_steps=320, wall_s=400)


def example_candidate(form: Form, *kinds: Kind) -> Candidate:
    """A candidate of the examples of these kinds."""
    return Candidate({kind: Module(form_of(kind, form), example(kind, form)) for kind in kinds})


def require_done(result: Result) -> Result:
    """Assert that a result is complete."""
    assert (result.stage, result.reason) == ("done", "")
    assert result.score is not None
    assert result.policy is not None
    return result


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("form", ["spec", pytest.param("code", marks=pytest.mark.long)])
def test_all_modules_work(settings: Settings, tmp_path: Path, form: Form) -> None:
    result = require_done(inner.evaluate(example_candidate(form, *Kind), settings, BUDGET, tmp_path))
    assert result.policy is not None
    policy = load_policy(Path(result.policy))
    assert isinstance(policy, Policy)
    assert score(policy, settings.of_seed(0)) == result.score
    assert policy.metadata["steps"] >= BUDGET.static_steps + BUDGET.dynamic_steps
    assert policy.team is not None
    agents, messages = policy.team
    assert (agents, messages.size) == (settings.agents, 2)
    assert isinstance(messages, GraphMessages if form == "code" else Channels)


NETWORK = """
import torch
from torch import nn
class N(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.p, self.v = nn.Linear(d, k), nn.Linear(d, 1)
    def forward(self, x):
        return {outputs}, self.v(x).squeeze(-1)
def build(observation_dim, action_dim):
    return N(observation_dim, action_dim)
"""
REWARD = "import numpy as np\ncalls = [0]\ndef reward(step):\n    calls[0] += 1\n    {}\n    return step.gain_bps\n"
MESSAGES = (
    "import torch\ndef communicate(observations):\n    x = observations\n    return torch.tensor({}).tanh()[:, None]"
)
BAD = {
    "static check": (Kind.REWARD, "import os", "static check", "cannot be imported"),
    "dry run": (Kind.REWARD, "import numpy as np\ndef reward(step):\n    return np.zeros(3)", "dry run", "shape"),
    "not exportable": (Kind.AGENT, NETWORK.format(outputs="torch.sort(self.p(x), dim=-1)[0]"), "dry run", "'sort'"),
    "late nan": (Kind.REWARD, REWARD.format("if calls[0] > 40: return step.gain_bps * np.nan"), "training", "NaN"),
    "late loop": (Kind.REWARD, REWARD.format("while calls[0] > 40: pass"), "training", "timeout"),
    "late crash": (Kind.REWARD, REWARD.format("if calls[0] > 40: raise ValueError('no more')"), "training", "no more"),
    "messages": (Kind.COMMUNICATE, MESSAGES.format("[float(row.max()) for row in x]"), "dry run", "cannot be traced"),
}

LONG = ("late loop", "late nan", "late crash", "not exportable", "messages")
"""Those that are found late, or after torch has been imported; test_validation.py runs the dry runs of the latter outside the sandbox."""


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in BAD])
def test_each_failure_has_its_stage_and_a_sentence(settings: Settings, tmp_path: Path, name: str) -> None:
    kind, source, stage, words = BAD[name]
    budget = Budget(800, 0, wall_s=12 if name == "late loop" else 400)
    result = inner.evaluate(Candidate({kind: Module("code", source)}), settings, budget, tmp_path)
    assert result.stage == stage
    assert words in result.reason
    assert result.score is None
    assert result.policy is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "not a policy"),
        ({"network": {}, "scales": {}, "steps": 5}, "not a policy"),
        ({"network": {}, "scales": {"depth_lots": -1.0}, "steps": 5}, "depth_lots"),
    ],
)
def test_what_a_job_claims_is_not_believed(settings: Settings, tmp_path: Path, value: object, words: str) -> None:
    save_file({"log_std": np.zeros(1, np.float32)}, tmp_path / "network.safetensors")
    with pytest.raises(UnusableError, match=words):
        training.policy_of(JobResult(Outcome.OK, "", value), Candidate({}), settings, BUDGET, tmp_path)


@pytest.mark.parametrize(("former", "stage"), [("reading", "static check"), ("trial", "dry run"), ("done", "done")])
def test_results_with_former_names_of_stages_are_read(former: str, stage: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    results.write(Result(former, "why", None, None, {}), path)
    assert results.read(path) == Result(stage, "why", None, None, {})
